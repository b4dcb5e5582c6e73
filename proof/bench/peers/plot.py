"""A picture of a run: messages a second, by messages a transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from proof.bench.peers.run import SIZES, Run
from proof.bench.peers.summary import figure
from proof.bench.peers.systems import SYSTEMS

PANELS = (("sent by one client", "send"), ("received by one client", "receive"),
          ("sent and received at once", "through"))  # fmt: skip
COLOURS = (
    "#c0392b", "#e67e22", "#8e44ad", "#2c6fbb", "#138d75", "#5d4037", "#bc8f6f", "#e377c2",
    "#7f8c8d", "#1c1c1c",
)  # fmt: skip
TICKS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


def draw(run: Run, path: Path, mark: str) -> None:
    """Write it as SVG; the same run gives the same bytes.

    Args:
        mark: A text in the picture that says which run it shows.
    """
    with matplotlib.rc_context({"svg.hashsalt": "onceq", "svg.fonttype": "none", "font.size": 9}):
        picture = Figure(figsize=(11, 4.2), layout="constrained")
        panels = picture.subplots(1, len(PANELS), sharey=True)
        for panel, (title, way) in zip(panels, PANELS, strict=True):
            for colour, name in zip(COLOURS, SYSTEMS, strict=False):
                _line(panel, run, name, way, colour)
            panel.set(xscale="log", yscale="log", title=title, xlabel="messages a transaction")
            panel.set_xticks(SIZES, [f"{per:,}" for per in SIZES])
            panel.set_yticks(TICKS, [f"{rate:,}" for rate in TICKS])
            panel.minorticks_off()
            panel.grid(True, alpha=0.3)
        panels[0].set_ylabel("messages a second")
        handles: dict[str, Any] = {}
        for panel in panels:
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        shown = [entry.title for entry in SYSTEMS.values() if entry.title in handles]
        picture.legend([handles[title] for title in shown], shown, loc="outside right upper")
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(
            path, format="svg", metadata={"Date": None, "Creator": None, "Description": mark}
        )


def _line(panel: Any, run: Run, name: str, way: str, colour: str) -> None:
    """One system, with its least and greatest as bars."""
    outcome = run.outcomes.get(name)
    found = [figure(outcome, f"{way} {per}") for per in SIZES] if outcome else []
    known = [(per, one) for per, one in zip(SIZES, found, strict=False) if one is not None]
    if not known:
        return
    middle = [one.median for _, one in known]
    below = [one.median - one.least for _, one in known]
    above = [one.greatest - one.median for _, one in known]
    ours = name.startswith("onceq")
    panel.errorbar(
        [per for per, _ in known], middle, yerr=[below, above], label=SYSTEMS[name].title,
        color=colour, marker="o", markersize=3, linewidth=2.2 if ours else 1.2, capsize=2,
        linestyle="-" if SYSTEMS[name].transactions else "--",
    )  # fmt: skip
