"""Applications that run transactions with others, and recover what is left of them.

What is the same for both procedures of ``partners/procedures.py``: when applications and recovery
are at work (``Deciders``), and how one transaction goes from its begin to what its application
hears (``Program``). ``coordinators.py`` (two phases) and ``last_agents.py`` add the rest.

Watches: what their books do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from onceq.errors import InDoubt, OnceqError, RolledBack
from onceq.model.requests import Abort, Request
from onceq.partners.procedures import ProcedureStep, Steps, undoing
from onceq.partners.recovery import Recovery
from proof.sim.apps.apps import Lost, Sleep
from proof.sim.apps.clients import Client, Died, Link, Talk
from proof.sim.apps.databases import Database
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, MS, SECOND
from proof.sim.judge.books import Status


class Deciders(ABC):
    """Applications at work with one procedure, and recovery at their managers."""

    def __init__(self, kernel: Kernel, nodes: list[Node], stream: str) -> None:
        self.kernel, self.nodes = kernel, nodes
        self.rng = kernel.stream(stream)
        self._workers: list[Client] = []
        self._recoverers: dict[int, Client] = {}
        """By manager."""
        self._due: Counter[Client] = Counter()
        self._recoveries: dict[Client, Recovery] = {}
        self._count = 0
        self._unclean = 0

    # ---- who does it, and when ----------------------------------------------------------

    def _plan(self, after_us: int, client: Client) -> None:
        def due() -> None:
            self._due[client] += 1
            client.wake()

        self.kernel.at(self.kernel.now + after_us, due)

    def _plan_rounds(self, client: Client) -> None:
        for _ in range(10):
            self._plan(self.rng.randrange(self.kernel.options.safety_us), client)

    def _fault(self, database: Database) -> None:
        if self.kernel.faulty:
            database.fault()

    def _next(self, client: Client) -> Talk | None:
        """The next program of an application."""
        if not self._due[client] or not self.kernel.faulty:
            self._due[client] = 0
            return None
        self._due[client] -= 1
        return self.transaction(client)

    def _next_round(self, client: Client) -> Talk | None:
        """Recovery goes on from time to time."""
        if not self._due[client] or not self.kernel.faulty:
            self._due[client] = 0
            return None
        self._due[client] = 0
        return self.recover(client)

    def soon(self, home: Node) -> None:
        """There may be something to recover."""
        self._plan(self.rng.choice([0, SECOND, 10 * SECOND, MINUTE]), self._recoverers[home.index])

    @abstractmethod
    def transaction(self, client: Client) -> Talk:
        """Run one transaction."""

    # ---- recovery -----------------------------------------------------------------------

    @abstractmethod
    def _make_recovery(self, client: Client, *, all_known: bool) -> Recovery:
        """What an application begins with; ``all_known``: it knows all databases."""

    def recover(self, client: Client) -> Talk:
        """Some rounds of recovery; it may die in the middle of each."""
        recovery = self._recoveries.get(client)
        if recovery is None:
            recovery = self._make_recovery(client, all_known=False)
            self._recoveries[client] = recovery
        client.pace_us = client.rng.choice([10 * MS, SECOND])
        try:
            for _ in range(client.rng.choice([1, 1, 2, 4])):
                clean, wait_s = yield from self._round(client, recovery)
                if clean:
                    break
                yield Sleep(int(wait_s * SECOND))
        except OnceqError:
            return  # its manager cannot be reached
        except Died:
            del self._recoveries[client]
            raise

    @abstractmethod
    def _round(self, client: Client, recovery: Recovery) -> Talk:
        """One round; whether nothing is left, and when the next is worth while."""

    # ---- the end ------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nobody is at work."""
        return all(client.idle for client in (*self._workers, *self._recoverers.values()))

    def last_rounds(self) -> None:
        """Everything can be reached: recovery goes on until nothing is left, see ``clean``."""
        for client in self._recoverers.values():
            todo = [self._until_clean]
            last = Client(
                client.node, self.nodes, client.rng, 0.0,
                lambda client, todo=todo: todo.pop()(client) if todo else None,  # type: ignore[misc]
            )  # fmt: skip
            self._unclean += 1
            last.wake()

    @property
    def clean(self) -> bool:
        """Whether the last rounds are over."""
        return not self._unclean

    def _until_clean(self, client: Client) -> Talk:
        recovery = self._make_recovery(client, all_known=True)
        while True:
            try:
                clean, _ = yield from self._round(client, recovery)
            except OnceqError:
                clean = False
            if clean and not any(self._under_way()):
                break
            yield Sleep(MINUTE)
        self._unclean -= 1

    def _under_way(self) -> Iterable[object]:
        """Commits that are still to land."""
        return ()


class Owner(Protocol):
    """What runs transactions, and recovers what is left of them."""

    def soon(self, home: Node) -> None:
        """There may be something to recover."""


class Program(ABC):
    """One transaction, from its begin to what its application hears."""

    idle_share: float
    """Of the transactions, those in which the manager has nothing to do."""

    def __init__(self, owner: Owner, client: Client, link: Link, books: Any, case: Any) -> None:
        """Take what the books have begun.

        Args:
            case: Its page in the books: ``unit``, ``told``, ``alone``.
        """
        self._owner = owner
        self._case, self._books = case, books
        self.client, self.rng, self.link = client, client.rng, link
        self.number = client.number()

    @property
    @abstractmethod
    def count(self) -> int:
        """How many partners there are."""

    def run(self) -> Talk:
        """Work, and commit or abort."""
        case, idle = self._case, self.rng.random() < self.idle_share
        try:
            yield from self._work(idle=idle)
        except (Lost, OnceqError):
            yield from self._give_up()
            return
        if self.rng.random() < 0.08:
            yield from self._give_up()
            return
        self.client.deaths = self.client.kernel.options.deaths
        if self.rng.random() < 0.4:
            self._owner.soon(self.client.node)  # recovery that comes too early does no harm
        try:
            made = yield from self._carry_out(self._commit(idle=idle))
        except InDoubt:
            yield from self._doubt()
            self._owner.soon(self.client.node)
        except (RolledBack, OnceqError):
            case.told = False
            yield from self._abort()
        else:
            case.told = True
            if case.alone:
                yield from self._abort()
            if made.pending:
                self._owner.soon(self.client.node)

    @abstractmethod
    def _work(self, *, idle: bool) -> Talk: ...

    @abstractmethod
    def _commit(self, *, idle: bool) -> Steps:
        """The steps of the product's procedure."""

    def _doubt(self) -> Talk:
        """Nobody knows whether it has committed."""
        yield from ()

    def _home(self, request: Request, asked: Callable[[], None] | None = None) -> Talk:
        answer = yield from self.client.ask(self.link, request, asked)
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def _carry_out(self, steps: Any) -> Talk:
        """Do all steps; every error of a step is thrown in."""
        try:
            step = next(steps)
            while True:
                try:
                    result = yield from self._do(step)
                except OnceqError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return stop.value

    @abstractmethod
    def _do(self, step: ProcedureStep) -> Talk: ...

    def _give_up(self) -> Talk:
        self._case.told = False
        yield from self._carry_out(undoing(self.count))
        yield from self._abort()

    def _abort(self) -> Talk:
        case, books = self._case, self._books
        try:
            yield from self._home(Abort(self.number), lambda: books.aborting(case))
        except (Lost, OnceqError):
            pass
        if case.unit.status is Status.OPEN:
            books.ledger.aborted(case.unit)
