"""What became of commits, for clients that lost the answer (I3a).

A client session numbers its commits 1, 2, 3, ... For each session the newest number that
committed is kept, and a bit for each of the OUTCOME_WINDOW before it. So one entry of some 150
bytes answers for all commits of a session that can still be in doubt, however many it made.

The first four bytes of a session identifier are the second in which it began, by this manager's
clock; that is how a session that was forgotten is told from one that never committed.

Once somebody was told that a commit did not happen, it must not happen any more, although it may
still be on its way in the buffers of a broken connection: ``Fences`` bar it. They need not be
durable, because a restart breaks every connection.

Upholds: I3a, I24 (both tables are bounded, however many sessions somebody makes up).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from onceq.errors import InsufficientResources, InvalidParameter
from onceq.model.identity import TransactionId
from onceq.model.limits import FENCES_MAX, OUTCOME_AGE_S, OUTCOME_SESSIONS_MAX, OUTCOME_WINDOW
from onceq.model.results import Outcome
from onceq.model.time import SECOND_US, Now

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

    def __contains__(self, session: object) -> bool:
        """Whether anything that this session committed is remembered."""
        return session in self._sessions

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
        sessions = [[s, last, f"{bits:x}", at] for s, (last, bits, at) in self._sessions.items()]
        return [self.forgotten_s, sessions]

    def load(self, values: list[Any]) -> None:
        """From a checkpoint."""
        self.forgotten_s, sessions = values
        for session, last, bits, at in sessions:
            self._sessions[bytes.fromhex(session)] = (last, int(bits, 16), at)


class Fences:
    """Commits that must not happen any more, by session: those up to a number.

    An entry goes when its session is long out of the time for which outcomes are kept; from then
    on every session as old as that, and without any commit, is barred as a whole. A session that
    has committed keeps its entry as long as its outcomes are remembered. So nothing that was told
    is ever taken back, and no entry can be made to stay for good.
    """

    __slots__ = ("_barred", "barred_s")

    def __init__(self) -> None:
        self._barred: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """Session: highest number barred, and when (monotonic us) that was last told; in the
        order of that."""
        self.barred_s = -1
        """Sessions that began up to this second are barred unless they have committed."""

    def __len__(self) -> int:
        return len(self._barred)

    def bars(self, id: TransactionId, outcomes: Outcomes) -> bool:
        """Whether that commit must not happen any more."""
        found = self._barred.get(id.session)
        if found is not None and id.number <= found[0]:
            return True
        whole = self.barred_s >= 0 and began_s(id.session) <= self.barred_s
        return whole and id.session not in outcomes

    def told(self, id: TransactionId, outcomes: Outcomes, now: Now, age_s: int) -> None:
        """Somebody is about to be told that this commit did not happen, or is not remembered.

        Raises:
            InsufficientResources: There are too many such commits; nothing may be told.
            InvalidParameter: Its session claims to begin long after now.
        """
        if began_s(id.session) > now.wall_s + age_s:
            raise InvalidParameter(f"the session of {id} is yet to begin; its clock is wrong")
        known = self._barred.pop(id.session, None)
        if known is None:
            if self.bars(id, outcomes):
                return
            self._drop_old(outcomes, now.mono_us, age_s)
            if len(self._barred) >= FENCES_MAX:
                raise InsufficientResources(
                    f"outcomes of commits that never came were asked for in {FENCES_MAX} client "
                    "sessions; ask again later"
                )
        number = max(id.number, known[0] if known is not None else 0)
        self._barred[id.session] = (number, now.mono_us)

    def _drop_old(self, outcomes: Outcomes, now_us: int, age_s: int) -> None:
        """Sessions last asked about two ages ago began at least one age ago."""
        while self._barred:
            session, (number, told_us) = next(iter(self._barred.items()))
            if told_us + 2 * age_s * SECOND_US > now_us:
                return
            del self._barred[session]
            if session in outcomes:
                self._barred[session] = (number, now_us)
            else:
                self.barred_s = max(self.barred_s, began_s(session))


def began_s(session: bytes) -> int:
    """Second in which a client session began."""
    return int.from_bytes(session[:4], "little")
