"""``onceq mapping``: addresses at the border between two networks, and what they mean."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

from onceq.cli import out
from onceq.cli.common import Json, dumped
from onceq.cli.parameters import Argument, Option
from onceq.errors import ConfigurationError

Directory = Annotated[
    str,
    Option(
        "--directory", "-d", metavar="DIR", help="Data directory of the queue manager.",
    ),
]  # fmt: skip


def check(directory: Directory = ".", json: Json = False) -> None:
    """Read the mapping files of a data directory, and name what is wrong with them.

    A queue manager with a file that it cannot use does not start; one that runs goes on with what
    it has read before.
    """
    from onceq.embedded import mapping

    report = mapping.check(directory)
    if not dumped({**asdict(report), "problems": report.problems}, json):
        out.line(f"folder {report.folder}")
        out.table(
            ("file", "what it is", "entries", "problem"),
            [(one.name, one.form, one.entries, one.problem) for one in report.sources],
        )
        for text in report.unreached:
            out.line(f"warning: {text}")
    sys.stdout.flush()
    if report.problems:
        raise ConfigurationError("; ".join(report.problems))


def explain(
    url: Annotated[
        str, Argument(metavar="URL", help="Such as https://www.example.com/msmq/orders.")
    ],
    directory: Directory = ".",
    json: Json = False,
) -> None:
    """Say what the queue manager does with a URL, and which entry of which file says so."""
    from onceq.embedded import mapping

    found = mapping.explain(directory, url)
    if dumped(asdict(found), json):
        return
    said = {
        "a message that comes for it": (found.arriving, "arriving"),
        "a message sent to it": (f"goes to the host {found.connecting}", "connecting"),
        "receipts for streams to it": (
            f"come to {found.receipts}" if found.receipts else "cannot come: no http_listen",
            "receipts",
        ),
    }
    facts: list[tuple[str, object]] = [("URL", found.url)]
    for what, (text, key) in said.items():
        because = found.because.get(key, "")
        facts.append((what, f"{text} ({because})" if because else text))
    out.facts(facts)
