"""Recovery that the manager drives itself, for the databases that its configuration names.

A live application that has enlisted a database recovers it. If the application dies and never
starts again, its prepared transactions would keep their locks. A manager that knows the databases
brings these transactions to the outcome that it has decided, from its own start on and then from
time to time. It waits longer and longer for a database that does not answer (XTX-5, XTX-14).

The drivers of databases block, so this is a thread. It asks the engine as an application would, and
does not touch it otherwise.

Upholds: I21 (``partners/recovery.py`` says how).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from onceq.errors import ConfigurationError, InvalidParameter
from onceq.model import requests
from onceq.model.branches import DecisionState, Xid
from onceq.model.views.looks import BranchView, DecisionView, RowsView
from onceq.partners.finding import DatabasePlace, place_for, without_secrets
from onceq.partners.recovery import WAIT_S_MAX, Recovery, Report, promises_in
from onceq.service.clock import Clock
from onceq.service.logs import event

Ask = Callable[[requests.Request], object]
"""Asks the manager and waits; raises its OnceqError."""


class LocalDecider:
    """This manager as a ``partners.recovery.Decider``."""

    def __init__(self, guid: bytes, ask: Ask) -> None:
        self.guid = guid
        self._ask = ask

    def decision(self, gtrid: bytes) -> DecisionState:
        """Return the decision about a transaction."""
        answer = self._ask(requests.AskDecision(gtrid))
        assert isinstance(answer, DecisionState)
        return answer

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """Return the commits that partners may not have carried out, with the partners' names."""
        views = cast(list[DecisionView], self._ask(requests.Look("decisions")))
        return {view.gtrid.encode(): view.partners for view in views}

    def done(self, gtrid: bytes) -> None:
        """Note that all partners have carried out a decision."""
        self._ask(requests.DecisionDone(gtrid))

    def promises(self) -> list[BranchView]:
        """Return the prepared branches that rows decide."""
        return promises_in(cast(list[BranchView], self._ask(requests.Look("branches"))))

    def rows(self, agent: str, found: int = 0) -> RowsView:
        """Return the rows of a database that this manager has seen."""
        return cast(RowsView, self._ask(requests.AskRows(agent, found)))

    def commit(self, xid: Xid) -> None:
        """Commit a branch."""
        self._ask(requests.CommitBranch(xid))

    def rollback(self, xid: Xid) -> None:
        """Roll back a branch."""
        self._ask(requests.RollbackBranch(xid))


class RecoveryWorker:
    """The recovery thread of one manager."""

    def __init__(self, clock: Clock, ask: Ask, databases: Sequence[str]) -> None:
        """Prepare; nothing is asked yet.

        Args:
            databases: Their addresses.

        Raises:
            ConfigurationError: One of them is no address, or its driver is not installed.
        """
        self._clock = clock
        self._ask = ask
        self._places: list[DatabasePlace] = []
        for where in databases:
            shown = without_secrets(where)
            try:
                self._places.append(place_for(where))
            except InvalidParameter as error:
                raise ConfigurationError(
                    f"databases: {shown}: {error.text.replace(where, shown)}"
                ) from None
        self._troubled: dict[str, set[str]] = {}
        """The kinds of errors that were logged of each database in trouble."""
        self._over = threading.Event()

    def start(self, guid: bytes) -> None:
        """Begin at once, if there is a database to recover; ``guid`` is the manager's."""
        decider = LocalDecider(guid, self._ask)
        self._recovery = Recovery(decider)
        for place in self._places:
            self._recovery.add_place(place)
        if self._places:
            threading.Thread(target=self._run, name="onceq-recovery", daemon=True).start()

    def stop(self) -> None:
        """Begin no further round. A round that a database delays is not waited for: its requests
        to the manager fail, and what it does is right whenever it is done."""
        self._over.set()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._over.wait(wait_s):
            try:
                wait_s = self.round(self._clock.read().mono_us / 1e6)
            except Exception as error:
                if self._over.is_set():
                    break
                # The manager does not answer, or a mistake of ours: the next round tries again.
                logging.getLogger("onceq").warning("recovery failed: %r", error, exc_info=True)
                wait_s = WAIT_S_MAX
        self._recovery.close()

    def round(self, now_s: float) -> float:
        """Do one round; return the seconds until the next.

        Args:
            now_s: Monotonic seconds.
        """
        report = self._recovery.step(now_s)
        self._tell(report)
        return self._recovery.next_s(now_s, report)

    def _tell(self, report: Report) -> None:
        for name, xid in report.committed:
            event("a branch left prepared was committed", database=name, branch=xid)
        for name, xid in report.rolled_back:
            event("a branch left prepared was rolled back", database=name, branch=xid)
        for name, xid, why in report.by_hand:
            event("a branch was decided by hand", level=logging.WARNING, database=name, branch=xid,
                  said=why)  # fmt: skip
        for name, why in report.failed.items():
            # Each kind once until all is over: behind "gives no answer" may come "was set back".
            kind, told = why.partition(":")[0], self._troubled.setdefault(name, set())
            if kind not in told:
                event("a database cannot be asked", level=logging.WARNING, database=name,
                      reason=why)  # fmt: skip
            told.add(kind)
        for name in self._troubled.keys() - report.failed.keys():
            event("a database can be asked again", level=logging.WARNING, database=name)
            del self._troubled[name]
