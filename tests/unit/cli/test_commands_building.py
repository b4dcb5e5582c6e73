"""Typed functions become commands: flags, lists, limits, help, and names that are like one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
import pytest

from onceq.cli.commands import command
from onceq.cli.common import Argument, Option
from onceq.cli.main import app

SEEN: list[dict[str, Any]] = []


def tried(
    name: Annotated[str, Argument(metavar="NAME", help="Its name.")],
    more: Annotated[list[str] | None, Argument(metavar="[MORE...]", help="Others.")] = None,
    count: Annotated[int, Option("--count", "-n", metavar="N", min=1, max=9, help="So many.")] = 3,
    rate: Annotated[float | None, Option("--rate", metavar="R", min=0.5)] = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    peer: Annotated[list[str] | None, Option("--peer", metavar="P", help="Peers.")] = None,
    to: Annotated[tuple[str, Path] | None, Option("--to", metavar="KIND FOLDER")] = None,
    quiet_one: Annotated[str, Option(metavar="X", hidden=True)] = "",
) -> None:
    """Try it.

    At length.
    """
    SEEN.append(dict(locals()))


def given(*words: str) -> dict[str, Any]:
    command("tried", tried).main(list(words), standalone_mode=False)
    return SEEN.pop()


def test_what_is_not_said_is_what_the_function_says() -> None:
    assert given("a") == {
        "name": "a", "more": None, "count": 3, "rate": None, "yes": False, "peer": None,
        "to": None, "quiet_one": "",
    }  # fmt: skip


def test_what_is_said_has_the_type_of_its_parameter() -> None:
    found = given(
        "a", "b", "c", "-n", "9", "--rate", "0.5", "--yes", "--peer", "x", "--peer", "y",
        "--to", "delta", "d", "--quiet-one", "z",
    )  # fmt: skip
    assert found == {
        "name": "a", "more": ["b", "c"], "count": 9, "rate": 0.5, "yes": True,
        "peer": ["x", "y"], "to": ("delta", Path("d")), "quiet_one": "z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument"), (("a", "-n", "10"), "1<=x<=9"), (("a", "--rate", "0"), "x>=0.5"),
        (("a", "--to", "delta"), "requires 2 arguments"), (("a", "--count"), "requires"),
        (("a", "--peers", "x"), "No such option"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        given(*words)
    assert said in caught.value.format_message()
    assert not SEEN


def test_the_help_says_everything_once() -> None:
    made = command("tried", tried)
    text = made.get_help(click.Context(made, info_name="tried"))
    assert "{NAME} [[MORE...]]..." in text
    assert text.count("Its name.") == text.count("So many.") == 1
    assert "Its name.  [required]" in text
    assert "[default: 3; 1<=x<=9]" in text
    assert "At length." in text
    assert "quiet" not in text
    assert "default: None" not in text


def test_a_group_says_what_is_in_it_and_what_is_like_a_wrong_word() -> None:
    made = app()
    context = click.Context(made, info_name="onceq")
    queue = made.get_command(context, "queue")
    assert isinstance(queue, click.Group)
    text = queue.get_help(click.Context(queue, info_name="queue", parent=context))
    assert "purge" in text
    with pytest.raises(click.UsageError, match="Did you mean 'list'"):
        queue.resolve_command(context, ["lst"])
    assert made.get_command(context, "queue list") is None


def test_an_option_that_takes_one_value_is_not_given_twice() -> None:
    """The last would win, and who has named three messages would find two of them untouched."""
    made = command("try", tried)
    with pytest.raises(click.UsageError, match="--count was given 3 times"):
        made.make_context("try", ["x", "-n", "1", "--count", "2", "-n3"])
    taken = made.make_context("try", ["x", "--yes", "--yes", "--peer", "a", "--peer", "b"])
    assert (taken.params["yes"], taken.params["peer"]) == (True, ("a", "b"))
