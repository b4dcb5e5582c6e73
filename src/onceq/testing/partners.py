"""What every partner of external transactions must hold: checks for those that others write.

Write a ``Bench`` for your database: how to connect, how to write and read a key, what your partner
and resource are. Then run every check of ``CHECKS`` on it, each with a number of its own:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(check):
        check(MyBench())

A check raises AssertionError that says which promise of ``onceq.partners.contract`` is broken,
and Unsupported if the bench cannot do what it needs. ``Awaited`` turns an AsyncPartner into one
that the checks can call.

Upholds: I20 (a promise is kept through every crash), I21 (repeated requests change nothing).
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from onceq.errors import OnceqError, PartnerLost, PartnerRefused, UnknownBranch
from onceq.model.branches import ONCEQ_FORMAT, XID_BYTES_MAX, Vote, Xid, make_gtrid
from onceq.model.limits import PARTNER_NAME_CHARS_MAX
from onceq.partners.contract import AsyncPartner, Partner, Resource

_TRIES: Final = 600
_PAUSE_S: Final = 0.05
_numbers = itertools.count(1)


class Unsupported(Exception):
    """The bench cannot do what a check needs; the text says what."""


class Bench(Protocol):
    """A database under test. Connections are what its partner takes."""

    @property
    def coordinator(self) -> bytes:
        """16 bytes that no other run has used on this database."""

    def connect(self) -> Any:
        """A new connection, idle, of which a partner can be made."""

    def close(self, connection: Any) -> None:
        """Close it in order."""

    def lose(self, connection: Any) -> None:
        """Cut it, as a killed process would."""

    def partner(self, connection: Any) -> Partner:
        """A partner on the connection."""

    def resource(self) -> Resource:
        """The other side of the same database."""

    def write(self, connection: Any, key: str) -> None:
        """Insert a key that is not there, in the branch of the connection."""

    def keys(self) -> set[str]:
        """Committed keys, as an onlooker sees them."""

    def begin_other(self, connection: Any) -> None:
        """Begin an ordinary transaction on an idle connection."""

    def end_other(self, connection: Any) -> None:
        """Roll it back."""

    def spoil(self, connection: Any) -> None:
        """Make the branch of the connection one that cannot be prepared; or raise Unsupported."""

    def crash(self) -> None:
        """Kill the server and start it again; or raise Unsupported."""


class Awaited:
    """An AsyncPartner whose calls are run to their end in one loop."""

    def __init__(self, inner: AsyncPartner, runner: asyncio.Runner) -> None:
        """Take the runner that the connection belongs to."""
        self._inner = inner
        self._runner = runner

    @property
    def name(self) -> str:
        """The stable identity of the resource; known after ``check``."""
        return self._inner.name

    def check(self) -> None:
        """Find out, before any work is done, whether this can be a partner at all."""
        self._runner.run(self._inner.check())

    def begin(self, xid: Xid) -> None:
        """Make what the connection does from here on belong to the branch."""
        self._runner.run(self._inner.begin(xid))

    def prepare(self, xid: Xid) -> Vote:
        """Make all work of the branch durable without ending it, and promise both outcomes."""
        return self._runner.run(self._inner.prepare(xid))

    def commit(self, xid: Xid) -> None:
        """Commit what is prepared."""
        self._runner.run(self._inner.commit(xid))

    def commit_one_phase(self, xid: Xid) -> None:
        """Commit what is not prepared: there is no other partner."""
        self._runner.run(self._inner.commit_one_phase(xid))

    def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch, prepared or not."""
        self._runner.run(self._inner.rollback(xid))

    def forget(self, xid: Xid) -> None:
        """Forget a heuristic outcome of the branch."""
        self._runner.run(self._inner.forget(xid))

    def abandon(self) -> None:
        """Cut the connection, from any thread, without waiting."""
        self._inner.abandon()

    def resource(self) -> Resource | None:
        """Return the other side of the same database, or None."""
        return self._inner.resource()


# ---- a branch under test -----------------------------------------------------------------------


