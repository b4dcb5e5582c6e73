"""Whether the trail of a queue manager is whole: its store, its files, and what others hold of it.

Also here:

* The chain of acts of administration: each digest covers an act and the digest before it.
* Acts of administration as lines of JSON, as the files of the trail and syslog have them.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceq.model.views.managers import ActView, HeadView, TrailView

# ---- act chain -----------------------------------------------------------------------------------


DIGEST_BYTES: Final = 32
BEGIN: Final = bytes(DIGEST_BYTES)
"""What stands before the first act that has a digest."""


def digest_act(
    before: bytes, number: int, at_s: int, who: str, where: str, what: str, about: str, result: str
) -> bytes:
    """The digest of an act: SHA-256 of the digest before it and of its JSON, in ASCII.

    So the last digest covers all acts that there ever were. A holder of it and of its act's number
    can say later whether any act up to there was removed, changed or put in, although the digests
    hold no secret: an intruder who changes an act must change all digests behind it, and cannot
    change the one that somebody else holds.

    Args:
        before: Digest of the act before it; BEGIN for the first one.
        at_s: Second since 1970.
    """
    import hashlib  # which loads OpenSSL: a queue manager needs it, an application does not

    said = json.dumps([number, at_s, who, where, what, about, result], separators=(",", ":"))
    return hashlib.sha256(before + said.encode()).digest()


# ---- act lines -----------------------------------------------------------------------------------


MISSING: Final = "missing"
"""Acts from ``first`` to ``last`` went before they could be written."""
FORK: Final = "fork"
"""The store is an older one: the acts that were written behind ``behind`` are not in it."""
REMOVED: Final = "removed"
"""These ``files`` had to make room."""
DAMAGED: Final = "damaged"
"""The ``file`` has a damaged line: the acts behind ``behind`` are written once more."""
_FIELDS: Final = ("number", "at", "who", "where", "what", "about", "result", "before", "digest")
_NUMBERS: Final = ("number", "at")


def line_of(act: ActView) -> bytes:
    """The line of an act.

    A line that is no act is a note of who writes them: ``{"note": "missing", ...}``.
    """
    return _line({name: getattr(act, name) for name in _FIELDS})


def note_line(note: str, **values: object) -> bytes:
    """The line of a note."""
    return _line({"note": note, **values})


def read_line(line: bytes) -> ActView | dict[str, Any] | None:
    """An act, or the values of a note; None: it is neither."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    if "note" in said:
        return said
    for name in _FIELDS:
        if type(said.get(name)) is not (int if name in _NUMBERS else str):
            return None
    return ActView(**{name: said[name] for name in _FIELDS})


