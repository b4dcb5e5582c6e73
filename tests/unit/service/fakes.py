"""A core that decides what a script says, a store that keeps a diary, and a clock to be set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from onceq.core.decision import Action, Decision, LogRecord
from onceq.core.inputs import Input, Tick
from onceq.core.management.damage import Sparse
from onceq.core.state.state import State
from onceq.core.step.units import Counts
from onceq.errors import StorageFailure
from onceq.model.identity import Identity
from onceq.model.log import frame_size
from onceq.model.marks import Now
from onceq.model.run import Buffer
from onceq.model.settings import Settings
from onceq.service.engine import Engine
from onceq.store.contract import SegmentUse
from onceq.store.memory import MemoryStore

OWN = b"O" * 16
SECOND = 1_000_000
SMALL = Settings(disk_reserve_bytes=100, checkpoint_log_bytes=1_000)


class Diary(MemoryStore):
    """A MemoryStore that notes what is done to it, and fails where it is told to."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.notes = notes
        self.fail: dict[str, StorageFailure] = {}
        self.free = 1 << 40
        self.used: tuple[SegmentUse, ...] | None = None

    def _note(self, what: str, *details: object) -> None:
        self.notes.append(" ".join([what, *map(str, details)]))
        if what in self.fail:
            raise self.fail[what]

    def append(self, payload: bytes, head: int = 0) -> int:
        self._note("append", payload.decode())
        return super().append(payload)

    def flush(self) -> None:
        self._note("flush")

    def sync(self) -> None:
        self._note("sync")
        super().sync()

    def checkpoint(self, state: Sequence[Buffer], position: int) -> None:
        self._note("checkpoint", position)
        super().checkpoint(state, position)

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        self._note("reclaim")
        return super().reclaim(live)

    def segments(self) -> tuple[SegmentUse, ...]:
        return super().segments() if self.used is None else self.used

    def free_bytes(self) -> int:
        return self.free

    def close(self) -> None:
        self.notes.append("close")


class Script:
    """A manager that decides what it is told; the rest of it is as simple as can be."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.identity = Identity(OWN, "OWN", 1)
        self.position = 0
        self.decide: Callable[[Input], Decision | None] = lambda item: None
        self.owing = False
        self.at_work = False
        self.seen: list[Input] = []
        self.timer: int | None = None
        self.recovered: list[bytes] = []
        self.on_recover: Callable[[], Decision] = Decision
        self.image = b"state"
        self.state = State(self.identity)
        self.lives: dict[tuple[int, int], int] = {}
        self.parts: list[Any] = []
        self.counts = Counts()

    life = (b"L" * 16, 1_700_000_000)
    answers_to = staticmethod(str)

    def recover(
        self,
        now: Now,
        checkpoint: bytes | None,
        records: Iterable[tuple[int, memoryview]],
        position: int,
        *,
        entropy: bytes,
        made_ns: int = 0,
        orderly: bool | None = None,
    ) -> Decision:
        self.recovered = [bytes(payload) for _, payload in records]
        self.position = position
        return self.on_recover()

    def step(self, now: Now, item: Input) -> Decision:
        self.seen.append(item)
        return self.decide(item) or Decision()

    def next_timer(self) -> int | None:
        return self.timer

    def portion_due(self, now: Now) -> bool:
        return self.at_work

    def snapshot(self) -> Script:
        return self

    def encode(self, pause: Callable[[], object] = lambda: None) -> list[Buffer]:
        pause()
        return [self.image]

    def live(self, base: int, end: int) -> bool:
        return self.live_bytes(base, end) > 0

    def acquainted(self) -> set[bytes]:
        return set()

    def owed(self, bytes_max: int) -> None:
        return None

    def live_bytes(self, base: int, end: int) -> int:
        return self.lives.get((base, end), 0)

    def sparse(self, base: int, end: int, bytes_max: int, **more: Any) -> Sparse:
        return Sparse(tuple(self.parts), 0, None)

    # ---- for scripts --------------------------------------------------------------------

    def decision(
        self, *actions: Action, records: str = "", forced: bool = True, held: bool = False
    ) -> Decision:
        """A decision with one record for each word."""
        made = []
        for word in records.split():
            made.append(LogRecord(word.encode(), self.position, forced, held=held))
            self.position += frame_size(len(word))
        return Decision(made, list(actions))


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_us = 1_000 * SECOND

    def read(self) -> Now:
        return Now(self.now_us, self.now_us)


class Calls:
    """A network that notes who was to be connected."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        self.notes.append(f"connect {outgoing} {protocol} {host}")


class House:
    """An engine on a scripted core, and everything that was noted, in order."""

    def __init__(self, *, settings: Settings | None = None, **more: Any) -> None:
        self.notes: list[str] = []
        self.store = Diary(self.notes)
        self.core = Script(self.notes)
        self.clock = Clock()
        self.failures: list[BaseException] = []
        self.engine = Engine(
            manager=self.core,  # type: ignore[arg-type]
            store=self.store,
            clock=self.clock,
            network=Calls(self.notes),
            settings=settings or Settings(disk_reserve_bytes=100),
            wake=lambda: self.notes.append("wake"),
            fatal=self.failures.append,
            **more,
        )
        self.owner = self.engine.owner(self.answered)
        self.answers: list[tuple[int, object]] = []

    def answered(self, request: int, result: object) -> None:
        self.notes.append(f"answer {request}")
        self.answers.append((request, result))

    def start(self) -> House:
        self.engine.start()
        self.notes.clear()
        return self

    def pump(self, *items: Input) -> bool:
        for item in items:
            self.engine.submit(item)
        self.notes[:] = [note for note in self.notes if note != "wake"]
        return self.engine.pump()

    def pass_s(self, seconds: float) -> None:
        self.clock.now_us += int(seconds * SECOND)


def write(house: House, size: int) -> None:
    """Let the core put so much on record, a little later."""
    house.core.decide = lambda item: (
        house.core.decision(records="x" * size) if isinstance(item, Tick) else None
    )
    house.pass_s(2)
    house.pump(Tick())
    house.core.decide = lambda item: None


class Wire:
    """A connection that keeps what was written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.writable = True

    def write(self, pieces: Sequence[Buffer]) -> None:
        assert not self.closed, "written after close"
        self.writes.append(b"".join(pieces))

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data, self.writes = b"".join(self.writes), []
        return data


def words(notes: Iterable[str], *kinds: str) -> Iterator[str]:
    """Notes of some kinds."""
    return (note for note in notes if note.split()[0] in kinds)


class Later:
    """Another thread, which works when it is told to (``Background``)."""

    def __init__(self) -> None:
        self.under_way: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self.under_way.append(lambda: future.set_result(work()))
        return future
