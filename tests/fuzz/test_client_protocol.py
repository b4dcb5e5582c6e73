"""What applications should not send (P10): bytes, frames and values, against the real manager.

Whatever comes, the connection answers or ends, the manager stays whole, and when the connection
is gone nothing of it is left open. ``ONCEQ_FUZZ_EXAMPLES`` makes it longer than a change allows.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.client.address import ManagerAddress
from onceq.client.credentials import Credentials
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.errors import MalformedPacket, OnceqError
from onceq.model import requests
from onceq.model.identity import Identity, TransactionId
from onceq.model.marks import Now
from onceq.model.message import PLAIN
from onceq.model.requests import COUNT, KINDS, Messages, SendItem
from onceq.model.rights import NOBODY
from onceq.model.run import Buffer, Run
from onceq.model.settings import Settings
from onceq.model.tokens import NONCE_BYTES, SECRET_BYTES, Token, digest_of, text_of
from onceq.model.views.looks import LOOKS
from onceq.model.views.managers import BackupHold, Reloaded
from onceq.packet.own import own_headers
from onceq.service.api import ApiConnection
from onceq.service.engine import Engine
from onceq.store.memory import MemoryStore
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, decode, read, written
from tests.proofs import asks, hello

EXAMPLES = int(os.environ.get("ONCEQ_FUZZ_EXAMPLES", "300"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 300)
WALL_US = 1_700_000_000_000_000
pytestmark = pytest.mark.slow
T, N = r"private$\t", r"private$\n"

ANSWERS = {code: kind.answer for code, kind in KINDS.items() if kind.answer is not COUNT}
EVERY_ANSWER = [
    COUNT,
    *ANSWERS.values(),
    *(look.kind for look in LOOKS.values()),
    Reloaded,
    BackupHold,
]
"""Of which types answers are."""


class World:
    """A manager in memory, and one application that is connected to it."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.ended: BaseException | None = None
        self.manager = Manager(Identity(b"A" * 16, "ALPHA", 1_600_000_000), Settings())
        self.store = MemoryStore()
        self.engine = Engine(
            manager=self.manager, store=self.store, clock=self, network=self,
            settings=Settings(), wake=lambda: None, fatal=self._fatal, entropy=bytes,
        )  # fmt: skip
        self.engine.start()
        self.transport = Transport()
        self.api = ApiConnection(self.engine, self.transport, random=random.Random(5).randbytes)
        self.asked: Counter[int] = Counter()
        self.number = 0
        self.frame(FrameCode.HELLO, frames.Hello(frames.VERSION))
        for name, kind in (("t", True), ("n", False)):
            self.ask(requests.CreateQueue({"name": name, "transactional": kind}))
        item = SendItem(T, PLAIN, Run.of([b"1", b"22", b"333"]), values={"label": "l"})
        self.ask(requests.Commit(0, [item], TransactionId(b"S" * 16, 1)))
        self.ask(requests.Begin(1))
        assert all(code & ANSWER for _, code, _, _ in self.transport.sent)

    def _fatal(self, error: BaseException) -> None:
        self.ended = error

    def read(self) -> Now:
        return Now(WALL_US + self.now_us, self.now_us)

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """Nobody is there to be connected to."""

    def ask(self, request: requests.Request) -> None:
        self.number += 1
        self.asked[self.number] += 1
        self.feed(b"".join(written(self.number, request)))

    def frame(self, code: int, head: object, *runs: Run) -> None:
        self.number += 1
        self.asked[self.number] += 1
        pieces = frames.frame(self.number, code, head, *frames.pack_runs(list(runs)))
        self.feed(b"".join(pieces))

    def feed(self, data: bytes) -> None:
        self.api.data_received(data)
        self.pump()

    def pump(self) -> None:
        while self.engine.pump():
            pass
        assert self.ended is None
        assert not self.engine.stopped

    def check(self) -> None:
        """The manager is whole, and what it wrote can be read back."""
        assert self.manager.position == self.store.position
        other = Manager(Identity(b"A" * 16, "ALPHA", 1_600_000_000), Settings())
        other.recover(
            self.read(), None, self.store.records(), self.store.position,
            entropy=bytes(ENTROPY_BYTES),
        )  # fmt: skip

    def leave(self) -> None:
        """The application goes; nothing of it may stay open."""
        self.api.connection_lost()
        self.pump()
        step = self.manager._step
        assert not step.units.transactions
        assert not step.readers.handles
        assert not step.readers.waiting
        assert step.units.open_bytes == 0
        self.check()


