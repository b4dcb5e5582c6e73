"""``make liar``: honest queue managers at work, and peers that say what is not so.

ALPHA sends numbered messages to BETA, over sessions and over HTTP, and to DELTA, one transaction
after another. Meanwhile liars connect to ALPHA and BETA, under their own identities and under
theirs, and send well-formed lies of every kind of packet: acknowledgments of what they do not have,
refusals, answers about doubts, announced streams, second lives, messages of others, streams of the
future, messages that must be refused, administration queues and addresses of their choice. And
DELTA is stopped again and again, and an impostor answers under its name, in one half of the time
with ``pin_peers``, in the other without. At the end nothing is lost, repeated or out of order
between the honest (without ``pin_peers``: but for what the impostor was given and has
acknowledged), memory, disk and descriptors have stayed within the bounds that are printed, an
administrator who looks at everything was answered in time, the trail is whole, and the log names
those who lied, and nobody else.

In the last third, and in all of it with ``--tls``, the honest have identities, and post over HTTPS.
The liars are neighbours then, who have a certificate for their own GUIDs and every right, so that
the same rules have to hold; nobody believes another identity that they claim. And a stranger tells
the same lies in each way in which one can come without the right certificate. The bytes that reach
the parser of sessions are counted before it parses them: of strangers, not one may.

At the same time rogues of other kinds lie at every door, each with a table of lies: members (where
there are identities), plain hosts, another account of the computer, a tenant, a writer of backups,
web pages. What each has tried, and what was refused, is printed; one of which nothing was tried
fails the run, and so does one that was believed.

Watches: I1, I4, I5, I10, I23, I24, I28.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from proof.torture.liar.looks import LOOK_S_MAX
from proof.torture.liar.rogue import Rogue, Tally
from proof.torture.liar.scene import Outcome, Scene


def run(
    *, seconds: float, seed: int, folder: Path, pin: bool, tls: bool = False,
    look_s_max: float = LOOK_S_MAX, only: Sequence[type[Rogue]] = (),
) -> Outcome:  # fmt: skip
    """Let them work for so long among lies.

    Args:
        look_s_max: Longest time that a look of an administrator may take.
        only: Those who lie, if not everybody shall.
    """
    made = Scene(folder, seed, pin=pin, tls=tls, look_s_max=look_s_max, only=only)
    return made.run(seconds)


def report(outcome: Outcome, *, pin: bool, tls: bool) -> None:
    """Print what came of one run."""
    print(f"{outcome.sent:,} messages sent, {outcome.received:,} received, "
          f"{'with' if pin else 'without'} pin_peers, {'with' if tls else 'without'} TLS, "
          "among lies:")  # fmt: skip
    for what, count in sorted(outcome.lies.items()):
        print(f"  {count:6,}  {what}")
    print(f"  {outcome.takeovers:6,}  takeover of a name: {outcome.given:,} messages given to the "
          f"impostor, {outcome.acknowledged:,} acknowledged by it")  # fmt: skip
    over_http = ", ".join(f"{n:,} x {status}" for status, n in sorted(outcome.answered.items()))
    print(f"  answers over HTTP{'S' if tls else ''}: {over_http}")
    ways: dict[str, list[int]] = {}
    for what, count in sorted(outcome.strangers.items()):
        ways.setdefault(what.partition(":")[0], []).append(count)
    for way, counts in ways.items():
        print(f"  {sum(counts):6,}  lies of strangers, {way}: {len(counts)} kinds")
    for tally in outcome.tallies:
        print_tally(tally)
    for who in ("proven", "unproven"):
        sessions, size = (
            getattr(outcome.parsed, f"{who}_{what}") for what in ("sessions", "bytes")
        )
        print(f"  {size:,} bytes of the {who} came to the parser, in {sessions:,} sessions")
    for line in (*outcome.figures, *(f"WRONG: {each}" for each in outcome.violations)):
        print(line)


def print_tally(tally: Tally) -> None:
    """What one kind has tried, and what was refused."""
    if tally.absent:
        print(f"  {tally.kind}: not tried here: {tally.absent}")
        return
    tried, refused = tally.tried.total(), tally.refused.total()
    print(f"  {tried:6,}  tries of {tally.kind}, {refused:,} of them refused:")
    for name, count in sorted(tally.tried.items()):
        print(f"    {count:6,}  {name}: {tally.refused[name]:,} refused")
    for note in tally.notes:
        print(f"    {note}")


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make liar", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tls", action="store_true", help="the honest have identities")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="onceq-liar-"))
    wrong = 0
    scenes = [(False, given.tls), (True, given.tls)] + [(False, True)] * (not given.tls)
    for number, (pin, tls) in enumerate(scenes):
        outcome = run(
            seconds=given.seconds / len(scenes), seed=given.seed, folder=folder / f"run-{number}",
            pin=pin, tls=tls,
        )  # fmt: skip
        report(outcome, pin=pin, tls=tls)
        wrong += len(outcome.violations)
    if wrong:
        more = " --tls" if given.tls else ""
        print(f"kept: {folder}; again: make liar ARGS='--seed {given.seed}{more}'")
        return 1
    shutil.rmtree(folder)
    return 0
