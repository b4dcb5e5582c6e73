"""Limits on what strangers can make this manager keep: in number, in bytes and in time.

A stranger is a manager that no application here sends to, that no configuration or directory
mentions, and whose first message stream is younger than KNOWN_AFTER_S. It may send to every queue.
But it gets only a share of the common resources: of the computer's quota, of incoming streams, of
outgoing queues, and of dead letters that no application here asked for. What has no room in the
share is not refused permanently; it is turned away, and comes again. So known managers, and the
applications here, keep the rest, no matter what strangers do.

Outgoing queues that exist only to answer strangers are limited in number. They connect a few at a
time, and ever more slowly while they get no answer; they are forgotten when they are empty.

Also here:

* Names of computers that lead to another queue manager than they say, or back to this one.

Upholds: I24, I25. Running tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from onceq.core.inputs import SessionOpened
from onceq.core.names import index_by_guid, other_computer
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.positions import Link
from onceq.core.state.queues import Queue
from onceq.core.state.setups import OutgoingDropped
from onceq.core.step.connections import WrongName
from onceq.core.step.step import Step
from onceq.model import limits
from onceq.model.addresses import is_one_of, means_itself
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.names import Kind
from onceq.packet.arrived import ArrivedRun

# ---- strangers -----------------------------------------------------------------------------------


def known(step: Step, guid: bytes) -> bool:
    """Return whether a manager is no stranger."""
    state = step.state
    heard_s = state.first_heard.get(guid)
    if heard_s is not None and heard_s + limits.KNOWN_AFTER_S <= step.now.wall_s:
        return True
    if guid == step.identity.guid or guid in step.names.routes_to or state.bindings.known(guid):
        return True
    if any(not outgoing.for_strangers for outgoing in step.names.by_guid.get(guid, ())):
        return True
    return guid in step.names.computer_guids


def quota_for(step: Step, guid: bytes) -> int:
    """Return how many bytes all queues may hold for a message of this manager to be accepted."""
    quota = step.settings.computer_quota_bytes
    return quota if known(step, guid) else quota // limits.STRANGERS_SHARE


def unasked_room(step: Step, dead_letter_queue: int, size: int) -> bool:
    """Return whether a dead-letter queue here takes a message that came from elsewhere: no
    application here has asked for it."""
    queue = step.state.all_queues[dead_letter_queue]
    if queue.bytes + size <= step.settings.computer_quota_bytes // limits.UNASKED_SHARE:
        return True
    assert isinstance(queue, Queue)
    step.notice(
        "no room for dead letters of others: their messages are turned away",
        queue.properties.name, queue=queue.properties.name, bytes=queue.bytes,
    )  # fmt: skip
    return False


def answer_room(step: Step, name: str) -> bool:
    """Return whether there is room to answer a stranger that its messages are refused."""
    state = step.state
    outgoing = state.outgoing.get(name)
    if outgoing is None:
        return len(state.answering) < limits.STRANGER_QUEUES_MAX
    return not outgoing.for_strangers or outgoing.bytes < limits.ANSWERS_EACH_BYTES


# ---- connecting for them ------------------------------------------------------------------------


def doubtful(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether an outgoing queue exists only for a stranger that has not answered yet."""
    if not outgoing.for_strangers:
        return False
    if outgoing.name.kind is Kind.PRIVATE:
        return not known(step, outgoing.name.guid)
    return not (outgoing.bound_name and step.state.bindings.guid_of(outgoing.bound_name))


