"""``onceq qm settings``: what a queue manager is set to."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.cli.parameters import Argument, Option
from onceq.errors import InvalidParameter
from onceq.model.settings import SETTING_NAMES, as_written

if TYPE_CHECKING:
    from onceq.model.views.settings import SettingView

NEAR_MAX: Final = 3


def complete_setting(incomplete: str) -> list[str]:
    """Names of settings for the shell's completion."""
    return [name for name in SETTING_NAMES if name.startswith(incomplete.casefold())]


def _named(name: str, found: Sequence[SettingView]) -> SettingView:
    """The setting that is meant; raises InvalidParameter, which names those that are like it."""
    known = {one.name: one for one in found}
    said = name.strip().casefold().replace("-", "_")
    if said in known:
        return known[said]
    near = difflib.get_close_matches(said, known, NEAR_MAX)
    near += [one for one in known if said in one and one not in near][: NEAR_MAX - len(near)]
    like = f"did you mean {' or '.join(near)}?" if near else "'onceq qm settings' lists them"
    raise InvalidParameter(f"there is no setting {name!r}; {like}")


def settings(
    name: Annotated[
        str,
        Argument(
            metavar="[NAME]",
            help="Only this one.",
            show_default=False,
            autocompletion=complete_setting,
        ),
    ] = "",
    changed: Annotated[
        bool, Option("--changed", help="Only those that are not at their defaults.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """What a queue manager goes by now, and what the defaults are.

    They are set in the table [settings] of its onceq.toml, and read by a start or by
    'onceq qm reload'; those marked "at a start" by a start alone.
    """
    with asking(qm) as connection:
        found = connection.settings()
    if name:
        found = [_named(name, found)]
    if changed:
        found = [one for one in found if one.value != one.default]
    if dumped(found, json):
        return
    if not found:
        out.line(f"{name or 'every setting'} is at its default")
        return
    out.table(
        ("setting", "value", "default", "read"),
        [
            (
                one.name,
                as_written(one.value),
                as_written(one.default),
                "at a start" if one.at_start else "",
            )
            for one in found
        ],
    )