class _Branch:
    """One share that has written one key."""

    def __init__(self, bench: Bench, *, connection: Any = None, gtrid: bytes = b"") -> None:
        self.bench = bench
        self.number = next(_numbers)
        self.key = f"{bench.coordinator.hex()[:8]}-{self.number}"
        self.connection = connection or bench.connect()
        self.partner = bench.partner(self.connection)
        self.partner.check()
        whole = gtrid or make_gtrid(bench.coordinator, self.number)
        self.xid = Xid(ONCEQ_FORMAT, whole, f"{self.partner.name}#{self.number}".encode())
        self.partner.begin(self.xid)
        bench.write(self.connection, self.key)

    def prepare(self) -> _Branch:
        assert self.partner.prepare(self.xid) is Vote.PREPARED, "what has written is not read-only"
        return self

    def lose(self) -> None:
        """Cut the connection, and wait until the server has noticed."""
        self.bench.lose(self.connection)

    def visible(self) -> bool:
        committed = self.bench.keys()
        return self.key in committed

    def close(self) -> None:
        self.bench.close(self.connection)


def _recovered(bench: Bench, resource: Resource) -> list[Xid]:
    return resource.recover(make_gtrid(bench.coordinator, 0)[:-1])


def _eventually(act: Callable[[], None]) -> None:
    """Do it as soon as the server lets go of the connection that held the branch."""
    pause = threading.Event()
    for _ in range(_TRIES):
        try:
            act()
            return
        except PartnerLost as error:
            last = error
            pause.wait(_PAUSE_S)
    raise AssertionError(f"a branch whose connection is gone cannot be ended: {last.text}")


# ---- the checks --------------------------------------------------------------------------------


def a_prepared_branch_commits(bench: Bench) -> None:
    """Nothing is seen before the commit, everything after it."""
    branch = _Branch(bench)
    assert not branch.visible(), "work is visible before it is prepared"
    branch.prepare()
    assert not branch.visible(), "work is visible before it is committed"
    branch.partner.commit(branch.xid)
    assert branch.visible(), "committed work is not visible"
    branch.close()


def a_prepared_branch_rolls_back(bench: Bench) -> None:
    """Rollback after the promise undoes everything."""
    branch = _Branch(bench).prepare()
    branch.partner.rollback(branch.xid)
    assert not branch.visible(), "rolled back work is visible"
    assert branch.xid not in _recovered(bench, bench.resource()), "a branch is left"
    branch.close()


def a_working_branch_rolls_back(bench: Bench) -> None:
    """Rollback without a promise undoes everything."""
    branch = _Branch(bench)
    branch.partner.rollback(branch.xid)
    assert not branch.visible(), "rolled back work is visible"
    branch.close()


def an_only_branch_commits_in_one_phase(bench: Bench) -> None:
    """One phase needs no promise and leaves nothing."""
    branch = _Branch(bench)
    branch.partner.commit_one_phase(branch.xid)
    assert branch.visible(), "committed work is not visible"
    assert branch.xid not in _recovered(bench, bench.resource()), "a branch is left"
    branch.close()


def the_connection_is_free_afterwards(bench: Bench) -> None:
    """After each kind of end the same connection takes part again."""
    connection = bench.connect()
    for verb in ("commit", "rollback", "one phase", "commit"):
        branch = _Branch(bench, connection=connection)
        if verb == "one phase":
            branch.partner.commit_one_phase(branch.xid)
        else:
            branch.prepare()
            getattr(branch.partner, verb)(branch.xid)
        assert branch.visible() == (verb != "rollback"), f"{verb} on a connection used before"
    bench.close(connection)


def a_promise_survives_the_connection(bench: Bench) -> None:
    """I20: a prepared branch is listed, keeps what it locked, and commits from elsewhere."""
    branch = _Branch(bench).prepare()
    branch.lose()
    resource = bench.resource()
    assert branch.xid in _recovered(bench, resource), "I20: a promise went with its connection"
    assert not branch.visible(), "work of a lost connection became visible by itself"
    _eventually(lambda: resource.commit(branch.xid))
    assert branch.visible(), "committed work is not visible"
    resource.close()