class Transport:
    """Reads answers as a client would."""

    def __init__(self) -> None:
        self.parser = frames.Parser()
        self.sent: list[tuple[int, int, bytes, bytes]] = []
        self.closed = False
        self.unread_bytes = 0

    def writelines(self, pieces: Sequence[Buffer], /) -> None:
        for request, code, head, data in self.parser.feed(b"".join(pieces)):
            decode(ANSWERS.get(code & ~(ANSWER | FAILED), object), code, head, data)
            self.sent.append((request, code, bytes(head), bytes(data)))

    def close(self) -> None:
        self.closed = True

    def reading_changed(self) -> None:
        """Read on: the fuzzer pays no heed."""

    def refuse(self, reason: str) -> None:
        raise AssertionError(f"it reads everything at once: {reason}")


# ---- bytes -----------------------------------------------------------------------------------

GOOD = b"".join(
    b"".join(written(50 + number, request))
    for number, request in enumerate(
        [
            requests.Send(0, [SendItem(N, PLAIN, Run.of([b"body"]), values={"label": "x"})]),
            requests.Send(
                1,
                [
                    SendItem(
                        T, PLAIN, Run.of([b"1", b"22"]), own=own_headers(2, {"label": ["a", "b"]})
                    )
                ],
            ),
            requests.Receive(T, 1, 2, 100, 5),
            requests.OpenQueue(N, requests.Access.RECEIVE),
            requests.Look("queues"),
            requests.Commit(1, [], TransactionId(b"S" * 16, 2)),
        ]
    )
)


@FUZZ
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes(chunks: list[bytes]) -> None:
    world = World()
    for chunk in chunks:
        world.feed(chunk)
    world.leave()


@FUZZ
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(GOOD)),
    st.lists(st.integers(1, 60), max_size=20),
)
def test_good_frames_with_a_few_bytes_changed(
    changes: list[tuple[int, int]], end: int, cuts: list[int]
) -> None:
    raw = bytearray(GOOD)
    for at, value in changes:
        raw[at] = value
    world, at = World(), 0
    for size in cuts:
        world.feed(bytes(raw[at : min(at + size, end)]))
        at += size
    world.feed(bytes(raw[at:end]))
    world.leave()


PROVEN = b"".join(
    (
        *frames.frame(1, FrameCode.PROVE, frames.Prove("billing", bytes(NONCE_BYTES))),
        *frames.frame(2, FrameCode.HELLO, frames.Hello(frames.VERSION, "x", "00" * SECRET_BYTES)),
    )
)


@FUZZ
@given(
    st.lists(st.tuples(st.integers(0, len(PROVEN) - 1), st.integers(0, 255)), max_size=6),
    st.lists(st.integers(1, 60), max_size=20),
)
def test_nobody_is_somebody_by_what_comes_before_a_name(
    changes: list[tuple[int, int]], cuts: list[int]
) -> None:
    raw = bytearray(PROVEN)
    for at, value in changes:
        raw[at] = value
    world, at, transport = World(), 0, Transport()
    stranger = ApiConnection(
        world.engine, transport, random=random.Random(6).randbytes, actor=NOBODY
    )
    for size in (*cuts, len(raw)):
        stranger.data_received(bytes(raw[at : at + size]))
        world.pump()
        at += size
    assert not stranger.greeted
    stranger.connection_lost()
    world.leave()


