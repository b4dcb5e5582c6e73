"""Completion by the shell: of commands and options, names of queues, contexts.

The shell asks this command at each key, so an answer may take no longer than a person waits, and
nothing is ever said beside it: a daemon that is away means that there are no names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click
from click import shell_completion

from onceq.cli import out
from onceq.cli.parameters import Exit
from onceq.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE: Final = "_ONCEQ_COMPLETE"
"""Of the environment: the shell asks by it."""
SHELLS: Final = ("bash", "zsh", "fish")
_HOW: Final = {
    "bash": "bash reads it in a new shell (package bash-completion); without that package add to "
    "~/.bashrc: source {path}",
    "zsh": "a new shell reads it if ~/.zshrc has, before compinit: fpath+=({folder})",
    "fish": "fish reads it in a new shell",
}


def options() -> list[click.Option]:
    """The options by which a shell is taught."""
    return [
        click.Option(
            ["--install-completion"], is_flag=True, is_eager=True, expose_value=False,
            callback=_install, help="Install completion for the current shell.",
        ),
        click.Option(
            ["--show-completion"], is_flag=True, is_eager=True, expose_value=False,
            callback=_show,
            help="Show completion for the current shell, to copy it or customize the installation.",
        ),
    ]  # fmt: skip


def answer(app: click.Group, instruction: str) -> None:
    """What the shell has asked for; nothing if anything goes wrong."""
    try:
        shell_completion.shell_complete(app, {}, "onceq", VARIABLE, instruction)
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - whatever it is, it would be printed into a command line
        return


def shell_of(environment: Mapping[str, str]) -> str:
    """The shell that is in use; raises ConfigurationError if it is none that can be taught."""
    name = os.path.basename(environment.get("SHELL", ""))
    if name not in SHELLS:
        raise ConfigurationError(
            f"the shell {name or '(SHELL is not set)'} cannot be taught; there are "
            f"{', '.join(SHELLS)}: set SHELL to one of them"
        )
    return name


def script(shell: str) -> str:
    """What the shell has to read."""
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    return kind(click.Group("onceq"), {}, "onceq", VARIABLE).source()


def place(shell: str, environment: Mapping[str, str]) -> Path:
    """Where the shell looks for it."""
    from pathlib import Path

    home = Path(environment.get("HOME", "~")).expanduser()
    if shell == "bash":
        data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
        return data / "bash-completion/completions/onceq"
    if shell == "zsh":
        return home / ".zfunc/_onceq"
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return config / "fish/completions/onceq.fish"


def _show(context: click.Context, parameter: click.Parameter, wanted: Any) -> None:
    if wanted:
        print(script(shell_of(os.environ)))
        raise Exit


def _install(context: click.Context, parameter: click.Parameter, wanted: Any) -> None:
    if not wanted:
        return
    shell = shell_of(os.environ)
    path = place(shell, os.environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script(shell))
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}; --show-completion prints it"
        ) from None
    out.line(f"wrote {path}; {_HOW[shell].format(path=path, folder=path.parent)}")
    raise Exit
