"""One write to several queue managers: all of it or nothing, wherever somebody dies. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: pip install onceq[spark]")

import onceq  # noqa: E402
from onceq.errors import (  # noqa: E402
    ConfigurationError,
    GroupIncomplete,
    IllegalFormatName,
    ManagerAway,
    OnceqError,
    ServiceNotAvailable,
)
from onceq.model.branches import ONCEQ_FORMAT, Xid  # noqa: E402
from onceq.model.views.looks import GroupResult  # noqa: E402
from onceq.spark.sink.options import parse_sink  # noqa: E402
from onceq.spark.sink.task import Staged, TaskBatch, stage  # noqa: E402
from onceq.spark.sink.writer import decide, tell  # noqa: E402
from tests.scratch import scratch  # noqa: E402

Q = r"private$\q"
APP = "pipe"
NAMES = ("h1:1", "h2:1", "h3:1")
PARTITIONS = 4
CALLS_MAX = 60


class Died(BaseException):
    """The driver is gone."""


class Managers:
    """Three embedded queue managers, and drivers that write through them."""

    def __init__(self, made: list[onceq.QueueManager]) -> None:
        self.made = made

    def stage(
        self, version: int, partition: int, batch: Any, *names: str, **options: str
    ) -> Staged:
        given = {"queueManager": ",".join(NAMES), "queue": Q, **options}
        return stage(
            [batch], names or ("body",), parse_sink(given, stream=True),
            TaskBatch(APP, version, "", partition),
            lambda address: nullcontext(self.made[NAMES.index(address)]),
        )  # fmt: skip

    def staged(self, version: int) -> list[Staged]:
        """Tasks of a batch, whose partitions take turns."""
        return [
            self.stage(version, partition, rows(f"{version}.{partition}"))
            for partition in range(PARTITIONS)
        ]

    def decide(self, version: int, parts: list[Staged]) -> GroupResult:
        xids = [Xid(ONCEQ_FORMAT, *xid) for part in parts for xid in part.branches]
        elsewhere = [(at, Xid(ONCEQ_FORMAT, *xid)) for part in parts for at, *xid in part.elsewhere]
        return decide(
            self.made, APP, version, elsewhere,
            lambda home: home.groups.commit(APP, version, xids),
        )  # fmt: skip

    def write(self, version: int) -> GroupResult:
        return self.decide(version, self.staged(version))

    def held(self) -> list[list[str]]:
        return [held(qm) for qm in self.made]

    def left(self) -> list[int]:
        found = [[view.phase for view in qm.admin.branches()] for qm in self.made]
        return [phases.count("prepared") for phases in found]

    def check(self, *versions: int) -> None:
        """Each version once and entirely, in the order of the partitions, and nothing is left."""
        assert self.held() == expected(*versions)
        assert self.left() == [0, 0, 0]
        assert self.made[0].admin.decisions() == []


def rows(*bodies: str, **columns: list[str | None]) -> Any:
    return pa.RecordBatch.from_pydict({"body": list(bodies), **columns})


def held(qm: onceq.QueueManager) -> list[str]:
    try:
        return [body.decode() for body in qm.peek_many(Q, 10_000, timeout=0).bodies()]
    except onceq.ReceiveTimeout:
        return []


def expected(*versions: int) -> list[list[str]]:
    return [
        [f"{v}.{p}" for v in versions for p in range(at, PARTITIONS, len(NAMES))]
        for at in range(len(NAMES))
    ]


@pytest.fixture
def managers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managers]:
    with scratch(tmp_path_factory, "many") as folder, ExitStack() as stack:
        made = [
            stack.enter_context(onceq.open(str(folder / name), create=True, name=name))
            for name in "ABC"
        ]
        for qm in made:
            qm.create_queue(Q, transactional=True)
        yield Managers(made)


def dying(patch: pytest.MonkeyPatch, at: int, error: BaseException, *, after: bool) -> list[int]:
    """The driver dies around its call number ``at``; the list has how many there were."""
    count = [0]
    run = onceq.QueueManager._run

    def counted(self: Any, plan: Any) -> Any:
        count[0] += 1
        if count[0] == at and not after:
            raise error
        result = run(self, plan)
        if count[0] == at:
            raise error
        return result

    patch.setattr(onceq.QueueManager, "_run", counted)
    return count


# ---- what happens when nobody dies -----------------------------------------------------------


def test_a_batch_is_spread_and_seen_everywhere_or_nowhere(managers: Managers) -> None:
    parts = managers.staged(0)
    assert managers.held() == [[], [], []]
    assert managers.decide(0, parts).already is False
    managers.check(0)
    assert managers.write(0).already
    managers.check(0)
    managers.write(1)
    managers.check(0, 1)


def test_a_row_goes_to_the_queue_manager_that_it_names(managers: Managers) -> None:
    other = r"private$\other"
    managers.made[1].create_queue(other, transactional=True)
    queues = [Q, f"h3:1/{Q}", f"h2:1/{other}", f"h3:1/{Q}", None, f"onceq://h2:1/{Q}"]
    queues[4] = f"h1:1/{Q}"
    batch = rows(*"abcdef", queue=queues)
    part = managers.stage(0, 1, batch, "body", "queue", queue="")
    assert part.rows == 6
    managers.decide(0, [part])
    assert managers.held() == [["e"], ["a", "f"], ["b", "d"]], "by itself it is in partition 1"
    assert list(managers.made[1].peek_many(other).bodies()) == [b"c"]
    assert managers.left() == [0, 0, 0]


def test_what_is_wrong_is_told_with_its_row(managers: Managers) -> None:
    queues: list[str | None] = [Q, f"h3:1/{Q}", f"h9:1/{Q}"]
    with pytest.raises(IllegalFormatName, match=r"B: row 2 of partition 1.*through h2:1.*expire"):
        managers.stage(0, 1, rows("a", "b", "c", queue=queues), "body", "queue", queue="")
    queues[2] = r"h3:1/private$\none"
    with pytest.raises(OnceqError, match="C: row 2 of partition 1"):
        managers.stage(0, 1, rows("a", "b", "c", queue=queues), "body", "queue", queue="")
    assert managers.left() == [0, 0, 0], "nothing is left of a task that has failed"


# ---- somebody dies ----------------------------------------------------------------------------


def drivers_end(managers: Managers, version: int, *, after: bool, ends: Callable[[], Any]) -> int:
    """A driver dies at each of its calls in turn, and ``ends`` says what comes next."""
    for at in range(1, CALLS_MAX):
        parts = managers.staged(version)
        with pytest.MonkeyPatch.context() as patch:
            count = dying(patch, at, Died(), after=after)
            try:
                managers.decide(version, parts)
                died = False
            except Died:
                died = True
        ends()
        version += 1
        if not died:
            assert count[0] < at
            return version
    raise AssertionError("it makes too many calls")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_driver_that_dies_at_any_call_is_followed_by_one_that_repeats(
    managers: Managers, after: bool
) -> None:
    done: list[int] = []

    def repeated() -> None:
        seen = [len(bodies) for bodies in managers.held()]
        managers.write(len(done))
        done.append(len(done))
        managers.check(*done)
        # What one of them had seen all had, or had it now: never a part that the rest has not.
        assert seen <= [len(bodies) for bodies in managers.held()]

    assert drivers_end(managers, 0, after=after, ends=repeated) > 8


def test_a_driver_that_dies_is_followed_by_one_that_gives_up(managers: Managers) -> None:
    """Its abort, or another one's, finds the decision, or makes sure that there is none."""
    whole: list[int] = []
    version = [0]

    def given_up() -> None:
        home, *others = managers.made
        home.groups.rollback(APP, version[0])
        tell(home, others)
        decided = any(group.version == version[0] for group in home.groups.list())
        whole.extend([version[0]] if decided else [])
        version[0] += 1
        managers.check(*whole)

    last = drivers_end(managers, 0, after=True, ends=given_up)
    assert 0 < len(whole) < last, "some had decided, and some had not"


