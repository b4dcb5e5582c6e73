"""Recovery: whatever was left prepared by crashes is brought to the one outcome.

Each round asks first which decisions the manager still keeps, and then every resource what is
prepared there. Of the branches that are this manager's, each gets what was decided: committed if
there is a record, rolled back if there is none, left alone while its application is at work. A
decision is forgotten when all its partners were looked at *after* it was listed and none has a
branch of it left: then all have committed. A resource that fails is tried again later, with longer
and longer waits.

A branch that an operator decided at its resource is told of in the report of one round, and the
resource may forget it in a later one: a crash between them tells of it again, and loses nothing.

A round is a generator of calls, like the decision (``deciding.py``): it neither waits nor connects.
``step`` carries them out from a thread; the simulator does it in virtual time.

Upholds: I21; XTX-5, XTX-8, XTX-14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from onceq.errors import (
    AccessDenied,
    DatabaseRestored,
    DecidedByHand,
    OnceqError,
    PartnerLost,
    TwoPhaseForbidden,
    UnknownBranch,
)
from onceq.model.branch import Decision
from onceq.model.record import MutableRecord, field
from onceq.model.xid import PREFIX, Xid, decider_of
from onceq.partners.addresses import Addresses, Closing
from onceq.partners.contract import Resource
from onceq.partners.driving import Call, Calls, drive
from onceq.partners.finding import Place
from onceq.partners.last_agent import Agent
from onceq.partners.last_recovery import Promiser, remove_rows, settle

WAIT_S_MIN: Final = 1.0
WAIT_S_MAX: Final = 60.0
"""Between attempts to reach a resource that failed: doubled each time."""
ROUND_S: Final = 30.0
"""Between rounds when all is well: somebody else's application may have died meanwhile."""


def _rows_of(name: str) -> str:
    """What reports call a last agent, whose database may be a resource as well."""
    return f"{name} (rows)"


class Decider(Protocol):
    """The queue manager that decides, as recovery needs it.

    Attributes:
        guid: Its GUID, which its global identifiers contain.
    """

    guid: bytes

    def decision(self, gtrid: bytes) -> Decision:
        """What was decided."""

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """Global identifiers of commits that partners may not have carried out, with their
        names."""

    def done(self, gtrid: bytes) -> None:
        """All partners have carried it out."""


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


