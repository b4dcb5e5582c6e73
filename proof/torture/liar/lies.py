"""What the liars of ``make liar`` say: to whom, under which identity, which packet, over what.

Each lie is well-formed. A liar has an identity of its own, new for each lie, or claims the one of
an honest manager where the session proves nothing; over HTTP nobody proves anything. Where the
honest speak TLS and HTTPS, a liar is a neighbour with a certificate for its own identity, or a
stranger.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from onceq.model.http import HttpNames
from onceq.model.identity import guid_text
from onceq.model.resultcodes import MessageClass
from onceq.model.settings import Settings
from onceq.wire.mqqb.session import Session
from onceq.wire.srmp import convert, envelope
from onceq.wire.srmp.convert import post_of
from proof.sim.faults import lies
from proof.torture.liar.honest import Honest, now_s
from proof.torture.liar.talk import said_to, status_in, talk
from proof.torture.liar.ways import ALERT, Way

TO_STOCK, TO_NONE, TO_PLAIN = (rf"OS:BETA\private$\{name}" for name in ("stock", "none", "plain"))
CRY_S = 0.05
"""Between two strangers, so that the honest have time to work."""
STALE, FUTURE, NO_ROOM, UNHEARD_OF = 1, 2, 3, 77
NEGATIVE = tuple(each for each in MessageClass if each & 0x8000)
ENDS = (MessageClass.ACK_RECEIVE, *NEGATIVE)
"""How a message can be said to have ended."""
ORDER_QUEUE = "msmq/private$/order_queue$"


@dataclass(frozen=True, slots=True)
class Lie:
    """One packet.

    Attributes:
        to: Name of the manager that hears it.
        claims: GUID under which somebody connects.
        path: Over HTTP: of the queue that it is posted to; "" over a session.
    """

    to: str
    claims: bytes
    packet: bytes
    recoverable: int = 0
    path: str = ""


@dataclass(slots=True)
class Place:
    """Where the honest are: the stream to a queue, and its next number."""

    stream: int = 0
    number: int = 0


class Liar(threading.Thread):
    """Connects again and again, and lies each time.

    Attributes:
        answered: How often each status was the answer over HTTP; 0: none came.
        stock, web: What is under way over sessions and over HTTP.
        used: GUIDs of its own that it has connected under, as text.
    """

    def __init__(self, honest: Honest, seed: int) -> None:
        super().__init__(daemon=True)
        self.honest, self.guids = honest, honest.guids
        self.rng = random.Random(seed)
        self.stock, self.web = Place(), Place()
        self.told: Counter[str] = Counter()
        self.answered: Counter[int] = Counter()
        self.used: set[str] = set()
        self.over = threading.Event()
        self.failures: list[str] = []

    def kinds(self) -> list[Callable[[], Lie]]:
        """Every lie."""
        return [
            self._order_ack, self._final_ack, self._final_refusal, self._never_arrived,
            self._arrived, self._turned_away, self._two_lives, self._inquiry, self._fence,
            self._foreign, self._future, self._refused, self._graves, self._admin,
            self._http_receipt, self._http_final, self._http_impossible, self._http_future,
            self._http_refused, self._http_elsewhere, self._http_receipts_anywhere,
        ]  # fmt: skip

    def run(self) -> None:
        """See Thread."""
        try:
            self._lie()
        except Exception as error:  # noqa: BLE001 - the thread that joins it reports it
            self.failures.append(f"a liar failed: {error!r}")

    def _lie(self) -> None:
        turn: list[Callable[[], Lie]] = []
        while not self.over.is_set():
            turn = turn or self.rng.sample(self.kinds(), len(self.kinds()))
            tell = turn.pop()
            lie = tell()
            with contextlib.suppress(OSError):
                (self._post if lie.path else self._talk)(lie)
                self.told[tell.__name__.strip("_")] += 1

    def _talk(self, lie: Lie) -> None:
        with self._line(lie) as line:
            heard = talk(line, lie.claims, lie.packet, recoverable=lie.recoverable)
        if self.honest.ways is not None and heard.said and lie.claims in self.guids.values():
            self.failures.append(f"{lie.to} believed that a liar is {guid_text(lie.claims)}")

    def _line(self, lie: Lie) -> socket.socket:
        """Open a connection for any lie; where certificates are asked for, with one of the liar's
        own, for any identity that it is about to claim."""
        line, ways = self.honest.line(lie.to), self.honest.ways
        return line if ways is None else ways.neighbour(line, self._certified(lie))

    def _certified(self, lie: Lie) -> bytes:
        """Return the GUID of the certificate that the liar shows."""
        return self._own() if lie.claims in self.guids.values() else lie.claims

    def _post(self, lie: Lie) -> None:
        host = f"127.0.0.1:{self.honest.http[lie.to]}"
        back = f"http://127.0.0.1:1/receipts-{self.rng.randrange(1 << 30)}"
        url = f"{self.honest.scheme}://{host}/{lie.path}"
        post = post_of(lie.packet, url, lie.claims, HttpNames(frozenset(), back))
        kind, entity = convert.write(
            envelope.write(post.envelope), post.body, guid_text(lie.claims)
        )
        head = (
            f"POST /{lie.path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n"
            'SOAPAction: "MSMQMessage"\r\n'
            f"Content-Length: {len(entity)}\r\nConnection: close\r\n\r\n"
        )
        with self.honest.web(lie.to, guid=self._certified(lie)) as line:
            self.answered[status_in(said_to(line, head.encode() + entity))] += 1

    # ---- identities and numbers ----------------------------------------------------------------

    def _own(self) -> bytes:
        made = b"liar" + self.rng.randbytes(12)
        self.used.add(guid_text(made))
        return made

    def _number(self, place: Place | None = None) -> int:
        number = (place or self.stock).number
        return self.rng.choice([max(number, 1), max(number - 1, 1), 4_000_000_000])

    def _of_future(self) -> int:
        return now_s() + self.rng.choice([3, 300]) * 86_400 << 32

    # ---- about messages of others ------------------------------------------------------------

    def _order_ack(self) -> Lie:
        own, alpha = self._own(), self.guids["ALPHA"]
        acker = self.rng.choice([own, self.guids["BETA"]])
        return Lie("ALPHA", own, lies.acknowledged(
            acker, alpha, self.stock.stream, self._number(), sent_s=now_s()))  # fmt: skip

    def _final_ack(self) -> Lie:
        own, alpha = self._own(), self.guids["ALPHA"]
        return Lie("ALPHA", own, lies.ended(
            own, alpha, self.stock.stream, self._number(), sent_s=now_s()), 1)  # fmt: skip

    def _final_refusal(self) -> Lie:
        """What has arrived was refused, deleted, had expired, and so on."""
        own, alpha, reason = self._own(), self.guids["ALPHA"], self.rng.choice(NEGATIVE)
        return Lie("ALPHA", own, lies.ended(
            own, alpha, self.stock.stream, self._number(), sent_s=now_s(), reason=reason), 1
        )  # fmt: skip

    def _never_arrived(self) -> Lie:
        own, alpha = self._own(), self.guids["ALPHA"]
        return Lie("ALPHA", own, lies.settled(
            own, alpha, self.stock.stream, self._number(), sent_s=now_s()))  # fmt: skip

    def _arrived(self) -> Lie:
        own, alpha = self._own(), self.guids["ALPHA"]
        return Lie("ALPHA", own, lies.arrived(
            own, alpha, self.stock.stream, self._number(), sent_s=now_s()))  # fmt: skip

    def _turned_away(self) -> Lie:
        own, alpha = self._own(), self.guids["ALPHA"]
        reason = self.rng.choice([STALE, FUTURE, NO_ROOM, UNHEARD_OF])
        there = self.rng.choice([0, self.stock.stream + 1, self._of_future()])
        return Lie("ALPHA", own, lies.refused(
            own, alpha, self.stock.stream, there, reason, sent_s=now_s()))  # fmt: skip

    def _two_lives(self) -> Lie:
        own, to = self._own(), self.rng.choice(["ALPHA", "BETA"])
        return Lie(to, own, lies.doubled(
            own, self.guids[to], self.rng.randbytes(16), now_s() + 5, sent_s=now_s()))  # fmt: skip

    # ---- as somebody else ----------------------------------------------------------------------

    def _inquiry(self) -> Lie:
        alpha = self.guids["ALPHA"]
        future = (1 << 31) - 1 << 32
        return Lie("BETA", alpha, lies.asked(
            alpha, self.guids["BETA"], TO_STOCK, future, 9, sent_s=now_s()))  # fmt: skip

    def _fence(self) -> Lie:
        """A stream is announced that shall have what ALPHA's streams have left."""
        claims = self.rng.choice([self._own(), self.guids["ALPHA"]])
        stream = self.stock.stream
        return Lie("BETA", claims, lies.fenced(
            claims, self.guids["BETA"], TO_STOCK, self._of_future(), [stream, stream - 1],
            sent_s=now_s()))  # fmt: skip

    def _foreign(self) -> Lie:
        return Lie("BETA", self._own(), lies.messages(
            self.guids["ALPHA"], TO_STOCK, [b"lie"], stream=self.stock.stream + 1,
            sent_s=now_s()), 1)  # fmt: skip

    def _future(self) -> Lie:
        alpha = self.guids["ALPHA"]
        return Lie("BETA", alpha, lies.messages(
            alpha, TO_STOCK, [b"lie"], stream=self._of_future(), sent_s=now_s()), 1)  # fmt: skip

    # ---- to fill what the honest need ----------------------------------------------------------

    def _refused(self) -> Lie:
        own = self._own()
        return Lie("BETA", own, lies.messages(
            own, TO_NONE, [b"x"], stream=now_s() << 32, sent_s=now_s()), 1)  # fmt: skip

    def _graves(self) -> Lie:
        own, body = self._own(), bytes(60_000)
        return Lie("BETA", own, lies.messages(
            own, TO_PLAIN, [body], stream=now_s() << 32, sent_s=now_s()), 1)  # fmt: skip

    def _admin(self) -> Lie:
        own = self._own()
        now, admin = now_s(), rf"TCP:127.0.0.1\private$\acks{self.rng.randrange(1 << 30)}"
        return Lie("BETA", own, lies.messages(
            own, TO_NONE, [b"x"], stream=now << 32, sent_s=now, admin=admin), 1)  # fmt: skip

    # ---- over HTTP -----------------------------------------------------------------------------

    def _http_receipt(self) -> Lie:
        """Of what goes over a session."""
        own, alpha = self._own(), self.guids["ALPHA"]
        return Lie("ALPHA", own, lies.acknowledged(
            own, alpha, self.stock.stream, self._number(), sent_s=now_s()),
            path=ORDER_QUEUE)  # fmt: skip

    def _http_final(self) -> Lie:
        own, alpha = self._own(), self.guids["ALPHA"]
        reason = self.rng.choice(ENDS)
        return Lie("ALPHA", own, lies.ended(
            own, alpha, self.stock.stream, self._number(), sent_s=now_s(), reason=reason),
            path=ORDER_QUEUE)  # fmt: skip

    def _http_impossible(self) -> Lie:
        """Of what was never transmitted over HTTP."""
        own, alpha = self._own(), self.guids["ALPHA"]
        return Lie("ALPHA", own, lies.acknowledged(
            own, alpha, self.web.stream, 4_000_000_000, sent_s=now_s()),
            path=ORDER_QUEUE)  # fmt: skip

    def _http_future(self) -> Lie:
        alpha, stream = self.guids["ALPHA"], self._of_future()
        path = self.rng.choice(["msmq/private$/stock", "msmq/private$/web"])
        return Lie("BETA", alpha, lies.messages(
            alpha, TO_STOCK, [b"lie"], stream=stream, sent_s=now_s()), 1, path)  # fmt: skip

    def _http_refused(self) -> Lie:
        own = self._own()
        return Lie("BETA", own, lies.messages(
            own, TO_NONE, [b"x"], stream=now_s() << 32, sent_s=now_s()), 1, "msmq/private$/none"
        )  # fmt: skip

    def _http_elsewhere(self) -> Lie:
        """For a queue of nobody here, under an address that is."""
        own = self._own()
        return Lie("BETA", own, lies.messages(
            own, TO_PLAIN, [b"x"], sent_s=now_s()), 1, "elsewhere/private$/stock")  # fmt: skip

    def _http_receipts_anywhere(self) -> Lie:
        """A message that may come; its receipts shall go to an address of the liar's choice."""
        own = self._own()
        return Lie("BETA", own, lies.messages(
            own, TO_STOCK, [b"x"], stream=now_s() << 32, sent_s=now_s()), 1, "msmq/private$/bait"
        )  # fmt: skip