def test_a_later_batch_tells_what_an_earlier_driver_has_not(managers: Managers) -> None:
    parts = managers.staged(0)
    home = managers.made[0]
    xids = [Xid(ONCEQ_FORMAT, *xid) for part in parts for xid in part.branches]
    home.groups.commit(APP, 0, xids)
    assert managers.held() == [expected(0)[0], [], []]
    managers.write(1)
    managers.check(0, 1)


def test_a_manager_that_is_away_hears_of_it_when_the_batch_is_repeated(
    managers: Managers, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = managers.staged(0)
    away = managers.made[2]

    def commit_of(self: Any, xid: Xid) -> None:
        if self._manager is away:
            raise ManagerAway("it does not answer")
        original(self, xid)

    from onceq.client.recovering import ManagerResource

    original = ManagerResource.commit
    with monkeypatch.context() as patch:
        patch.setattr(ManagerResource, "commit", commit_of)
        with pytest.raises(ServiceNotAvailable, match=r"A has decided .*write the same"):
            managers.decide(0, parts)
    assert managers.held() == [*expected(0)[:2], []]
    assert managers.write(0).already
    managers.check(0)


def test_a_part_that_is_gone_is_found_before_anything_is_decided(managers: Managers) -> None:
    parts = managers.staged(0)
    (lost,) = [xid for part in parts for at, *xid in part.elsewhere if at == 2]
    managers.made[2].xa.rollback(Xid(ONCEQ_FORMAT, *lost), by_hand=True)
    with pytest.raises(GroupIncomplete, match="not prepared at C"):
        managers.decide(0, parts)
    assert managers.held() == [[], [], []]
    home, *others = managers.made
    home.groups.rollback(APP, 0)
    tell(home, others)
    assert managers.held() == [[], [], []]
    managers.write(0)
    assert managers.held() == expected(0)


def test_the_first_address_stays_the_first(managers: Managers) -> None:
    managers.write(0)
    managers.made.reverse()
    parts = managers.staged(0)
    with pytest.raises(ConfigurationError, match="two addresses of one"):
        decide([managers.made[0]] * 2, APP, 0, [], lambda home: GroupResult())
    with pytest.raises(ConfigurationError, match=r"A has committed version 0.*Put A first"):
        managers.decide(0, parts)
    managers.made[0].groups.rollback(APP, 0)
    tell(managers.made[0], managers.made[1:])
    managers.made.reverse()
    managers.check(0)


def test_the_operator_s_command_tells_what_is_left(managers: Managers, tmp_path: Path) -> None:
    """``onceq tx recover --other``: the same recovery as for databases."""
    from onceq.client.recovering import ManagerResource

    parts = managers.staged(0)
    home, *others = managers.made
    xids = [Xid(ONCEQ_FORMAT, *xid) for part in parts for xid in part.branches]
    home.groups.commit(APP, 0, xids)
    report = home.recovery([ManagerResource(other) for other in others]).step(0.0)
    assert (len(report.committed), report.clean) == (2, True)
    managers.check(0)
