"""The mapping files of a data directory, and their effect on one URL.

They are read from the disk like the queue manager reads them, also while it runs: it takes a
changed file into use within a second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from onceq.errors import ConfigurationError, IllegalFormatName
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.http import HttpNames, Mappings, Pairs, fits, host_of
from onceq.model.identity import Identity
from onceq.model.names import Kind, parse_format_name


@dataclass(frozen=True, slots=True)
class MappingSource:
    """One source of mappings.

    Attributes:
        name: Of the file.
        form: What it is for, in words; "" if it cannot be used.
        mappings: Its content.
        problem: Why it cannot be used; "" if it can.
    """

    name: str
    form: str
    mappings: Mappings
    problem: str = ""

    @property
    def entries(self) -> int:
        """Return the number of entries, exceptions included."""
        said = self.mappings
        return sum(map(len, (said.redirections, said.receipts, said.outbound, said.exceptions)))


@dataclass(frozen=True, slots=True)
class MappingReport:
    """Every mapping of a data directory, in the order in which they count.

    Attributes:
        folder: Where the files are.
        sources: The tables of the configuration, then each file.
        unreached: Entries that never count, because an earlier one fits every URL that they fit.
    """

    folder: str
    sources: tuple[MappingSource, ...]
    unreached: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what keeps the queue manager from using its files; empty if nothing does."""
        return tuple(f"{one.name}: {one.problem}" for one in self.sources if one.problem)


@dataclass(frozen=True, slots=True)
class MappingExplanation:
    """The effect of the mappings on a URL.

    Attributes:
        url: As it was asked.
        arriving: What is done with a message that comes for it.
        connecting: Host to which a connection for it is made.
        receipts: URL that streams to it announce for their receipts; "": none, nobody listens.
        because: For each of the three the entry that says so, as "file: URL"; "" where no entry
            fits.
    """

    url: str
    arriving: str
    connecting: str
    receipts: str
    because: dict[str, str] = field(default_factory=dict)


def check(path: str) -> MappingReport:
    """Read every mapping of a data directory.

    Raises:
        NotAStore: There is no queue manager in the directory.
        ConfigurationError: ``onceq.toml`` or the folder itself cannot be read.
    """
    _name_of(path)
    from onceq.service.config import folder_of, load, tables_of

    configuration = load(os.path.abspath(path))
    folder = folder_of(os.path.abspath(path), configuration)
    sources = [
        MappingSource(CONFIGURATION_FILE, "tables of the configuration", tables_of(configuration))
    ]
    for file in folder.files():
        if file.content is None:
            sources.append(MappingSource(file.name, "", Mappings(), file.problem))
        else:
            sources.append(MappingSource(file.name, file.content.form, file.content.mappings))
    unreached = []
    for kind in ("redirections", "receipts", "outbound"):
        before: list[str] = []
        for source in sources:
            pairs: Pairs = getattr(source.mappings, kind)
            for given, _ in pairs:
                # A pattern's URLs all fit another pattern if that one fits its beginning.
                hider = next((one for one in before if fits((one,), given)), None)
                if hider is not None:
                    hidden = f"{given} never counts, {hider} stands before it"
                    unreached.append(f"{source.name}: {hidden}")
                before.append(given)
    return MappingReport(folder.path, tuple(sources), tuple(unreached))


def explain(path: str, url: str) -> MappingExplanation:
    """Explain what a queue manager does with a URL, and which entry says so.

    Raises:
        NotAStore: There is no queue manager in the directory.
        ConfigurationError: It is no URL of a queue, or a file cannot be used.
    """
    try:
        (name,) = parse_format_name(f"DIRECT={url}")
    except IllegalFormatName as error:
        raise ConfigurationError(f"{url} is not the URL of a queue: {error.text}") from None
    if name.kind is not Kind.DIRECT or not name.protocol.startswith("HTTP"):
        raise ConfigurationError(f"{url} is not a URL such as http://host/msmq/private$/queue")
    report = check(path)
    if report.problems:
        raise ConfigurationError(
            f"the queue manager cannot use {report.problems[0]}; see 'onceq mapping check'"
        )
    names = _names(path, report.sources)
    arrival = names.arrival(url)
    if arrival is None:
        arriving = f"refused: {host_of(url)} is no name of this computer, and no redirection fits"
    elif arrival.here:
        arriving = f"for the queue {_queue(arrival.url)} here"
    else:
        arriving = f"passed on to {arrival.url}"
    because = {
        "arriving": _entry(report, "redirections", url),
        "connecting": "" if names.way(url) == url else _entry(report, "outbound", url),
        "receipts": _entry(report, "receipts", url),
    }
    if fits(names.mappings.exceptions, url):
        because["connecting"] = "an exception"
    return MappingExplanation(
        url, arriving, host_of(names.way(url)), names.receipts_for(url), because
    )


def _queue(url: str) -> str:
    (name,) = parse_format_name(f"DIRECT={url}")
    return f"private$\\{name.queue}" if name.private else name.queue


def _entry(report: MappingReport, kind: str, url: str) -> str:
    for source in report.sources:
        pairs: Pairs = getattr(source.mappings, kind)
        for given, _ in pairs:
            if fits((given,), url):
                return f"{source.name}: {given}"
    return ""


def _name_of(path: str) -> str:
    """Return the computer name of the queue manager of a directory; raises NotAStore."""
    from onceq.store.files import RealFiles
    from onceq.store.identification import read_identification

    return Identity.unpack(read_identification(RealFiles(), os.path.abspath(path)).identity).name


def _names(path: str, sources: Sequence[MappingSource]) -> HttpNames:
    """Return the addresses of the queue manager of a data directory, with these mappings."""
    from onceq.service.config import load, names_of

    configuration = load(os.path.abspath(path))
    names = names_of(configuration, _name_of(path), configuration.http_listen)
    found = Mappings()
    for source in sources:
        found += source.mappings
    return replace(names, mappings=found)
