"""A manager shared by threads: one sync for many, no lost wake-ups, a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import onceq
from onceq.core.inputs import Tick
from onceq.embedded import host as host_module
from onceq.embedded.host import EmbeddedHost, Slot
from onceq.errors import (
    ConfigurationError,
    PortInUse,
    QueueNotFound,
    ReceiveTimeout,
    ServiceNotAvailable,
    StorageFailure,
    SyncFailed,
    UsageError,
)
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.model.views.view import Page
from onceq.packet.arrived import Batch
from onceq.service.config import Configuration
from onceq.service.data_directory import init, open_store
from onceq.service.wires import PeerWire
from onceq.wire.mqqb.session import Session

QUIET = Configuration(listen="", settings=Settings(connect_retry_s=0.05, order_ack_delay_s=0.01))
Q = r".\private$\q"


class App:
    """What an application does with a host, in few words."""

    def __init__(self, host: EmbeddedHost) -> None:
        self.host = host

    def create(self, name: str = "q", *, transactional: bool = True) -> None:
        properties = {"name": name, "transactional": transactional}
        self.host.call(requests.CreateQueue(properties))

    def send(self, *bodies: bytes, to: str = Q) -> object:
        return self.host.call(requests.Commit(0, [SendItem(to, PLAIN, Run.of(bodies))]))

    def receive(self, count: int = 1, *, wait_ms: int = 0, queue: str = Q) -> int:
        got = self.host.call(receive(count, wait_ms, queue))
        assert isinstance(got, Batch)
        return len(got.run)

    def look(self, what: str, name: str = "") -> Any:
        found = self.host.call(requests.Look(what, name))
        return list(found.views) if isinstance(found, Page) else found


def receive(count: int = 1, wait_ms: int = 0, queue: str = Q) -> requests.Receive:
    return requests.Receive(queue, 0, count, 1 << 22, wait_ms)


Make = Callable[..., App]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    hosts: list[EmbeddedHost] = []

    def made(name: str = "ALPHA", configuration: Configuration = QUIET) -> App:
        path = tmp_path / name
        store = open_store(str(path)) if path.exists() else init(str(path), name=name)
        hosts.append(EmbeddedHost(str(path), store, configuration))
        return App(hosts[-1])

    yield made
    for host in hosts:
        host.close()


@pytest.fixture
def app(make: Make) -> App:
    made = make()
    made.create()
    return made


def until(true: Callable[[], object]) -> None:
    """Wait for what another thread is about to do; only a defect makes that long."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it never came"


class Syncs:
    """Stands between the log of a store and its disk; lets syncs wait, fail, or be counted."""

    def __init__(self, host: EmbeddedHost) -> None:
        self.store = cast(Any, host.engine.store)
        self.files = self.store._files
        self.real = self.files.sync
        self.files.sync = self
        self.count = 0
        self.before: Callable[[], None] = lambda: None

    def __call__(self, file: int) -> None:
        if file in [segment.file for segment in self.store._table[1]]:
            self.count += 1
            self.before()
        self.real(file)


def test_send_and_receive(app: App) -> None:
    app.send(b"one", b"two")
    assert app.receive(5) == 2
    with pytest.raises(ReceiveTimeout):
        app.receive()
    with pytest.raises(QueueNotFound):
        app.receive(queue=r".\private$\none")


def test_what_was_committed_is_there_after_a_restart(make: Make) -> None:
    first = make()
    first.create()
    first.send(b"kept")
    first.host.close()
    second = make()
    assert second.receive(5) == 1


def test_sixteen_threads_share_syncs(app: App) -> None:
    """While one thread waits for the disk the others put theirs beside: then one sync for all."""
    syncs = Syncs(app.host)
    others, engine = 15, app.host.engine
    enough = threading.Event()

    def hold() -> None:
        if syncs.count == 1:
            assert enough.wait(30)

    syncs.before = hold
    with ThreadPoolExecutor(1 + others) as pool:
        done = [pool.submit(app.send, b"x")]
        until(lambda: syncs.count)
        done += [pool.submit(app.send, b"x") for _ in range(others)]
        until(lambda: len(engine.inbox) >= others)
        enough.set()
        for each in done:
            each.result(30)
    assert syncs.count == 2
    assert app.receive(100) == 1 + others


def test_no_request_is_forgotten_however_threads_meet(app: App) -> None:
    """The gap between giving the lock back and somebody else's request must not swallow it."""

    def work(thread: int) -> int:
        got = 0
        for turn in range(40):
            app.send(b"%d/%d" % (thread, turn))
            got += app.receive(1, wait_ms=60_000)
        return got

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(work, range(16))) == 16 * 40
    with pytest.raises(ReceiveTimeout):
        app.receive()