def a_lost_promise_can_be_rolled_back(bench: Bench) -> None:
    """I20: it promises both outcomes."""
    branch = _Branch(bench).prepare()
    branch.lose()
    resource = bench.resource()
    _eventually(lambda: resource.rollback(branch.xid))
    assert not branch.visible(), "rolled back work is visible"
    assert branch.xid not in _recovered(bench, resource), "a branch is left"
    resource.close()


def a_promise_survives_a_crash(bench: Bench) -> None:
    """I20: through a crash of the server, both outcomes."""
    kept, undone, never = _Branch(bench).prepare(), _Branch(bench).prepare(), _Branch(bench)
    resource = bench.resource()
    _recovered(bench, resource)
    bench.crash()
    try:
        found = _recovered(bench, resource)
    except PartnerLost:  # its connection was lost too; it makes a new one by itself
        found = _recovered(bench, resource)
    assert kept.xid in found, "I20: a promise was lost in a crash"
    assert undone.xid in found, "I20: a promise was lost in a crash"
    assert never.xid not in found, "what was not prepared is listed"
    resource.commit(kept.xid)
    resource.rollback(undone.xid)
    assert kept.visible(), "committed work is not visible"
    assert not undone.visible(), "rolled back work is visible"
    assert not never.visible(), "what was not prepared survived a crash"
    resource.close()


def what_is_not_promised_goes_with_the_connection(bench: Bench) -> None:
    """Presumed abort: a share that is not prepared leaves nothing."""
    branch = _Branch(bench)
    branch.lose()
    assert branch.xid not in _recovered(bench, bench.resource()), "an unprepared branch is listed"
    assert not branch.visible(), "work that was not committed is visible"


def repeated_requests_change_nothing(bench: Bench) -> None:
    """I21: the second commit or rollback says UnknownBranch, and does nothing."""
    for outcome, other in (("commit", "rollback"), ("rollback", "commit")):
        branch = _Branch(bench).prepare()
        branch.lose()
        resource = bench.resource()
        _eventually(functools.partial(getattr(resource, outcome), branch.xid))
        for verb in (outcome, other):
            try:
                getattr(resource, verb)(branch.xid)
            except UnknownBranch:
                pass
            else:
                raise AssertionError(f"{verb} after {outcome} did not say UnknownBranch")
        assert branch.visible() == (outcome == "commit"), "a repeated request changed something"
        resource.close()


def what_its_connection_holds_is_not_unknown(bench: Bench) -> None:
    """A prepared branch whose connection lives is ended from elsewhere, or PartnerLost."""
    branch = _Branch(bench).prepare()
    resource = bench.resource()
    assert branch.xid in _recovered(bench, resource), "a prepared branch is not listed"
    try:
        resource.commit(branch.xid)
    except PartnerLost:
        branch.partner.commit(branch.xid)
    assert branch.visible(), "committed work is not visible"
    branch.close()
    resource.close()


def it_can_be_abandoned(bench: Bench) -> None:
    """From another thread, twice, and then others can end it."""
    kept, never = _Branch(bench).prepare(), _Branch(bench)
    for branch in (kept, never):
        for _ in range(2):
            thread = threading.Thread(target=branch.partner.abandon)
            thread.start()
            thread.join()
    resource = bench.resource()
    _eventually(lambda: resource.commit(kept.xid))
    assert kept.visible(), "committed work is not visible"
    assert not never.visible(), "abandoned work is visible"
    try:
        never.partner.prepare(never.xid)
    except (PartnerLost, PartnerRefused):
        pass
    else:
        raise AssertionError("an abandoned share was prepared")
    resource.close()


def names_agree(bench: Bench) -> None:
    """The partner and the resource have one name, and it stays."""
    names = set()
    for _ in range(2):
        branch = _Branch(bench)
        names.add(branch.partner.name)
        own = branch.partner.resource()
        if own is not None:
            names.add(own.name)
            own.close()
        branch.partner.rollback(branch.xid)
        branch.close()
        resource = bench.resource()
        names.add(resource.name)
        resource.close()
    assert len(names) == 1, f"one database has several names: {names}"
    (name,) = names
    assert 1 <= len(name) <= PARTNER_NAME_CHARS_MAX, f"the name {name!r} is too long"
    assert all(" " < char < "\x7f" and char != "#" for char in name), f"the name {name!r}"


