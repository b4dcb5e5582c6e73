"""Jobs in the core: started, done batch by batch in one record each, cancelled; whose they are."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from onceq.core.inputs import (
    DirectoryChanged,
    JobBatch,
    JobDeed,
    JobFailed,
    NextJob,
    OwnerCame,
    SpaceChanged,
)
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.job_table import Jobs, Work
from onceq.core.state.setups import JobStarted
from onceq.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    NoDirectory,
    OnceqError,
    QueueNotFound,
    StorageReserve,
)
from onceq.model import requests
from onceq.model.directory import Computer, PublicQueue, Snapshot
from onceq.model.identity import TransactionId, guid_text
from onceq.model.limits import JOB_FAILURES_MAX, JOB_QUEUES_MAX, JOBS_KEPT_MAX, JOBS_RUNNING_MAX
from onceq.model.message import PLAIN
from onceq.model.requests import SendItem
from onceq.model.rights import Actor, ActorKind
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.settings import Settings
from onceq.model.views.looks import JOB, JOBS, METRICS, TRAIL, JobView
from proof.sim.base.comparing import differences
from tests.unit.core.alone import IDENTITY, Core

RUNS, ALICE, BOB = 1, 2, 3
Q, OTHER, GONE = ".\\private$\\q", ".\\private$\\other", ".\\private$\\gone"
KEY = "private$\\q"


def item(destination: str = OTHER, body: bytes = b"again") -> SendItem:
    return SendItem(destination, PLAIN, Run(body, array(LENGTH_TYPE, (len(body),))))


@pytest.fixture
def core() -> Core:
    """With five messages in a queue, another queue, and two who have names."""
    made = Core()
    for name in ("q", "other"):
        request = requests.CreateQueue({"name": name, "transactional": True})
        request.check()
        request.instance = name.encode().ljust(16)
        made.ask(request)
    for number in range(5):
        made.ask(
            requests.Commit(0, [item(Q, b"%d" % number)], TransactionId(b"s" * 16, number + 1))
        )
    for owner, name in ((ALICE, "alice"), (BOB, "bob")):
        made.step(OwnerCame(owner, Actor(ActorKind.ACCOUNT, name), where="local"))
    return made


def places(core: Core, queue: str = Q) -> list[int]:
    found = core.ask(requests.Receive(queue, count_max=100, peek=True))
    if isinstance(found, OnceqError):
        return []
    return list(found.lookups)  # type: ignore[attr-defined]


def start(core: Core, action: str = "move", *, owner: int = RUNS, **more: Any) -> Any:
    if action == "move":
        more.setdefault("to", OTHER)
    request = requests.StartJob(action, [Q], **more)
    request.check()
    return core.ask(request, owner=owner)


def batch(job: int, before: int, *deeds: JobDeed, **more: Any) -> JobBatch:
    after = deeds[-1].lookup if deeds else before
    said = {"to_at": 0, "after": after, "looked": len(deeds), **more}
    return JobBatch(job, 0, before, deeds=deeds, **said)


def moved(*lookups: int, to: str = OTHER) -> list[JobDeed]:
    return [JobDeed(one, f"m/{one & 7}", item(to), True) for one in lookups]


def look(core: Core, number: int, owner: int = RUNS) -> Any:
    return core.ask(requests.Look(JOB.what, str(number)), owner=owner)


def grant(core: Core, who: str, words: str, queue: str = "") -> None:
    request = requests.SetRights(who, words.split(","), queue)
    request.check()
    assert core.ask(request) is None


def test_a_batch_takes_out_sends_again_and_is_counted_in_one_record(core: Core) -> None:
    job = start(core)
    assert (job.number, job.state, job.total, job.action) == (1, "running", 5, "move")
    stood, before = places(core), len(core.records)
    work = core.ask(batch(1, 0, *moved(*stood[:3])))
    assert isinstance(work, Work)
    assert (work.done, work.after) == (3, stood[2])
    assert places(core) == stood[3:]
    assert len(places(core, OTHER)) == 3
    assert len(core.records) == before + 1
    assert look(core, 1).done == look(core, 1).looked == 3
    assert core.ask(batch(1, stood[2], *moved(*stood[3:]), over=True)) is None
    shown = look(core, 1)
    assert (shown.state, shown.done, shown.ended > 0) == ("done", 5, True)


def test_a_batch_that_was_done_is_not_done_again(core: Core) -> None:
    start(core)
    stood = places(core)
    core.ask(batch(1, 0, *moved(*stood[:2])))
    work: Any = core.ask(batch(1, 0, *moved(*stood[:2])))
    assert (work.done, work.after) == (2, stood[1]), "it says where the job is"
    assert len(places(core, OTHER)) == 2
    assert (look(core, 1).looked, look(core, 1).gone) == (2, 0)


def test_what_came_later_or_was_taken_is_not_done(core: Core) -> None:
    start(core)
    stood = places(core)
    core.ask(requests.Commit(0, [item(Q, b"late")], TransactionId(b"s" * 16, 9)))
    core.ask(requests.Receive(Q))
    late = places(core)[-1]
    work: Any = core.ask(batch(1, 0, *moved(stood[0], stood[1], late)))
    shown = look(core, 1)
    assert (work.done, shown.gone, shown.looked) == (1, 2, 3)
    assert late in places(core)


def test_what_cannot_be_sent_stays_and_is_named(core: Core) -> None:
    start(core, "return")
    stood = places(core)
    core.ask(batch(1, 0, *moved(stood[0], to=GONE), *moved(stood[1])))
    shown = look(core, 1)
    assert (shown.done, shown.failed) == (1, 1)
    (one,) = shown.failures
    assert (one.queue, one.lookup_id, one.code) == (Q, stood[0], "queue-not-found")
    assert places(core) == [stood[0], *stood[2:]]
    listed: Any = core.ask(requests.Look(JOBS.what))
    assert [(job.failed, job.failures) for job in listed] == [(1, ())]


def test_only_so_many_that_failed_are_named(core: Core) -> None:
    start(core, "return")
    (first, *_), many = places(core), JOB_FAILURES_MAX + 7
    deeds = moved(*[first] * many, to=GONE)
    core.ask(batch(1, 0, *deeds))
    shown = look(core, 1)
    assert (shown.failed, len(shown.failures)) == (many, JOB_FAILURES_MAX)


def test_a_purge_sends_nothing(core: Core) -> None:
    start(core, "purge")
    core.ask(batch(1, 0, *(JobDeed(one, "") for one in places(core)), over=True))
    assert (places(core), places(core, OTHER)) == ([], [])


def test_what_is_sent_as_new_stays(core: Core) -> None:
    start(core, "send-as-new")
    stood = places(core)
    core.ask(batch(1, 0, *moved(*stood)))
    assert places(core) == stood
    assert len(places(core, OTHER)) == 5


def test_when_the_disk_is_nearly_full_a_job_waits_and_says_so(core: Core) -> None:
    start(core)
    stood = places(core)
    core.step(SpaceChanged(True))
    assert isinstance(core.ask(batch(1, 0, *moved(*stood))), StorageReserve)
    shown = look(core, 1)
    assert (shown.done, shown.state) == (0, "running")
    assert "disk" in shown.trouble
    counted: Any = core.ask(requests.Look(METRICS.what))
    assert (counted.jobs_running, counted.jobs_waiting) == (1, 1)
    assert places(core) == stood
    core.step(SpaceChanged(False))
    assert isinstance(core.ask(batch(1, 0, *moved(*stood))), Work)
    assert look(core, 1).trouble == ""


def test_a_job_waits_while_the_directory_is_away_that_a_destination_needs(core: Core) -> None:
    """Finding J3: no letter of it fails meanwhile."""
    far = PublicQueue(b"p" * 16, "FAR", "orders", transactional=True)
    there = Snapshot([Computer("FAR", b"f" * 16)], [far])
    core.step(DirectoryChanged(there, ""))
    name = f"PUBLIC={guid_text(far.guid)}"
    start(core, to=name)
    stood = places(core)
    core.step(DirectoryChanged(None, "the file is gone"))
    refused = core.ask(batch(1, 0, *moved(stood[0]), *moved(*stood[1:], to=name)))
    assert isinstance(refused, NoDirectory)
    shown = look(core, 1)
    assert (shown.state, shown.failed, shown.done) == ("running", 0, 0)
    assert "the file is gone" in shown.trouble
    assert places(core) == stood
    core.step(DirectoryChanged(there, ""))
    assert core.ask(batch(1, 0, *moved(*stood, to=name), over=True)) is None
    shown = look(core, 1)
    assert (shown.state, shown.failed, shown.done) == ("done", 0, 5)


def test_a_cancelled_job_does_nothing_more(core: Core) -> None:
    start(core)
    stood = places(core)
    core.ask(batch(1, 0, *moved(stood[0])))
    cancelled: Any = core.ask(requests.CancelJob(1), owner=RUNS)
    assert (cancelled.state, cancelled.done) == ("cancelled", 1)
    assert core.ask(batch(1, stood[0], *moved(stood[1]))) is None
    assert places(core) == stood[1:]
    again: Any = core.ask(requests.CancelJob(1))
    assert again == cancelled, "it is over, and stays as it was"
    assert core.ask(NextJob(0)) is None
    core.ask(JobFailed(1, "late"))
    assert look(core, 1).state == "cancelled"


def test_a_job_that_cannot_go_on_says_why(core: Core) -> None:
    start(core)
    core.ask(JobFailed(1, "for now", final=False))
    assert (look(core, 1).state, look(core, 1).trouble) == ("running", "for now")
    core.ask(JobFailed(1, "its queue cannot be read"))
    shown = look(core, 1)
    assert (shown.state, shown.why, shown.trouble) == ("failed", "its queue cannot be read", "")


def test_jobs_have_their_turn_in_order(core: Core) -> None:
    start(core)
    start(core)
    first: Any = core.ask(NextJob(0))
    second: Any = core.ask(NextJob(first.number))
    assert (first.number, second.number) == (1, 2)
    assert core.ask(NextJob(2)) is None


@pytest.mark.parametrize(
    ("queues", "more", "error"),
    [
        ([GONE], {}, QueueNotFound),
        ([Q, KEY], {}, InvalidParameter),
        ([Q], {"to": Q}, InvalidParameter),
        ([Q], {"to": GONE}, QueueNotFound),
    ],
)
def test_what_cannot_be_started(
    core: Core, queues: list[str], more: dict[str, str], error: type[OnceqError]
) -> None:
    request = requests.StartJob("return", queues, **more)  # type: ignore[arg-type]
    request.check()
    assert isinstance(core.ask(request), error)
    assert not core.manager.state.jobs


@pytest.mark.parametrize(
    "said",
    [
        ("fly", [Q]),
        ("purge", []),
        ("purge", [Q] * (JOB_QUEUES_MAX + 1)),
        ("purge", [Q], OTHER),
        ("move", [Q]),
        ("return", [Q], "", -1),
        ("return", [Q], "", 0, 0),
        ("return", [Q], "", 0, 1, False, False, "sunburnt"),
        ("return", [Q], "", 0, 1, False, False, "", "x" * 1000),
        ("return", [Q], "", 0, 1, False, False, "", "", "", "nobody"),
        ("return", [Q], "", 0, 1, False, False, "", "", "", "", -1),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_is_asked(said: tuple[Any, ...]) -> None:
    with pytest.raises(OnceqError):
        requests.StartJob(*said).check()


def test_there_are_never_too_many(core: Core) -> None:
    for _ in range(JOBS_RUNNING_MAX):
        start(core)
    assert isinstance(start(core), InsufficientResources)
    for number in range(1, JOBS_RUNNING_MAX + 1):
        core.ask(requests.CancelJob(number))
    for number in range(JOBS_RUNNING_MAX + 1, JOBS_KEPT_MAX + 3):
        assert start(core).number == number
        core.ask(requests.CancelJob(number))
    found: Any = core.ask(requests.Look(JOBS.what))
    assert [one.number for one in found] == list(range(3, JOBS_KEPT_MAX + 3))
    assert isinstance(look(core, 1), InvalidParameter)


def test_jobs_survive_a_checkpoint_and_the_log(core: Core) -> None:
    start(core, "return", limit=7, label="rush", older_s=5, in_doubt=True)
    start(core, owner=RUNS)
    stood = places(core)
    core.ask(batch(1, 0, *moved(stood[0]), *moved(stood[1], to=GONE), kept=(("why", 3),)))
    core.ask(requests.CancelJob(2))
    for checkpoint in (None, core.manager.snapshot().encode()):
        raw = None if checkpoint is None else b"".join(map(bytes, checkpoint))
        records = core.records if raw is None else []
        again = Manager(IDENTITY, Settings())
        again.recover(core.now(), raw, records, core.manager.position, entropy=bytes(ENTROPY_BYTES))
        assert [*again.state.jobs] == [*core.manager.state.jobs]
        found = differences(core.manager.state, again.state)
        assert not [one for one in found if "jobs" in one]
    shown = look(core, 1)
    assert shown.which == {"label": "rush", "older_s": 5, "in_doubt": True, "returns_max": 1}
    assert shown.kept == {"why": 3}


# ---- whose they are ------------------------------------------------------------------------------


def test_a_job_may_do_what_its_starter_may(core: Core) -> None:
    assert isinstance(start(core, owner=ALICE), AccessDenied)
    grant(core, "account:alice", "receive", KEY)
    assert isinstance(start(core, owner=ALICE), AccessDenied), "and send to where they go"
    grant(core, "account:alice", "send", "private$\\other")
    job = start(core, owner=ALICE)
    assert (job.who, job.state) == ("account:alice", "running")
    stood = places(core)
    core.ask(batch(1, 0, *moved(stood[0])))
    assert look(core, 1).done == 1


def test_a_job_whose_starter_may_no_longer_take_fails(core: Core) -> None:
    grant(core, "account:alice", "receive", KEY)
    start(core, "purge", owner=ALICE)
    stood = places(core)
    take = requests.SetRights("account:alice", ["receive"], KEY, take=True)
    take.check()
    core.ask(take)
    assert core.ask(batch(1, 0, JobDeed(stood[0], ""))) is None
    shown = look(core, 1)
    assert (shown.state, shown.done) == ("failed", 0)
    assert "receive" in shown.why
    assert places(core) == stood


def test_a_message_that_its_starter_may_not_send_stays(core: Core) -> None:
    grant(core, "account:alice", "receive", KEY)
    start(core, "return", owner=ALICE)
    stood = places(core)
    core.ask(batch(1, 0, *moved(stood[0])))
    (one,) = look(core, 1).failures
    assert one.code == "access-denied"
    assert places(core) == stood


def of_token(core: Core, age_s: int) -> None:
    """A job that was started by a token."""
    made = requests.CreateToken("robot", age_s, [("receive", KEY)])
    made.check()
    made.secret = b"S" * 32
    core.ask(made)
    token: Any = core.manager.state.tokens.get("robot")
    core.step(OwnerCame(7, Actor(ActorKind.TOKEN, "robot"), token.digest))
    assert start(core, "purge", owner=7).state == "running"


def test_a_job_of_a_token_that_has_expired_fails(core: Core) -> None:
    of_token(core, 60)
    core.now_us += 61_000_000
    assert core.ask(batch(1, 0, JobDeed(places(core)[0], ""))) is None
    assert "robot" in look(core, 1).why


def test_a_job_of_a_token_that_is_revoked_fails(core: Core) -> None:
    of_token(core, 0)
    core.ask(requests.RevokeToken("robot"))
    assert core.ask(batch(1, 0, JobDeed(places(core)[0], ""))) is None
    assert "robot" in look(core, 1).why


def test_each_sees_and_cancels_his_own(core: Core) -> None:
    grant(core, "account:alice", "receive", KEY)
    start(core, "purge", owner=ALICE)
    start(core)
    mine: Any = core.ask(requests.Look(JOBS.what), owner=ALICE)
    assert [one.number for one in mine] == [1]
    assert isinstance(look(core, 1, ALICE), JobView)
    assert isinstance(look(core, 2, ALICE), AccessDenied)
    assert isinstance(look(core, 1, BOB), AccessDenied)
    assert core.ask(requests.Look(JOBS.what), owner=BOB) == []
    for owner, number in ((BOB, 1), (ALICE, 2)):
        assert isinstance(core.ask(requests.CancelJob(number), owner=owner), AccessDenied)
    cancelled: Any = core.ask(requests.CancelJob(1), owner=ALICE)
    assert (cancelled.state, cancelled.why) == ("cancelled", "by account:alice")
    assert isinstance(core.ask(requests.CancelJob(9), owner=BOB), AccessDenied)
    grant(core, "account:bob", "operate")
    assert core.ask(requests.CancelJob(2), owner=BOB).state == "cancelled"  # type: ignore[attr-defined]


def test_start_and_end_stand_in_the_trail_under_the_name_of_the_starter(core: Core) -> None:
    grant(core, "account:alice", "receive", KEY)
    start(core, "purge", owner=ALICE)
    core.ask(batch(1, 0, *(JobDeed(one, "") for one in places(core)), over=True))
    acts: Any = core.ask(requests.Look(TRAIL.what, "0"))
    assert [(one.who, one.where, one.what, one.about) for one in acts] == [
        ("account:alice", "local", "start job", f"1: purge {Q}"),
        ("account:alice", "local", "end job", "1 done: 5 done, 0 kept, 0 failed"),
    ]


def test_looking_at_nonsense_is_refused(core: Core) -> None:
    for name in ("", "one", "-1", "\u0661", "9" * 50):
        assert isinstance(core.ask(requests.Look(JOB.what, name)), InvalidParameter)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_a_job_does_not_go_on_into_the_next_queue_of_that_name(
    core: Core, *, again: bool, restart: bool
) -> None:
    start(core)
    stood = places(core)
    core.ask(requests.DeleteQueue(OTHER))
    if again:
        request = requests.CreateQueue({"name": "other", "transactional": True})
        request.check()
        request.instance = b"again".ljust(16)
        core.ask(request)
    if restart:
        core.manager = core.again()
    assert core.ask(batch(1, 0, *moved(*stood[:3]))) is None
    shown = look(core, 1)
    assert (shown.state, shown.why) == ("failed", f"{OTHER} was deleted since the job began")
    assert places(core) == stood


def test_a_job_of_an_older_version_goes_by_the_name() -> None:
    """Its record and its row in a checkpoint say nothing of the queue."""
    told = JobStarted.of(
        {
            "number": 1, "sources": [], "order": {"action": "move", "to": OTHER}, "who": "",
            "where": "", "free": True, "at_s": 1, "total": 0,
        }
    )  # fmt: skip
    assert told.into == ()
    jobs = Jobs()
    row = [1, [], {"action": "move", "to": OTHER}, "", "", True, 1, 0, "running"]
    jobs.load([[*row, 0, 0, 0, 0, 0, 0, 0, False, [], [], ""]])
    (job,) = jobs
    assert (job.into, job.why) == ((), "")
