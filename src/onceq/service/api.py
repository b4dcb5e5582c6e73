"""An application on one connection: frames in, inputs to the core, answers out as frames.

All requests come in by one door, which checks them and adds what only the service knows; the key
that marks the attempts of applications is here too.

An ``ApiConnection`` knows bytes and frames, not sockets. If an application asks faster than it is
answered, or does not read its answers, its requests are not read any further (back-pressure). Its
receives stop waiting then and begin again when it reads: requests and answers are bounded. Space
for messages comes from a budget of all applications (``answers.py``). A query is answered before
more requests are read, so that others come in between. A lost connection aborts its open
transactions. A malformed frame ends the connection: complete frames before it count, and nothing of
the malformed one has happened.

Upholds: I17 (a lost client's transactions abort), I24 (bounded memory), I28 (nobody begins a branch
in the attempt of another one).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from onceq import errors
from onceq.core.decision import Handed
from onceq.core.inputs import Input, JobBatch, JobFailed, NextJob, OwnerCame
from onceq.core.step.units import KEY_BYTES
from onceq.file_access import ATTEMPT_KEY_FILE
from onceq.model import limits, requests
from onceq.model.branches import NUMBER_BYTES, TAG_BYTES
from onceq.model.identity import GUID_BYTES
from onceq.model.marks import FOR_EVER_US
from onceq.model.policy import Door
from onceq.model.requests.request import list_given
from onceq.model.rights import NOBODY, Actor, place_for
from onceq.model.run import Buffer
from onceq.model.tokens import SECRET_BYTES
from onceq.packet.arrived import Batch
from onceq.service.clock import Clock
from onceq.service.engine import Engine
from onceq.service.tokens import Challenge, actor_of, unproven
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, read

# ---- requests ------------------------------------------------------------------------------------
#
# The one door for requests of applications: of daemons and of embedded managers.


Inner = JobBatch | JobFailed | NextJob
"""Requests of a queue manager to itself, which no application can make."""


def complete(
    asked: requests.Request | Inner,
    owner: int,
    number: int,
    *,
    clock: Clock,
    random: Callable[[int], bytes],
) -> Input:
    """Complete a request of the queue manager itself: also one that no application can make."""
    if isinstance(asked, requests.Request):
        admit(asked, owner, number, clock=clock, random=random)
        return asked
    return replace(asked, owner=owner, request=number)


def admit(
    request: requests.Request,
    owner: int,
    number: int,
    *,
    clock: Clock,
    random: Callable[[int], bytes],
) -> None:
    """Check and complete a request, so that the core can take it.

    Args:
        owner, number: The owner of the request, and its number; values in the request itself are
            overwritten.
        random: Returns the given number of random bytes.

    Raises:
        OnceqError: It is wrong in itself.
    """
    request.check()
    request.owner, request.request = owner, number
    if isinstance(request, requests.Receive):
        wait_us = request.wait_ms * 1000
        if wait_us > 0:
            wait_us += clock.read().mono_us
        request.wait_until_us = FOR_EVER_US if wait_us < 0 else min(wait_us, FOR_EVER_US)
    elif isinstance(request, requests.CreateQueue):
        request.instance = random(GUID_BYTES)
    elif isinstance(request, (requests.EditDirectory, requests.SetRights)):
        request.guid = random(GUID_BYTES)
    elif isinstance(request, requests.Enlist):
        request.drawn = random(NUMBER_BYTES)
    elif isinstance(request, requests.BeginAttempt):
        request.drawn = random(TAG_BYTES)
    elif isinstance(request, requests.CreateToken):
        request.secret = random(SECRET_BYTES)


# ---- api -----------------------------------------------------------------------------------------


_HELLO, _LOOK, _PROVE = int(FrameCode.HELLO), requests.Look.code, int(FrameCode.PROVE)
_RECEIVES: Final = frozenset((requests.Receive.code, requests.Fetch.code))
_SENDS: Final = frozenset(
    code for code, kind in requests.KINDS.items() if "items" in list_given(kind)
)
_QUIET: Final = frozenset(code for code, kind in requests.KINDS.items() if kind.quiet)
"""Requests that are allowed with number 0, which asks for no answer."""


def _asked(code: int, raw: memoryview, rest: memoryview) -> requests.Request | errors.OnceqError:
    """Return the request in a frame, or its error; raises MalformedPacket if it is none."""
    try:
        return read(code, raw, rest)
    except errors.MalformedPacket:
        raise
    except errors.OnceqError as error:
        return error


def _stops() -> errors.ServiceNotAvailable:
    return errors.ManagerAway("the queue manager stops; this has not happened, ask again")


class Transport(Protocol):
    """What an ApiConnection needs of its connection."""

    def writelines(self, pieces: Sequence[Buffer], /) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Send the bytes that were written, then close."""

    def reading_changed(self) -> None:
        """Pause or resume reading, as the connection's ``full`` says now."""

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes that the other side has not read yet."""

    def refuse(self, reason: str) -> None:
        """Cut the connection."""


class ApiConnection:
    """One application on one connection."""

    def __init__(
        self,
        engine: Engine,
        transport: Transport,
        *,
        random: Callable[[int], bytes],
        local: bool = True,
        actor: Actor | None = None,
        address: str = "",
        private: bool = True,
        bound: bytes = b"",
        process: int = 0,
    ) -> None:
        """Register an application.

        Args:
            random: Returns the given number of random bytes (for the identifiers of new queues).
            local: Whether it is on this computer, and may read the data directory.
            actor: Who it is; None: this process itself.
            address: Where it is; "": its actor says it.
            private: Whether nobody on the way can read the traffic: it may send a token.
            bound: Identifies the connection, for the proof of a token (``sockets/both_ends.py``).
            process: The one that has connected, on this computer; 0 if it is unknown.
        """
        self._local = local
        self._actor = actor
        self._address = address or str(actor)
        self._private = private
        self._binding = bound
        self._challenge: Challenge | None = None
        """The challenge of its token; it has to answer with its hello."""
        self._engine = engine
        self._transport = transport
        self._random = random
        self._parser = frames.Parser()
        self._where = address or (f"local, process {process}" if process else "local")
        self._owner = engine.owner(self._answer, self._takes, actor=actor, where=self._where)
        self._asked: dict[int, tuple[int, int]] = {}
        self._bytes = 0
        self._receives = 0
        self._waits: dict[int, requests.Receive] = {}
        """Receives and peeks that may wait, by request."""
        self._withdrawn: set[int] = set()
        """Of these, the ones withdrawn because the application does not read its answers."""
        self._parked: list[int] = []
        """Of the withdrawn ones, those that the engine has let go."""
        self._pending: deque[tuple[int, int, memoryview, memoryview]] = deque()
        self._starved = self._blocked = self._looking = False
        self._gone = False
        self._stopping = False
        self.full = False
        """True while nothing more is to be read from it."""
        self.greeted = False
        """True once its hello has come; until then nothing else is accepted."""

    def data_received(self, data: Buffer) -> None:
        """Take bytes of the application."""
        if self._gone or self._stopping:
            return
        try:
            self._pending.extend(self._parser.feed(data))
        except errors.OnceqError as error:
            self._refuse(error)
            return
        self._work()

    def _work(self) -> None:
        """Process the frames that have come, unless earlier answers are still unsent."""
        try:
            while self._parked and not (self._starved or self._blocked):
                # A withdrawn receive waits again.
                request = self._parked.pop()
                item = self._waits[request]
                granted = self._engine.answers.ask(self, request, item.bytes_max)
                self._starved = not granted
                if granted:
                    self._engine.submit(replace(item, bytes_max=min(item.bytes_max, granted)))
                else:
                    self._parked.append(request)
            while self._pending and not (self._starved or self._blocked or self._looking):
                self._request(*self._pending.popleft())
        except errors.OnceqError as error:
            self._refuse(error)
            return
        self._throttle()

    def _request(self, request: int, code: int, raw: memoryview, rest: memoryview) -> None:
        if (code in (_HELLO, _PROVE)) is self.greeted:
            raise errors.MalformedPacket("a hello comes first, and once")
        if code == _PROVE:
            self._prove(request, frames.decode_head(raw, frames.Prove))
            return
        if code == _HELLO:
            self._hello(request, frames.decode_head(raw, frames.Hello))
            return
        if rest and code not in _SENDS:
            raise errors.MalformedPacket(f"a frame with code {code} carries no data")
        if code == FrameCode.LIFE:
            self._transport.writelines(frames.frame(request, FrameCode.LIFE | ANSWER, None))
            return
        # The number is how the answer finds its request: two with one number would be confused.
        if request in self._asked or (not request and code not in _QUIET):
            raise errors.MalformedPacket(f"request number {request} is in use, or zero")
        item = _asked(code, raw, rest)
        if isinstance(item, (requests.Receive, requests.Fetch)):
            wanted = max(item.bytes_max, 1)
            if isinstance(item, requests.Receive) and item.peek and item.wait_ms:
                wanted = min(wanted, limits.PACKET_BYTES_MAX)
            granted = self._engine.answers.ask(self, request, wanted)
            self._starved = not granted
            item.bytes_max = min(wanted, granted)
            if not granted:
                # Back in its place: `go_on` comes when there is room for the answer, and the order
                # of requests is kept.
                self._pending.appendleft((request, code, raw, rest))
                return
        if request:
            size = len(raw) + len(rest)
            self._asked[request] = (code, size)
            self._bytes += size
        try:
            if isinstance(item, errors.OnceqError):
                raise item
            if isinstance(item, (requests.Receive, requests.Fetch)):
                self._bound(item)
            elif isinstance(item, requests.HoldLog) and not self._local:
                raise errors.UnsupportedOperation(
                    "a backup is copied out of the data directory, which a connection over TCP "
                    "does not reach; make it on the queue manager's computer"
                )
            admit(item, self._owner, request, clock=self._engine.clock, random=self._random)
        except errors.OnceqError as error:
            if request:
                self._answer(request, error)
            return
        if isinstance(item, requests.Receive) and item.wait_until_us:
            self._waits[request] = item
        self._looking = code == _LOOK
        self._engine.submit(item)

    def _takes(self, request: int, handed: Handed) -> bool:
        """Return True if the messages for a request are to be fetched; a peek without room is
        restarted.

        Messages that a receive has taken out are handed out in any case.
        """
        item = self._waits.get(request)
        if item is None or not item.peek or self._gone:
            return True
        answers = self._engine.answers
        if request not in self._withdrawn and answers.takes(self, request, sum(handed.lengths)):
            return True
        # It was to be withdrawn, and was answered first: that is as good.
        self._withdrawn.discard(request)
        self._parked.append(request)
        if not self._blocked:
            self._starved = True
            answers.stand(self)
        return False

    def _bound(self, item: requests.Receive | requests.Fetch) -> None:
        """Raise when many receives are under way.

        Receives do not count towards the requests at which reading stops: they may wait for what a
        later request of the same application brings.
        """
        self._receives += 1
        if self._receives > limits.CLIENT_RECEIVES_MAX:
            raise errors.InsufficientResources(
                f"{limits.CLIENT_RECEIVES_MAX} receives are under way on this connection"
            )
        waits = isinstance(item, requests.Receive) and item.peek and item.wait_ms
        if waits and sum([other.peek for other in self._waits.values()]) >= limits.CLIENT_PEEKS_MAX:
            raise errors.InsufficientResources(
                f"{limits.CLIENT_PEEKS_MAX} peeks wait on this connection; use another one for more"
            )

    def _hello(self, request: int, head: frames.Hello) -> None:
        if head.version != frames.VERSION:
            raise errors.UnknownVersion(
                f"the client speaks version {head.version} of the client protocol, this queue "
                f"manager {frames.VERSION}; use the same version of onceq on both sides"
            )
        self._know(head.proof, place_for(self._where, head.person))
        self.greeted = True
        identity = self._engine.manager.identity
        welcome = frames.Welcome(
            frames.VERSION, identity.name, identity.guid, self._engine.clock.read().wall_s,
            outcome_age_s=self._engine.settings.outcome_age_s,
        )  # fmt: skip
        self._transport.writelines(frames.frame(request, FrameCode.HELLO | ANSWER, welcome))

    def _prove(self, request: int, head: frames.Prove) -> None:
        """Send a client that has a token what proves that this manager issued it; raises
        MalformedPacket, ServiceNotAvailable."""
        if self._challenge is not None:
            raise errors.MalformedPacket("a token is proven once, before the hello")
        self._challenge = self._engine.tokens.challenge(
            head.token, head.nonce, self._address, private=self._private, bound=self._binding,
            random=self._random,
        )  # fmt: skip
        answer = frames.frame(request, FrameCode.PROVE | ANSWER, self._challenge.known)
        self._transport.writelines(answer)

    def _know(self, proof: str, where: str) -> None:
        """Identify the application, and its address; raises AccessDenied, UnknownVersion.

        A stranger does not even hear which queue manager this is.
        """
        door = self._engine.tokens
        challenge, self._challenge = self._challenge, None
        if challenge is not None:
            found = door.proven(challenge, proof)
            self._engine.submit(OwnerCame(self._owner, actor_of(found), found.digest, where))
        elif proof:
            raise errors.UnknownVersion(
                "the client says its token itself, as versions before this one did; it was not "
                "looked at: bring the client to the version of the queue manager"
            )
        elif self._actor == NOBODY and not door.admits_nobody(Door.APPLICATIONS):
            raise unproven()
        elif where != self._where and self._actor is not None:
            self._engine.submit(OwnerCame(self._owner, self._actor, where=where))

    def _refuse(self, error: errors.OnceqError) -> None:
        """Report the error, and end the connection: nothing more of it can be trusted."""
        failure = frames.Failure(error.code, error.text[: frames.TEXT_CHARS_MAX])
        self._transport.writelines(frames.frame(0, FAILED, failure))
        self._transport.close()
        self.connection_lost()

    def _answer(self, request: int, result: object) -> None:
        if not request:  # it is about the connection itself
            if isinstance(result, errors.OnceqError) and not self._gone:
                self._refuse(result)
            return
        if self._withdrawn and request in self._withdrawn:
            self._withdrawn.discard(request)
            if isinstance(result, errors.OperationCancelled) and not self._gone:
                self._parked.append(request)
                self._work()
                return
        if self._stopping and isinstance(result, errors.OperationCancelled):
            result = _stops()
        code, size = self._asked.pop(request)
        self._bytes -= size
        self._waits.pop(request, None)
        if code in _RECEIVES:
            self._receives -= 1
            size = len(result.run.data) if isinstance(result, Batch) and not self._gone else 0
            self._engine.answers.built(self, request, size, self._now_us())
        if not self._gone:
            self._transport.writelines(frames.encode(request, code, result))
            looked = code == _LOOK and self._looking
            self._looking &= not looked
            (self._work if looked else self._throttle)()

    def _throttle(self) -> None:
        full = (
            self._blocked
            or self._starved
            or (self._looking and bool(self._pending))
            or self._bytes > limits.CLIENT_UNANSWERED_BYTES_MAX
            or len(self._asked) - self._receives > limits.CLIENT_UNANSWERED_MAX
        )
        if full != self.full:
            self.full = full
            self._transport.reading_changed()

    def pause_writing(self) -> None:
        """Stop reading, because the application does not read its answers."""
        self._blocked = True
        for request in self._waits:
            if request not in self._withdrawn and request not in self._parked:
                self._withdrawn.add(request)
                self._engine.submit(requests.CancelReceive(request, owner=self._owner, request=0))
        self._throttle()

    def resume_writing(self) -> None:
        """Continue: the application reads again."""
        self._blocked = False
        if not self._gone:
            self._engine.answers.read(self, self._now_us())
            self.go_on()
            self._engine.answers.wake()

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes that the application has not read yet."""
        return self._transport.unread_bytes

    def go_on(self) -> None:
        """Continue with the requests: there may be room."""
        self._starved = False
        if not self._gone:
            self._work()

    def cut(self, reason: str) -> None:
        """Cut the connection."""
        self._transport.refuse(reason)

    def _now_us(self) -> int:
        return self._engine.clock.read().mono_us

    def stop(self) -> None:
        """Stop in order: accepted requests are answered, and no more are read. Receives that
        still wait are answered so."""
        self._stopping = True
        self._pending.clear()
        parked, self._parked = self._parked, []
        self._withdrawn.clear()
        for request in parked:
            self._answer(request, _stops())
        for request, (code, _) in list(self._asked.items()):
            if code == requests.Receive.code:
                self._engine.submit(requests.CancelReceive(request, owner=self._owner, request=0))

    def farewell(self) -> None:
        """Say behind the last answer: no unanswered request has happened, or ever will."""
        if self.greeted and not self._gone:
            error = _stops()
            self._transport.writelines(
                frames.frame(0, FAILED, frames.Failure(error.code, error.text))
            )

    def connection_lost(self) -> None:
        """Release the application, which is gone."""
        if not self._gone:
            self._gone = True
            if self._challenge is not None:
                self._engine.tokens.missed(self._challenge)
            self._pending.clear()
            self._waits.clear()
            self._withdrawn.clear()
            self._parked.clear()
            self._engine.answers.gone(self)
            self._engine.owner_gone(self._owner)


# ---- attempt key ---------------------------------------------------------------------------------
#
# The key with which a queue manager marks the attempts of its applications (finding S9).


def kept_entropy(
    folder: str, random: Callable[[int], bytes] = os.urandom
) -> Callable[[int], bytes]:  # fmt: skip
    """Return a source of random bytes whose last ``KEY_BYTES`` are the same at each start.

    Args:
        folder: The data directory.
        random: Returns the given number of random bytes.

    Returns:
        A function that returns the given number of bytes; raises StorageFailure.
    """
    path = os.path.join(folder, ATTEMPT_KEY_FILE)

    def entropy(size: int) -> bytes:
        try:
            key = _read(path) or _write(path, random(KEY_BYTES))
        except OSError as error:
            raise errors.StorageFailure(f"{path}: {os.strerror(error.errno or 0)}") from error
        return random(size - KEY_BYTES) + key

    return entropy


def _read(path: str) -> bytes:
    """Return the key; b"" if there is none."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        found = file.read(KEY_BYTES + 1)
        return found if len(found) == KEY_BYTES else b""
    return b""


def _write(path: str, key: bytes) -> bytes:
    """Write a key, whole or not at all."""
    fresh = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    return key