@pytest.mark.parametrize("who", ["caller", "loop"])
def test_what_comes_while_another_pumps_is_seen_to_by_him(
    app: App, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Whoever finds the lock taken goes away at once; so he who has it must look again."""
    monkeypatch.setattr(host_module, "ROUNDS", 1)
    host, syncs = app.host, Syncs(app.host)
    held, go_on = threading.Event(), threading.Event()
    answered: list[str] = []

    def hold() -> None:
        if not held.is_set():
            held.set()
            assert go_on.wait(60)

    def submit(name: str) -> None:
        item = SendItem(Q, PLAIN, Run.of([b"x"]))
        host.submit(requests.Commit(0, [item]), lambda result: answered.append(name))

    for _ in range(3):
        host._await(asyncio.sleep(0))  # the loop has done what the start has left it
    syncs.before = hold
    submit("first")
    pumps = host.pump if who == "caller" else host._go_on
    if who == "caller":
        first = threading.Thread(target=pumps)
        first.start()
    else:
        host._loop.call_soon_threadsafe(pumps)
    assert held.wait(60)
    submit("second")
    host.pump()
    assert not answered
    go_on.set()
    until(lambda: answered == ["first", "second"])


def test_a_receive_waits_for_what_another_thread_sends(app: App) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(app.receive, 1, wait_ms=-1)
        until(lambda: app.look("status").waiting_readers)
        app.send(b"at last")
        assert waiting.result(30) == 1


def test_a_receive_that_waits_in_vain_ends_by_itself(app: App) -> None:
    with pytest.raises(ReceiveTimeout):
        app.receive(wait_ms=30)


def test_what_was_only_told_goes_with_what_is_asked_next_or_is_seen_to_by_the_loop(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "TOLD_S", 0.001)
    for number in range(1, 20):
        app.host.tell(requests.Begin(number))
        if number % 3:
            until(lambda: not app.host.engine.has_work)
        else:
            assert len(app.look("transactions")) == number


def test_closing_ends_those_who_wait(app: App) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(app.receive, 1, wait_ms=-1)
        until(lambda: app.look("status").waiting_readers)
        app.host.close()
        with pytest.raises(ServiceNotAvailable):
            waiting.result(30)
    with pytest.raises(ServiceNotAvailable, match="closed"):
        app.send(b"late")
    app.host.close()


def test_when_the_disk_fails_everybody_is_told_and_nobody_gets_an_answer(make: Make) -> None:
    app = make()
    app.create()
    app.send(b"good")
    syncs = Syncs(app.host)
    both = threading.Event()

    def fail() -> None:
        assert both.wait(30)
        raise SyncFailed("a planted failure")

    syncs.before = fail
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(app.send, b"never said to be there")
        until(lambda: syncs.count)
        second = pool.submit(app.send, b"never even tried")
        until(lambda: app.host.engine.inbox)
        both.set()
        for each in (first, second):
            with pytest.raises(SyncFailed):
                each.result(30)
    with pytest.raises(SyncFailed):
        app.send(b"late")
    assert syncs.count == 1, "a sync is not tried again"
    app.host.close()
    again = make()
    assert again.receive(5) in (1, 2), "the one in doubt may be there or not; the third never"


def test_an_interrupt_in_the_middle_of_a_pump_stops_it_as_a_crash_would(make: Make) -> None:
    app = make()
    app.create()
    syncs = Syncs(app.host)

    def interrupt() -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def send_until_it_comes() -> None:
        while True:  # the background thread may have pumped for us
            app.send(b"x")

    syncs.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        send_until_it_comes()
    syncs.before = lambda: None
    with pytest.raises(StorageFailure, match="open it again"):
        app.send(b"y")
    app.host.close()
    assert make().receive(100) >= 1


def test_an_interrupted_receive_waits_no_longer(app: App) -> None:
    """Else a message would be handed to somebody who has stopped to look."""
    host = app.host
    original = host.pump
    pumps = 0

    def pump() -> None:
        nonlocal pumps
        original()
        pumps += 1
        if pumps == 1:
            raise KeyboardInterrupt

    host.pump = pump  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        app.receive(wait_ms=-1)
    assert app.look("status").waiting_readers == 0
    app.send(b"still here")
    assert app.receive() == 1


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_an_answer_that_a_signal_handler_interrupts_comes(app: App, error: type[Exception]) -> None:
    """The answer itself, or why there is none: nobody waits without end."""
    came: list[object] = []

    def interrupted(result: object) -> None:
        if not came:
            came.append(None)
            raise error
        came.append(result)

    app.host.submit(requests.Commit(0, [SendItem(Q, PLAIN, Run.of([b"m"]))]), interrupted)
    with contextlib.suppress(ValueError):  # or the loop has pumped, and says it
        app.host.pump()
    until(lambda: len(came) == 2)
    # A loop that is over raises a RuntimeError; what was done is told then.
    assert isinstance(came[1], StorageFailure) == (error is ValueError)


def test_an_asker_that_is_gone_harms_nobody(app: App) -> None:
    def gone(result: object) -> None:
        raise RuntimeError("Event loop is closed")

    app.host.submit(requests.Look("status"), gone)
    app.host.pump()
    app.send(b"x")
    assert app.receive() == 1


def test_a_mistake_of_ours_stops_it_and_tells_those_who_wait(make: Make) -> None:
    app = make()
    app.create()
    step = app.host.engine.manager.step

    def wrong(now: Any, item: Any) -> Any:
        if isinstance(item, Tick):
            raise LookupError("a planted mistake")
        return step(now, item)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(app.receive, 1, wait_ms=-1)
        until(lambda: app.look("status").waiting_readers)
        app.host.engine.manager.step = wrong  # type: ignore[method-assign]
        app.host._loop.call_soon_threadsafe(app.host._ring)
        with pytest.raises(StorageFailure, match="a planted mistake"):
            waiting.result(30)
    app.host.close()
    assert make().look("status").queues == 1, "closing has let the lock go"


def test_a_child_process_must_not_touch_what_is_its_parents(app: App) -> None:
    reads, writes = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - in another process
        signal.alarm(60)
        said = b"nothing was refused"
        try:
            app.send(b"from the child")
        except UsageError as error:
            said = error.text.encode()
        app.host.close()
        os.write(writes, said)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        assert b"before the process forked" in pipe.read()
    os.waitpid(child, 0)
    app.send(b"from the parent")
    assert app.receive(5) == 1


def test_two_hosts_talk_over_the_network(make: Make) -> None:
    beta = make("BETA", replace(QUIET, listen="127.0.0.1:0"))
    beta.create()
    alpha = make("ALPHA", replace(QUIET, peers={"beta": beta.host.peers_at}))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(beta.receive, 10, wait_ms=30_000)
        alpha.send(b"hello", to=r"DIRECT=OS:BETA\private$\q")
        assert waiting.result(40) == 1


def test_a_busy_application_does_not_starve_its_network(make: Make) -> None:
    beta = make("BETA", replace(QUIET, listen="127.0.0.1:0"))
    beta.create()
    beta.create("own")
    alpha = make("ALPHA", replace(QUIET, peers={"BETA": beta.host.peers_at}))
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            beta.send(b"x", to=r".\private$\own")

    with ThreadPoolExecutor(5) as pool:
        working = [pool.submit(busy) for _ in range(4)]
        try:
            for number in range(5):
                alpha.send(b"%d" % number, to=r"DIRECT=OS:BETA\private$\q")
                assert beta.receive(1, wait_ms=30_000) == 1
        finally:
            over.set()
        for each in working:
            each.result(30)


def test_what_goes_to_a_slow_peer_does_not_pile_up_in_memory(make: Make) -> None:
    """The peer opens the session and then reads nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    alpha = make("ALPHA", replace(QUIET, peers={"SLOW": f"127.0.0.1:{port}"}))
    for _ in range(40):
        alpha.send(b"x" * (1 << 20), to=r"DIRECT=OS:SLOW\private$\q")
    peer, _ = listener.accept()
    session = Session(initiator=False, own_id=b"S" * 16, settings=Settings(), now_us=0)
    while not session.opened:
        session.receive(peer.recv(1 << 16), 0)
        peer.sendall(b"".join(map(bytes, session.take_output())))
    (wire,) = alpha.host._network._open
    until(lambda: not wire.writable)  # type: ignore[attr-defined]
    alpha.send(b"one more", to=r"DIRECT=OS:SLOW\private$\q")
    waiting = wire._transport.get_write_buffer_size()  # type: ignore[union-attr]
    waiting += sum(map(len, wire._pieces))
    assert waiting < 8 << 20
    peer.close()
    listener.close()


def test_an_application_may_also_come_over_tcp(make: Make) -> None:
    app = make("ALPHA", replace(QUIET, client_listen="127.0.0.1:0"))
    app.create()
    app.host.call(requests.SetRights("nobody", ["administer"]))
    with onceq.connect(f"onceq://{app.host.clients_at}") as other:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.receive, r"private$\q", timeout=30.0)
            until(lambda: app.look("status").waiting_readers)
            app.send(b"from a thread of this process")
            assert waiting.result(30).body == b"from a thread of this process"
        other.send(r"private$\q", b"from the socket", transactional=True)
    assert app.receive(5) == 1