numbers = st.one_of(
    st.sampled_from([0, 1, 2, -1, 7, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1,
                     -(1 << 63), (1 << 64) - 1, 1 << 62, 0x0700_0000_0000_0001]),
    st.integers(-(1 << 63), (1 << 64) - 1),
)  # fmt: skip


@FUZZ
@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(st.one_of(st.binary(max_size=70), numbers, st.none()), max_size=4).map(
            msgspec.msgpack.encode
        ),
    ),
    st.sampled_from(
        [code | how for code in (FrameCode.HELLO, FrameCode.PROVE) for how in (ANSWER, FAILED)]
    ),
)
def test_no_answer_gets_a_token_out_of_its_holder(head: bytes, code: int) -> None:
    secret = bytes(range(SECRET_BYTES))
    hello = Credentials(token=text_of("billing", secret)).greeting(ManagerAddress(path="/s"), "")
    first = b"".join(hello.first)
    assert secret not in first
    assert secret.hex().encode() not in first
    with pytest.raises(OnceqError) as caught:
        hello.read_answer(code, memoryview(head))
    assert secret.hex() not in str(caught.value)


def test_a_malformed_frame_leaves_nothing_of_itself() -> None:
    """It is refused, with what follows it, or it is another request, which is answered."""
    good = b"".join(written(90, requests.Send(0, [SendItem(N, PLAIN, Run.of([b"", b"x"]))])))
    closed = 0
    for at in range(8, len(good)):
        world = World()
        bad = bytearray(good)
        bad[4:8] = (91).to_bytes(4, "little")
        bad[at] ^= 1 << 6
        before = world.store.position
        world.feed(bytes(bad) + good)
        request, code, _, _ = world.transport.sent[-1]
        if world.transport.closed:
            closed += 1
            assert world.store.position == before
            assert (request, code) == (0, FAILED)
        else:
            assert request == 90
        world.leave()
    assert closed > len(good) // 4, "hardly any changed byte made a frame malformed"


# ---- well-typed requests with values from the edge -------------------------------------------

names = st.one_of(
    st.sampled_from([
        T, N, "", ".", "\\", r".\private$\t", r"DIRECT=OS:BETA\private$\q", f"{T},{N}",
        r"DIRECT=OS:BETA\private$\q," + T, "SYSTEM$;DEADXACT", "SYSTEM$;JOURNAL", "MACHINE=x",
        "PUBLIC=00000000-0000-0000-0000-000000000000", "PRIVATE=41414141-4141-4141-4141-"
        "414141414141\\10", "MULTICAST=234.1.1.1:80", "DL=00000000-0000-0000-0000-000000000000",
        r"DIRECT=TCP:10.0.0.1\private$\q;journal", "DIRECT=HTTP://x/msmq/q", "\0", "x" * 20_000,
        ",".join([N] * 300), r"DIRECT=OS:\private$\q", r"DIRECT=OS:ALPHA\order_queue$",
        r"DIRECT=OS:ALPHA\private$\order_queue$", r"private$\order_queue$", "status", "queues",
        "queue", "outgoing", "outgoing-queue", "streams", "transactions", "consumers",
    ]),
    st.text(max_size=30),
)  # fmt: skip
words = st.one_of(
    names, st.text(max_size=300), st.sampled_from(["x" * 249, "x" * 250, "\U0001f600" * 200])
)
octets = st.one_of(
    st.sampled_from([b"", b"S" * 16, b"S" * 15, b"c" * 20, bytes(1 << 20), bytes((1 << 20) + 1)]),
    st.binary(max_size=30),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words, octets, st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
properties = st.dictionaries(
    st.sampled_from([
        "label", "priority", "delivery", "acknowledge", "journal", "app_specific", "body_type",
        "correlation_id", "time_to_reach_queue", "time_to_be_received", "admin_queue",
        "response_queue", "extension", "trace", "lable",
    ]),
    st.one_of(anything, st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16])),
    max_size=4,
)  # fmt: skip
queues = st.dictionaries(
    st.sampled_from(["name", "transactional", "label", "quota_kb", "private", "number", "created"]),
    anything,
    max_size=4,
)
runs = st.lists(st.binary(max_size=40), max_size=4).map(Run.of)
batches = st.lists(st.tuples(names, properties, numbers, runs, st.integers(0, 5)), max_size=3)
small = st.sampled_from([0, 1, 2, 3, -1, 1 << 40])
identifiers = st.tuples(octets, numbers)
xids = st.tuples(numbers, octets, octets)


