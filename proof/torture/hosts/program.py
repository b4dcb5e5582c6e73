"""A program with threads or with tasks, and what its host does to it (``make hosts``)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import onceq
import onceq.aio
from onceq.errors import ManagerAway, OnceqError, ReceiveTimeout, StoreLocked
from proof.torture.hosts.deeds import AtLine, Broken
from proof.torture.hosts.faces import Block, Each, carry_out, handler, now
from proof.torture.hosts.ledger import LOOPS, Drawn, Ledger, Place, Step, fate_of
from proof.torture.hosts.spawned import Carried, connected, work_in_spawned

BY_SIGNAL = ("interrupt", "terminate")


class Program:
    """One life of a program."""

    def __init__(self, drawn: Drawn, place: Place) -> None:
        self._drawn, self._place = drawn, place
        self._in, self._plain, self._out = place.queues
        self._ledger = Ledger(place.told)
        self._tasks = drawn.face == "tasks"
        self._step: Step | None = None
        self._task: Any = None
        self._closing: Any = None
        self._tx: Any = None
        self._along: list[str] = []
        self._stop: Any = None
        self._garbage: list[Any] = []
        self._errors: list[OnceqError] = []

    def run(self) -> None:
        """All of it."""
        if self._tasks:
            asyncio.run(self._main())
        else:
            carry_out(self._main())

    async def _main(self) -> None:
        self._qm = await self._connect()
        try:
            for step in self._drawn.steps:
                await self._take(step)
                if self._ledger.in_child:
                    break
            self._ledger.begin()
            await self._guarded(self.call_send)
        finally:
            with contextlib.suppress(OnceqError):
                await now(self._qm.close())

    async def _connect(self) -> Any:
        """A child that was forked just now may not have let go of the store yet."""
        place = self._place
        while True:
            with contextlib.suppress(ManagerAway, StoreLocked):
                if not self._tasks:
                    return connected(place)
                if place.kind == "embedded":
                    return await onceq.aio.open(place.where)
                return await onceq.aio.connect(
                    place.where, tls=place.tls, token=place.token or None
                )
            time.sleep(0.02)

    async def _take(self, step: Step) -> None:
        """One call, and what is done to it."""
        self._step = step
        print(f"{step}", file=sys.stderr, flush=True)
        # These listen to signals by themselves; `work` of tasks does not.
        loops = step.deed in BY_SIGNAL and step.call in LOOPS[: 1 if self._tasks else 2]
        signal.signal(signal.SIGTERM, signal.SIG_DFL if loops else _leave)
        self._stop = None if loops else asyncio.Event() if self._tasks else threading.Event()
        if step.deed == "collect":
            await self._leave_garbage()
        if step.deed == "spawn":
            await self._find_what_is_carried()
        do = getattr(self, f"call_{step.call}")
        with AtLine(step.line, self._do) as at:
            ended = await (self._in_task(do) if self._tasks else self._guarded(do))
        if at.done and not self._ledger.in_child:
            self._ledger.say("ended", ended)
        if step.deed == "close" and at.done:
            if self._closing is not None:
                await self._closing
            await now(self._qm.close())
            self._qm = await self._connect()

    async def _in_task(self, do: Callable[[], Awaitable[object]]) -> str:
        self._task = asyncio.create_task(self._guarded(do))
        await asyncio.wait([self._task])
        return "cancelled" if self._task.cancelled() else str(self._task.result())

    async def _guarded(self, do: Callable[[], Awaitable[object]]) -> str:
        try:
            await do()
        except OnceqError as error:
            self._errors.append(error)
            return type(error).__name__
        except (Broken, KeyboardInterrupt) as error:
            return type(error).__name__
        return "returned"

    # ---- calls ----------------------------------------------------------------------------

    async def call_send(self) -> None:
        name = self._ledger.name()
        try:
            await now(self._qm.send(self._out, name, transactional=True))
        except BaseException as error:
            self._ledger.note([name], error)
            raise
        self._ledger.note([name], None)

    async def call_commit(self) -> None:
        names = [self._ledger.name(), self._ledger.name()]
        try:
            async with Block(self._qm.transaction()) as tx:
                self._tx, self._along = tx, names
                self._ledger.say("once", names[0])
                await now(tx.send(self._out, names[0]))
                await now(tx.send(self._out, names[1]))
        except BaseException as error:
            self._ledger.note(names, error)
            raise
        finally:
            self._tx = None
        self._ledger.note(names, None)

    async def call_move(self) -> None:
        async with Block(self._qm.transaction()) as tx:
            text = await self._move(tx, await now(tx.receive(self._in, timeout=0.0)))
        self._ledger.say("moved", text)

    async def _move(self, tx: Any, message: Any) -> str:
        await now(tx.send(self._out, f"m-{message.text}"))
        return str(message.text)

    async def call_run(self) -> None:
        async def work(tx: Any) -> str:
            return await self._move(tx, await now(tx.receive(self._in, timeout=0.05)))

        text = await now(self._qm.run(handler(self._tasks, work)))
        self._ledger.say("moved", text)

    async def call_take(self) -> None:
        try:
            found = await now(self._qm.receive(self._plain, timeout=0.0))
        except ReceiveTimeout:
            return
        except BaseException as error:
            if fate_of(error) == "doubt":
                self._ledger.say("took?", "one")
            raise
        self._ledger.say("took", found.text)

    async def call_consume(self) -> None:
        stop, taken = self._stop, []

        async def handle(tx: Any, message: Any) -> None:
            taken.append(await self._move(tx, message))
            if stop is not None and len(taken) == 2:
                stop.set()

        taking = self._qm.consume(self._in, handler(self._tasks, handle), timeout=0.0, stop=stop)
        handled = await now(taking)
        self._ledger.say("handled", f"{handled} {' '.join(taken)}")

    async def call_work(self) -> None:
        """Every other one leaves the loop: then nothing of its last round may happen."""
        name, moved = self._ledger.name(), ""
        leaves = name[-1] in "02468"
        with contextlib.ExitStack() as stack:
            if self._stop is None and not self._tasks:
                self._stop = stack.enter_context(onceq.stopping())
            try:
                working = self._qm.work(self._in, timeout=0.0, stop=self._stop)
                async for tx, message in Each(working):
                    if moved:
                        break  # The signal did not come in the first round.
                    moved = await self._move(tx, message)
                    await now(tx.send(self._out, name))
                    if leaves:
                        break
                    if self._stop is not None and self._step and self._step.deed != "terminate":
                        self._stop.set()
            except BaseException as error:
                self._ledger.note([name], error)
                raise
        self._ledger.say("refused" if leaves or not moved else "sent", name)
        if moved and not leaves:
            self._ledger.say("moved", moved)

    async def call_look(self) -> None:
        await now(self._qm.queue(self._in))
        async with Block(await now(self._qm.open_queue(self._in))) as queue:
            with contextlib.suppress(ReceiveTimeout):
                await now(queue.peek(timeout=0.0))

    # ---- deeds ----------------------------------------------------------------------------

    def _do(self) -> None:
        assert self._step is not None
        self._ledger.say("deed", self._step.deed)
        getattr(self, "deed_" + self._step.deed.replace(" ", "_"))()

    def _in_middle(self, do: Callable[[], Awaitable[object]]) -> None:
        """A call in the middle of another one, as a signal handler makes it."""
        carry_out(self._guarded(do))

    def deed_send(self) -> None:
        self._in_middle(self.call_send)

    def deed_send_in_the_transaction(self) -> None:
        tx = self._tx
        if tx is None:
            return
        name = self._ledger.name()
        try:
            tx.send(self._out, name)
        except OnceqError as error:
            self._ledger.note([name], error)
        else:
            self._along.append(name)  # It has the fate of the transaction.

    def deed_receive(self) -> None:
        self._in_middle(self.call_take)

    def deed_close(self) -> None:
        self._closing = None
        if self._tasks:
            self._closing = asyncio.get_running_loop().create_task(self._qm.close())
        else:
            self._qm.close()

    def deed_cancel(self) -> None:
        self._task.cancel()

    def deed_raise(self) -> None:
        raise Broken

    def deed_exit(self) -> None:
        sys.exit(0)

    def deed_interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def deed_terminate(self) -> None:
        """It ends loops in order, and elsewhere the program, by an exception. While a loop has not
        begun to listen, it kills."""
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._ledger.say("dies", str(int(signal.SIGTERM)))
        os.kill(os.getpid(), signal.SIGTERM)

    def deed_stop(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def deed_collect(self) -> None:
        ring: list[Any] = [self._garbage]
        ring.append(ring)
        self._garbage = []
        del ring
        gc.collect()

    async def _leave_garbage(self) -> None:
        """What only the garbage collector will close: a loop and an open queue that were left."""
        loop = Each(self._qm.work(self._in, timeout=0.0))
        with contextlib.suppress(StopAsyncIteration, OnceqError):
            await anext(loop)
        self._garbage.append(loop)
        with contextlib.suppress(OnceqError):
            self._garbage.append(await now(self._qm.open_queue(self._in)))

    def deed_fork(self) -> None:
        """The child goes on in the middle of the call; one of tasks ends at once."""
        child = os.fork()
        if child:
            self._ledger.say("child", str(child))
        elif self._tasks:
            gc.collect()
            os._exit(0)

    def deed_fork_and_work(self) -> None:
        """The child does something of its own, and ends."""
        child = os.fork()
        if child:
            self._ledger.say("child", str(child))
            return
        code = 1
        try:
            sys.settrace(None)
            self._ledger.begin()
            for do in (self.call_move, self.call_send):
                work = self._guarded(do)
                asyncio.run(work) if self._tasks else carry_out(work)
            code = 0
        finally:
            os._exit(code)

    def deed_fork_and_linger(self) -> None:
        """The child keeps all that it has from its parent until that is judged."""
        child = os.fork()
        if child:
            self._ledger.say("lingers", str(child))
            return
        os.read(self._place.hold, 1)
        os._exit(0)

    async def _find_what_is_carried(self) -> None:
        self._carried = Carried([], [], [])
        with contextlib.suppress(OnceqError):
            found = await now(self._qm.peek_many(self._in))
            message = await now(self._qm.peek(self._in, timeout=0.0))
            self._carried = Carried([found], [message], list(map(bytes, found.bodies())))
        self._carried.errors.extend(self._errors)

    def deed_spawn(self) -> None:
        """A child with an interpreter of its own, as ``multiprocessing`` starts it; it is given
        messages and errors of its parent."""
        context = multiprocessing.get_context("spawn")
        child = context.Process(target=work_in_spawned, args=(self._place, self._carried))
        child.start()
        self._ledger.say("child", str(child.pid))

    def deed_thread(self) -> None:
        """A thread that ends with a transaction open, while this one is in its call."""

        async def work() -> None:
            tx = self._qm.transaction()
            tx.receive(self._in, timeout=0.0)
            await self.call_send()

        do = self._guarded
        threading.Thread(target=lambda: carry_out(do(work)), daemon=True).start()

    def deed_second_loop(self) -> None:
        """Another loop uses the manager meanwhile: it is told so, and nothing happens; or, with an
        embedded one, it is done."""
        thread = threading.Thread(
            target=lambda: asyncio.run(self._guarded(self.call_send)), daemon=True
        )  # fmt: skip
        thread.start()
        thread.join()

    # ---- deeds to the manager and the streams ---------------------------------------------

    def _order(self, what: str) -> None:
        assert self._step is not None
        os.write(self._place.orders, f"{what} {self._step.pause_s}\n".encode())

    def _signal_manager(self, number: int) -> None:
        """Of an embedded one the process is this one."""
        if self._place.kind != "embedded":
            with open(self._place.pid) as file, contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read()), number)
            return
        os.kill(os.getpid(), number)

    def _may_die(self) -> None:
        """This program may be killed here: what it was about to receive for good may be lost."""
        if self._place.kind == "embedded":
            self._ledger.say("dies", str(int(signal.SIGKILL)))
            self._ledger.say("took?", "killed")

    def deed_kill_the_manager(self) -> None:
        self._may_die()
        self._signal_manager(signal.SIGKILL)

    def deed_stop_the_manager(self) -> None:
        self._order("program go" if self._place.kind == "embedded" else "manager go")
        self._signal_manager(signal.SIGSTOP)

    def deed_stop_and_kill_the_manager(self) -> None:
        self._may_die()
        self._order("program kill" if self._place.kind == "embedded" else "manager kill")
        self._signal_manager(signal.SIGSTOP)

    def deed_stop_the_program(self) -> None:
        self._order("program go")
        os.kill(os.getpid(), signal.SIGSTOP)

    def deed_fill_the_pipe(self) -> None:
        """Nobody reads what it writes for a while, and there is no room any more."""
        self._order("reader go")
        os.set_blocking(2, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(2, b"\n" * 512)
        os.set_blocking(2, True)


def _leave(number: int, frame: object) -> None:
    sys.exit(0)
