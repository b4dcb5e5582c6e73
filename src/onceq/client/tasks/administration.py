"""The administration of a queue manager, in groups: ``qm.admin``, ``qm.jobs``, ``qm.lists``,
``qm.rights`` and ``qm.tokens``.

A command that asks one thing loads no more of the client than this.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

from onceq.client.binding import tasks
from onceq.client.plans import operate
from onceq.client.plans import queues as admin
from onceq.client.results import BackupReport, Progress
from onceq.client.tasks.connected import AsyncConnected
from onceq.client.tasks.running import AsyncManagerPart
from onceq.errors import OnceqError
from onceq.model.views.looks import JobView


class AsyncManagerJobs(AsyncManagerPart):
    """Jobs, which move, return, send again or purge many messages batch by batch."""

    start = tasks(admin.start_job)
    list = tasks(admin.jobs)
    get = tasks(admin.job)
    destinations = tasks(admin.job_destinations)
    cancel = tasks(admin.cancel_job)

    async def wait(
        self,
        number: int,
        *,
        timeout: float | None = None,
        progress: Callable[[JobView], object] | None = None,
    ) -> JobView:
        """Wait until a job is over; the job runs on whether anybody waits for it or not.

        Args:
            number: As ``start`` has answered.
            timeout: Seconds; None: however long it takes.
            progress: Called with the job each time that it is looked at.

        Returns:
            The job: ``state`` is done, cancelled or failed; or running, if the time is over.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        for wait_s in admin.pauses():
            found: JobView = await self.get(number)
            if progress is not None:
                progress(found)
            left = until - time.monotonic()
            if found.over or left <= 0:
                return found
            await asyncio.sleep(min(wait_s, left))
        raise AssertionError("there is always another look")


class AsyncManagerTokens(AsyncManagerPart):
    """Tokens, by which applications prove who they are."""

    create = tasks(admin.create_token)
    list = tasks(admin.tokens)
    revoke = tasks(admin.revoke_token)


class AsyncManagerLists(AsyncManagerPart):
    """Distribution lists of the directory: one name that leads to many queues."""

    create = tasks(operate.create_list)
    add = tasks(operate.add_to_list)
    remove = tasks(operate.remove_from_list)
    drop = tasks(operate.drop_list)
    list = tasks(operate.lists)
    members = tasks(operate.list_members)


class AsyncManagerRights(AsyncManagerPart):
    """Rights: who may do what, at the queue manager and at its queues."""

    grant = tasks(admin.grant)
    revoke = tasks(admin.revoke)
    list = tasks(admin.rights)
    explain = tasks(admin.explain_right)


class AsyncManagerAdmin(AsyncManagerPart):
    """What operators look at and do: state, outgoing queues, peers, doubts, damage, backups."""

    status = tasks(operate.status)
    metrics = tasks(operate.metrics)
    settings = tasks(operate.settings)
    reload = tasks(operate.reload)
    explain_name = tasks(operate.explain_name)
    trail = tasks(admin.trail)
    trail_end = tasks(admin.trail_end)

    # ---- other queue managers -------------------------------------------------------------

    why = tasks(operate.why)
    outgoing = tasks(operate.outgoing)
    outgoing_page = tasks(operate.outgoing_page)
    outgoing_queue = tasks(operate.outgoing_queue)
    pause = tasks(operate.pause)
    resume = tasks(operate.resume)
    resend = tasks(operate.resend)
    tidy = tasks(operate.tidy)
    forget_unanswered = tasks(operate.forget_unanswered)
    streams = tasks(operate.streams)
    reset_stream = tasks(operate.reset_stream)
    peers = tasks(operate.peers)
    forget_peer = tasks(operate.forget_peer)
    accept_clock = tasks(operate.accept_clock)
    disconnect = tasks(operate.disconnect)
    connect = tasks(operate.connect)

    # ---- transactions ---------------------------------------------------------------------

    transactions = tasks(operate.transactions)
    branches = tasks(operate.branches)
    decisions = tasks(operate.decisions)
    release_queue = tasks(operate.release_queue)

    # ---- the store ------------------------------------------------------------------------

    damages = tasks(operate.damages)
    drop_damaged = tasks(operate.drop_damaged)
    scrub = tasks(operate.scrub)
    scrub_stop = tasks(operate.scrub_stop)
    scrub_status = tasks(operate.scrub_status)

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
        # Only here: it reads the store, which a command that asks one thing does not load.
        from onceq.client import backups
        from onceq.client.async_link import in_thread

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

    # ---- the management API of MSMQ -------------------------------------------------------

    management = tasks(operate.management)
    action = tasks(operate.action)
    eod_send_info = tasks(operate.eod_send_info)
    eod_receive_info = tasks(operate.eod_receive_info)


class AsyncManagerConnection(AsyncConnected):
    """A connection to a queue manager, with its administration."""

    queue = tasks(admin.queue)
    queues = tasks(admin.queues)
    queue_page = tasks(admin.queue_page)
    consumers = tasks(admin.consumers)
    count_range = tasks(admin.count_range)

    @property
    def admin(self) -> AsyncManagerAdmin:
        """What operators look at and do."""
        return AsyncManagerAdmin(self)

    @property
    def jobs(self) -> AsyncManagerJobs:
        """Jobs on many messages."""
        return AsyncManagerJobs(self)

    @property
    def lists(self) -> AsyncManagerLists:
        """Distribution lists."""
        return AsyncManagerLists(self)

    @property
    def rights(self) -> AsyncManagerRights:
        """Rights: who may do what, at the queue manager and at its queues."""
        return AsyncManagerRights(self)

    @property
    def tokens(self) -> AsyncManagerTokens:
        """Tokens of applications."""
        return AsyncManagerTokens(self)