def only_what_is_asked_for_is_listed(bench: Bench) -> None:
    """The prefix counts, and identifiers come back byte for byte, the longest too."""
    gtrid = make_gtrid(bench.coordinator, next(_numbers))
    gtrid = gtrid.ljust(XID_BYTES_MAX, b"x")
    first = _Branch(bench, gtrid=gtrid).prepare()
    second = _Branch(bench, gtrid=gtrid).prepare()
    resource = bench.resource()
    assert set(resource.recover(gtrid)) == {first.xid, second.xid}, (
        "two branches of one transaction"
    )
    assert set(resource.recover(gtrid[:-1])) >= {first.xid, second.xid}
    assert not resource.recover(gtrid[:-1] + b"y"), "branches with another prefix are listed"
    assert not resource.recover(b"onceq-" + b"0" * 31), "branches with another prefix are listed"
    first.partner.commit(first.xid)
    assert resource.recover(gtrid) == [second.xid], "one branch took the other with it"
    second.partner.rollback(second.xid)
    assert first.visible(), "committed work is not visible"
    assert not second.visible(), "rolled back work is visible"
    first.close()
    second.close()
    resource.close()


def what_is_busy_is_refused(bench: Bench) -> None:
    """A connection in a transaction of its own does not begin a branch, and says why."""
    connection = bench.connect()
    bench.begin_other(connection)
    try:
        bench.partner(connection).check()
    except PartnerRefused:
        pass
    else:
        raise AssertionError("a connection in another transaction was taken")
    bench.end_other(connection)
    branch = _Branch(bench, connection=connection)
    branch.partner.commit_one_phase(branch.xid)
    branch.close()


def a_refusal_rolls_back(bench: Bench) -> None:
    """A share that cannot be prepared is rolled back, says so, and leaves the connection free."""
    for one_phase in (False, True):
        branch = _Branch(bench)
        bench.spoil(branch.connection)
        try:
            if one_phase:
                branch.partner.commit_one_phase(branch.xid)
            else:
                branch.partner.prepare(branch.xid)
        except PartnerRefused:
            pass
        else:
            raise AssertionError("a share that cannot be prepared was promised or committed")
        assert not branch.visible(), "refused work is visible"
        assert branch.xid not in _recovered(bench, bench.resource()), "a refused branch is left"
        again = _Branch(bench, connection=branch.connection).prepare()
        again.partner.commit(again.xid)
        assert again.visible(), "the connection does not work after a refusal"
        again.close()


def a_resource_comes_back(bench: Bench) -> None:
    """A closed resource connects again when it is asked."""
    branch = _Branch(bench).prepare()
    resource = bench.resource()
    assert branch.xid in _recovered(bench, resource)
    resource.close()
    assert branch.xid in _recovered(bench, resource), "a resource does not connect again"
    branch.partner.rollback(branch.xid)
    branch.close()
    resource.close()


CHECKS: Final[tuple[Callable[[Bench], None], ...]] = (
    a_prepared_branch_commits,
    a_prepared_branch_rolls_back,
    a_working_branch_rolls_back,
    an_only_branch_commits_in_one_phase,
    the_connection_is_free_afterwards,
    a_promise_survives_the_connection,
    a_lost_promise_can_be_rolled_back,
    a_promise_survives_a_crash,
    what_is_not_promised_goes_with_the_connection,
    repeated_requests_change_nothing,
    what_its_connection_holds_is_not_unknown,
    it_can_be_abandoned,
    names_agree,
    only_what_is_asked_for_is_listed,
    what_is_busy_is_refused,
    a_refusal_rolls_back,
    a_resource_comes_back,
)
"""Every check, in an order that finds the simplest mistake first."""


def run(bench: Bench) -> dict[str, str]:
    """Run every check.

    Returns:
        What was found, by check: "" if it holds, else which promise is broken, or what the bench
        cannot do.
    """
    found = {}
    for check in CHECKS:
        try:
            check(bench)
            found[check.__name__] = ""
        except (AssertionError, OnceqError) as error:
            found[check.__name__] = str(error)
        except Unsupported as error:
            found[check.__name__] = f"not checked: {error}"
    return found