class Stranger(Liar):
    """Tells the same over sessions, to doors that want a certificate, in each way in which one can
    come there without the right one; and does not wait for an answer."""

    def pairs(self) -> list[tuple[str, Callable[[], Lie]]]:
        """Every lie over sessions, in every way."""
        assert self.honest.ways is not None
        over_sessions = [tell for tell in self.kinds() if not tell.__name__.startswith("_http")]
        return list(product(self.honest.ways.strangers, over_sessions))

    def _lie(self) -> None:
        assert self.honest.ways is not None
        pairs, ways = self.pairs(), self.honest.ways.strangers
        while not self.over.is_set():
            for name, tell in self.rng.sample(pairs, len(pairs)):
                self._cry(tell(), ways[name])
                self.told[f"{name}: {tell.__name__.strip('_')}"] += 1
                if self.over.wait(CRY_S):
                    return

    def _cry(self, lie: Lie, way: Way) -> None:
        """Send an identity and the lie, without waiting for an answer: none may come."""
        session = Session(initiator=True, own_id=lie.claims, settings=Settings(), now_us=0)
        session.start()
        said = b"".join(map(bytes, session.take_output())) + lie.packet
        heard = b""
        with self.honest.line(lie.to) as plain:
            line = plain
            with contextlib.suppress(OSError):
                line = way(plain, lie.claims)
                line.sendall(said)
                while data := line.recv(1 << 16):
                    heard += data
            line.close()
        if heard and not heard.startswith(ALERT):
            self.failures.append(f"{lie.to} answered a stranger: {heard[:40]!r}")
