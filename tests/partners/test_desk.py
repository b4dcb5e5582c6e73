"""``onceq tx``: what an operator sees of transactions in doubt, and does about them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import onceq
from onceq.errors import CommittedByHand
from onceq.model.branches import ONCEQ_FORMAT, Xid, make_gtrid
from onceq.model.identity import guid_bytes
from tests import nursery
from tests.daemon.applications import Daemon
from tests.daemon.shell import ONCEQ
from tests.scratch import scratch
from tests.servers import Postgres, free_port, postgres

pytestmark = pytest.mark.slow
Q = r"private$\q"
XID = Xid(7, b"foreign", b"b")

Tx = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as made:
        made.execute("CREATE TABLE t (x int)")
        yield made


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with scratch(tmp_path_factory, "desk") as folder, Daemon(folder / "a") as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(Q, transactional=True)
        yield made


@pytest.fixture
def tx(daemon: Daemon) -> Tx:
    def command(*arguments: str, code: int = 0) -> str:
        done = nursery.run(
            [*ONCEQ, "-q", daemon.where, "tx", *arguments],
            capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return command


def prepared(qm: onceq.QueueManager, xid: Xid = XID) -> None:
    with qm.branch(xid) as work:
        work.send(Q, "m")
    qm.xa.prepare(xid)


def test_nothing_is_open(tx: Tx) -> None:
    assert "no transaction is open" in tx("list")
    assert "nothing was left prepared" in tx("recover")
    assert "unknown-branch" in tx("show", "7:x:y", code=2)
    assert "invalid-parameter" in tx("show", "nonsense", code=2)
    assert "not the address of a database" in tx("list", "-d", "oracle://x", code=2)


def test_a_foreign_branch_by_hand(daemon: Daemon, tx: Tx) -> None:
    with onceq.connect(daemon.where) as qm:
        prepared(qm)
        text = tx("list")
        assert "7:foreign:b" in text
        assert "its coordinator decides" in text
        assert "1 messages to" in tx("show", "7:foreign:b")
        assert "would be committed by hand" in tx("commit", "7:foreign:b", "--dry-run")
        assert "not a terminal: confirm with --yes" in tx("commit", "7:foreign:b", code=2)
        assert qm.xa.recover() == [XID]
        assert "committed by hand" in tx("commit", "7:foreign:b", "--yes")
        assert qm.receive(Q, timeout=0).text == "m"
        assert "committed by hand" in tx("list")
        with pytest.raises(CommittedByHand):
            qm.xa.rollback(XID)
        assert "only a prepared one" in tx("abort", "7:foreign:b", "--yes", code=2)
        assert "would be forgotten" in tx("forget", "7:foreign:b", "--dry-run")
        assert "not a terminal: confirm with --yes" in tx("forget", "7:foreign:b", code=2)
        assert "forgotten" in tx("forget", "7:foreign:b", "--yes")
        assert "no transaction is open" in tx("list")
        prepared(qm)
        assert "rolled back by hand" in tx("abort", "7:foreign:b", "-y")
        assert json.loads(tx("list", "--json"))["branches"][0]["phase"] == "rolled back by hand"
        tx("forget", "7:foreign:b", "-y")


def test_a_branch_that_another_manager_decides(daemon: Daemon, tx: Tx, tmp_path: Path) -> None:
    with Daemon(tmp_path / "h") as home, onceq.connect(daemon.where) as qm:
        with onceq.connect(home.where) as decider:
            xid = Xid(ONCEQ_FORMAT, make_gtrid(guid_bytes(decider.id), 5), b"1")
        prepared(qm, xid)
        assert "in doubt: queue manager" in tx("list")
        refused = tx("commit", str(xid), "--decider", home.where, code=2)
        assert "says that it is aborted" in refused
        assert "would be rolled back as was decided" in tx(
            "abort", str(xid), "--decider", home.where, "--dry-run"
        )
        assert "rolled back: " in tx("abort", str(xid), "--decider", home.where)
        assert qm.admin.branches() == []


def test_what_is_left_in_a_database(daemon: Daemon, tx: Tx, server: Postgres) -> None:
    where = f"postgresql://onceq@127.0.0.1:{server.port}/one"
    with onceq.connect(daemon.where) as qm, psycopg.connect(server.where()) as db:
        mine = make_gtrid(guid_bytes(qm.id), 9)
        db.tpc_begin(db.xid(ONCEQ_FORMAT, mine.decode(), "1"))
        db.execute("INSERT INTO t VALUES (1)")
        db.tpc_prepare()
        db.close()
    branch = str(Xid(ONCEQ_FORMAT, mine, b"1"))
    assert "tx recover rolls it back" in tx("list", "-d", where)
    shown = tx("show", branch, "-d", where)
    assert "aborted" in shown
    assert "would be rolled back at postgresql:" in tx("recover", "-d", where, "--dry-run")
    assert len(server.prepared_ids()) == 1
    assert json.loads(tx("recover", "-d", where, "--json"))["rolled_back"][0][1] == branch
    assert server.prepared_ids() == []
    dead = f"postgresql://onceq@127.0.0.1:{server.port}/none"
    assert "partner-lost" in tx("recover", "-d", dead, code=3)


def test_recovery_that_goes_on(daemon: Daemon, server: Postgres, tmp_path: Path) -> None:
    """What cannot be asked is said once; what is done is said; Ctrl-C ends it."""
    where = server.where()
    with onceq.connect(daemon.where) as qm:
        xid = Xid(ONCEQ_FORMAT, make_gtrid(guid_bytes(qm.id), 77), b"1")
    nobody = f"host=127.0.0.1 port={free_port()} password=secret dbname=x"
    with Daemon(tmp_path / "o", name="OTHER") as other, onceq.connect(other.where) as there:
        there.create_queue(Q, transactional=True)
        prepared(there, xid)
    with nursery.Popen(
        [*ONCEQ, "-q", daemon.where, "tx", "recover", "--watch", "-d", where, "-d", nobody,
         "-o", other.where],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as watching:  # fmt: skip
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert "looks after 3 partners" in watching.stderr.readline()
        missed = sorted(watching.stderr.readline() for _ in range(2))
        assert f"{other.where} cannot be asked: " in missed[0]
        assert "password=… dbname=x cannot be asked: " in missed[1]
        with Daemon(tmp_path / "o", name="OTHER") as other, onceq.connect(other.where) as there:
            assert "rolled back at onceq:" in watching.stdout.readline()
            assert f"no longer: {other.where} cannot be asked" in watching.stderr.readline()
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == 130
            assert "secret" not in watching.stderr.read()
            assert there.admin.branches() == []
