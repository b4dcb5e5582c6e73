"""The end: a table that a person understands, delays by carrier and route, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PICTURE = "once-in-order.png"
LINES = ("committed", "at HUB", "at AUDIT", "in Parquet")
"""What is counted while the demo works, on the screen and in the picture."""
COLOURS = ("#4c72b0", "#55a868", "#c98a1b", "#8172b2")
TIMES = 2
"""Lines at the end of the table that depend on the machine."""
LABEL_SHARE = 0.13
"""Of the width of the picture, for the label of a kill."""
FEW_SHARE = 500
"""A carrier with fewer than one flight in so many is left out of the picture."""


@dataclass
class Findings:
    """Everything that the demo found out.

    Attributes:
        troubles: What is off, in words; empty if all is well.
        resends: Messages that were transmitted again, for any reason.
        after_breaks: Of these, those that were under way at a cut or a kill.
        timeline: (seconds, and a count for each of ``LINES``), until the last row is in Parquet.
        kills: (seconds, name).
    """

    flights: int = 0
    committed: int = 0
    transactions: int = 0
    largest: int = 0
    aborted: int = 0
    in_doubt: int = 0
    in_doubt_committed: int = 0
    at_hub: int = 0
    at_audit: int = 0
    landed: int = 0
    batches: int = 0
    left_in_queue: int = 0
    duplicates: int = 0
    missing: int = 0
    out_of_order: int = 0
    altered: int = 0
    dead_letters: int = 0
    late: int = 0
    at_airports: int = 0
    proven: int = 0
    filtered: int = 0
    turned_away: int = 0
    resends: int = 0
    after_breaks: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    kills: list[tuple[float, str]] = field(default_factory=list)
    deliver_s: float = 0.0
    spark_s: float = 0.0
    total_s: float = 0.0
    timeline: list[tuple[float, int, int, int, int]] = field(default_factory=list)
    carriers: list[dict[str, Any]] = field(default_factory=list)
    routes: list[dict[str, Any]] = field(default_factory=list)
    audited: int = 0
    verdict: str = ""
    audit_s: float = 0.0
    page: str = ""
    troubles: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Messages a second, both queues together, from the first commit until every airport has
        the acknowledgment of its last message."""
        return (self.at_hub + self.at_audit) / self.deliver_s if self.deliver_s else 0.0


def show(console: Console, found: Findings, airlines: dict[str, str]) -> None:
    """Everything in words and numbers."""
    console.print()
    console.print(_carriers(found, airlines))
    console.print(_routes(found))
    console.print(outcome(found))
    verdict(console, found)


def verdict(console: Console, found: Findings) -> None:
    """Whether all is well, in a sentence."""
    if found.troubles:
        console.print("[bold red]Something is off:[/bold red]")
        for trouble in found.troubles:
            console.print(f"  [red]{trouble}[/red]", highlight=False)
    else:
        console.print(
            "[bold green]Every flight is there exactly once, in each airport's commit order, at "
            "both queues.[/bold green]"
        )


def outcome(found: Findings, *, times: bool = True) -> Table:
    """What happened to the messages, line by line.

    Args:
        times: Also what depends on the machine and on what else it does.
    """
    table = Table(title="Once, in order", title_justify="left", show_header=False, min_width=72)
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("which means", style="dim")
    dropped, cuts = found.faults.get("dropped", 0), found.faults.get("cuts", 0)
    repeated, reordered = found.faults.get("repeated", 0), found.faults.get("reordered", 0)
    lost = found.resends - found.after_breaks
    killed = sorted({name for _, name in found.kills})
    rows: list[tuple[str, str, str]] = [
        ("committed", f"{found.committed:,}",
         f"flights, in {found.transactions:,} transactions of 1 to {found.largest:,}; "
         "each to two queues"),
        ("delivered to HUB", f"{found.at_hub:,}",
         f"and {found.landed:,} of them in Parquet, in {found.batches} Spark batches"),
        ("delivered to AUDIT", f"{found.at_audit:,}", "and compared one by one"),
        ("sent back by Spark", f"{found.at_airports:,}",
         "very late flights, to their airports; the batch was written twice"),
        ("filtered by Spark", f"{found.filtered:,}",
         f"of a feed without order; {found.turned_away:,} repetitions were turned away"),
        ("audited", f"{found.audited:,}",
         f"{found.verdict.partition(':')[0].lower()} from the histories of all five managers"),
        ("duplicates", f"{found.duplicates:,}", "flights that are there twice"),
        ("missing", f"{found.missing:,}", "flights that are not there"),
        ("out of order", f"{found.out_of_order:,}", "flights before an earlier one"),
        ("dead-lettered", f"{found.dead_letters:,}", "messages given up, on all five managers"),
        ("aborted", f"{found.aborted:,}", "transactions undone when full; none of it was seen"),
        ("in doubt, settled", f"{found.in_doubt:,}",
         f"commits whose answer was lost; {found.in_doubt_committed} had happened"),
        ("resends", f"{found.resends:,}",
         f"messages transmitted again: {lost:,} that were lost or seemed so "
         f"({lost / max(dropped, 1):.1f} for each packet lost), and {found.after_breaks:,} that "
         f"were under way at {cuts} cuts and {len(found.kills)} kills"),
        ("network faults", f"{dropped + repeated + reordered:,}",
         f"packets: {dropped:,} lost, {repeated:,} repeated, {reordered:,} out of order; "
         f"{cuts} connections cut, {found.faults.get('stalls', 0)} stalls"),
        ("identities", f"{found.proven:,}",
         "managers, each proven by a certificate; they speak TLS with each other"),
        ("kills survived", f"{len(found.kills)}", f"SIGKILL and restart: {', '.join(killed)}"),
        ("messages/s", f"{found.rate:,.0f}",
         f"first commit to last acknowledgment, {found.deliver_s:.1f} s for "
         f"{found.at_hub + found.at_audit:,} messages"),
        ("time", f"{found.total_s:.0f} s",
         f"of which Spark {found.spark_s:.0f} s after all had arrived, and the audit "
         f"{found.audit_s:.0f} s"),
    ]  # fmt: skip
    for row in rows if times else rows[:-TIMES]:
        table.add_row(*row)
    return table


