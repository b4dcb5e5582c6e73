"""What became of commits, for clients that lost the answer (I3a).

A client session numbers its commits 1, 2, 3, ... For each session the newest number that
committed is kept, and a bit for each of the OUTCOME_WINDOW before it. So one entry of some 150
bytes answers for all commits of a session that can still be in doubt, however many it made.

The first four bytes of a session identifier are the second in which it began, by this manager's
clock; that is how a session that was forgotten is told from one that never committed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from onceq.core.decision import Outcome
from onceq.model.identity import TransactionId
from onceq.model.limits import OUTCOME_AGE_S, OUTCOME_SESSIONS_MAX, OUTCOME_WINDOW

_MASK = (1 << OUTCOME_WINDOW) - 1


class Outcomes:
    """Committed numbers by session, the longest unused first."""

    __slots__ = ("_sessions", "forgotten_s")

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, tuple[int, int, int]] = OrderedDict()
        self.forgotten_s = 0
        """Sessions that began up to this second may have been forgotten early, for their number."""

    def __len__(self) -> int:
        return len(self._sessions)

    def committed(self, id: TransactionId, wall_s: int) -> None:
        """That commit is durable."""
        known = self._sessions.get(id.session)
        if known is None:
            last, bits = id.number, 1
        else:
            last, bits, _ = known
            ahead = id.number - last
            if ahead > 0:
                last = id.number
                bits = ((bits << ahead) | 1) & _MASK if ahead < OUTCOME_WINDOW else 1
            elif -ahead < OUTCOME_WINDOW:
                bits |= 1 << -ahead
        self._sessions[id.session] = (last, bits, wall_s)
        self._sessions.move_to_end(id.session)
        while len(self._sessions) > OUTCOME_SESSIONS_MAX:
            session, _ = self._sessions.popitem(last=False)
            self.forgotten_s = max(self.forgotten_s, began_s(session))

    def known(self, id: TransactionId) -> bool:
        """Whether that very commit is remembered as done."""
        return self.ask(id, 0, OUTCOME_AGE_S) is Outcome.COMMITTED

    def ask(self, id: TransactionId, wall_s: int, age_s: int) -> Outcome:
        """What became of a commit."""
        known = self._sessions.get(id.session)
        if known is None:
            began = began_s(id.session)
            if began <= self.forgotten_s or began < wall_s - age_s:
                return Outcome.UNKNOWN
            return Outcome.ABORTED
        last, bits, _ = known
        back = last - id.number
        if back < 0:
            return Outcome.ABORTED
        if back >= OUTCOME_WINDOW:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED if bits >> back & 1 else Outcome.ABORTED

    def forget(self, wall_s: int, age_s: int) -> None:
        """Drop sessions unused for longer than ``age_s``; the rule is the same at every start."""
        while self._sessions:
            session, (_, _, used_s) = next(iter(self._sessions.items()))
            if used_s >= wall_s - age_s:
                return
            del self._sessions[session]

    def dump(self) -> list[Any]:
        """For a checkpoint."""
        sessions = [[s.hex(), last, f"{bits:x}", at] for s, (last, bits, at) in
                    self._sessions.items()]  # fmt: skip
        return [self.forgotten_s, sessions]

    def load(self, values: list[Any]) -> None:
        """From a checkpoint."""
        self.forgotten_s, sessions = values
        for session, last, bits, at in sessions:
            self._sessions[bytes.fromhex(session)] = (last, int(bits, 16), at)


def began_s(session: bytes) -> int:
    """Second in which a client session began."""
    return int.from_bytes(session[:4], "little")
