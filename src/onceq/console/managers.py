"""The queue managers that a console watches: one connection to each, made again when it breaks.

Everything asked of a queue manager has a limit of time, and one that is away keeps nobody waiting:
what concerns the others goes on, and what concerns it is answered with what is known of it. That it
is away is noticed, and that it is back, by a task that looks at its numbers from time to time.

One that is connected and answers too late is slow, not away: it is asked again, and says so.

What changes something is not given up when a page has waited for it long enough: it goes on to its
end, so that nothing is left half done because a browser was impatient.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import TypeVar

from onceq import errors
from onceq.client.address import parse
from onceq.client.async_link import AsyncLink
from onceq.client.credentials import Credentials
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console.guard import (
    ACT_S_MAX,
    AWAY_S_MAX,
    CONNECT_S_MAX,
    READ_S_MAX,
    SAMPLE_S,
    SAMPLE_SHARE,
    SAMPLES_MAX,
)

T = TypeVar("T")
Ask = Callable[[AsyncQueueManager], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Numbers of a queue manager at one moment.

    Attributes:
        at: By the console's clock, in seconds.
        shown: What the overview shows of it.
        messages, log: In its queues; bytes of its log: for pictures and rates.
    """

    at: float
    shown: dict[str, object]
    messages: int
    log: int


@dataclass(slots=True, eq=False)
class Watched:
    """One queue manager.

    Attributes:
        key: Its name in addresses of pages.
        where: Its address, as it was given; each connection reads it again, because the socket of
            a directory is there only while its queue manager runs.
        fault: Why nobody is connected to under that name; "": there is no reason.
        name: Its computer name; "" until it has said it.
        away: Why it cannot be asked now; "": it can.
        away_since: Since when.
        slow: Why it is slow: it is connected, and has not answered in time; "": it is not.
        slow_since: Since when.
        samples: Its last numbers, the oldest first.
        looked: Somebody has looked at it, with or without success.
    """

    key: str
    where: str
    now: Callable[[], float]
    credentials: Credentials | None = None
    fault: str = ""
    name: str = ""
    away: str = ""
    away_since: float = 0.0
    slow: str = ""
    slow_since: float = 0.0
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    _qm: AsyncQueueManager | None = None
    _silent: bool = False
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _acts: set[asyncio.Task[object]] = field(default_factory=set)

    @property
    def title(self) -> str:
        """For people."""
        return self.name or self.where

    async def read(self, ask: Ask[T], *, probe: bool = False) -> T:
        """Ask it something, within READ_S_MAX.

        Args:
            probe: Ask also if it did not answer the last time; nobody waits for this.

        Raises:
            ServiceNotAvailable: It is away.
            ManagerSlow: It is there, and does not answer in time.
            OnceqError: What it says.
        """
        if self._silent and not probe:
            raise errors.ServiceNotAvailable(self.away)
        try:
            async with asyncio.timeout(READ_S_MAX):
                found = await ask(await self._connected())
        except errors.ServiceNotAvailable as error:
            await self._lost(error.text, silent=False)
            raise
        except errors.OnceqError:
            self._back()
            raise
        except TimeoutError:
            raise await self._late() from None
        self._back()
        return found

    async def _late(self) -> errors.OnceqError:
        """It has not answered in time: the error for the caller."""
        if self._qm is not None:
            if not self.slow:
                self.slow_since = self.now()
            self.slow = f"it has not answered within {READ_S_MAX:.0f} s, and is connected"
            if self.now() - self.slow_since < AWAY_S_MAX:
                return errors.ManagerSlow(self.slow)
        text = f"it does not answer within {READ_S_MAX if self._qm is None else AWAY_S_MAX:.0f} s"
        await self._lost(text, silent=True)
        return errors.ServiceNotAvailable(text)

    async def act(self, ask: Ask[T], person: str = "") -> T:
        """Have something done; it is done to its end, even if nobody waits for it.

        Args:
            person: For whom: on a connection of its own, which says so. "": for the console.

        Raises:
            InDoubt: It takes longer than ACT_S_MAX, and goes on.
            ServiceNotAvailable: It is away.
            OnceqError: What it says.
        """
        if self._silent:
            raise errors.ServiceNotAvailable(self.away)

        async def whole() -> T:
            async with asyncio.timeout(CONNECT_S_MAX):
                if person:
                    connect = partial(self._connect, person)
                    qm = AsyncQueueManager(await connect(), connect)
                else:
                    qm = await self._connected()
            try:
                return await ask(qm)
            finally:
                if person:
                    await qm.close()

        task = asyncio.ensure_future(whole())
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)
        done, _ = await asyncio.wait((task,), timeout=ACT_S_MAX)
        if not done:
            raise errors.InDoubt(
                f"it has not ended within {ACT_S_MAX:.0f} s and goes on; look what has happened "
                "before you do it once more"
            )
        try:
            return task.result()
        except errors.ServiceNotAvailable as error:
            await self._lost(error.text, silent=False)
            raise
        except errors.OnceqError:
            raise
        except TimeoutError:
            text = f"no connection within {CONNECT_S_MAX:.0f} s"
            await self._lost(text, silent=True)
            raise errors.ServiceNotAvailable(text) from None

    async def _connected(self) -> AsyncQueueManager:
        async with self._connecting:
            if self._qm is None:
                link = await self._connect()
                self._qm = AsyncQueueManager(link, self._connect)
                self.name = self._qm.name
            return self._qm

    async def _connect(self, person: str = "") -> AsyncLink:
        if self.fault:
            raise errors.ServiceNotAvailable(self.fault)
        try:
            address = parse(self.where)
        except errors.ConfigurationError as error:
            raise errors.ServiceNotAvailable(error.text) from None
        shown = self.credentials or Credentials()
        return await AsyncLink.connect(address, CONNECT_S_MAX, credentials=shown.used_for(person))

    def _back(self) -> None:
        self.away, self.slow, self._silent = "", "", False

    async def _lost(self, text: str, *, silent: bool) -> None:
        """Remember why; the next question connects again, unless something is under way."""
        if not self.away:
            self.away_since = self.now()
        self.away, self.slow, self._silent = text, "", silent
        if not self._acts:
            await self.close()

    async def close(self) -> None:
        """Leave it."""
        qm, self._qm = self._qm, None
        if qm is not None:
            await qm.close()

    async def watch(self, look: Callable[[Watched], Awaitable[Sample]]) -> None:
        """Look at its numbers until this is cancelled."""
        while True:
            began = self.now()
            with contextlib.suppress(errors.OnceqError):
                self.samples.append(await look(self))
            self.looked.set()
            took = self.now() - began
            await asyncio.sleep(SAMPLE_S if self.away else max(SAMPLE_S, took / SAMPLE_SHARE))