def split_lines(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The lines of a file up to the first one that is damaged or not whole, and those behind."""
    lines = data.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if not line.endswith(b"\n") or read_line(line) is None:
            return lines[:at], lines[at:]
    return lines, []


def _line(values: dict[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


# ---- trail check ---------------------------------------------------------------------------------


RESTORE: Final = "restore"
"""What the act of a restore is called."""


@dataclass(slots=True)
class TrailReport:
    """What was found.

    Attributes:
        wrong: What was removed, changed or put in, and where; empty: the trail is whole.
        notes: What is no sign of that, but limits what can be said.
        acts: How many acts were compared.
        heads: How many digests that others hold were compared.
    """

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    acts: int = 0
    heads: int = 0


class TrailCheck:
    """Compares what is given, in this order: ``store``, ``files``, ``heads``."""

    def __init__(self) -> None:
        self.report = TrailReport()
        self._stored: dict[int, ActView] = {}
        self._filed: dict[int, ActView] = {}
        self._undone: dict[int, set[str]] = {}
        """Digests of acts that a restore has undone, by number."""
        self._forks: list[tuple[str, int]] = []
        """Where a file says so, and behind which act."""
        self._head = 0, ""

    def store(self, trail: TrailView, acts: Sequence[ActView]) -> None:
        """The store: the end of its chain, and all acts that are kept."""
        self._head = trail.number, trail.digest
        if trail.broken:
            self._wrong(f"the log: act {trail.broken} does not go on from the act before it")
        before: ActView | None = None
        for act in acts:
            self._one("the store", act, before)
            self._stored[act.number] = act
            before = act
        if before is not None and before.number > trail.number:
            self._wrong(f"the store: act {before.number} is behind the last one, {trail.number}")
        if before is not None and before.number == trail.number and before.digest != trail.digest:
            self._wrong(f"the store: act {before.number} is not the last one of the chain")

    def files(self, files: Iterable[tuple[str, bytes]]) -> None:
        """The files of the trail: names and contents, in order."""
        before: ActView | None = None
        bridged = True
        for name, data in files:
            whole, behind = split_lines(data)
            for line, said in enumerate(map(read_line, whole), 1):
                where = f"{name}, line {line}"
                if isinstance(said, ActView):
                    self._one(where, said, before)
                    if not bridged and before is not None and said.number > before.number + 1:
                        lost = f"acts {before.number + 1} to {said.number - 1}"
                        self._wrong(f"{where}: {lost} were removed")
                    self._filed[said.number] = said
                    before, bridged = said, False
                elif said is not None:
                    before, bridged = self._note(where, said, before, bridged=bridged)
            if any(isinstance(read_line(line), ActView) for line in behind):
                self._wrong(f"{name}, line {len(whole) + 1}: it is damaged")
        if not self._filed:
            return
        # What the files and the store have of each other, now that all were read.
        for where, after in self._forks:
            first = self._filed.get(after + 1) or self._stored.get(after + 1)
            if first is not None and first.what == RESTORE:
                self._tell(f"{where}: a restore has undone the acts behind act {after}")
            else:
                self._wrong(
                    f"{where}: the store lacks acts behind act {after}, and no restore says so"
                )
        for number, stored in self._stored.items():
            filed = self._filed.get(number)
            if filed is not None and filed.digest != stored.digest:
                self._wrong(f"act {number} is one in the store, and another one in the files")
        last, head = max(self._filed), self._head[0]
        if last > head:
            self._wrong(f"the files have acts {head + 1} to {last}, and the store lacks them")
        elif last < head:
            self._tell(f"the files end at act {last}, the store at act {head}")
        elif self._filed[last].digest != self._head[1]:
            self._wrong(f"act {last} is one in the store, and another one in the files")

    def heads(self, heads: Iterable[HeadView], holder: str) -> None:
        """What another queue manager holds of this one."""
        for head in heads:
            self.report.heads += 1
            known = self._digest_of(head.number)
            if known == head.digest:
                continue
            said = f"{holder} holds the digest of act {head.number}"
            undone = head.digest in self._undone.get(head.number, ())
            acts = (*self._stored.values(), *self._filed.values())
            if undone or any(act.what == RESTORE and act.number <= head.number for act in acts):
                self._tell(f"{said}, which a restore has undone")
            elif head.number > self._head[0]:
                self._wrong(f"{said}: acts behind {self._head[0]} were removed")
            elif known:
                self._wrong(f"{said}, and it is another one: acts up to there were changed")
            else:
                self._tell(f"{said}, which is kept neither in the store nor in the files")

    # ---- one act -----------------------------------------------------------------------------

    def _one(self, where: str, act: ActView, before: ActView | None) -> None:
        self.report.acts += 1
        if before is not None and act.number <= before.number:
            self._wrong(f"{where}: act {act.number} stands behind act {before.number}")
        if not act.digest:
            return
        said = (act.number, act.at, act.who, act.where, act.what, act.about, act.result)
        if digest_act(_bytes(act.before), *said).hex() != act.digest:
            self._wrong(f"{where}: act {act.number} was changed")
        elif (
            before is not None and before.digest and before.number + 1 == act.number
            and before.digest != act.before
        ):  # fmt: skip
            self._wrong(f"{where}: act {act.number} does not go on from act {before.number}")

    def _note(
        self, where: str, said: Mapping[str, Any], before: ActView | None, *, bridged: bool
    ) -> tuple[ActView | None, bool]:
        """What a note says of the lines around it; the act that the next one goes on from."""
        kind = said.get("note")
        if kind == MISSING:
            self._tell(
                f"{where}: acts {said.get('first')} to {said.get('last')} went before they could "
                "be written"
            )
            return before, True
        if kind == REMOVED:
            self._tell(f"{where}: older files were removed to make room")
        if kind == DAMAGED:
            self._tell(f"{where}: {said.get('file')} is damaged behind act {said.get('behind')}")
        if kind == FORK:
            behind = int(said.get("behind", 0))
            for number in [one for one in self._filed if one > behind]:
                self._undone.setdefault(number, set()).add(self._filed.pop(number).digest)
            self._forks.append((where, behind))
            return self._filed.get(behind), behind not in self._filed
        return before, bridged

    # ---- at the end --------------------------------------------------------------------------

    def _digest_of(self, number: int) -> str:
        if number == self._head[0]:
            return self._head[1]
        for acts in (self._stored, self._filed):
            if number in acts:
                return acts[number].digest
            if number + 1 in acts:
                return acts[number + 1].before
        return ""

    def _wrong(self, text: str) -> None:
        if text not in self.report.wrong:
            self.report.wrong.append(text)

    def _tell(self, text: str) -> None:
        self.report.notes.append(text)


def _bytes(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""
