"""Recovery: what crashes have left prepared is brought to the one outcome.

*Branches in databases.* Each round asks first which decisions the manager still keeps, and then
every resource what is prepared there. Of the branches that are this manager's, each gets what was
decided: committed if there is a record, rolled back if there is none, left alone while its
application is at work. A decision is forgotten when all its partners were looked at *after* it was
listed and none has a branch of it left: then all have committed. A resource that fails is tried
again later, with longer and longer waits. A branch that an operator decided at its resource is in
the report of one round, and the resource may forget it in a later one: a crash between them reports
it again, and loses nothing.

*Branches of the manager that rows decide.* A round asks the manager for them, and then the database
of each, unless its application is at work. The answer is for good (``Agent.settle``), so everybody
who asks gets the same, and a branch that is not there any more has its outcome. Before that it is
looked whether the database still has the rows that the manager has seen. If not it was set back,
and nothing is decided by what it lacks. What was seen holds for one connection: a database is set
back while nobody is connected. So it is looked again when a call was lost, before the next branch
is decided. Afterwards the database is given a note that is younger than all rows that were found,
and these are removed: the next time it is the note that must be there.

A round is a generator of calls, like the procedures: it neither waits nor connects. ``step``
carries them out from a thread; the simulator does it in virtual time.

Upholds: I21; XTX-5, XTX-8, XTX-14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from onceq import errors
from onceq.model.branches import PREFIX, DecisionState, Xid, decider_of
from onceq.model.record import MutableRecord, field
from onceq.model.requests.xa import ROWS_MISSING
from onceq.model.views.looks import BranchView, RowsView
from onceq.partners.contract import Agent, Resource, RowLookup, row_of
from onceq.partners.finding import DatabasePlace
from onceq.partners.procedures import Call, Calls, drive

WAIT_S_MIN: Final = 1.0
WAIT_S_MAX: Final = 60.0
"""Between attempts to reach a resource that failed: doubled each time."""
ROUND_S: Final = 30.0
"""Between rounds when all is well: somebody else's application may have died meanwhile."""
ADDRESSES_MAX: Final = 4
"""Of one database; the one that was shown first goes."""


def _rows_of(name: str) -> str:
    """What reports call a last agent, whose database may be a resource as well."""
    return f"{name} (rows)"


class RowsSeen(Protocol):
    """What tells which rows a queue manager has seen."""

    def rows(self, agent: str, found: int = 0) -> Any:
        """What rows of a database it has seen: ``RowsView`` (``AskRows``)."""


class Decider(RowsSeen, Protocol):
    """The queue manager that decides, as recovery needs it.

    Attributes:
        guid: Its GUID, which its global identifiers contain.
    """

    guid: bytes

    def decision(self, gtrid: bytes) -> DecisionState:
        """What was decided."""

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """Global identifiers of commits that partners may not have carried out, with their
        names."""

    def done(self, gtrid: bytes) -> None:
        """All partners have carried it out."""

    def promises(self) -> Sequence[BranchView]:
        """Its prepared branches that rows decide."""

    def commit(self, xid: Xid) -> None:
        """Commit one of these. Raises UnknownBranch if it is over."""

    def rollback(self, xid: Xid) -> None:
        """Roll one of these back. Raises UnknownBranch if it is over."""