def single(code: int, *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*fields).map(lambda values: (code, values, ()))


def sending(
    code: int, first: st.SearchStrategy[Any], *behind: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """A request whose second field is batches."""

    def made(drawn: tuple[Any, ...]) -> Any:
        value, batch, *values = drawn
        items, parts = [], []
        for name, props, age, run, own in batch:
            items.append((name, props, age, len(run), own > 3))
            if own > 3:
                # Now and then with a header that says what belongs to the batch.
                heads = own_headers(len(run), {"label": [f"{n}" for n in range(len(run))]})
                data = bytearray(heads.data)
                if own == 5 and data:
                    data[3] = 0x80
                parts.append(Run(data, heads.lengths))
            parts.append(run)
        return code, (value, items, *values), tuple(parts)

    return st.tuples(first, batches, *behind).map(made)


asking = st.one_of(
    single(requests.OpenQueue.code, names, st.sampled_from([1, 2, 0x20, 3, -1]),
           st.sampled_from([0, 1, 2])),
    single(requests.CloseQueue.code, numbers),
    single(requests.Begin.code, st.one_of(small, numbers)),
    sending(requests.Send.code, st.one_of(small, numbers)),
    sending(requests.Commit.code, st.one_of(small, numbers), st.one_of(st.none(), identifiers)),
    single(requests.Abort.code, st.one_of(small, numbers)),
    single(requests.Receive.code, names, st.one_of(small, numbers), numbers, numbers,
           st.one_of(st.sampled_from([0, -1, 5]), numbers), st.booleans(), numbers, numbers,
           st.one_of(small, numbers)),
    single(requests.Remove.code, names, small, numbers, numbers),
    single(requests.CancelReceive.code, numbers),
    single(requests.AskOutcome.code, identifiers),
    single(requests.StartBranch.code, small, xids, numbers),
    single(requests.EndBranch.code, small, xids, numbers),
    single(requests.CommitBranch.code, xids, st.booleans(), st.booleans()),
    single(requests.CommitGroup.code, words, words, numbers, octets, st.lists(xids, max_size=3)),
    single(requests.CreateQueue.code, queues),
    single(requests.DeleteQueue.code, names),
    single(requests.PurgeQueue.code, names),
    single(requests.SteerOutgoing.code, names, st.sampled_from(["pause", "resume", "resend", "x"])),
    single(requests.Look.code, names, names),
    single(requests.CreateToken.code, st.one_of(st.sampled_from(["a", "b"]), words), numbers,
           st.lists(st.tuples(words, names), max_size=3)),
    single(requests.RevokeToken.code, st.one_of(st.sampled_from(["a", "b"]), words)),
)  # fmt: skip


@FUZZ
@given(st.lists(asking, max_size=12))
def test_any_values_are_answered_once_and_leave_the_manager_whole(asked: list[Any]) -> None:
    world = World()
    expected = Counter(range(1, world.number + 1))
    for code, head, data in asked:
        world.frame(code, head, *data)
        expected[world.number] += 1
        assert not world.transport.closed, "a request of right types never ends the connection"
    waiting = {request for _, request in world.manager._step.readers.waiting}
    for request in waiting:
        world.ask(requests.CancelReceive(request))
        expected[world.number] += 1
    assert Counter(request for request, _, _, _ in world.transport.sent) == expected
    world.leave()


@FUZZ
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted({int(FrameCode.HELLO), *KINDS})), anything), max_size=8
    )
)
def test_heads_of_any_shape(asked: list[tuple[int, Any]]) -> None:
    world = World()
    for code, value in asked:
        try:
            raw = msgspec.msgpack.encode([value] if not isinstance(value, list) else value)
        except OverflowError:
            continue
        world.number += 1
        size = frames.HEADER.size - 4 + len(raw)
        world.feed(frames.HEADER.pack(size, world.number, code, 0, len(raw)) + raw)
    world.leave()


