"""Names of computers that lead to another queue manager than they say, or back to this one.

The first manager that can notice a wrong name reports it (finding K13): the one that connects, when
it learns which manager answers; the one that is connected to, when a message names its destination.
Both continue: an unconfigured alias, a computer that took over the work of another one, and a name
for several look the same, and MSMQ does not compare names either. Where the name gives the
identity, it is enforced: by ``pin_peers``, by the GUID in a private name, and by the GUID that the
directory has for the computer of a public queue (``core/transfer/connecting.py``).

Upholds: I24 (a bounded table), I25. Running tables; what continues after a restart is noticed
again.
"""

from __future__ import annotations

from typing import Final

from onceq.core.inputs.inputs import SessionOpened
from onceq.core.names.packet_names import other_computer
from onceq.core.peers.strangers import known
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.step.sessions import WrongName
from onceq.core.step.step import Step
from onceq.model.hosts import is_one_of, means_itself
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import COMPUTER_NAME_CHARS_MAX, WRONG_NAMES_MAX
from onceq.packet.arrived import ArrivedRun

OWN: Final = "this queue manager is called as each computer calls itself"
ANSWERED: Final = "another computer answers under a name"
CAME: Final = "messages come for another computer"
HEARD_MAX: Final = 4_096
NAMED_CHARS_MAX: Final = COMPUTER_NAME_CHARS_MAX + len("OS:.")
BACK: Final = "a name leads back to this queue manager"


def check_own(step: Step) -> None:
    """Check at a start that others can answer to this manager's own name."""
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


def came(step: Step, peer: Peer, run: ArrivedRun, named: str) -> None:
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
    host = host[:COMPUTER_NAME_CHARS_MAX]
    # An unknown sender may invent names without end: it fills neither log nor table.
    stranger = not known(step, run.source)
    if stranger and len(step.sessions.watch.wrong_names) >= WRONG_NAMES_MAX // 2:
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
        if len(wrong) >= WRONG_NAMES_MAX:
            del wrong[next(iter(wrong))]
        found = wrong[key] = WrongName(text)
    found.text, found.count = text, found.count + count
    step.notice(what, about or host.casefold(), name=host, so_far=found.count, says=text, **values)
