"""What a run says: medians and spreads, ratios, tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from proof.bench.peers.run import CLIENTS, SIZES, Outcome, Run
from proof.bench.peers.systems import SYSTEMS

OURS = "onceq"


@dataclass(frozen=True)
class Spread:
    """Of one figure over the rounds."""

    median: float
    least: float
    greatest: float


def spread(values: Iterable[float]) -> Spread:
    """Of at least one value."""
    known = list(values)
    return Spread(statistics.median(known), min(known), max(known))


def figure(outcome: Outcome, name: str) -> Spread | None:
    """Of a system; None if it was not measured."""
    values = [found[name] for found in outcome.rounds if name in found]
    return spread(values) if values else None


OTHERS_MAX = 0.1
"""Of the processors' time: what others may take without a word of caution."""


def over_all(run: Run, name: str) -> Spread | None:
    """A figure over all systems."""
    values = [found[name] for one in run.outcomes.values() for found in one.rounds if name in found]
    return spread(values) if values else None


def caution(run: Run) -> str:
    """What keeps a run from being worth much, if anything does."""
    others = over_all(run, "others")
    if others is None or others.median <= OTHERS_MAX:
        return ""
    return (
        f" CAUTION: others took {others.median:.0%} of the processors before the turns (from"
        f" {others.least:.0%} to {others.greatest:.0%}): ratios say more than rates here, and"
        " neither much."
    )


# ---- tables ------------------------------------------------------------------------------------

Columns = tuple[tuple[str, str], ...]
"""Titles, and names of figures."""


def _sizes(way: str) -> Columns:
    return tuple((f"{per:,}", f"{way} {per}") for per in SIZES)


TABLES: dict[str, Columns] = {
    "Messages sent a second, by messages a transaction": _sizes("send"),
    "Messages received a second, by messages a transaction": _sizes("receive"),
    "Messages sent and received at once, by messages a transaction": _sizes("through"),
    "Single messages": (
        (f"{CLIENTS} senders, messages/s", "sixteen"),
        ("commit, p50 ms", "commit p50"),
        ("commit, p99 ms", "commit p99"),
        ("sent and received, p50 ms", "whole p50"),
        ("sent and received, p99 ms", "whole p99"),
    ),
}
SMALL: Columns = (
    ("sent, 1 a transaction", "send 1"),
    ("sent, 100", "send 100"),
    ("received, 1", "receive 1"),
    ("received, 100", "receive 100"),
    (f"{CLIENTS} senders", "sixteen"),
)
"""Of the README: messages a second, medians only."""


def cell(found: Spread | None, *, whole: bool = True) -> str:
    """A median with three digits, and its least and greatest if it is to be ``whole``."""
    if found is None:
        return "-"
    unit, scale = (" k", 1e3) if found.median >= 9_995 else ("", 1.0)
    digits = 0 if found.median / scale >= 99.95 else 1 if found.median / scale >= 9.995 else 2
    median, least, greatest = (
        f"{value / scale:,.{digits}f}" for value in (found.median, found.least, found.greatest)
    )
    return f"{median}{unit} ({least}\N{EN DASH}{greatest})" if whole else f"{median}{unit}"


def table(run: Run, columns: Columns, *, whole: bool = True) -> str:
    """In Markdown, in columns of one width: to be read in a terminal too."""
    columns = tuple(
        (title, of) for title, of in columns if any(figure(o, of) for o in run.outcomes.values())
    )
    lines = [["", *(title for title, _ in columns)]]
    for name, outcome in run.outcomes.items():
        found = [figure(outcome, of) for _, of in columns]
        if any(found):
            star = "" if SYSTEMS[name].transactions else " *"
            lines.append([SYSTEMS[name].title + star, *(cell(one, whole=whole) for one in found)])
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    rows = [f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines]
    rows.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(rows)


