"""docs/reference/console.md: the routes of the console's HTTP interface, from its table."""

from __future__ import annotations

from collections import Counter

from docs_cli import frequent
from onceq.console.table import METRICS, OPERATIONS, Operation, Text


def page(note: str) -> str:
    """The page."""
    known = frequent(Counter(line for one in OPERATIONS for line in _lines(one)))
    return (
        "# The HTTP interface of the console\n\n" + note + "What the pages of "
        "[`onceq console`](../how-to/console.md) show and do, as JSON; and the metrics of "
        "each queue manager, as text for "
        "[collectors](../how-to/watch.md#through-the-console). A request carries "
        "`Authorization: Bearer TOKEN` with the console's token. A GET reads, with its values in "
        "the address; a POST changes something, with a JSON object. An error has an HTTP status "
        'and `{"error": {"code", "text", "cure"}}` ([errors](errors.md)). `lookup_id` and `next` '
        "are texts, because JavaScript's numbers are too small. `GET /api/openapi.json` is this "
        "page as OpenAPI.\n\n"
        "`GET /api/managers` names the queue managers (`manager`), with their state and last "
        "numbers. The paths below follow `/api/managers/{manager}`. *Right* is what the console "
        "needs at that queue manager.\n\n"
        "## Values of several requests\n\n"
        "At the requests they are only named.\n\n"
        + "\n".join(sorted(known.values()))
        + "\n\n"
        + "\n\n".join((*(_operation(one, known) for one in OPERATIONS), *map(_text, METRICS)))
        + "\n"
    )


def _text(one: Text) -> str:
    return f"## GET `{one.path}`\n\n{one.text} Right: {one.right}."


def _lines(one: Operation) -> list[tuple[str, str]]:
    """The name of each value of a request, and its line."""
    return [
        (f"`{p.name}`", f"* `{p.name}` ({p.kind}{', needed' if p.needed else ''}): {p.text}")
        for p in one.parameters
    ]


def _operation(one: Operation, known: dict[str, str]) -> str:
    lines = _lines(one)
    also = [name for name, line in lines if line == known.get(name)]
    own = [line for name, line in lines if line != known.get(name)]
    text = f"## {one.method} `{one.path}`\n\n{one.text} Right: {one.right}."
    shown = [f"* {', '.join(also)}"] * bool(also) + own
    return "\n".join([text, "", *shown]) if shown else text