def _delay_columns(table: Table) -> None:
    for name in ("flights", "cancelled", "departed late by", "arrived late by", "over 15 min late"):
        table.add_column(name, justify="right")


def _delay_cells(row: dict[str, Any]) -> Sequence[str]:
    def minutes(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f} min"

    late = row.get("late")
    return (
        f"{row['flights']:,}",
        f"{row['cancelled']:,}",
        minutes(row.get("dep_delay")),
        minutes(row.get("arr_delay")),
        "-" if late is None else f"{late:.0f} %",
    )


def _carriers(found: Findings, airlines: dict[str, str]) -> Table:
    table = Table(title="Delays by carrier", title_justify="left")
    table.add_column("carrier")
    _delay_columns(table)
    for row in found.carriers:
        name = airlines.get(row["carrier"], row["carrier"])
        table.add_row(name, *_delay_cells(row))
    return table


def _routes(found: Findings) -> Table:
    table = Table(title="The ten latest busy routes", title_justify="left")
    table.add_column("route")
    _delay_columns(table)
    for row in found.routes:
        table.add_row(f"{row['origin']} - {row['dest']}", *_delay_cells(row))
    return table


def plot(found: Findings, airlines: dict[str, str], directory: Path) -> Path:
    """The picture: how messages came in while managers were killed, and who was late."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(13, 5.2), width_ratios=(3, 2), layout="constrained"
    )
    plot_counts(left, found)
    few = found.flights // FEW_SHARE
    rows = [row for row in found.carriers if row["flights"] > few and row.get("arr_delay")]
    rows.sort(key=lambda row: row["arr_delay"])
    names = [airlines.get(row["carrier"], row["carrier"]) for row in rows]
    values = [row["arr_delay"] for row in rows]
    colours = ["#c44e52" if value > 0 else "#4c72b0" for value in values]
    right.barh(names, values, color=colours)
    right.axvline(0, color="0.3", linewidth=0.8)
    right.set_xlabel("minutes late on arrival, on average")
    right.set_title("Delays by carrier, from the Parquet files", fontsize=10, loc="left")
    right.tick_params(axis="y", labelsize=8)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    path = directory / PICTURE
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def plot_counts(axis: Any, found: Findings) -> None:
    """How messages came in until the last row was in Parquet, and when managers were killed."""
    times = [point[0] for point in found.timeline]
    for index, (name, colour) in enumerate(zip(LINES, COLOURS, strict=True), start=1):
        # What Spark has written is there batch by batch, and nothing of a batch before.
        style = "steps-post" if name == LINES[-1] else "default"
        counts = [point[index] for point in found.timeline]
        axis.plot(times, counts, label=name, color=colour, drawstyle=style)
    axis.axhline(found.flights, color="0.7", linewidth=0.8)
    end = max([*times, 1.0])
    width = end * LABEL_SHARE
    places = [min(at, end - width) for at, _ in found.kills]
    rows = stagger(places, width)
    for (at, name), place, row in zip(found.kills, places, rows, strict=True):
        axis.axvline(at, color="#c44e52", linestyle=":", linewidth=1)
        axis.text(
            place, found.flights * (1.03 + 0.06 * row), f" {name} killed", color="#c44e52",
            fontsize=8, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    axis.set_xlim(0, end * 1.02)
    axis.set_ylim(0, found.flights * (1.1 + 0.06 * max(rows, default=0)))
    axis.set_xlabel("seconds")
    axis.set_ylabel("messages")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_title(
        f"{found.flights:,} flights, {len(found.kills)} kills, {found.resends:,} resends: "
        f"{found.duplicates} duplicates, {found.missing} missing, "
        f"{found.out_of_order} out of order",
        fontsize=10, loc="left",
    )  # fmt: skip
    axis.legend(loc="lower right", framealpha=1, edgecolor="none", fontsize=9)


def stagger(places: Sequence[float], width: float) -> list[int]:
    """Rows for labels, so that none is printed over another: 0 is the lowest.

    Args:
        places: Where each label begins.
        width: Of a label.
    """
    ends: list[float] = []
    rows = []
    for place in places:
        free = [row for row, end in enumerate(ends) if end <= place]
        row = free[0] if free else len(ends)
        ends[row : row + 1] = [place + width]
        rows.append(row)
    return rows
