"""Queue managers: embedded in this process, or connected to a daemon.

Every method may be called from any thread. In ``onceq.aio`` an object belongs to the event loop
that made it, and any number of its tasks may use it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from typing import Unpack

from onceq.client import backups, retry
from onceq.client.async_link import in_thread
from onceq.client.binding import current_transaction, tasks
from onceq.client.plans import branches as verbs
from onceq.client.plans import cursors, handles, operate, tracking, unit_of_work
from onceq.client.plans import queues as admin
from onceq.client.plans import receive as receiving
from onceq.client.plans import rights as rights_plans
from onceq.client.plans import send as sending
from onceq.client.plans.tracking import Trail, given
from onceq.client.properties import NOTHING, Body, Nothing, SendProperties
from onceq.client.results import BackupReport, Progress
from onceq.client.tasks.consuming import AsyncConsuming
from onceq.client.tasks.looking import AsyncLooking
from onceq.client.tasks.open_queue import AsyncCursor, AsyncOpenQueue
from onceq.client.tasks.running import opening
from onceq.client.tasks.transaction import AsyncGroups, AsyncTracked, AsyncXa, following
from onceq.client.tasks.transaction import branch as work_in
from onceq.errors import OnceqError
from onceq.model.identity import MessageId
from onceq.model.views.looks import JobView


class AsyncQueueManager(AsyncConsuming, AsyncLooking):
    """A queue manager. Made by ``onceq.aio.open`` and ``onceq.aio.connect``; close it,
    or use ``async with``."""

    # ---- queues ---------------------------------------------------------------------------

    create_queue = tasks(admin.create_queue)
    set_queue = tasks(admin.set_queue)
    set_poison_policy = tasks(admin.set_poison_policy)
    delete_queue = tasks(admin.delete_queue)
    purge = tasks(admin.purge)
    open_queue = opening(handles.open_queue, AsyncOpenQueue)
    cursor = opening(cursors.cursor, AsyncCursor.opened)

    # ---- messages -------------------------------------------------------------------------

    send = tasks(sending.send)
    send_many = tasks(sending.send_many)
    send_tracked = following(tracking.send_tracked)
    request = tasks(retry.request)
    reply = tasks(retry.reply)
    receive = tasks(receiving.receive)
    receive_many = tasks(receiving.receive_many)
    peek = tasks(receiving.peek)
    peek_many = tasks(receiving.peek_many)
    peek_headers = tasks(receiving.peek_headers)
    peek_tops = tasks(receiving.peek_tops)
    remove = tasks(receiving.remove)
    move = tasks(receiving.move)
    outcome = tasks(unit_of_work.outcome)
    tracking_queue = tasks(tracking.tracking_queue)

    def send_current(
        self, destination: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
        **properties: Unpack[SendProperties],
    ) -> Awaitable[MessageId | None]:  # fmt: skip
        """Send with the transaction whose ``with`` block this is (MQ_MTS_TRANSACTION).

        Where there is none the message is sent now, as ``send`` does.

        Returns:
            Its identifier; None if it goes with the transaction's commit.
        """
        tx = current_transaction(self)
        if tx is None:
            return self.send(destination, body, json=json, **properties)
        # In a task the commit is refused as long as nobody has awaited this: see `counted`.
        return tx.send(destination, body, json=json, **properties)  # type: ignore[no-any-return]

    def track(self, message: MessageId | str) -> AsyncTracked:
        """Follow a message by its identifier, also one that another program has sent.

        What can be told depends on what it asked for when it was sent: by ``send_tracked``
        everything, else what its outgoing queue and the dead-letter queues say.
        """
        return AsyncTracked(self, Trail(self._state, given(message)))

    # ---- branches -------------------------------------------------------------------------

    branch = work_in
    decision = tasks(verbs.decision)

    _xa = AsyncXa

    @property
    def xa(self) -> AsyncXa:
        """The verbs of XA."""
        return self._xa(self)

    @property
    def groups(self) -> AsyncGroups:
        """Many branches committed as one, once for each version."""
        return AsyncGroups(self)

    # ---- operating it ---------------------------------------------------------------------

    reset_stream = tasks(operate.reset_stream)
    forget_peer = tasks(operate.forget_peer)
    accept_clock = tasks(operate.accept_clock)
    grant = tasks(rights_plans.grant)
    revoke = tasks(rights_plans.revoke)
    explain_right = tasks(rights_plans.explain_right)
    create_token = tasks(rights_plans.create_token)
    revoke_token = tasks(rights_plans.revoke_token)
    start_job = tasks(admin.start_job)
    job_destinations = tasks(admin.job_destinations)
    cancel_job = tasks(admin.cancel_job)
    management = tasks(operate.management)
    create_list = tasks(operate.create_list)
    add_to_list = tasks(operate.add_to_list)
    remove_from_list = tasks(operate.remove_from_list)
    drop_list = tasks(operate.drop_list)
    pause = tasks(operate.pause)
    resume = tasks(operate.resume)
    resend = tasks(operate.resend)
    release_queue = tasks(operate.release_queue)
    disconnect = tasks(operate.disconnect)
    connect = tasks(operate.connect)
    tidy = tasks(operate.tidy)
    forget_unanswered = tasks(operate.forget_unanswered)
    reload = tasks(operate.reload)
    drop_damaged = tasks(operate.drop_damaged)
    scrub = tasks(operate.scrub)
    scrub_stop = tasks(operate.scrub_stop)
    scrub_status = tasks(operate.scrub_status)
    action = tasks(operate.action)

    async def wait_for_job(
        self,
        number: int,
        *,
        timeout: float | None = None,
        progress: Callable[[JobView], object] | None = None,
    ) -> JobView:
        """Wait until a job is over; the job runs on whether anybody waits for it or not.

        Args:
            number: As ``start_job`` has answered.
            timeout: Seconds; None: however long it takes.
            progress: Called with the job each time that it is looked at.

        Returns:
            The job: ``state`` is done, cancelled or failed; or running, if the time is over.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        for wait_s in admin.pauses():
            found: JobView = await self.job(number)
            if progress is not None:
                progress(found)
            left = until - time.monotonic()
            if found.over or left <= 0:
                return found
            await asyncio.sleep(min(wait_s, left))
        raise AssertionError("there is always another look")

    async def backup(
        self, path: str, *, configuration: bool = True, progress: Progress | None = None
    ) -> BackupReport:
        """Make a backup of this queue manager, which goes on meanwhile.

        Args:
            path: A directory that is empty or not there, on this computer.
            configuration: Copy ``onceq.toml``, too, in which passwords of databases may stand.
            progress: Called now and then with the bytes that are copied, and those of all; for
                ``onceq.aio`` in another thread, which copies them.

        Raises:
            ConfigurationError: The directory is not empty.
            NoSpace: There is no room for it.
            UnsupportedOperation: The queue manager is on another computer.
            InsufficientResources: Another backup of it is being made.
            StorageReserve: Its own disk is nearly full.
            BackupOver: It could not hold its files long enough.
            DamagedRecord: What was copied is damaged.
        """
        held = await self._run(backups.begin())
        number = held.number
        try:
            making = await in_thread(
                backups.Making, path, held, self._state, progress, configuration=configuration
            )
            while await in_thread(making.step):
                if making.due:
                    await self._run(backups.hold("keep", number))
            await self._run(backups.hold("end", number))
        except BaseException:
            with contextlib.suppress(OnceqError):
                await self._run(backups.hold("end", number))
            raise
        return await in_thread(making.finish)