def test_a_port_in_use_is_said_and_everything_given_back(make: Make, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        store = init(str(tmp_path / "x"), name="X")
        before = threading.active_count()
        with pytest.raises(PortInUse, match=where):
            EmbeddedHost(str(tmp_path / "x"), store, replace(QUIET, listen=where))
        assert threading.active_count() <= before
        store.close()
    again = open_store(str(tmp_path / "x"))
    again.close()


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    store = init(str(tmp_path), name="X")
    with pytest.raises(ConfigurationError, match=r"cannot listen at 192\.0\.2\.1:0"):
        EmbeddedHost(
            str(tmp_path), store, replace(QUIET, listen="192.0.2.1:0", plain_peers=("192.0.2.2",))
        )
    store.close()


def test_what_comes_while_the_network_makes_a_mistake_is_seen_to_all_the_same(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He who had the lock looks again, also if what he had to do failed."""
    host = app.host
    answered = threading.Event()
    pump, late = host.engine.pump, [True]

    def submit() -> None:
        item = SendItem(Q, PLAIN, Run.of([b"x"]))
        host.submit(requests.Commit(0, [item]), lambda result: answered.set())
        host.pump()

    def pump_and_more() -> bool:
        more = pump()
        if late:
            late.clear()
            thread = threading.Thread(target=submit)
            thread.start()
            thread.join()
            assert not answered.is_set(), "the lock was taken"
        return more

    def mistake() -> None:
        monkeypatch.setattr(host.engine, "pump", pump_and_more)
        raise ValueError("planted")

    host._network.in_loop(lambda: host._network.use(None, mistake))
    assert answered.wait(60)


class AtOnce(ThreadPoolExecutor):
    """What is handed over is done before anybody can look."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*args, **more))
        return done


def test_work_of_another_thread_that_is_done_at_once_blocks_nobody(app: App) -> None:
    """The loop, in the middle of a pump, is told that a checkpoint is there already."""
    host = app.host
    host._upkeep.shutdown()
    host._upkeep = AtOnce(1)
    looked = threading.Event()

    def work() -> None:
        host._background(lambda: None)
        host._network.loop.call_soon(looked.set)

    host._network.in_loop(lambda: host._network.use(None, work))
    assert looked.wait(20), "the loop waits for itself"
    app.send(b"x")
    assert app.receive() == 1


def test_a_connection_that_takes_more_in_the_middle_of_a_write_blocks_nobody(app: App) -> None:
    """As TLS may say it: from within ``writelines``, while the loop has the lock."""
    host = app.host
    looked = threading.Event()

    def work() -> None:
        PeerWire(host._network, 0).resume_writing()
        host._network.loop.call_soon(looked.set)

    host._network.in_loop(lambda: host._network.use(None, work))
    assert looked.wait(20), "the loop waits for itself"
    app.send(b"x")
    assert app.receive() == 1


def test_what_the_engine_calls_in_a_pump_of_the_loop_may_use_the_engine(app: App) -> None:
    """As a new configuration does, whose members are looked after: the loop has the lock."""
    network, looked = app.host._network, threading.Event()
    network.in_loop(lambda: network.use(None, lambda: network.use(None, looked.set)))
    assert looked.wait(20), "the loop waits for itself"
    app.send(b"x")
    assert app.receive() == 1


@pytest.mark.parametrize(("seconds", "slices"), [(math.inf, 5), (0.03, 3)])
def test_an_answer_is_waited_for_in_slices_so_that_signals_are_heard(
    monkeypatch: pytest.MonkeyPatch, seconds: float, slices: int
) -> None:
    monkeypatch.setattr(host_module, "LOCK_SLICE_S", 0.01)
    waits: list[float] = []

    class Lock:
        def acquire(self, timeout: float = -1) -> bool:
            waits.append(timeout)
            return len(waits) == 5

    slot = Slot()
    slot._lock = Lock()  # type: ignore[assignment]
    assert slot.take(seconds) is None
    assert waits == [0.01] * slices
