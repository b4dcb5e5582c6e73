"""What the core does with a directory: modes, places, and what this computer tells of itself.

The core is handed snapshots and never reads. While the directory cannot be read, whatever needs
it is refused (FN-11, DL-14); messages that are under way already go on to where it said
last, and those of which it was not known wait (NEED VALIDATION) until it is read again.

Upholds: I5 (one stream for each place), I27.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onceq.core.decision import Register, Rewrite
from onceq.core.ending.ending import gave_up
from onceq.core.ending.portions import ENDED_AT_ONCE, some_at_a_time
from onceq.core.inputs.directory import DirectoryChanged
from onceq.core.names.packet_names import address_of
from onceq.core.names.resolve import destinations, index_places, read_directory
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import OutgoingQueue, Queue
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.names import Mode
from onceq.core.step.step import Step
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.errors import (
    DirectoryError,
    IllegalFormatName,
    InvalidParameter,
    QueueExists,
    QueueNotFound,
)
from onceq.model.classes import MessageClass
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot, member_of
from onceq.model.identity import guid_text
from onceq.model.limits import DIRECTORY_LISTS_MAX, DIRECTORY_MEMBERS_MAX, LIST_NAME_CHARS_MAX
from onceq.model.names import Kind, parse_any
from onceq.model.requests import EditDirectory
from onceq.model.views.managers import ListView, NameStep
from onceq.packet.address import name_of


def changed(step: Step, item: DirectoryChanged) -> None:
    """The directory was read, or cannot be read any more."""
    step.names.mode = Mode.OFFLINE if item.trouble else Mode.ONLINE
    step.names.directory_trouble = item.trouble
    if item.snapshot is not None:
        step.names.directory = item.snapshot
        step.names.computer_guids = frozenset(one.guid for one in item.snapshot.computers)
    step.names.changed()
    index_places(step)
    if item.trouble or item.snapshot is None:
        return
    step.begin(_follow(step, item.snapshot))
    register(step)


def _follow(step: Step, snapshot: Snapshot) -> Iterator[None]:
    """What waits for public queues goes on, or nowhere any more: a bounded number of messages in
    each step. Of queues that are gone nothing leaves meanwhile. When the directory is read again,
    what it says then is followed."""
    gone: list[OutgoingQueue] = []

    def look(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            if outgoing.name.kind is not Kind.PUBLIC or step.names.directory is not snapshot:
                continue
            if outgoing.name.guid in snapshot.queues:
                start_if_possible(step, outgoing)
            else:
                outgoing.purging += 1
                gone.append(outgoing)

    yield from some_at_a_time(step.state, step.state.outgoing.values(), look)
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
        if step.state.all_queues.get(outgoing.number) is outgoing:
            start_if_possible(step, outgoing)
            inquire(step, outgoing)


def _nowhere(step: Step, outgoing: OutgoingQueue, count_max: int) -> int:
    """The directory has taken out a queue for which messages wait here (DL-15): end so many; how
    many these are.

    What has arrived there is not concerned: its end will be told by the queue's manager.
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
    """Let the directory know of this computer what it does not say yet."""
    snapshot = step.names.directory
    if step.names.mode is not Mode.ONLINE or snapshot is None:
        return
    here = step.identity
    private: dict[int, str] = {}
    public: list[PublicQueue] = []
    for queue in _own(step):
        properties = queue.properties
        if properties.private:
            private[queue.number] = properties.name
            continue
        public.append(
            PublicQueue(
                properties.instance, here.name, properties.name,
                properties.transactional, properties.label,
            )
        )  # fmt: skip
    computer = Computer(here.name, here.guid, step.names.addresses, private)
    step.act(Register(computer, tuple(public)))


def _own(step: Step) -> Iterator[Queue]:
    return (queue for queue in step.state.queues.values() if not queue.system)


# ---- distribution lists -----------------------------------------------------------------------


def edit(step: Step, item: EditDirectory) -> None:
    """Make, change or drop a list; it is the directory that is changed, not this manager."""
    snapshot = read_directory(step, "a distribution list")
    if item.what == "create":
        step.act(Rewrite(item.owner, item.request, _new(snapshot, item), None))
        return
    before = find_list(snapshot, item.name)
    step.act(Rewrite(item.owner, item.request, _changed(before, item), before))