class Recovery:
    """Recovery for one deciding manager and its resources. One caller at a time."""

    def __init__(self, decider: Decider, resources: Iterable[Resource] = ()) -> None:
        self._decider = decider
        self._resources: dict[str, Addresses[Resource]] = {}
        self._agents: dict[str, tuple[Addresses[Agent], Promiser]] = {}
        self.restored: dict[str, DatabaseRestored] = {}
        """Last agents that were set back, by name."""
        self._unmet: dict[str, Resource] = {}
        self._unmet_agents: dict[str, tuple[Agent, Promiser]] = {}
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
            name: That of its partners, where it is known; else the resource is asked.
            address: Where it is; "" where nothing tells.

        Raises:
            PartnerLost: It cannot be asked.
        """
        name = name or resource.name
        if name not in self._resources:
            self._resources[name] = Addresses(address, resource)
            return True
        self._due_s.pop(name, None)
        return self._resources[name].show(address, resource)

    def add_agent(
        self, agent: Agent, promiser: Promiser, name: str = "", address: str = ""
    ) -> bool:
        """Look after branches that rows in a database decide; False (and it is closed) if one of
        that name and address is known.

        Args:
            promiser: The manager whose branches they are.
            name, address: As of ``add``.

        Raises:
            PartnerLost: It cannot be asked.
        """
        name = name or agent.name
        if name not in self._agents:
            self._agents[name] = Addresses(address, agent), promiser
            return True
        self._due_s.pop(_rows_of(name), None)
        return self._agents[name][0].show(address, agent)

    def knows_agent(self, name: str, address: str = "") -> bool:
        """Whether that last agent is looked after at that address."""
        return name in self._agents and address in self._agents[name][0].ways

    def add_unmet(self, resource: Resource, label: str) -> None:
        """Look after a resource as soon as it can be asked for its name.

        Args:
            label: What reports call it until then.
        """
        self._unmet[label] = resource

    def add_place(self, place: Place, promiser: Promiser, *, now: bool = False) -> None:
        """Look after a database as both, as soon as it can be asked for its name.

        Args:
            promiser: As of ``add_agent``.
            now: It can be asked now.

        Raises:
            PartnerLost: It cannot.
        """
        if place.agent is not None:
            self._unmet_agents[place.where] = place.agent, promiser
            if now:
                self._meet_agent(place.where, place.agent, promiser)
        if place.resource is not None:
            self._unmet[place.where] = place.resource
            if now:
                self._meet_resource(place.where, place.resource)

    def _meet(self, now_s: float, report: Report) -> Calls[None]:
        makers: dict[str, list[Call]] = {}
        for label, (agent, promiser) in self._unmet_agents.items():
            makers.setdefault(label, []).append(partial(self._meet_agent, label, agent, promiser))
        for label, resource in self._unmet.items():
            makers.setdefault(label, []).append(partial(self._meet_resource, label, resource))
        for label, calls in makers.items():
            if now_s < self._due_s.get(label, 0.0):
                report.failed[label] = self._reasons[label]
                continue
            try:
                yield from calls
            except Exception as error:  # noqa: BLE001 - any driver's errors
                self._failed(label, report, error)
                self._put_off(label, now_s)

    def _meet_agent(self, label: str, agent: Agent, promiser: Promiser) -> None:
        self.add_agent(agent, promiser)
        del self._unmet_agents[label]
        self._also_agents.add(label)

    def _meet_resource(self, label: str, resource: Resource) -> None:
        try:
            self.add(resource)
        except TwoPhaseForbidden:
            if label not in self._also_agents:
                raise
            resource.close()  # Nothing can be prepared there; it decides by rows.
        del self._unmet[label]

    def knows(self, name: str, address: str = "") -> bool:
        """Whether that resource is looked after at that address."""
        return name in self._resources and address in self._resources[name].ways

    def step(self, now_s: float, *, dry_run: bool = False) -> Report:
        """One round. Errors of resources are in the report; those of the manager are raised.

        Args:
            now_s: Monotonic seconds; resources that failed lately are passed over.
            dry_run: Say what would be done, and do nothing.
        """
        return drive(self.calls(now_s, dry_run=dry_run))

    def calls(self, now_s: float, *, dry_run: bool = False) -> Calls[Report]:
        """What ``step`` asks for, call by call; whoever carries them out sends each result, or
        throws in what was raised."""
        report = Report()
        yield from self._meet(now_s, report)
        yield from self._settle_rows(now_s, report, dry_run=dry_run)
        decisions = dict((yield self._decider.open_decisions))
        left: dict[str, set[bytes]] = {}
        for name, ways in list(self._resources.items()):
            if now_s < self._due_s.get(name, 0.0):
                report.failed[name] = self._reasons[name]
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
                except AccessDenied:
                    report.waiting[gtrid] = partners  # Another one has decided it.
                    continue
                report.forgotten.append(gtrid)
            else:
                report.waiting[gtrid] = partners
        return report

    def _settle_rows(self, now_s: float, report: Report, *, dry_run: bool) -> Calls[None]:
        for name, (ways, promiser) in list(self._agents.items()):
            key, agent = _rows_of(name), ways.present
            if now_s < self._due_s.get(key, 0.0):
                report.failed[key] = self._reasons[key]
                continue
            manager = self._decider.guid.hex()
            found = yield promiser.promises
            try:
                view = yield from settle(
                    promiser, manager, agent, name, found, report, dry_run=dry_run
                )
                if not dry_run:
                    yield from remove_rows(promiser, manager, agent, view)
            except Exception as error:  # noqa: BLE001 - any driver's errors
                if isinstance(error, AccessDenied) and name not in {one.agent for one in found}:
                    continue  # Its rows are for others to look after, and nothing waits for them.
                if isinstance(error, DatabaseRestored):
                    self.restored[name] = error
                else:
                    ways.turn()
                self._failed(key, report, error)
                self._put_off(key, now_s)
            else:
                self.restored.pop(name, None)
                self._waits_s.pop(key, None)

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
        stuck: list[OnceqError] = []
        listed = yield partial(resource.recover, PREFIX.encode())
        self._told -= {(at, xid) for at, xid in self._told if at == name and xid not in listed}
        for xid in listed:
            # Another manager's, or no manager's: whoever decides about it looks after it himself.
            if decider_of(xid.gtrid) != self._decider.guid:
                continue
            try:
                over = yield from self._end(name, resource, xid, report, dry_run=dry_run)
            except (PartnerLost, AccessDenied) as error:
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
        if decision is Decision.OPEN:
            report.at_work.append((name, xid))
            return False
        committed = decision is Decision.COMMITTED
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
        except UnknownBranch:
            pass  # Whoever was at work has done it meanwhile.
        except DecidedByHand as error:
            return error.text
        return ""

    def close(self) -> None:
        """Give up all connections."""
        ways: list[Closing] = [*self._resources.values(), *self._unmet.values()]
        ways += [way for way, _ in self._agents.values()]
        ways += [agent for agent, _ in self._unmet_agents.values()]
        for way in ways:
            way.close()

    def next_s(self, now_s: float, report: Report) -> float:
        """Seconds until the next round is worth while."""
        if report.clean:
            return ROUND_S
        due = [at for at in self._due_s.values() if at > now_s]
        return max(min(due) - now_s, 0.05) if due else WAIT_S_MIN
