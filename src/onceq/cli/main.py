"""The command ``onceq``: how a command line is carried out, and how it ends.

A user's mistake ends with one line on stderr, ``onceq: error (code): what happened, what to do``,
and with the exit code of the error (docs/reference/exit-codes.md). Tracebacks are for our own
mistakes.

Nothing is loaded before it is needed: a command that asks a daemon something shall be quick
(``commands`` has the table; tests/unit/cli/test_commands.py holds what is not loaded).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onceq.cli.common import TOP, Exit, Json, TokenFile, Where
from onceq.cli.out import failure, line
from onceq.cli.terminal import forget_output, open_streams
from onceq.errors import InDoubt, LinkLost, OnceqError, OutputLost
from onceq.version import __version__

if TYPE_CHECKING:
    import click

INTERRUPTED = 130
"""Exit code after Ctrl-C, or when the reader of our output has gone."""


def top(qm: Where = None, json: Json = False, token_file: TokenFile = None) -> None:
    """Transactional message queuing: a committed message arrives once, in order, or its sender
    is told why not."""
    TOP.qm = qm
    TOP.json = json
    TOP.token_file = token_file


def app() -> click.Group:
    """The command with all below it, which are loaded when they are called."""
    import click

    from onceq.cli.commands import HELP, Commands, command, options

    own = command("onceq", top)
    version = click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version,
        help="Print the version.",
    )  # fmt: skip
    return Commands(
        "", params=[*own.params, version, *options()], callback=own.callback, help=own.help,
        context_settings=HELP,
    )  # fmt: skip


def _version(context: Any, parameter: Any, wanted: bool) -> None:
    if wanted:
        line(f"onceq {__version__}")
        raise Exit


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code."""
    code = 0
    try:
        code = _perform(arguments)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the library ends with 1 when a pipe breaks
        forget_output()
        return INTERRUPTED
    except OutputLost as error:
        failure(error.code, error.text, error.exit_code, as_json="--json" in arguments)
        forget_output()
        return code or error.exit_code
    return code


def _perform(arguments: Sequence[str]) -> int:
    """The same; raises BrokenPipeError and OutputLost where its output is not taken."""
    if list(arguments) == ["--version"]:
        line(f"onceq {__version__}")
        return 0
    import click

    TOP.forget()
    as_json = "--json" in arguments
    try:
        result = app().main(args=list(arguments), prog_name="onceq", standalone_mode=False)
    except Exit as ended:
        return ended.exit_code
    except OutputLost:
        raise
    except InDoubt as error:
        failure(error.code, error.text, error.exit_code, as_json=as_json,
                transaction=error.transaction)  # fmt: skip
        return error.exit_code
    except OnceqError as error:
        more = {"hresult": f"{error.hresult:#010x}"} if error.hresult else {}
        # Errors that may go through Spark have their code in their text.
        text = error.text.removeprefix(f"[{error.code}] ")
        if isinstance(error, LinkLost) and "may have happened" not in text:
            text += "; what was asked last may have happened"
        failure(error.code, text, error.exit_code, as_json=as_json, **more)
        return error.exit_code
    except click.ClickException as complaint:
        text = complaint.format_message()
        if type(complaint).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{text}\n")
            return complaint.exit_code
        context = getattr(complaint, "ctx", None)
        asked = "; --help behind the command says what its options take"
        if context is not None:
            asked = f"; see '{context.command_path} --help'"
        failure("usage", text.rstrip(".") + asked, complaint.exit_code, as_json=as_json)
        return complaint.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    finally:
        TOP.forget()
    return result if isinstance(result, int) else 0


def main() -> None:
    """The entry point."""
    if instruction := os.environ.get("_ONCEQ_COMPLETE"):
        from onceq.cli.commands import answer

        answer(app(), instruction)
        return
    try:
        open_streams()
    except OutputLost as error:
        failure(error.code, error.text, error.exit_code, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)
    code = run(sys.argv[1:])
    # At its end the interpreter looks through all that was loaded for circles to free: 20 ms, a
    # tenth of a short command. The system takes everything anyway.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