# ---- a stranger who says who he is ------------------------------------------------------------

secrets = st.one_of(
    st.sampled_from([bytes(32), bytes(range(32))]), st.binary(min_size=32, max_size=32)
)
shown = st.one_of(
    st.builds(text_of, st.sampled_from(["billing", "a_b", "x"]), secrets),
    st.builds(lambda text, at: text[:at], st.just(text_of("billing", bytes(32))),
              st.integers(0, 90)),
    st.text(max_size=100),
    st.sampled_from(["onceqt_" * 5_000, "\0" * 60_000, "onceqt__", "_" * 200]),
)  # fmt: skip


BY_PROOF: Final = object()
"""In place of what is said: the right token is proven."""


@FUZZ
@given(
    st.lists(st.one_of(shown, anything), min_size=1, max_size=15),
    st.lists(anything, max_size=3),
    st.booleans(),
)
def test_no_token_but_the_right_one_lets_anybody_in(
    tokens: list[Any], more: list[Any], private: bool
) -> None:
    """Whatever stands in place of its proof, and behind it: it is refused, and nothing has
    happened. The token itself is no proof."""
    world = World()
    salt, secret = b"s" * 16, b"right" * 6 + b"!!"
    world.manager.state.tokens.put(Token("billing", salt, digest_of(salt, secret), 0))
    actors = len(world.manager._step.actors)
    before = world.store.position
    good = text_of("billing", secret)
    for token in [*tokens, good, BY_PROOF]:
        stranger = Transport()
        api = ApiConnection(
            world.engine, stranger, random=bytes, actor=NOBODY, private=private,
            address="10.1.1.1" if token in tokens else "10.1.1.2",
        )  # fmt: skip
        if token is BY_PROOF:
            api.data_received(b"".join(frames.frame(1, FrameCode.PROVE, asks(good))))
            known = frames.decode_head(stranger.sent.pop()[2], frames.ProofAnswer)
            proof = hello(good, known, b"")
            api.data_received(b"".join(frames.frame(2, FrameCode.HELLO, proof)))
        else:
            with contextlib.suppress(OverflowError):
                raw = msgspec.msgpack.encode([frames.VERSION, "x", token, *more])
                size = frames.HEADER.size - 4 + len(raw)
                api.data_received(frames.HEADER.pack(size, 1, FrameCode.HELLO, 0, len(raw)) + raw)
        world.pump()
        right = private and token is BY_PROOF
        assert api.greeted is right
        for request, code, head, _ in stranger.sent:
            assert (code == FrameCode.HELLO | ANSWER) is right
            assert right or (request == 0 and b"ALPHA" not in head), "he learns nothing"
        api.connection_lost()
        world.pump()
    assert len(world.manager._step.actors) == actors
    assert world.store.position == before
    world.leave()


# ---- the other direction: what a manager should not send ---------------------------------------


@FUZZ
@given(
    st.sampled_from(EVERY_ANSWER),
    st.integers(0, 0x300),
    st.binary(max_size=100),
    st.binary(max_size=100),
)
def test_a_client_survives_any_answer(kind: object, code: int, head: bytes, data: bytes) -> None:
    with contextlib.suppress(MalformedPacket):
        decode(kind, code, memoryview(head), memoryview(data))


def test_the_world_of_these_tests_is_a_working_one() -> None:
    world = World()
    world.ask(requests.Receive(T, 1, 5, 1 << 20))
    request, code, head, data = world.transport.sent[-1]
    assert (request, code) == (world.number, requests.Receive.code | ANSWER)
    batch: Any = decode(Messages, code, memoryview(head), memoryview(data))
    assert batch.bodies() == [b"1", b"22", b"333"]
    world.leave()
    with pytest.raises(MalformedPacket):
        read(0, b"", memoryview(b""))
