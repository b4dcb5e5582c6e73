"""docs/reference/console.md: the routes of the console's HTTP interface, from its table."""

from __future__ import annotations

from onceq.console.table import METRICS, OPERATIONS, Operation, Text


def page(note: str) -> str:
    """The page."""
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
        + "\n\n".join((*map(_operation, OPERATIONS), *map(_text, METRICS)))
        + "\n"
    )


def _text(one: Text) -> str:
    return f"## GET `{one.path}`\n\n{one.text} Right: {one.right}."


def _operation(one: Operation) -> str:
    text = f"## {one.method} `{one.path}`\n\n{one.text} Right: {one.right}.\n"
    if not one.parameters:
        return text.rstrip()
    lines = [
        f"* `{p.name}` ({p.kind}{', needed' if p.needed else ''}): {p.text}" for p in one.parameters
    ]
    return text + "\n" + "\n".join(lines)
