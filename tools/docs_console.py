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
        "`Authorization: Bearer TOKEN` with the token that the console has printed. What reads is "
        "a GET with its values in the address; what changes something is a POST with a JSON "
        'object. An error has a status of HTTP and `{"error": {"code", "text", "cure"}}` '
        "with the code of the [command line](errors.md); a value that is mistyped is refused with "
        "those that there are. Places in queues (`lookup_id`, `next`) are texts, because they are "
        "larger than the numbers of JavaScript are exact. `GET /api/openapi.json` is this page as "
        "OpenAPI.\n\n"
        "`GET /api/managers` names the queue managers (`manager`), and says of each whether it is "
        "away, why, and its last numbers. The paths below stand behind "
        "`/api/managers/{manager}`. *Right* is what the console needs at that queue manager.\n\n"
        + "\n\n".join((*map(_operation, OPERATIONS), *map(_text, METRICS)))
        + "\n"
    )


def _text(one: Text) -> str:
    return f"## GET `{one.path}`\n\n{one.text} Right: {one.right}."


def _operation(one: Operation) -> str:
    text = f"## {one.method} `{one.path}`\n\n{one.text} Right: {one.right}.\n"
    if not one.parameters:
        return text.rstrip()
    rows = [
        f"| `{p.name}` | {p.kind}{', needed' if p.needed else ''} | {p.text} |"
        for p in one.parameters
    ]
    return text + "\n| value | kind | meaning |\n|---|---|---|\n" + "\n".join(rows)
