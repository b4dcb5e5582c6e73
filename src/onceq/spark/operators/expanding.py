"""One row for each destination of a send, or the send refused as a whole: ``expand_destinations``.

A name is parsed and expanded once for each distinct text, by the parser, the lists and the rules
that the queue manager has (``model.names``, ``model.directory``, ``model.sending``); rows are only
copied.

Upholds: I2 (all or none).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.directory import FileDirectory
from onceq.errors import NoDirectory, OnceqError, QueueNotFound, UnsupportedOperation
from onceq.model.directory import Snapshot
from onceq.model.names import FormatName, Kind, check_send, elements_of, in_order, parse_path_name
from onceq.model.wording import one_line
from onceq.spark.argument_checks import described, require_flag, wrong
from onceq.spark.operators.columns import TEXT, free, need, with_columns
from onceq.spark.operators.key_buckets import BATCH_ROWS

WHAT: Final = "expand_destinations"
QUEUE: Final = "queue"
COLUMNS: Final = {QUEUE: (TEXT, "where the message goes: a format name of one or more elements")}
ADDED: Final = {
    "copy": "int", "copies": "int", "place": "string", "refusal": "string",
    "refusalText": "string",
}  # fmt: skip
REFUSED_BY: Final = {"refusal": (TEXT, "what expand_destinations adds")}
TEXTS_MAX: Final = 65_536
"""Distinct destinations that a task remembers; beyond them it forgets all, and starts again."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """What became of a destination: names and places of its queues in order, or why it was refused
    (the code of an error, and its text)."""

    names: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    refusal: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Expander:
    """How destinations are expanded.

    Attributes:
        directory: What public queues and lists there are; None: workgroup mode, without any.
        computer: What "." stands for; "": nothing.
        transactional: Whether the messages are sent in transactions.
    """

    directory: Snapshot | None = None
    computer: str = ""
    transactional: bool = True

    def expanded(self, text: str) -> Expanded:
        """What becomes of one destination."""
        try:
            return self._queues(text)
        except OnceqError as error:
            return Expanded(refusal=error.code, text=one_line(error.text))

    def _queues(self, text: str) -> Expanded:
        found: dict[str, str] = {}
        for name in in_order(self._members(elements_of(text))):
            check_send(name, transactional=self.transactional)
            placed = name
            if name.host == ".":
                if not self.computer:
                    raise QueueNotFound(
                        f"{name}: no computer is meant by the dot here; name one with "
                        "expand_destinations(computer=...)"
                    )
                placed = replace(name, host=self.computer)
            place = self.directory.place_of(placed) if self.directory is not None else ""
            found.setdefault(place or placed.key(), str(placed))
        return Expanded(tuple(found.values()), tuple(found))

    def _members(self, elements: tuple[FormatName, ...]) -> Iterable[FormatName]:
        """With what lists stand for in place of the lists."""
        for name in elements:
            if name.kind in (Kind.PUBLIC, Kind.DL):
                if self.directory is None:
                    raise UnsupportedOperation(
                        f"{name} needs a directory, and none was given; use direct or private "
                        "names, or expand_destinations(directory=...)"
                    )
                return self.directory.expand(elements)
        return elements


def expand_destinations(
    frame: Any,
    *,
    directory: Snapshot | str | os.PathLike[str] | None = None,
    computer: str = "",
    transactional: bool = True,
) -> Any:
    """Make of each message one row for each queue that it goes to.

    Args:
        frame: Messages as rows, a stream or not; column ``queue``, and any others.
        directory: Public queues and distribution lists: a snapshot, or the path of a directory's
            file, which is read once, now. None: workgroup mode; names that need a directory are
            refused.
        computer: The computer that a "." in names means.
        transactional: Whether the messages are sent in transactions.

    Returns:
        The rows with ``queue`` being one destination each, and columns ``copy`` (0, 1, ... in the
        order that depends on the names only), ``copies`` (how many), ``place`` (the queue however
        it is written). Of a send that is refused there is one row, as it was, with ``refusal``
        (the error's code) and ``refusalText``, and no copies. ``sent`` and ``refused`` tell them
        apart.

    Raises:
        ConfigurationError: A column is missing, or the computer's name makes no sense.
        NoDirectory: The directory's file cannot be read.
    """
    need(frame, WHAT, COLUMNS)
    free(frame, WHAT, tuple(ADDED))
    require_flag(transactional, "transactional")
    if computer:
        if not isinstance(computer, str):
            raise wrong(f"computer is the name of a computer, not {described(computer)}")
        try:
            good = parse_path_name(f"{computer}\\private$\\q").host == computer
        except OnceqError as error:
            raise wrong(f"computer {computer!r}: {error.text}") from None
        if not good or computer == ".":
            raise wrong(f"computer is the name of a computer, not {computer!r}")
    work = Expander(_snapshot(directory), computer, transactional)

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        known: dict[str, Expanded] = {}
        for batch in batches:
            yield from expand_batch(batch, work, known).to_batches(max_chunksize=BATCH_ROWS)

    return frame.mapInArrow(rows, with_columns(frame, ADDED))


def sent(frame: Any) -> Any:
    """What ``expand_destinations`` made of sends that are not refused: a row a destination."""
    need(frame, "sent", REFUSED_BY)
    return frame.where(frame["refusal"].isNull()).drop("refusal", "refusalText")


def refused(frame: Any) -> Any:
    """The sends that it refused, each as it was, and why."""
    need(frame, "refused", REFUSED_BY)
    return frame.where(frame["refusal"].isNotNull()).drop("copy", "copies", "place")


def _snapshot(directory: object) -> Snapshot | None:
    if directory is None or isinstance(directory, Snapshot):
        return directory
    if not isinstance(directory, str | os.PathLike):
        raise wrong(
            "directory is the path of a directory's file, or a snapshot of one, not "
            f"{described(directory)}"
        )
    directory = os.fspath(directory)
    seen = FileDirectory(directory).look()
    if seen.snapshot is None or seen.trouble:
        raise NoDirectory(f"[{NoDirectory.code}] {directory}: {seen.trouble}")
    return seen.snapshot


def expand_batch(batch: Any, work: Expander, known: dict[str, Expanded]) -> Any:
    """One batch of rows, expanded; ``known``: what was found out before."""
    at = batch.schema.get_field_index(QUEUE)
    encoded = batch.column(at).cast(pa.string()).fill_null("").dictionary_encode()
    found = []
    for text in encoded.dictionary.to_pylist():
        if text not in known:
            if len(known) >= TEXTS_MAX:
                known.clear()
            known[text] = work.expanded(text)
        found.append(known[text])
    code = encoded.indices.to_numpy(zero_copy_only=False)
    copies = np.array([len(one.names) for one in found] or [0], np.int64)[code]
    sizes = np.maximum(copies, 1)
    rows = np.repeat(np.arange(len(code)), sizes)
    copy = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # All destinations of all texts in one list: where each begins, and then which copy.
    firsts = np.cumsum([0, *(max(len(one.names), 1) for one in found)])[:-1]
    place = pa.array(firsts[code[rows]] + copy if len(rows) else rows)
    none = copies[rows] == 0
    table = pa.Table.from_batches([batch]).take(pa.array(rows))
    spelled = _listed([one.names for one in found]).take(place)
    given = table.column(at).combine_chunks()
    columns = [*table.columns]
    columns[at] = pc.if_else(pa.array(none), given, spelled)
    refusals = pa.array([one.refusal or None for one in found], pa.string())
    texts = pa.array([one.text or None for one in found], pa.string())
    codes = pa.array(code[rows])
    columns += [
        pa.array(copy.astype(np.int32), mask=none),
        pa.array(copies[rows].astype(np.int32), mask=none),
        _listed([one.places for one in found]).take(place),
        refusals.take(codes),
        texts.take(codes),
    ]
    return pa.table(columns, names=[*batch.schema.names, *ADDED])


def _listed(lists: list[tuple[str, ...]]) -> Any:
    return pa.array([value for one in lists for value in one or (None,)], pa.string())