class Managers:
    """All of them, by their names in addresses."""

    def __init__(
        self,
        places: Sequence[str],
        now: Callable[[], float],
        *,
        token_file: str | None = None,
        role: bool = False,
        faults: Mapping[str, str] | None = None,
    ) -> None:
        """Name them; nobody is connected to yet.

        Args:
            places: Their addresses, as for ``onceq.connect``. One that is none, or that nobody is
                at, is away.
            token_file: See ``onceq.connect``. Where there are several, each is shown the token of
                the line that is for it, and no other.
            role: They are for others than who runs the console: what is not shown a token is not
                connected to.
            faults: By places: why it is not known what is meant. They are away, too.

        Raises:
            ConfigurationError: None of them is an address.
        """
        problems = dict(faults or {})
        for where in places:
            try:
                parse(where)
            except errors.ConfigurationError as error:
                problems.setdefault(where, error.text)
            except errors.OnceqError:
                continue  # it may be there later
        if problems and all(where in problems for where in places):
            raise errors.ConfigurationError(next(iter(problems.values())))
        self.problems = problems
        """What is wrong with some of the places, for the person who named them."""
        self._all: dict[str, Watched] = {}
        several = len(places) > 1
        shown = Credentials(token_file=token_file, aside=several and not role, always=role)
        for where in places:
            key = key_of(where, self._all)
            fault = (faults or {}).get(where, "")
            self._all[key] = Watched(key, where, now, shown, fault)

    def __iter__(self) -> Iterator[Watched]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, key: str) -> Watched:
        """The one of that name; raises ManagerNotFound."""
        found = self._all.get(key)
        if found is None:
            near = get_close_matches(key, self._all, 1)
            like = f"did you mean {near[0]}? It" if near else "it"
            raise errors.ManagerNotFound(
                f"this console watches no queue manager {key!r}; {like} watches "
                f"{', '.join(self._all)}"
            )
        return found

    async def close(self) -> None:
        """Leave all of them."""
        for one in self:
            await one.close()


def key_of(where: str, taken: Sequence[str] | dict[str, Watched] = ()) -> str:
    """A name for addresses of pages: the last part of an address, and a number if it is taken."""
    last = where.rstrip("/").rpartition("/")[2].casefold()
    plain = re.sub(r"[^a-z0-9.-]+", "-", last).strip("-.") or "here"
    key, number = plain, 1
    while key in taken:
        number += 1
        key = f"{plain}-{number}"
    return key
