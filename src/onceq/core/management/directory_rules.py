"""The core's use of a directory: modes, places, and what this computer registers of itself.

The core is handed snapshots and never reads. While the directory cannot be read, requests that need
it are refused (FN-11, DL-14); messages that are under way continue to where it said last, and those
without a known place wait (NEED VALIDATION) until it is read again.

Upholds: I5 (one stream for each place), I27.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from onceq import errors
from onceq.core.decision import Register, Rewrite
from onceq.core.ending.ending import ENDED_AT_ONCE, gave_up, some_at_a_time
from onceq.core.inputs import DirectoryChanged
from onceq.core.management.paging import PagedListing, PageOrder
from onceq.core.names import (
    address_of,
    destinations,
    direct_name_of,
    for_others,
    index_places,
    read_directory,
)
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import ACKS_OWED
from onceq.core.state.queues import Queue
from onceq.core.step.connections import Mode
from onceq.core.step.step import ChangeBuilder, Step, rule_for
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.model.addresses import HERE
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot, member_of
from onceq.model.identity import guid_text
from onceq.model.limits import DIRECTORY_LISTS_MAX, DIRECTORY_MEMBERS_MAX, LIST_NAME_CHARS_MAX
from onceq.model.names import FormatName, Kind, parse_any
from onceq.model.requests import EditDirectory, Look
from onceq.model.resultcodes import MessageClass
from onceq.model.views.managers import ListView
from onceq.model.views.view import LISTS_AT_ONCE
from onceq.packet.address import name_of


@rule_for(DirectoryChanged)
def changed(step: Step, item: DirectoryChanged) -> None:
    """Apply a directory that was read, or that cannot be read any more."""
    step.names.mode = Mode.OFFLINE if item.trouble else Mode.ONLINE
    step.names.directory_trouble = item.trouble
    if item.snapshot is not None:
        step.names.directory = item.snapshot
        step.names.computer_guids = frozenset(one.guid for one in item.snapshot.computers)
        step.names.book.known = item.snapshot.endpoints()
    step.names.changed()
    index_places(step)
    if item.trouble or item.snapshot is None:
        return
    # Acknowledgments that are owed at names that could not be read (``DEFERRED_LANE``).
    step.touched[ACKS_OWED] = None
    step.begin(_follow(step, item.snapshot))
    register(step)


def _follow(step: Step, snapshot: Snapshot) -> Iterator[None]:
    """Start or end what waits for public queues (DL-15), a bounded number of messages in each step.
    Nothing leaves meanwhile for queues that are gone. When the directory is read again, the new
    snapshot counts."""
    gone: list[OutgoingQueue] = []

    def start_or_collect(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            if outgoing.name.kind is not Kind.PUBLIC or step.names.directory is not snapshot:
                continue
            if _is_gone(step, outgoing):
                outgoing.purging += 1
                gone.append(outgoing)
            else:
                start_if_possible(step, outgoing)

    yield from some_at_a_time(step.state, step.state.outgoing.values(), start_or_collect)
    yield from _end_all(step, gone, snapshot)


def go_on(step: Step, outgoing: OutgoingQueue) -> None:
    """Start an outgoing queue that has got messages, or end them if its queue is in no directory
    any more: a committed message may have been sent before that."""
    if outgoing.name.kind is not Kind.PUBLIC or not _is_gone(step, outgoing):
        start_if_possible(step, outgoing)
    elif outgoing.pending() and outgoing.number not in step.names.ending:
        assert step.names.directory is not None, "it says that the queue is gone"
        outgoing.purging += 1
        step.begin(_end_all(step, [outgoing], step.names.directory))


def _is_gone(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether the directory does not have a public queue any more, and no other source says
    where its messages go. With a direct name they go there, and its computer judges them."""
    directory = step.names.directory
    return (
        step.names.mode is Mode.ONLINE and directory is not None
        and outgoing.name.guid not in directory.queues and direct_name_of(outgoing) is None
    )  # fmt: skip


def _end_all(step: Step, gone: list[OutgoingQueue], snapshot: Snapshot) -> Iterator[None]:
    """End what waits for queues that are gone, as long as the directory says that they are."""
    step.names.ending.update(outgoing.number for outgoing in gone)
    left = ENDED_AT_ONCE
    for outgoing in gone:
        there = True
        while there and step.names.directory is snapshot:
            if left <= 0:
                yield
                left = ENDED_AT_ONCE
                continue
            ended = _nowhere(step, outgoing, left)
            there, left = ended == left, left - max(ended, 1)
        outgoing.purging -= 1
        step.names.ending.discard(outgoing.number)
        if step.state.all_queues.get(outgoing.number) is outgoing:
            go_on(step, outgoing)
            inquire(step, outgoing)


def _nowhere(step: Step, outgoing: OutgoingQueue, count_max: int) -> int:
    """End messages for a queue that the directory has removed (DL-15), at most ``count_max``;
    return how many these are.

    Messages that have arrived there are not concerned: the queue's manager will report their end.
    """
    build, ended = ChangeBuilder(step), 0
    reason = MessageClass.NACK_BAD_DESTINATION_QUEUE
    if step.state.all_queues.get(outgoing.number) is not outgoing:
        return 0
    for index, lane in outgoing.lanes.items():
        if ended < count_max:
            for first, count in lane.ranges(AVAILABLE, 0, count_max=count_max - ended):
                gave_up(build, outgoing, index, first, count, reason)
                ended += count
    step.record(build.change)
    return ended


