"""Operating a queue manager through its connection: looking at it, and steering it.

The parts of ``QueueManager`` and ``AsyncQueueManager`` that operators use. Both have the same
names; what they give is described at the first one.

LONG: threads and tasks side by side, so that neither forgets what the other has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from onceq.client import plans
from onceq.client.backups import BackupReport, Making, Progress, hold
from onceq.client.plans import Plan
from onceq.client.session import Session
from onceq.client.why import why
from onceq.errors import OnceqError, QueueNotFound
from onceq.model.views import looks
from onceq.model.views.looks import Look
from onceq.model.views.managers import (
    BackupHold,
    ClockAccepted,
    DamageView,
    ListView,
    NameStep,
    PeerView,
    Reloaded,
    ScrubView,
    StatusView,
    TransactionView,
)
from onceq.model.views.msmq import ManagementValue, ReceiveInfo, SendInfo
from onceq.model.views.queues import OutgoingView, QueueView, StreamReset, StreamView
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

T = TypeVar("T")


class Operating:
    """For threads."""

    _session: Session

    def run(self, plan: Plan) -> Any:
        """Carry a plan out."""
        raise NotImplementedError

    def queue(self, name: str) -> QueueView:
        """One queue; raises QueueNotFound."""
        return self._look(looks.QUEUE, name)

    def _look(self, look: Look[T], name: str = "") -> T:
        found: T = self.run(plans.look(look, name))
        return found

    def status(self) -> StatusView:
        """The manager at a glance."""
        return self._look(looks.STATUS)

    def outgoing(self) -> list[OutgoingView]:
        """All outgoing queues."""
        return self._look(looks.OUTGOING)

    def outgoing_queue(self, destination: str) -> OutgoingView:
        """One outgoing queue; raises QueueNotFound."""
        return self._look(looks.OUTGOING_QUEUE, destination)

    def why(self, destination: str) -> str:
        """One sentence: why messages for a destination do or do not move."""
        try:
            return why(self.outgoing_queue(destination))
        except QueueNotFound:
            return why(self.queue(destination))

    def streams(self) -> list[StreamView]:
        """Incoming message streams (EodGetReceiveInfo)."""
        return self._look(looks.STREAMS)

    def reset_stream(
        self, queue: str, source: str, *, reason: str, whole: bool = False, dry_run: bool = False
    ) -> StreamReset:
        """Set back what is known of one sender's messages to one queue.

        A stream that was moved ahead (by a liar, or by a clock that was wrong) makes everything
        that its sender sends stale. It goes back to the stream before, if that is remembered;
        repetitions of what had arrived in it are still dropped then.

        Args:
            queue: Name of the queue, or of the stream as ``streams`` gives it.
            source: The sender: its name, or the beginning of its GUID.
            reason: Why; it is recorded, and shown with the stream.
            whole: Forget everything: what has arrived may be accepted again if it is sent again.
            dry_run: Only say what would happen.

        Returns:
            queue, source, from_stream, from_number, stream, number, reason, dry_run.

        Raises:
            QueueNotFound: There is no such stream.
            InvalidParameter: Several are meant, or no reason is given.
        """
        head = frames.StreamHead("reset", queue, source, reason, whole, dry_run)
        done: StreamReset = self.run(plans.ask(Code.STREAM, head))
        return done

    def peers(self) -> list[PeerView]:
        """Who answers under the names that were connected to: name, id, since, connected."""
        return self._look(looks.PEERS)

    def forget_peer(self, name: str, *, dry_run: bool = False) -> PeerView:
        """Let another queue manager answer under a name (``pin_peers``); gives who did."""
        head = frames.StreamHead("forget-peer", name, "", "", dry_run=dry_run)
        done: PeerView = self.run(plans.ask(Code.STREAM, head))
        return done

    def accept_clock(self, source: str, *, reason: str, dry_run: bool = False) -> ClockAccepted:
        """Take the streams of a queue manager whose clock was days ahead when it started.

        They are refused as being from the future, and go on to be: each start of that manager takes
        a later stamp than the one before. Say so only of one that you know.

        Args:
            source: The manager: its name, or the beginning of its GUID. Something of it must have
                been refused since this manager was started.
            reason: Why; it is recorded.
            dry_run: Only say what would happen.

        Returns:
            id, name, begun (second in which the stream claims to begin), until (the last second in
            which a stream of it may begin from now on), reason, dry_run.

        Raises:
            QueueNotFound: Nothing of it was refused.
            InvalidParameter: Several are meant, or no reason is given.
        """
        head = frames.StreamHead("accept-clock", "", source, reason, dry_run=dry_run)
        done: ClockAccepted = self.run(plans.ask(Code.STREAM, head))
        return done

    def eod_send_info(self, destination: str) -> SendInfo:
        """EodGetSendInfo of an outgoing queue: its eleven items.

        Raises:
            NoInterface: It is a local queue.
            UninitializedObject: No name was given.
            QueueNotFound.
        """
        return self._look(looks.EOD_SEND, destination)

    def eod_receive_info(self, queue: str) -> list[ReceiveInfo]:
        """EodGetReceiveInfo of a local queue: one entry for each sending manager.

        Raises:
            NoInterface: It is an outgoing queue.
            UninitializedObject: No name was given.
            QueueNotFound.
        """
        return self._look(looks.EOD_RECEIVE, queue)

    def management(self, name: str = "") -> Mapping[str, ManagementValue]:
        """PROPID_MGMT_* of a queue or an outgoing queue; without a name, of this manager."""
        return self._look(looks.MANAGEMENT, name)

    def transactions(self) -> list[TransactionView]:
        """Transactions that are open on this manager."""
        return self._look(looks.TRANSACTIONS)

    def backup(self, path: str, *, progress: Progress | None = None) -> BackupReport:
        """Make a backup of this queue manager, which goes on meanwhile.

        Args:
            path: A directory that is empty or not there, on this computer.
            progress: Called now and then with the bytes that are copied, and those of all.

        Raises:
            ConfigurationError: The directory is not empty.
            NoSpace: There is no room for it.
            UnsupportedOperation: The queue manager is on another computer.
            InsufficientResources: Another backup of it is being made.
            StorageReserve: Its own disk is nearly full.
            BackupOver: It could not hold its files long enough.
            DamagedRecord: What was copied is damaged.
        """
        held: BackupHold = self.run(hold("begin"))
        number = held.number
        try:
            making = Making(path, held, self._session, progress)
            while making.step():
                if making.due:
                    self.run(hold("keep", number))
            self.run(hold("end", number))
        except BaseException:
            with contextlib.suppress(OnceqError):
                self.run(hold("end", number))
            raise
        return making.finish()

    # ---- the directory ----------------------------------------------------------------------

    def lists(self) -> list[ListView]:
        """All distribution lists of the directory: name, format_name, members.

        Raises:
            UnsupportedOperation: This manager has no directory.
            NoDirectory: It cannot be read now.
        """
        return self._look(looks.LISTS)

    def list_members(self, name: str) -> list[str]:
        """The members of one list; raises QueueNotFound."""
        return list(self._look(looks.LIST, name).members)

    def create_list(self, name: str, *members: str) -> ListView:
        """Make a distribution list; send to the ``format_name`` of what is returned.

        Args:
            members: Format names of queues and of other lists.

        Raises:
            QueueExists: There is a list of this name.
            IllegalFormatName: A member is nothing that can be sent to.
            DirectoryError: The directory could not be changed.
        """
        return self._list("create", name, members)

    def add_to_list(self, name: str, *members: str) -> ListView:
        """Add members; those that are there already stay."""
        return self._list("add", name, members)

    def remove_from_list(self, name: str, *members: str) -> ListView:
        """Remove members; raises QueueNotFound if one is none."""
        return self._list("remove", name, members)

    def drop_list(self, name: str) -> None:
        """Remove a list from the directory."""
        self._list("drop", name, ())

    def _list(self, what: str, name: str, members: Sequence[str]) -> ListView:
        head = frames.ListHead(what, name, list(members))
        done: ListView = self.run(plans.ask(Code.LIST, head))
        return done

    def resolve(self, name: str) -> list[NameStep]:
        """What a destination becomes, step by step: depth, name, becomes."""
        return self._look(looks.RESOLVE, name)

    def _steer(self, destination: str, action: str) -> Any:
        return self.run(plans.ask(Code.STEER, frames.SteerHead(destination, action)))

    def pause(self, destination: str) -> None:
        """Transmit nothing more to a destination; messages gather."""
        self._steer(destination, "pause")

    def resume(self, destination: str) -> None:
        """Transmit again."""
        self._steer(destination, "resume")

    def resend(self, destination: str) -> None:
        """Transmit at once what is not acknowledged, with unchanged numbers (EOD-45)."""
        self._steer(destination, "resend")

    def disconnect(self) -> None:
        """Close every session with other managers and make none, until ``connect``."""
        self._steer("", "disconnect")

    def connect(self) -> None:
        """Talk to other managers again after ``disconnect``."""
        self._steer("", "connect")

    def tidy(self) -> int:
        """Forget outgoing queues in which nothing is and that nobody uses; returns how many."""
        return cast(int, self._steer("", "tidy"))

    def forget_unanswered(self) -> int:
        """Give up the acknowledgment messages for strangers that nobody has answered at, and forget
        what is empty then; returns how many messages.

        They are those of the outgoing queues that are ``unanswered``. A stranger may be an honest
        manager that has just begun to send, and that is away.
        """
        return cast(int, self._steer("", "forget-unanswered"))

    def reload(self) -> Reloaded:
        """Let it read its ``onceq.toml`` again; what can be applied holds from now on.

        Returns:
            ``changed``: what is different now; ``restart``: what is taken at the next start.

        Raises:
            ConfigurationError: The file is not good; nothing has changed.
        """
        done: Reloaded = self._steer("", "reload")
        return done

    def damages(self) -> list[DamageView]:
        """Messages that were set aside because their stored bytes are damaged."""
        return self._look(looks.DAMAGES)

    def drop_damaged(self, number: int | None = None) -> int:
        """Forget an entry of ``damages``, or all; returns how many messages that were."""
        return cast(int, self._steer("" if number is None else str(number), "drop-damaged"))

    def scrub(self, bytes_s: int = 0) -> None:
        """Look at every stored byte, slowly; what is damaged is set aside.

        Args:
            bytes_s: So many in a second; 0: as the setting ``scrub_bytes_s`` says.
        """
        self._steer(str(bytes_s) if bytes_s else "", "scrub")

    def scrub_stop(self) -> None:
        """Stop the scrub that runs."""
        self._steer("", "scrub-stop")

    def scrub_status(self) -> ScrubView:
        """How far the scrub has come that runs, or that ran last."""
        return self._look(looks.SCRUB)

    def action(self, action: str, destination: str = "") -> int | None:
        """MQMgmtAction by its own strings.

        Args:
            action: PAUSE, RESUME or EOD_RESEND of an outgoing queue; CONNECT, DISCONNECT or TIDY
                of this manager.

        Returns:
            Of TIDY how many outgoing queues were forgotten; else None.
        """
        done: int | None = self._steer(destination, action)
        return done


class AsyncOperating:
    """For tasks."""

    _session: Session

    async def run(self, plan: Plan) -> Any:
        """Carry a plan out."""
        raise NotImplementedError

    async def queue(self, name: str) -> QueueView:
        """One queue; raises QueueNotFound."""
        return await self._look(looks.QUEUE, name)

    async def _look(self, look: Look[T], name: str = "") -> T:
        found: T = await self.run(plans.look(look, name))
        return found

    async def status(self) -> StatusView:
        """The manager at a glance."""
        return await self._look(looks.STATUS)

    async def outgoing(self) -> list[OutgoingView]:
        """All outgoing queues."""
        return await self._look(looks.OUTGOING)

    async def outgoing_queue(self, destination: str) -> OutgoingView:
        """One outgoing queue."""
        return await self._look(looks.OUTGOING_QUEUE, destination)

    async def why(self, destination: str) -> str:
        """One sentence: why messages for a destination do or do not move."""
        try:
            return why(await self.outgoing_queue(destination))
        except QueueNotFound:
            return why(await self.queue(destination))

    async def streams(self) -> list[StreamView]:
        """Incoming message streams."""
        return await self._look(looks.STREAMS)

    async def reset_stream(
        self, queue: str, source: str, *, reason: str, whole: bool = False, dry_run: bool = False
    ) -> StreamReset:
        """Set back what is known of one sender's messages to one queue."""
        head = frames.StreamHead("reset", queue, source, reason, whole, dry_run)
        done: StreamReset = await self.run(plans.ask(Code.STREAM, head))
        return done

    async def peers(self) -> list[PeerView]:
        """Who answers under the names that were connected to: name, id, since, connected."""
        return await self._look(looks.PEERS)

    async def accept_clock(
        self, source: str, *, reason: str, dry_run: bool = False
    ) -> ClockAccepted:
        """Take the streams of a queue manager whose clock was days ahead when it started."""
        head = frames.StreamHead("accept-clock", "", source, reason, dry_run=dry_run)
        done: ClockAccepted = await self.run(plans.ask(Code.STREAM, head))
        return done

    async def forget_peer(self, name: str, *, dry_run: bool = False) -> PeerView:
        """Let another queue manager answer under a name (``pin_peers``); gives who did."""
        head = frames.StreamHead("forget-peer", name, "", "", dry_run=dry_run)
        done: PeerView = await self.run(plans.ask(Code.STREAM, head))
        return done

    async def eod_send_info(self, destination: str) -> SendInfo:
        """EodGetSendInfo of an outgoing queue: its eleven items."""
        return await self._look(looks.EOD_SEND, destination)

    async def eod_receive_info(self, queue: str) -> list[ReceiveInfo]:
        """EodGetReceiveInfo of a local queue: one entry for each sending manager."""
        return await self._look(looks.EOD_RECEIVE, queue)

    async def management(self, name: str = "") -> Mapping[str, ManagementValue]:
        """PROPID_MGMT_* of a queue or an outgoing queue; without a name, of this manager."""
        return await self._look(looks.MANAGEMENT, name)

    async def transactions(self) -> list[TransactionView]:
        """Transactions that are open on this manager."""
        return await self._look(looks.TRANSACTIONS)

    async def backup(self, path: str, *, progress: Progress | None = None) -> BackupReport:
        """Make a backup of this queue manager, which goes on meanwhile.

        It is copied by other threads; ``progress`` is called there.
        """
        held: BackupHold = await self.run(hold("begin"))
        number = held.number
        try:
            making = await asyncio.to_thread(Making, path, held, self._session, progress)
            while await asyncio.to_thread(making.step):
                if making.due:
                    await self.run(hold("keep", number))
            await self.run(hold("end", number))
        except BaseException:
            with contextlib.suppress(OnceqError):
                await self.run(hold("end", number))
            raise
        return await asyncio.to_thread(making.finish)

    async def lists(self) -> list[ListView]:
        """All distribution lists of the directory."""
        return await self._look(looks.LISTS)

    async def list_members(self, name: str) -> list[str]:
        """The members of one list."""
        return list((await self._look(looks.LIST, name)).members)

    async def create_list(self, name: str, *members: str) -> ListView:
        """Make a distribution list."""
        return await self._list("create", name, members)

    async def add_to_list(self, name: str, *members: str) -> ListView:
        """Add members."""
        return await self._list("add", name, members)

    async def remove_from_list(self, name: str, *members: str) -> ListView:
        """Remove members."""
        return await self._list("remove", name, members)

    async def drop_list(self, name: str) -> None:
        """Remove a list from the directory."""
        await self._list("drop", name, ())

    async def _list(self, what: str, name: str, members: Sequence[str]) -> ListView:
        head = frames.ListHead(what, name, list(members))
        done: ListView = await self.run(plans.ask(Code.LIST, head))
        return done

    async def resolve(self, name: str) -> list[NameStep]:
        """What a destination becomes, step by step."""
        return await self._look(looks.RESOLVE, name)

    async def _steer(self, destination: str, action: str) -> Any:
        return await self.run(plans.ask(Code.STEER, frames.SteerHead(destination, action)))

    async def pause(self, destination: str) -> None:
        """Transmit nothing more to a destination."""
        await self._steer(destination, "pause")

    async def resume(self, destination: str) -> None:
        """Transmit again."""
        await self._steer(destination, "resume")

    async def resend(self, destination: str) -> None:
        """Transmit at once what is not acknowledged."""
        await self._steer(destination, "resend")

    async def disconnect(self) -> None:
        """Close every session with other managers and make none, until ``connect``."""
        await self._steer("", "disconnect")

    async def connect(self) -> None:
        """Talk to other managers again after ``disconnect``."""
        await self._steer("", "connect")

    async def tidy(self) -> int:
        """Forget outgoing queues in which nothing is and that nobody uses; returns how many."""
        return cast(int, await self._steer("", "tidy"))

    async def forget_unanswered(self) -> int:
        """Give up the acknowledgment messages for strangers that nobody has answered at; returns
        how many messages."""
        return cast(int, await self._steer("", "forget-unanswered"))

    async def reload(self) -> Reloaded:
        """Let it read its ``onceq.toml`` again; what can be applied holds from now on.

        Returns:
            ``changed``: what is different now; ``restart``: what is taken at the next start.

        Raises:
            ConfigurationError: The file is not good; nothing has changed.
        """
        done: Reloaded = await self._steer("", "reload")
        return done

    async def damages(self) -> list[DamageView]:
        """Messages that were set aside because their stored bytes are damaged."""
        return await self._look(looks.DAMAGES)

    async def drop_damaged(self, number: int | None = None) -> int:
        """Forget an entry of ``damages``, or all; returns how many messages that were."""
        return cast(int, await self._steer("" if number is None else str(number), "drop-damaged"))

    async def scrub(self, bytes_s: int = 0) -> None:
        """Look at every stored byte, slowly; what is damaged is set aside."""
        await self._steer(str(bytes_s) if bytes_s else "", "scrub")

    async def scrub_stop(self) -> None:
        """Stop the scrub that runs."""
        await self._steer("", "scrub-stop")

    async def scrub_status(self) -> ScrubView:
        """How far the scrub has come that runs, or that ran last."""
        return await self._look(looks.SCRUB)

    async def action(self, action: str, destination: str = "") -> int | None:
        """MQMgmtAction by its own strings."""
        done: int | None = await self._steer(destination, action)
        return done
