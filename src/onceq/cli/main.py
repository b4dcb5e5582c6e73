"""The command ``onceq``: all commands put together, and how they end.

A user's mistake ends with one line on stderr, ``onceq: error (code): what happened, what to do``,
and with the exit code of the error (docs/reference/exit-codes.md). Tracebacks are for our own
mistakes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from onceq import __version__
from onceq.cli import (
    audit,
    bench,
    damage,
    groups,
    letters,
    lists,
    manage,
    mapping,
    outgoing,
    peeking,
    queues,
    receiving,
    rights,
    sending,
    spark,
    streams,
    tls,
    tokens,
    transactions,
)
from onceq.cli.common import TOP, Json, TokenFile, Where
from onceq.cli.out import failure, line
from onceq.errors import InDoubt, OnceqError

INTERRUPTED = 130
"""Exit code after Ctrl-C, or when the reader of our output has gone."""

# The command line library's own base of usage errors; it has moved between versions.
_Complaint = cast(
    type[Exception], next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
)

app = typer.Typer(
    name="onceq",
    help="Transactional message queuing: a committed message arrives once, in order, or its "
    "sender is told why not.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(manage.app, name="qm")
app.add_typer(queues.app, name="queue")
sending.register(app)
receiving.register(app)
peeking.register(app)
app.add_typer(outgoing.app, name="outgoing")
app.add_typer(streams.stream_app, name="stream")
app.add_typer(streams.peer_app, name="peer")
app.add_typer(rights.rights_app, name="rights")
app.add_typer(tokens.token_app, name="token")
app.add_typer(tls.app, name="tls")
groups.add_to(transactions.tx_app)
app.add_typer(transactions.tx_app, name="tx")
app.add_typer(letters.dead_app, name="dead")
app.add_typer(letters.journal_app, name="journal")
app.add_typer(mapping.app, name="mapping")
app.add_typer(damage.app, name="damage")
app.add_typer(lists.list_app, name="list")
app.add_typer(lists.directory_app, name="directory")
app.add_typer(spark.app, name="spark")
streams.register(app)
rights.register(app)
bench.register(app)
audit.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        line(f"onceq {__version__}")
        raise typer.Exit


@app.callback()
def top(
    qm: Where = None,
    json: Json = False,
    token_file: TokenFile = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Transactional message queuing: a committed message arrives once, in order, or its sender
    is told why not."""
    TOP.qm = qm
    TOP.json = json
    TOP.token_file = token_file


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code."""
    TOP.forget()
    as_json = "--json" in arguments
    try:
        result = app(args=list(arguments), prog_name="onceq", standalone_mode=False)
        sys.stdout.flush()
    except InDoubt as error:
        failure(error.code, error.text, error.exit_code, as_json=as_json,
                transaction=error.transaction)  # fmt: skip
        return error.exit_code
    except OnceqError as error:
        more = {"hresult": f"{error.hresult:#010x}"} if error.hresult else {}
        # Errors that may go through Spark have their code in their text.
        text = error.text.removeprefix(f"[{error.code}] ")
        failure(error.code, text, error.exit_code, as_json=as_json, **more)
        return error.exit_code
    except _Complaint as complaint:
        return _complain(complaint, as_json=as_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the library ends with 1 when a pipe breaks
        _forget_stdout()
        return INTERRUPTED
    finally:
        TOP.forget()
    return result if isinstance(result, int) else 0


def _complain(complaint: Any, *, as_json: bool) -> int:
    """A command line that cannot be understood."""
    text = complaint.format_message()
    context = getattr(complaint, "ctx", None)
    if type(complaint).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{text}\n")
        return int(complaint.exit_code)
    asked = "; --help behind the command says what its options take"
    if context is not None:
        asked = f"; see '{context.command_path} --help'"
    failure("usage", text.rstrip(".") + asked, complaint.exit_code, as_json=as_json)
    return int(complaint.exit_code)


def _forget_stdout() -> None:
    """Keep the interpreter from complaining at its end that nobody reads its output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
