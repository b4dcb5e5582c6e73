"""Small pictures of numbers over time, as SVG inside a page: no script, no colour of their own.

All pictures of one page that show the same kind of number share one scale, so that what is higher
in the picture is more.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 160, 32


def sparkline(values: Sequence[float], *, top: float, label: str) -> Markup:
    """A line of values, evenly spaced, the last at the right.

    Args:
        top: Value at the upper edge; what is 0 or less is drawn at the lower one.
        label: What a reader that cannot see it is told.
    """
    scale = top if top > 0 else 1.0
    step = WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{at * step:.1f},{HEIGHT - 2 - min(max(value / scale, 0.0), 1.0) * (HEIGHT - 4):.1f}"
        for at, value in enumerate(values)
    )
    line = Markup('<polyline points="{}"/>').format(points) if len(values) > 1 else Markup("")
    return Markup(
        '<svg class="line" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, label, line)