def unanswered(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether only a stranger wants an outgoing queue, and no attempt has reached it."""
    return bool(
        outgoing.trouble.reason and not outgoing.session and doubtful(step, outgoing)
    )  # fmt: skip


def may_connect(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether it may connect now; those for strangers are few at a time."""
    if not doubtful(step, outgoing):
        return True
    under_way = 0
    for number in step.state.answering:
        other = step.state.all_queues[number]
        assert isinstance(other, OutgoingQueue)
        under_way += other.link is Link.CONNECTING
    return under_way < limits.ANSWER_CONNECTS_MAX


def retry_s(step: Step, outgoing: OutgoingQueue) -> float:
    """Return the seconds until the next attempt to connect."""
    usual = step.settings.connect_retry_s
    if not doubtful(step, outgoing):
        return usual
    slower = usual * (1 << min(max(outgoing.trouble.attempts - 1, 0), 20))
    return max(min(slower, limits.ANSWER_RETRY_S_MAX), usual)


# ---- forgetting ----------------------------------------------------------------------------------


SWEPT_FROM: Final = limits.STRANGER_QUEUES_MAX * 3 // 4
"""From this number of outgoing queues for strangers on, the empty ones are forgotten."""


def sweep(step: Step) -> None:
    """Forget empty outgoing queues for strangers; called while no change is under construction."""
    # There may be far more outgoing queues than these.
    answering = (step.state.all_queues[number] for number in step.state.answering)
    empty = [one for one in answering if isinstance(one, OutgoingQueue) and not len(one)]
    forget(step, idle(step, empty) if empty else [], forced=False)


def idle(step: Step, among: Iterable[OutgoingQueue]) -> list[OutgoingQueue]:
    """Return those outgoing queues that are empty and unused."""
    empty = [
        outgoing
        for outgoing in among
        if not len(outgoing) and not outgoing.paused_s
        and outgoing.link in (Link.NONE, Link.PUT_OFF)
        and not step.state.doubts.concern(outgoing.number)
    ]  # fmt: skip
    if not empty:
        return []
    used = {
        target.queue.number
        for tx in step.units.all()
        for prepared in tx.sends
        for target in prepared.targets
    } | {handle.queue for handle in step.readers.handles.values()}
    return [outgoing for outgoing in empty if outgoing.number not in used]


def forget(step: Step, found: list[OutgoingQueue], *, forced: bool = True) -> None:
    """Forget empty outgoing queues."""
    for outgoing in found:
        step.setup(OutgoingDropped(number=outgoing.number), forced=forced)
    if found:
        step.names.changed()
        index_by_guid(step)


# ---- wrong names ---------------------------------------------------------------------------------


OWN: Final = "this queue manager is called as each computer calls itself"
ANSWERED: Final = "another computer answers under a name"
CAME: Final = "messages come for another computer"
HEARD_MAX: Final = 4_096
NAMED_CHARS_MAX: Final = limits.COMPUTER_NAME_CHARS_MAX + len("OS:.")
BACK: Final = "a name leads back to this queue manager"


def check_own(step: Step) -> None:
    """Check at a start that others can answer to this manager's own name.

    The first manager that can notice a wrong name reports it (finding K13): the one that connects,
    when it learns which manager answers; the one that is connected to, when a message names its
    destination. Both continue: an unconfigured alias, a computer that took over the work of another
    one, and a name for several look the same, and MSMQ does not compare names either. Where the
    name gives the identity, it is enforced: by ``pin_peers``, by the GUID in a private name, and by
    the GUID that the directory has for the computer of a public queue
    (``core/transfer/connecting.py``).
    """
    name = step.names.called
    if means_itself(name):
        _note(
            step, OWN, name,
            f"this queue manager is called {name}, as each computer calls itself, so replies to it "
            "stay with their sender: put a name that leads here from elsewhere into "
            "addresses in onceq.toml, and start it again",
        )  # fmt: skip


def answered(step: Step, outgoing: OutgoingQueue, item: SessionOpened) -> None:
    """Report on both sides if the manager that answers to a name does not have it."""
    host = outgoing.name.host
    if outgoing.name.protocol != "OS":
        return
    wrong, other = step.sessions.watch.wrong_names, _other(step, host, item)
    wrong.pop((BACK, host.casefold()), None)
    if not other:
        wrong.pop((ANSWERED, host.casefold()), None)
        return
    _note(
        step, ANSWERED, host,
        f"{other} answers where {host} is looked for: correct the address of {host} in [peers] in "
        f"onceq.toml, in the directory or in DNS; or, if {host} is one more name of {other}, put "
        "it into addresses in the onceq.toml there",
        manager=guid_text(item.peer), address=item.address,
    )  # fmt: skip


def _other(step: Step, host: str, item: SessionOpened) -> str:
    """Return the name of the answering computer if it is not the one that was looked for; "" if it
    is, as far as it or the directory says."""
    if item.called:
        return "" if is_one_of(host, (item.called.casefold(),)) else item.called
    directory = step.names.directory
    entry = directory.computer(host) if directory is not None else None
    if directory is None or entry is None or entry.guid in (NO_GUID, item.peer):
        return ""
    found = directory.computer_of(item.peer)
    return found.name if found is not None else guid_text(item.peer)


def who_answers(step: Step, outgoing: OutgoingQueue) -> str:
    """Return what is wrong with the manager that answers for an outgoing queue; "": nothing."""
    wrong = step.sessions.watch.wrong_names.get((ANSWERED, outgoing.name.host.casefold()))
    return wrong.text if wrong is not None and outgoing.name.protocol == "OS" else ""


def note_name(step: Step, peer: Peer, run: ArrivedRun, named: str) -> None:
    """Report messages that arrive under a new name that is not one of this computer."""
    heard, host = step.sessions.watch.heard, other_computer(step, run.destination)
    if not host:
        if len(heard) >= HEARD_MAX:
            heard.clear()
        heard.add(named)
        return
    taken = (
        "they are refused (own_names_only)" if step.settings.own_names_only
        else "they are taken into the queues here"
    )  # fmt: skip
    host = host[: limits.COMPUTER_NAME_CHARS_MAX]
    # An unknown sender may invent names without end: it fills neither log nor table.
    stranger = not known(step, run.source)
    if stranger and len(step.sessions.watch.wrong_names) >= limits.WRONG_NAMES_MAX // 2:
        step.notice(CAME, peer.address, sender=guid_text(run.source), address=peer.address)
        return
    _note(
        step, CAME, host,
        f"messages come for {host}, and this computer is {step.names.called}; {taken}: if {host} "
        "is one more name of this computer, put it into addresses in onceq.toml; if not, correct "
        "the address of that name at the sender, in [peers] in its onceq.toml or in DNS",
        len(run.packets), about=peer.address if stranger else host, sender=guid_text(run.source),
        address=peer.address,
    )  # fmt: skip


def led_back(step: Step, outgoing: OutgoingQueue | None, item: SessionOpened) -> str:
    """Return why a session with our own identity is over, for the queue that asked for it."""
    if outgoing is None or item.life not in (b"", step.state.lives.id):
        return (
            "identity-clash: the peer claims our own identity; end one of the two, or give the "
            "copy an identity of its own"
        )
    name = outgoing.name
    host = name.host or step.names.routes_to.get(name.guid, "") or guid_text(name.guid)
    text = (
        f"identity-clash: {host} leads back to this queue manager itself: if it is one more name "
        "of this computer, put it into addresses in onceq.toml and start it again; if not, correct "
        "its address in [peers] in onceq.toml, in the directory or in DNS"
    )
    _note(step, BACK, host, text, address=item.address)
    return text


def _note(
    step: Step, what: str, host: str, text: str, count: int = 1, *, about: str = "",
    **values: object,
) -> None:  # fmt: skip
    """Remember and count it, and report it to the operator.

    Args:
        about: What is reported once an hour; "": the name.
    """
    wrong, key = step.sessions.watch.wrong_names, (what, host.casefold())
    found = wrong.get(key)
    if found is None:
        if len(wrong) >= limits.WRONG_NAMES_MAX:
            del wrong[next(iter(wrong))]
        found = wrong[key] = WrongName(text)
    found.text, found.count = text, found.count + count
    step.notice(what, about or host.casefold(), name=host, so_far=found.count, says=text, **values)