def _new(snapshot: Snapshot, item: EditDirectory) -> DistributionList:
    name = item.name
    printable = name.isascii() and name.isprintable() and not set(name) & set(' ,;="\\/')
    if not 0 < len(name) <= LIST_NAME_CHARS_MAX or not printable:
        raise InvalidParameter(
            f"{name!r} cannot be the name of a list: 1 to {LIST_NAME_CHARS_MAX} letters, digits, "
            "- or ., and no blanks"
        )
    if snapshot.list_named(name) is not None:
        raise QueueExists(f"there is a list {name} already; 'list add' adds to it")
    if len(snapshot.lists) >= DIRECTORY_LISTS_MAX:
        raise DirectoryError(f"the directory has {DIRECTORY_LISTS_MAX} lists already")
    return DistributionList(item.guid, name, _members((), item.members))


def _changed(before: DistributionList, item: EditDirectory) -> DistributionList | None:
    if item.what == "drop":
        return None
    if item.what == "add":
        members = _members(before.members, item.members)
    elif item.what == "remove":
        members = _without(before, item.members)
    else:
        raise InvalidParameter(f"a list cannot be {item.what!r}: create, add, remove or drop")
    return DistributionList(before.guid, before.name, members)


def _members(there: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    found = {member_of(text).key(): text for text in there}
    for text in more:
        name = member_of(text)
        if name.host == "." or name.host.casefold() == "localhost":
            raise IllegalFormatName(f"{text}: write the name of the computer; '.' is another there")
        found.setdefault(name.key(), str(name))
    if len(found) > DIRECTORY_MEMBERS_MAX:
        raise DirectoryError(f"a list has at most {DIRECTORY_MEMBERS_MAX} members")
    return tuple(found.values())


def _without(before: DistributionList, less: Sequence[str]) -> tuple[str, ...]:
    gone = {member_of(text).key() for text in less}
    found = {member_of(text).key(): text for text in before.members}
    for text in less:
        if member_of(text).key() not in found:
            raise QueueNotFound(f"{text} is not a member of {before.name}")
    return tuple(text for key, text in found.items() if key not in gone)


def find_list(snapshot: Snapshot, text: str) -> DistributionList:
    """The list with a name, or with a format name; raises QueueNotFound."""
    if text.upper().startswith("DL="):
        (name,) = parse_any(text)
        found = snapshot.lists.get(name.guid)
    else:
        found = snapshot.list_named(text)
    if found is None:
        raise QueueNotFound(f"there is no list {text}; 'list show' shows what there is")
    return found


# ---- looking ----------------------------------------------------------------------------------


def list_view(one: DistributionList) -> ListView:
    """A list as commands show it."""
    return ListView(one.name, f"DL={guid_text(one.guid)}", one.members)


def lists(step: Step) -> list[ListView]:
    """All lists of the directory, by name."""
    snapshot = read_directory(step, "distribution lists")
    return list(map(list_view, sorted(snapshot.lists.values(), key=lambda one: one.name)))


def one_list(step: Step, name: str) -> ListView:
    """One list."""
    return list_view(find_list(read_directory(step, "a distribution list"), name))


def resolved(step: Step, text: str) -> list[NameStep]:
    """What a name for sending becomes, step by step: a list's name may stand for it."""
    snapshot = step.names.directory if step.names.mode is Mode.ONLINE else None
    if snapshot is not None and snapshot.list_named(text) is not None:
        text = list_view(find_list(snapshot, text)).format_name
    names = parse_any(text)
    if snapshot is None and any(name.kind in (Kind.PUBLIC, Kind.DL) for name in names):
        read_directory(step, text)
    return list((snapshot or Snapshot()).explain(names))


def copy_names(step: Step, text: str) -> list[str]:
    """The names under which the copies of a send go, as acknowledgments repeat them."""
    found = []
    for target in destinations(step, text, transactional=False):
        address, manager = address_of(step, target)
        name = name_of(address, source=step.identity.guid, manager=manager)
        (parsed,) = parse_any(name)
        found.append(
            str(replace(parsed, host=step.identity.name) if parsed.host == "." else parsed)
        )
    return sorted(found, key=str.casefold)