def register(step: Step) -> None:
    """Register in the directory what it does not say yet of this computer."""
    snapshot = step.names.directory
    if step.names.mode is not Mode.ONLINE or snapshot is None:
        return
    here, called = step.identity, step.names.called
    private: dict[int, str] = {}
    public: list[PublicQueue] = []
    for queue in _own(step):
        properties = queue.properties
        if properties.private:
            private[queue.number] = properties.name
            continue
        public.append(
            PublicQueue(
                properties.instance, called, properties.name,
                properties.transactional, properties.label,
            )
        )  # fmt: skip
    computer = Computer(called, here.guid, step.names.addresses, private)
    step.act(Register(computer, tuple(public)))


def _own(step: Step) -> Iterator[Queue]:
    return (queue for queue in step.state.queues.values() if not queue.system)


# ---- distribution lists -----------------------------------------------------------------------


@rule_for(EditDirectory)
def edit(step: Step, item: EditDirectory) -> None:
    """Make, change or drop a list; this changes the directory, not this manager."""
    snapshot = read_directory(step, "a distribution list")
    if item.what == "create":
        step.act(Rewrite(item.owner, item.request, _new(step, snapshot, item), None))
        return
    before = find_list(snapshot, item.name)
    step.act(Rewrite(item.owner, item.request, _changed(step, before, item), before))


def _new(step: Step, snapshot: Snapshot, item: EditDirectory) -> DistributionList:
    name = item.name
    printable = name.isascii() and name.isprintable() and not set(name) & set(' ,;="\\/')
    if not 0 < len(name) <= LIST_NAME_CHARS_MAX or not printable:
        raise errors.InvalidParameter(
            f"{name!r} cannot be the name of a list: 1 to {LIST_NAME_CHARS_MAX} letters, digits, "
            "- or ., and no blanks"
        )
    if snapshot.list_named(name) is not None:
        raise errors.QueueExists(f"there is a list {name} already; 'list add' adds to it")
    if len(snapshot.lists) >= DIRECTORY_LISTS_MAX:
        raise errors.DirectoryError(f"the directory has {DIRECTORY_LISTS_MAX} lists already")
    return DistributionList(item.guid, name, _members(step, (), item.members))


def _changed(step: Step, before: DistributionList, item: EditDirectory) -> DistributionList | None:
    if item.what == "drop":
        return None
    if item.what == "add":
        members = _members(step, before.members, item.members)
    elif item.what == "remove":
        members = _without(step, before, item.members)
    else:
        raise errors.InvalidParameter(
            f"a list cannot be {item.what!r}: create, add, remove or drop"
        )
    return DistributionList(before.guid, before.name, members)


def _member(step: Step, text: str) -> FormatName:
    """Return the member that an operator names: by a format name, a path name, or the name of a
    list. One of this computer is kept with its name, because others read the list, too."""
    if not set(text) & set("=\\/"):
        snapshot = read_directory(step, "a distribution list")
        return member_of(list_view(find_list(snapshot, text)).format_name)
    if "=" in text.replace("/", "\\").partition("\\")[0]:
        return member_of(text)
    (name,) = parse_any(text)
    if name.host == ".":
        name = replace(name, host=step.names.called, text="")
    return member_of(str(name))


def _members(step: Step, there: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    found = {member_of(text).key(): text for text in there}
    for text in more:
        name = _member(step, text)
        if name.host.casefold() in HERE:
            raise errors.IllegalFormatName(
                f"{text}: write the name of the computer; {name.host!r} is another one there"
            )
        found.setdefault(name.key(), str(name))
    if len(found) > DIRECTORY_MEMBERS_MAX:
        raise errors.DirectoryError(f"a list has at most {DIRECTORY_MEMBERS_MAX} members")
    return tuple(found.values())


def _without(step: Step, before: DistributionList, less: Sequence[str]) -> tuple[str, ...]:
    gone = {_member(step, text).key() for text in less}
    found = {member_of(text).key(): text for text in before.members}
    for text in less:
        if _member(step, text).key() not in found:
            raise errors.QueueNotFound(f"{text} is not a member of {before.name}")
    return tuple(text for key, text in found.items() if key not in gone)


def find_list(snapshot: Snapshot, text: str) -> DistributionList:
    """Return the list with a name, or with a format name; raises QueueNotFound."""
    if text.upper().startswith("DL="):
        (name,) = parse_any(text)
        found = snapshot.lists.get(name.guid)
    else:
        found = snapshot.list_named(text)
    if found is None:
        raise errors.QueueNotFound(f"there is no list {text}; 'list show' shows what there is")
    return found


# ---- looking ----------------------------------------------------------------------------------


def list_view(one: DistributionList) -> ListView:
    """Return a list as commands show it."""
    return ListView(one.name, f"DL={guid_text(one.guid)}", one.members)


LISTS: Final[PagedListing[DistributionList, ListView]] = PagedListing(
    lambda step, item: list(read_directory(step, "distribution lists").lists.values()),
    lambda step, one: list_view(one),
    {"name": PageOrder(lambda step, one: (one.name, one.guid.hex()), (str, str))},
    most=LISTS_AT_ONCE,
)
"""All lists of the directory, by name."""


def one_list(step: Step, name: str) -> ListView:
    """Return one list."""
    return list_view(find_list(read_directory(step, "a distribution list"), name))


def copies(step: Step, item: Look) -> list[str]:
    """Return the names of a send's copies, as acknowledgments repeat them."""
    by = step.known_by(item.owner)
    found = []
    for target in destinations(step, item.name, transactional=False, by=by):
        address, manager = address_of(step, target)
        name = name_of(address, source=step.identity.guid, manager=manager)
        (parsed,) = parse_any(name)
        found.append(str(for_others(step, parsed)))
    return sorted(found, key=str.casefold)
