# Made from client/tasks/administration.py by tools/faces.py: edit that, and run `make format`.
"""The administration of a queue manager, in groups: ``qm.admin``, ``qm.jobs``, ``qm.lists``,
``qm.rights`` and ``qm.tokens``.

A command that asks one thing loads no more of the client than this.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

from onceq.client.binding import threads
from onceq.client.plans import operate
from onceq.client.plans import queues as admin
from onceq.client.results import BackupReport, Progress
from onceq.client.stopping import pause
from onceq.client.threads.connected import Connected
from onceq.client.threads.running import ManagerPart
from onceq.errors import OnceqError
from onceq.model.views.looks import JobView


class ManagerJobs(ManagerPart):
    """Jobs, which move, return, send again or purge many messages batch by batch."""

    start = threads(admin.start_job)
    list = threads(admin.jobs)
    get = threads(admin.job)
    destinations = threads(admin.job_destinations)
    cancel = threads(admin.cancel_job)

    def wait(
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
            found: JobView = self.get(number)
            if progress is not None:
                progress(found)
            left = until - time.monotonic()
            if found.over or left <= 0:
                return found
            pause(min(wait_s, left))
        raise AssertionError("there is always another look")


class ManagerTokens(ManagerPart):
    """Tokens, by which applications prove who they are."""

    create = threads(admin.create_token)
    list = threads(admin.tokens)
    revoke = threads(admin.revoke_token)


class ManagerLists(ManagerPart):
    """Distribution lists of the directory: one name that leads to many queues."""

    create = threads(operate.create_list)
    add = threads(operate.add_to_list)
    remove = threads(operate.remove_from_list)
    drop = threads(operate.drop_list)
    list = threads(operate.lists)
    members = threads(operate.list_members)


class ManagerRights(ManagerPart):
    """Rights: who may do what, at the queue manager and at its queues."""

    grant = threads(admin.grant)
    revoke = threads(admin.revoke)
    list = threads(admin.rights)
    explain = threads(admin.explain_right)


class ManagerAdmin(ManagerPart):
    """What operators look at and do: state, outgoing queues, peers, doubts, damage, backups."""

    status = threads(operate.status)
    metrics = threads(operate.metrics)
    settings = threads(operate.settings)
    reload = threads(operate.reload)
    explain_name = threads(operate.explain_name)
    trail = threads(admin.trail)
    trail_end = threads(admin.trail_end)

    # ---- other queue managers -------------------------------------------------------------

    why = threads(operate.why)
    outgoing = threads(operate.outgoing)
    outgoing_page = threads(operate.outgoing_page)
    outgoing_queue = threads(operate.outgoing_queue)
    pause = threads(operate.pause)
    resume = threads(operate.resume)
    resend = threads(operate.resend)
    tidy = threads(operate.tidy)
    forget_unanswered = threads(operate.forget_unanswered)
    streams = threads(operate.streams)
    reset_stream = threads(operate.reset_stream)
    peers = threads(operate.peers)
    forget_peer = threads(operate.forget_peer)
    accept_clock = threads(operate.accept_clock)
    disconnect = threads(operate.disconnect)
    connect = threads(operate.connect)

    # ---- transactions ---------------------------------------------------------------------

    transactions = threads(operate.transactions)
    branches = threads(operate.branches)
    decisions = threads(operate.decisions)
    release_queue = threads(operate.release_queue)

    # ---- the store ------------------------------------------------------------------------

    damages = threads(operate.damages)
    drop_damaged = threads(operate.drop_damaged)
    scrub = threads(operate.scrub)
    scrub_stop = threads(operate.scrub_stop)
    scrub_status = threads(operate.scrub_status)

    def backup(
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

        held = self._run(backups.begin())
        number = held.number
        try:
            making = backups.Making(path, held, self._state, progress, configuration=configuration)
            while making.step():
                if making.due:
                    self._run(backups.hold("keep", number))
            self._run(backups.hold("end", number))
        except BaseException:
            with contextlib.suppress(OnceqError):
                self._run(backups.hold("end", number))
            raise
        return making.finish()

    # ---- the management API of MSMQ -------------------------------------------------------

    management = threads(operate.management)
    action = threads(operate.action)
    eod_send_info = threads(operate.eod_send_info)
    eod_receive_info = threads(operate.eod_receive_info)


class ManagerConnection(Connected):
    """A connection to a queue manager, with its administration."""

    queue = threads(admin.queue)
    queues = threads(admin.queues)
    queue_page = threads(admin.queue_page)
    consumers = threads(admin.consumers)
    count_range = threads(admin.count_range)

    @property
    def admin(self) -> ManagerAdmin:
        """What operators look at and do."""
        return ManagerAdmin(self)

    @property
    def jobs(self) -> ManagerJobs:
        """Jobs on many messages."""
        return ManagerJobs(self)

    @property
    def lists(self) -> ManagerLists:
        """Distribution lists."""
        return ManagerLists(self)

    @property
    def rights(self) -> ManagerRights:
        """Rights: who may do what, at the queue manager and at its queues."""
        return ManagerRights(self)

    @property
    def tokens(self) -> ManagerTokens:
        """Tokens of applications."""
        return ManagerTokens(self)
