"""The way to a queue manager in the same process: no bytes, no sockets, the same requests."""

from __future__ import annotations

import asyncio
import contextlib

from onceq.client.async_link import Handover, in_thread
from onceq.client.link import Greeting, Request
from onceq.embedded.host import EmbeddedHost, Slot, nothing
from onceq.errors import OnceqError, ServiceNotAvailable, StorageFailure
from onceq.model import requests

CANCEL_S_MAX = 5.0
"""Seconds; a wait that was cancelled is answered long before."""


class _Shared:
    """The common part of both kinds."""

    def __init__(self, host: EmbeddedHost) -> None:
        self._host = host
        self.greeting = Greeting(
            host.name,
            host.id,
            host.now_s(),
            outcome_age_s=host.engine.settings.outcome_age_s,
        )
        self.alive = True

    def _stopped(self, error: StorageFailure) -> ServiceNotAvailable:
        """Return the error of a manager that had stopped before: a request has not reached it."""
        self.alive = False
        return ServiceNotAvailable(error.text)

    def _tell(self, request: Request) -> bool:
        """Submit a request without an answer; return whether it is to be processed now."""
        try:
            self._host.tell(request.asked)
        except StorageFailure as error:
            raise self._stopped(error) from error
        if request.lazy:
            return False
        return not request.unhurried or (request.shows and self._awaited)

    @property
    def _awaited(self) -> bool:
        """Return True if a receive waits for a message. (A receive submitted now is behind the
        unanswered requests, or the thread that processes it checks again.)"""
        return bool(self._host.engine.manager.waiting)

    def _cancel(self, number: int) -> None:
        with contextlib.suppress(OnceqError):
            self._host.submit(requests.CancelReceive(number), nothing)

    def close(self) -> None:
        """Stop the manager in order."""
        self.alive = False
        self._host.close()


class EmbeddedLink(_Shared):
    """The link for threads."""

    def look(self) -> bool:
        """Return whether the manager still runs."""
        return self.alive

    def interrupt(self) -> None:
        """End the waits of this application."""
        self.alive = False
        self._host.cancel_waiting()

    def call(self, request: Request) -> object:
        """Submit a request, and wait for its answer."""
        if not request.waits:
            if self._tell(request):
                self._host.pump()
            return None
        sent = request.ticket is not None
        if not sent:
            self._submit(request)
            if request.behind is not None:
                self._submit(request.behind)
        slot: Slot = request.ticket[1]
        try:
            if not sent:
                self._host.pump()
            result = slot.take()
        except Exception:
            raise
        except BaseException:
            if (given_up := request.to_give_up) is not None:
                # Interrupted while it waited: end the wait, and keep what came all the same.
                number, slot = given_up.ticket
                self._cancel(number)
                self._host.pump()
                given_up.missed(slot.take(CANCEL_S_MAX))
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(result, OnceqError):
            raise result
        return result

    def _submit(self, request: Request) -> None:
        slot = Slot()
        try:
            request.ticket = self._host.submit(request.asked, slot.put), slot
        except StorageFailure as error:
            raise self._stopped(error) from error


class AsyncEmbeddedLink(_Shared):
    """The link for tasks: the loop waits, and a worker thread pumps."""

    def check_loop(self, *, leaving: bool = False) -> None:
        """Accept any loop: each call waits in the loop that runs."""

    async def look(self) -> bool:
        """Return whether the manager still runs."""
        return self.alive

    async def call(self, request: Request) -> object:
        """Submit a request, and wait for its answer."""
        if not request.waits:
            if self._tell(request):
                await in_thread(self._host.pump)
            return None
        try:
            if request.ticket is None:
                self._submit(request)
                if request.behind is not None:
                    self._submit(request.behind)
                # Not awaited: if it fails, each request is answered with the reason.
                self._pump()
            place: Handover = request.ticket[1]
            result = await place.take()
        except GeneratorExit:
            raise  # The loop is over.
        except BaseException:
            given_up = request.to_give_up
            if given_up is not None and given_up.ticket is not None:
                await self._give_up(given_up)
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(result, OnceqError):
            raise result
        return result

    def _submit(self, request: Request) -> None:
        place = Handover(request.missed)
        try:
            request.ticket = self._host.submit(request.asked, place.put), place
        except StorageFailure as error:
            raise self._stopped(error) from error

    def _pump(self) -> None:
        asyncio.get_running_loop().run_in_executor(None, self._host.pump)

    async def _give_up(self, request: Request) -> None:
        """End the wait of a cancelled call; messages that it has taken are kept before the
        cancelling is over."""
        number, place = request.ticket

        def cancel() -> None:
            self._cancel(number)
            self._pump()

        await place.give_up(cancel, CANCEL_S_MAX)