class Report(MutableRecord):
    """What one round has done.

    Attributes:
        committed, rolled_back: Branches that were brought to their outcome, with the resource.
        at_work: Branches whose application is at work.
        by_hand: Branches that an operator had decided otherwise or before, with what was said.
        failed: Resources that could not be asked, with why.
        forgotten: Decisions that all partners have carried out.
        waiting: Decisions with partners that are not known here, or could not be asked.
    """

    committed: list[tuple[str, Xid]] = field(default_factory=list)
    rolled_back: list[tuple[str, Xid]] = field(default_factory=list)
    at_work: list[tuple[str, Xid]] = field(default_factory=list)
    by_hand: list[tuple[str, Xid, str]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    forgotten: list[bytes] = field(default_factory=list)
    waiting: dict[bytes, tuple[str, ...]] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether nothing is left to do for anybody."""
        return not (self.at_work or self.failed or self.waiting)


class Closing(Protocol):
    """A way to a database: a Resource or an Agent."""

    def close(self) -> None:
        """Let go of connections; never raises."""


Way = TypeVar("Way", bound=Closing)


class Addresses(Generic[Way]):
    """The ways to one database, at each address where an application has found it.

    A standby that was promoted is the same database at another address. The connection string of
    the application names both, but a connection tells only where it leads. So recovery keeps each
    address that a connection has shown: it goes on with the newest when a new one is shown, and
    with the next one when the present one gives no answer.

    Attributes:
        ways: By address; the present one is the first.
    """

    __slots__ = ("ways",)

    def __init__(self, address: str, way: Way) -> None:
        self.ways = {address: way}

    @property
    def present(self) -> Way:
        """The one to ask now."""
        return next(iter(self.ways.values()))

    def __len__(self) -> int:
        return len(self.ways)

    def show(self, address: str, way: Way) -> bool:
        """Ask at a new address from now on; False (and ``way`` is closed) if it is known."""
        if address in self.ways:
            way.close()
            return False
        self.ways = {address: way, **self.ways}
        while len(self.ways) > ADDRESSES_MAX:
            self.ways.popitem()[1].close()
        return True

    def turn(self) -> None:
        """The present one gives no answer: ask at the next one."""
        address = next(iter(self.ways))
        self.ways[address] = self.ways.pop(address)

    def close(self) -> None:
        """Close all."""
        for way in self.ways.values():
            way.close()


class Recovery:
    """Recovery for one deciding manager and its resources. One caller at a time."""

    def __init__(self, decider: Decider, resources: Iterable[Resource] = ()) -> None:
        self._decider = decider
        self._resources: dict[str, Addresses[Resource]] = {}
        self._agents: dict[str, Addresses[Agent]] = {}
        self.restored: dict[str, errors.DatabaseRestored] = {}
        """Last agents that were set back, by name."""
        self._unmet: dict[str, Resource] = {}
        """By label: what could not be asked for its name yet."""
        self._unmet_agents: dict[str, Agent] = {}
        self._also_agents: set[str] = set()
        """Labels of those that can decide by rows."""
        self._due_s: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        self._waits_s: dict[str, float] = {}
        self._told: set[tuple[str, Xid]] = set()
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource, name: str = "", address: str = "") -> bool:
        """Look after a resource; False (and it is closed) if one of that name and address is known.

        Args:
            name: The name of its partners, where it is known; else the resource is asked.
            address: Where it is; "" where nothing tells.

        Raises:
            PartnerLost: It cannot be asked.
        """
        name = name or resource.name
        return self._add(self._resources, resource, name, name, address)

    def add_agent(self, agent: Agent, name: str = "", address: str = "") -> bool:
        """Look after branches of the manager that rows in a database decide; as ``add``."""
        name = name or agent.name
        return self._add(self._agents, agent, name, _rows_of(name), address)

    def _add(
        self, known: dict[str, Addresses[Way]], way: Way, name: str, label: str, address: str
    ) -> bool:
        if name not in known:
            known[name] = Addresses(address, way)
            return True
        self._due_s.pop(label, None)
        return known[name].show(address, way)

    def knows(self, name: str, address: str = "") -> bool:
        """Whether that resource is looked after at that address."""
        return name in self._resources and address in self._resources[name].ways

    def knows_agent(self, name: str, address: str = "") -> bool:
        """Whether that last agent is looked after at that address."""
        return name in self._agents and address in self._agents[name].ways

    def add_unmet(self, resource: Resource, label: str) -> None:
        """Look after a resource as soon as it can be asked for its name.

        Args:
            label: What reports call it until then.
        """
        self._unmet[label] = resource

    def add_place(self, place: DatabasePlace, *, now: bool = False) -> None:
        """Look after a database as both, as soon as it can be asked for its name.

        Args:
            now: It can be asked now.

        Raises:
            PartnerLost: It cannot.
        """
        if place.agent is not None:
            self._unmet_agents[place.where] = place.agent
            if now:
                self._meet_agent(place.where, place.agent)
        if place.resource is not None:
            self._unmet[place.where] = place.resource
            if now:
                self._meet_resource(place.where, place.resource)

    def _meet(self, now_s: float, report: Report) -> Calls[None]:
        makers: dict[str, list[Call]] = {}
        for label, agent in self._unmet_agents.items():
            makers.setdefault(label, []).append(partial(self._meet_agent, label, agent))
        for label, resource in self._unmet.items():
            makers.setdefault(label, []).append(partial(self._meet_resource, label, resource))
        for label, calls in makers.items():
            if self._is_put_off(label, now_s, report):
                continue
            try:
                yield from calls
            except Exception as error:  # noqa: BLE001 - any driver's errors
                self._failed(label, report, error)
                self._put_off(label, now_s)

    def _meet_agent(self, label: str, agent: Agent) -> None:
        self.add_agent(agent)
        del self._unmet_agents[label]
        self._also_agents.add(label)

    def _meet_resource(self, label: str, resource: Resource) -> None:
        try:
            self.add(resource)
        except errors.TwoPhaseForbidden:
            if label not in self._also_agents:
                raise
            resource.close()  # Nothing can be prepared there; it decides by rows.
        del self._unmet[label]

    def step(self, now_s: float, *, dry_run: bool = False) -> Report:
        """One round. Errors of resources are in the report; those of the manager are raised.

        Args:
            now_s: Monotonic seconds; resources that failed lately are passed over.
            dry_run: Say what would be done, and do nothing.
        """
        return drive(self.calls(now_s, dry_run=dry_run))

    def calls(self, now_s: float, *, dry_run: bool = False) -> Calls[Report]:
        """Yield the calls of ``step``, one by one; the caller carries each out, and sends its
        result or throws in its exception."""
        report = Report()
        yield from self._meet(now_s, report)
        yield from self._settle_rows(now_s, report, dry_run=dry_run)
        decisions = dict((yield self._decider.open_decisions))
        left: dict[str, set[bytes]] = {}
        for name, ways in list(self._resources.items()):
            if self._is_put_off(name, now_s, report):
                continue
            try:
                left[name] = yield from self._settle(name, ways.present, report, dry_run=dry_run)
            except Exception as error:  # noqa: BLE001 - any driver's errors
                self._failed(name, report, error)
                ways.turn()
            if name in report.failed:
                self._put_off(name, now_s)
            else:
                self._waits_s.pop(name, None)
        for gtrid, partners in decisions.items():
            if all(name in left and gtrid not in left[name] for name in partners):
                try:
                    if not dry_run:
                        yield partial(self._decider.done, gtrid)
                except errors.AccessDenied:
                    report.waiting[gtrid] = partners  # Another one has decided it.
                    continue
                report.forgotten.append(gtrid)
            else:
                report.waiting[gtrid] = partners
        return report

    def _settle_rows(self, now_s: float, report: Report, *, dry_run: bool) -> Calls[None]:
        decider, manager = self._decider, self._decider.guid.hex()
        for name, ways in list(self._agents.items()):
            label, agent = _rows_of(name), ways.present
            if self._is_put_off(label, now_s, report):
                continue
            found = yield decider.promises
            try:
                view = yield from settle(
                    decider, manager, agent, name, found, report, dry_run=dry_run
                )
                if not dry_run:
                    yield from remove_rows(decider, manager, agent, view)
            except Exception as error:  # noqa: BLE001 - any driver's errors
                if isinstance(error, errors.AccessDenied) and name not in {
                    one.agent for one in found
                }:
                    continue  # Its rows are for others to look after, and nothing waits for them.
                if isinstance(error, errors.DatabaseRestored):
                    self.restored[name] = error
                else:
                    ways.turn()
                self._failed(label, report, error)
                self._put_off(label, now_s)
            else:
                self.restored.pop(name, None)
                self._waits_s.pop(label, None)

    def _is_put_off(self, label: str, now_s: float, report: Report) -> bool:
        """Whether it has failed lately, which is in the report then."""
        if now_s >= self._due_s.get(label, 0.0):
            return False
        report.failed[label] = self._reasons[label]
        return True

    def _put_off(self, name: str, now_s: float) -> None:
        wait_s = self._waits_s.get(name, WAIT_S_MIN)
        self._waits_s[name] = min(wait_s * 2, WAIT_S_MAX)
        self._due_s[name] = now_s + wait_s

    def _failed(self, name: str, report: Report, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}".strip()
        report.failed[name] = self._reasons[name] = reason

    def _settle(
        self, name: str, resource: Resource, report: Report, *, dry_run: bool
    ) -> Calls[set[bytes]]:
        """Bring branches there to their outcome; returns the transactions of those that are
        left."""
        left: set[bytes] = set()
        stuck: list[errors.OnceqError] = []
        listed = yield partial(resource.recover, PREFIX.encode())
        self._told -= {(at, xid) for at, xid in self._told if at == name and xid not in listed}
        for xid in listed:
            # Another manager's, or no manager's: the one that decides about it looks after it.
            if decider_of(xid.gtrid) != self._decider.guid:
                continue
            try:
                over = yield from self._end(name, resource, xid, report, dry_run=dry_run)
            except (errors.PartnerLost, errors.AccessDenied) as error:
                # One that cannot be ended now, or not by this one, does not keep others waiting.
                stuck.append(error)
                over = False
            if not over:
                left.add(xid.gtrid)
        if stuck:
            self._failed(name, report, stuck[0])
        return left

    def _end(
        self, name: str, resource: Resource, xid: Xid, report: Report, *, dry_run: bool
    ) -> Calls[bool]:
        """Bring one branch to its outcome; returns whether it is over at its resource."""
        decision = yield partial(self._decider.decision, xid.gtrid)
        if decision is DecisionState.OPEN:
            report.at_work.append((name, xid))
            return False
        committed = decision is DecisionState.COMMITTED
        if not dry_run:
            by_hand = yield from self._carry_out(resource, xid, committed=committed)
            if by_hand and (name, xid) in self._told:
                yield partial(resource.forget, xid)
                return True
            if by_hand:
                report.by_hand.append((name, xid, by_hand))
                self._told.add((name, xid))
                return False
        (report.committed if committed else report.rolled_back).append((name, xid))
        return not dry_run

    def _carry_out(self, resource: Resource, xid: Xid, *, committed: bool) -> Calls[str]:
        """Tell one branch its outcome; returns what is said where an operator was first."""
        verb: Callable[[Xid], Any] = resource.commit if committed else resource.rollback
        try:
            yield partial(verb, xid)
        except errors.UnknownBranch:
            pass  # Its application has done it meanwhile.
        except errors.DecidedByHand as error:
            return error.text
        return ""

    def close(self) -> None:
        """Give up all connections."""
        ways: list[Closing] = [*self._resources.values(), *self._unmet.values()]
        ways += [*self._agents.values(), *self._unmet_agents.values()]
        for way in ways:
            way.close()

    def next_s(self, now_s: float, report: Report) -> float:
        """Seconds until the next round is worth while."""
        if report.clean:
            return ROUND_S
        due = [at for at in self._due_s.values() if at > now_s]
        return max(min(due) - now_s, 0.05) if due else WAIT_S_MIN


def promises_in(views: Sequence[BranchView]) -> list[BranchView]:
    """Of all branches those that are prepared and that a row decides."""
    return [view for view in views if view.agent and view.phase == "prepared"]


def settle(
    decider: Decider, manager: str, agent: Agent, name: str, found: Sequence[BranchView],
    report: Report, *, dry_run: bool,
) -> Calls[RowsView]:  # fmt: skip
    """Bring the branches that rows of one database decide to their outcome.

    Returns:
        The rows that must be there, and are; see ``look_for_rows``.

    Raises:
        PartnerLost: The outcome of one could not be found out yet; the others have theirs.
        AccessDenied: One is not for this application to decide; the others have theirs.
        DatabaseRestored: See ``look_for_rows``.
    """
    seen = yield from look_for_rows(decider, manager, agent, name)
    stuck: list[errors.OnceqError] = []
    for view in found:
        xid = Xid.parse(view.xid)
        if view.agent != name:
            continue
        if view.at_work:
            report.at_work.append((name, xid))
            continue
        if dry_run:
            stuck.append(errors.PartnerLost("asking decides, so a dry run does not"))
            continue
        try:
            committed = yield partial(agent.settle, row_of(xid, view.number))
        except errors.PartnerLost as error:
            # One whose commit may be under way does not keep the others waiting.
            stuck.append(error)
            yield from look_for_rows(decider, manager, agent, name)
            continue
        try:
            yield partial(decider.commit if committed else decider.rollback, xid)
        except errors.UnknownBranch:
            continue  # Its application has done it meanwhile.
        except errors.AccessDenied as error:
            stuck.append(error)  # Its own application brings it to its outcome, or an operator.
            continue
        (report.committed if committed else report.rolled_back).append((name, xid))
    if stuck:
        raise stuck[0]
    return seen


def look_for_rows(asked: RowsSeen, manager: str, agent: RowLookup, name: str) -> Calls[RowsView]:
    """Check that the rows are there that must be; return which these were.

    Raises:
        DatabaseRestored: They are not.
    """
    while True:
        view: RowsView = yield partial(asked.rows, name)
        if not (view.kept or view.mark):
            return view
        upto = max(view.kept, view.mark)
        unsure = (*view.open, *view.late)
        found = yield partial(agent.count, manager, view.kept, upto, unsure, view.late, view.note)
        if found >= view.count:
            return view
        again: RowsView = yield partial(asked.rows, name)
        # Another recovery beside this one may have written a later note, and removed rows.
        if again.kept == view.kept and again.mark >= view.mark:
            # The manager keeps it, so that applications in other processes hear of it, too.
            yield partial(asked.rows, name, ROWS_MISSING)
            raise restored(name, upto)


def restored(name: str, upto: int) -> errors.DatabaseRestored:
    """What a database is told to be that lacks rows.

    Args:
        upto: Number of the last row that was looked for.
    """
    return errors.DatabaseRestored(
        f"{name} has not all rows of decisions that this queue manager has seen, up to number "
        f"{upto}: it was set back to an earlier state, or the queue manager was"
    )


def look_before_work(asked: RowsSeen, manager: str, last: RowLookup, name: str) -> Calls[None]:
    """See, over the connection that is to work, whether its database has all rows that it must.

    A connection is to one database, but the next connection of an application may be to another
    server: a standby that was promoted may lack the last commits of the server before it.

    Raises:
        DatabaseRestored: It has not, or somebody has found that before and no operator has accepted
            the database since.
    """
    view: RowsView = yield partial(asked.rows, name)
    if view.missing:
        raise restored(name, max(view.kept, view.mark))
    yield from look_for_rows(asked, manager, last, name)


def remove_rows(decider: Decider, manager: str, agent: Agent, view: RowsView) -> Calls[None]:
    """Note what was found, and remove what nobody needs any more; ``view``: what was found."""
    if not view.mark:
        if view.missing:  # They are there again.
            yield partial(decider.rows, view.agent, view.kept)
        return
    yield partial(agent.note, manager, view.mark)
    now: RowsView = yield partial(decider.rows, view.agent, view.mark)
    # Another recovery may look for more rows; it needs these until it has found them.
    if now.kept >= view.mark:
        yield partial(agent.remove, manager, view.mark, sorted({*view.open, *now.open, *now.late}))
