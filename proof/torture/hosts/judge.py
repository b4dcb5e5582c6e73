"""Whether what programs were told is what is in the queues (``make hosts``).

A program writes a line for each thing that it was told. ``tries``: a message is about to be sent;
``once``: in a transaction that has begun, which no child can commit.
``sent``: it has happened. ``refused``: an error has said that it has not, or its transaction was
left. ``doubt``: an error has said that nobody knows, or the program was interrupted. ``took``: that
message was received for good; ``took?``: one was, maybe. ``moved``: it was received, and what was
made of it was sent, in one transaction. ``handled``: how many messages a loop says that it has
handled, and with which its handler was called. A child that was forked in the middle of a call says
``again`` before what that call returns in it: maybe what the parent knew already at the fork, maybe
what the child has done once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

QUIET = ("tries", "once")
FATES = ("sent", "refused", "doubt", "took", "took?", "moved", "handled", "fault")


def judged(lines: Iterable[str], there: Sequence[str], filled: Sequence[str]) -> list[str]:
    """What is wrong with a program.

    Args:
        lines: What it has told: fate and message, or what it saw that must not be.
        there: The messages that are in its queues at the end.
        filled: Those that were put into its first queues. ``m-x`` is what it makes of ``x``, in
            one transaction.
    """
    told: dict[str, list[str]] = {}
    faults = []
    count = Counter(there)
    for line in sorted(lines, key=lambda line: line.startswith("again ")):
        fate, _, what = line.rstrip("\n").partition(" ")
        if fate == "again":
            fate, _, what = what.partition(" ")
            if fate == "handled" or (fate not in ("sent", "once") and fate in told.get(what, [])):
                continue
            fate = "doubt" if fate == "sent" else fate
        if fate == "fault":
            faults.append(what)
        elif fate == "handled":
            faults += _unhandled(what, count)
        elif fate in QUIET or fate in FATES:
            told.setdefault(what, []).append(fate)
    unknown = sum(fates.count("took?") for fates in told.values())
    for name in filled:
        fates = told.get(name, [])
        total = count[name] + count[f"m-{name}"] + fates.count("took")
        if "moved" in fates and not count[f"m-{name}"]:
            faults.append(f"{name} was moved as the program was told, and it was not")
        if total > 1:
            faults.append(f"{name} is there {total} times")
        elif total == 0:
            unknown -= 1
            if unknown < 0:
                faults.append(f"{name} is lost")
    for name, fates in told.items():
        if name not in filled and set(fates) - {"took?", "moved"}:
            faults += _wrongly_told(name, fates, count[name])
    made = {*filled, *(f"m-{name}" for name in filled), *told}
    return faults + [f"nobody has sent {name}" for name in there if name not in made]


def _wrongly_told(name: str, fates: list[str], there: int) -> list[str]:
    total = there + fates.count("took")
    sent = fates.count("sent")
    if sent > total:
        return [f"{name} was sent {sent} times as the program was told: {total} came"]
    if total > fates.count("once") > 0:  # Each process that has begun it says so.
        return [f"{name} came {total} times: a child has committed the transaction, too"]
    # A child that was forked before the call had begun makes it, too, and is told so. Who was
    # killed in the call was told nothing.
    unknown = 1 if set(fates) <= set(QUIET) else fates.count("doubt")
    if total > sent + unknown:
        heard = [fate for fate in fates if fate not in QUIET]
        return [f"{name} came {total} times, and the program was told: {heard}"]
    return []


def _unhandled(what: str, count: Counter[str]) -> list[str]:
    number, *names = what.split()
    happened = sum(1 for name in set(names) if count[f"m-{name}"])
    if int(number) > happened:
        return [f"a loop has handled {number} messages as it says, and {happened} of {names} were"]
    return []
