"""What must be so after a run of ``make liar``: bounds, the log, the trail, queues, looks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceq.model.identity import guid_text
from proof.torture.liar.honest import BAIT, FIRST, KNOWN, OPEN, PLAIN, SECRET, SECRETS, Honest

MIB: Final = 1 << 20
MEMORY_MAX: Final = 64 * MIB
"""Most that a daemon may grow by."""
DISK_MAX: Final = 256 * MIB
"""Most that its directory may take: the quota, what is given back later, and checkpoints."""
DESCRIPTORS_MAX: Final = 100
LINES_MAX: Final = 500
"""Most lines of log, beside one for every ten lies: what comes often is told as a rate."""
NOT_TRANSMITTED: Final = (
    "an acknowledgment does not count: nothing was transmitted under its number"
)
PROOFS: Final = (
    "an acknowledgment does not count: it is not from the manager that has the messages",
    NOT_TRANSMITTED,
    "messages of another manager refused",
    "a second process with this identity does not count: a stranger tells of it",
    "a message stream from the future refused",
)
"""What the log must say at least."""
FOR_LIARS: Final = frozenset((BAIT, PLAIN))
"""Queues to which somebody may send who lies elsewhere."""


def memory_of(pid: int) -> int:
    """Bytes of memory that a process has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def judge_bounds(honest: Honest, before: Mapping[str, int], wrong: list[str]) -> list[str]:
    """Memory, disk and descriptors of each; returns the figures."""
    figures = []
    for name, node in honest.nodes.items():
        grown = memory_of(node.pid) - before[name]
        disk = sum(p.stat().st_blocks * 512 for p in node.path.rglob("*") if p.is_file())
        said = []
        for what, value, most in (
            ("MiB of memory more", grown / MIB, MEMORY_MAX / MIB),
            ("MiB on disk", disk / MIB, DISK_MAX / MIB),
            ("descriptors", len(os.listdir(f"/proc/{node.pid}/fd")), DESCRIPTORS_MAX),
        ):
            said.append(f"{value:,.0f} {what} (at most {most:,.0f})")
            if value > most:
                wrong.append(f"{name} has {said[-1]}")
        figures.append(f"{name}: {', '.join(said)}")
    return figures


def judge_log(honest: Honest, liars: set[str], lies: int, wrong: list[str], *, taken: bool) -> str:
    """The log says what was not believed, and of whom; nobody honest is accused.

    Args:
        liars: GUIDs of those who lied, as text.
        lies: How many were told.
        taken: Whether an impostor has answered under a known name.
    """
    log = "".join((node.path / "log.txt").read_text() for node in honest.nodes.values())
    proofs = list(PROOFS)
    if honest.tls:
        proofs.append("and its certificate is for")
    if taken:
        proofs.append("another queue manager answers under a known name")
    wrong += [f"the log does not say {words!r}" for words in proofs if words not in log]
    named = set()
    for line in log.splitlines():
        if any(words in line for words in PROOFS[:-1]):
            named |= set(re.findall(r"peer=\"?([0-9a-f-]{36})", line))
    accused = set(map(guid_text, honest.guids.values())) & named
    if accused:
        wrong.append(f"the log accuses {accused}")
    if not named & liars:
        wrong.append("the log does not name who lied")
    if "Traceback" in log:
        wrong.append("the log has an error that nobody has foreseen")
    lines, most = log.count("\n"), LINES_MAX + lies // 10
    if lines > most:
        wrong.append(f"{lines:,} lines of log")
    return f"log: {lines:,} lines (at most {most:,}), {len(named & liars)} liars named"


def judge_trails(honest: Honest, wrong: list[str]) -> str:
    """The trail of each is whole, and has the first thing that its administrator did."""
    acts = 0
    for name in OPEN:
        path = str(honest.nodes[name].path)
        done = subprocess.run(
            [sys.executable, "-m", "onceq", "trail", "verify", "-q", path],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            wrong.append(f"the trail of {name} is not whole: {done.stdout[-500:]}{done.stderr}")
        with honest.admin(name) as qm:
            found = qm.admin.trail()
        acts += len(found)
        first = [act for act in found if act.about == FIRST and act.what == "create queue"]
        if not first or not first[0].who.startswith("account:"):
            wrong.append(f"the trail of {name} has lost the first act of its administrator")
    return f"trails: {acts:,} acts kept, verified, with the first of the administrators"


def judge_queues(honest: Honest, flows: set[str], wrong: list[str]) -> str:
    """Nothing is where no honest one has sent it, and what waits for nobody waits.

    Args:
        flows: Queues whose messages were received and judged, or that are for liars.
    """
    looked = 0
    for name in honest.nodes:
        with honest.admin(name) as qm:
            for queue in qm.queues():
                system = queue.name.startswith("system$")  # of them liars choose what is there
                if system or queue.path.casefold() in flows or not queue.messages:
                    continue
                looked += queue.messages
                strange = [m.body for m in qm.peek_many(queue.path, 10) if m.body != KNOWN]
                if strange:
                    wrong.append(f"{name} has in {queue.path}: {strange[0][:40]!r}")
    with honest.admin("ALPHA") as alpha:
        waits = alpha.admin.outgoing_queue(SECRET).messages
    if waits != SECRETS:
        wrong.append(f"{SECRETS - waits} messages for EPSILON are gone")
    if not looked:
        wrong.append("there is nothing of the honest in other queues any more")
    return f"queues: {looked:,} messages of the honest in other queues, {waits} wait for EPSILON"