# ---- ratios ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """Ours to the fastest peer with transactions.

    Attributes:
        figure: Which.
        peer: Who was the fastest, by the median.
        found: Over the rounds, each round's figures with each other.
    """

    figure: str
    ours: str
    peer: str
    found: Spread


def ratios(run: Run) -> Iterator[Ratio]:
    """For every rate of a daemon; and of two, beside what is sent and received at once."""
    names = [f"{way} {per}" for way in ("send", "receive", "through") for per in SIZES]
    for ours, of in (
        *((OURS, name) for name in (*names, "sixteen")),
        *(("onceq-two", f"through {per}") for per in SIZES),
    ):
        ratio = _ratio(run, ours, of)
        if ratio is not None:
            yield ratio


def _ratio(run: Run, ours: str, of: str) -> Ratio | None:
    peers = {
        name: found.median
        for name, outcome in run.outcomes.items()
        if SYSTEMS[name].transactions and not name.startswith(OURS)
        if (found := figure(outcome, of)) is not None
    }
    if ours not in run.outcomes or figure(run.outcomes[ours], of) is None or not peers:
        return None
    peer = max(peers, key=lambda name: peers[name])
    both = zip(run.outcomes[ours].rounds, run.outcomes[peer].rounds, strict=False)
    return Ratio(of, ours, peer, spread(mine[of] / theirs[of] for mine, theirs in both))


def ratio_table(run: Run) -> str:
    """In Markdown: a line for what a system of ours does, a column for each size."""
    ways = {"send": "sent", "receive": "received", "through": "sent and received at once"}
    found: dict[str, dict[str, str]] = {}
    for one in ratios(run):
        way, _, per = one.figure.partition(" ")
        title = f"{SYSTEMS[one.ours].title}: {ways.get(way, f'{CLIENTS} senders')}"
        times, peer = one.found, SYSTEMS[one.peer].title.split(",")[0]
        found.setdefault(title, {})[per or "1"] = (
            f"{times.median:.2f} ({times.least:.2f}\N{EN DASH}{times.greatest:.2f}) {peer}"
        )
    lines = [["", *(f"{per:,}" for per in SIZES)]]
    lines += [
        [title, *(cells.get(str(per), "") for per in SIZES)] for title, cells in found.items()
    ]
    return aligned(lines)


# ---- all of it ---------------------------------------------------------------------------------

STAR = (
    "\\* without transactions over several messages: that many messages are sent or taken"
    " together, and confirmed together."
)


def preface(run: Run) -> str:
    """What the figures are."""
    scale, found = run.scale, over_all(run, "yard")
    disk = "" if found is None else (
        f" The disk made {cell(found)} overwrites of 4 KiB a second, each with `fdatasync`."
    )  # fmt: skip
    counts = {len(one.rounds) for one in run.outcomes.values() if one.rounds} or {0}
    rounds = "one round" if counts == {1} else f"{min(counts)} to {max(counts)} rounds"
    if len(counts) == 1 and counts != {1}:
        rounds = f"{max(counts)} rounds"
    return (
        f"{run.made}, {run.machine}. Medians of {rounds} with the least and the greatest; "
        f"messages of 1 KiB; senders worked {scale.seconds:g} s in each case.{disk}{caution(run)}"
    )


def settings_list(run: Run) -> str:
    """Versions and settings of what was measured."""
    return "\n".join(
        f"* {SYSTEMS[name].title}: {outcome.about.versions}; {outcome.about.settings}"
        for name, outcome in run.outcomes.items()
        if outcome.about is not None
    )


def absences(run: Run) -> list[str]:
    """What was not measured, or not to the end, and why."""
    return [
        f"{SYSTEMS[name].title}: {' '.join(outcome.reason.split())}"
        for name, outcome in run.outcomes.items()
        if outcome.reason
    ]


def text(run: Run) -> str:
    """Everything, for a terminal."""
    parts = [preface(run)]
    parts += [f"{title}\n{table(run, columns)}" for title, columns in TABLES.items()]
    parts.append(STAR.removeprefix("\\"))
    if any(ratios(run)):
        parts.append(ratio_table(run))
    parts.append(settings_list(run))
    missing = absences(run)
    if missing:
        parts.append("NOT MEASURED\n" + "\n".join(missing))
    return "\n\n".join(parts)
