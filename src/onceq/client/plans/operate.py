"""Operating a queue manager through its connection: looking at it, and steering it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from onceq.client.link import Session
from onceq.client.plans.plan import Plan, ask, look_at, look_at_all, look_at_page
from onceq.client.plans.queues import queue
from onceq.client.why import why as sentence
from onceq.errors import QueueNotFound
from onceq.model import requests
from onceq.model.views import looks
from onceq.model.views.looks import BranchView, DecisionView
from onceq.model.views.managers import (
    ClockAccepted,
    DamageView,
    ListView,
    NameView,
    PeerView,
    Reloaded,
    ScrubView,
    SettingView,
    StatusView,
    TransactionView,
)
from onceq.model.views.queues import (
    ManagementValue,
    OutgoingView,
    ReceiveInfo,
    SendInfo,
    StreamReset,
    StreamView,
    WaitingView,
)
from onceq.model.views.view import PER_QUEUE, MetricsView, Page

T = TypeVar("T")


def status(session: Session) -> Plan[StatusView]:
    """The manager at a glance."""
    return look_at(looks.STATUS)


def metrics(session: Session, *, queues: bool = False) -> Plan[MetricsView]:
    """What the manager counts, and how it is: for metrics.

    Args:
        queues: Also of each queue, in ``per_queue``.
    """
    return look_at(looks.METRICS, PER_QUEUE if queues else "")


def settings(session: Session) -> Plan[list[SettingView]]:
    """What the manager is set to: all of the table ``[settings]``, with the defaults."""
    return look_at(looks.SETTINGS)


def outgoing(session: Session, *, only: str = "", part: str = "") -> Plan[list[OutgoingView]]:
    """All outgoing queues, as they were made.

    Args:
        only: "" is all of them; "busy" those in which something is; "stuck" those that are paused,
            or kept from moving; "refused" those whose destination has refused something within a
            week; "unanswered" those that wait for strangers.
        part: Only those with this in their destinations.

    Raises:
        InvalidParameter: There is no such part of the list.
    """
    return look_at_all(session, looks.OUTGOING, only=only, part=part)


def outgoing_page(
    session: Session,
    *,
    sort: str = "",
    only: str = "",
    part: str = "",
    after: str = "",
    limit: int = 0,
) -> Plan[Page[OutgoingView]]:
    """Some of the outgoing queues, sorted: as many as are looked at.

    Args:
        sort: See ``queue_page``; and "refused": where something was refused last comes first.
        only, part: See ``outgoing``.
        after, limit: See ``queue_page``.

    Raises:
        InvalidParameter: There is no such order, part of the list, or page.
    """
    return look_at_page(
        session, looks.OUTGOING, sort=sort, only=only, part=part, after=after, limit=limit
    )


def outgoing_queue(session: Session, destination: str) -> Plan[OutgoingView]:
    """One outgoing queue; raises QueueNotFound."""
    return look_at(looks.OUTGOING_QUEUE, destination)


def why(session: Session, destination: str) -> Plan[str]:
    """One sentence: why messages for a destination do or do not move.

    Raises:
        QueueNotFound: Nothing was sent there, and it is no queue of this manager.
    """
    try:
        return sentence((yield from outgoing_queue(session, destination)))
    except QueueNotFound as error:
        unused = error
    try:
        return sentence((yield from queue(session, destination)))
    except QueueNotFound:
        raise unused from None


def streams(session: Session) -> Plan[list[StreamView]]:
    """Incoming message streams (EodGetReceiveInfo)."""
    return look_at_all(session, looks.STREAMS)


def reset_stream(
    session: Session,
    queue: str,
    source: str,
    *,
    reason: str,
    whole: bool = False,
    dry_run: bool = False,
) -> Plan[StreamReset]:
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
    request = requests.ResetStream(queue, source, reason, whole, dry_run)
    return ask(request, StreamReset)


def peers(session: Session) -> Plan[list[PeerView]]:
    """Who answers under the names that were connected to: name, id, since, connected."""
    return look_at_all(session, looks.PEERS)


def forget_peer(
    session: Session, name: str, *, to: str = "", dry_run: bool = False
) -> Plan[PeerView]:
    """Let another queue manager answer under a name, or speak at a plain address; gives who did.

    Args:
        to: GUID of the one that may; "": whichever answers next, if its proof lets it.

    Raises:
        QueueNotFound: No such name is known, or several are.
        InvalidParameter: ``to`` is no GUID.
    """
    request = requests.ForgetPeer(name, dry_run=dry_run, to=to)
    return ask(request, PeerView)


def accept_clock(
    session: Session, source: str, *, reason: str, dry_run: bool = False
) -> Plan[ClockAccepted]:
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
    request = requests.AcceptClock(source, reason, dry_run=dry_run)
    return ask(request, ClockAccepted)


def eod_send_info(session: Session, destination: str) -> Plan[SendInfo]:
    """EodGetSendInfo of an outgoing queue: its eleven items.

    Raises:
        NoInterface: It is a local queue.
        UninitializedObject: No name was given.
        QueueNotFound.
    """
    return look_at(looks.EOD_SEND, destination)


def eod_receive_info(session: Session, queue: str) -> Plan[list[ReceiveInfo]]:
    """EodGetReceiveInfo of a local queue: one entry for each sending manager.

    Raises:
        NoInterface: It is an outgoing queue.
        UninitializedObject: No name was given.
        QueueNotFound.
    """
    return look_at(looks.EOD_RECEIVE, queue)


def management(session: Session, name: str = "") -> Plan[Mapping[str, ManagementValue]]:
    """PROPID_MGMT_* of a queue or an outgoing queue; without a name, of this manager."""
    return look_at(looks.MANAGEMENT, name)


def transactions(session: Session) -> Plan[list[TransactionView]]:
    """Transactions that are open on this manager."""
    return look_at_all(session, looks.TRANSACTIONS)


# ---- the directory -----------------------------------------------------------------------------


def branches(session: Session) -> Plan[list[BranchView]]:
    """Every branch: at work, ended, prepared, or decided by hand."""
    return look_at(looks.BRANCHES)


def decisions(session: Session) -> Plan[list[DecisionView]]:
    """Commits that partners may not have carried out yet."""
    return look_at(looks.DECISIONS)


def waiting(session: Session) -> Plan[list[WaitingView]]:
    """How many messages wait in each queue, and at which place of the log that is true; some queues
    at a time."""
    found = [(yield from look_at(looks.WAITING))]
    while found[-1].more:
        found.append((yield from look_at(looks.WAITING, str(found[-1].rows[-1].number))))
    return found


def lists(session: Session) -> Plan[list[ListView]]:
    """All distribution lists of the directory: name, format_name, members.

    Raises:
        UnsupportedOperation: This manager has no directory.
        NoDirectory: It cannot be read now.
    """
    return look_at_all(session, looks.LISTS)


def list_members(session: Session, name: str) -> Plan[list[str]]:
    """The members of one list; raises QueueNotFound."""
    return list((yield from look_at(looks.LIST, name)).members)


def _list(what: str, name: str, members: Sequence[str]) -> Plan[ListView]:
    return ask(requests.EditDirectory(what, name, list(members)), ListView)


def create_list(session: Session, name: str, *members: str) -> Plan[ListView]:
    """Make a distribution list; send to the ``format_name`` of what is returned.

    Args:
        members: Format names of queues and of other lists.

    Raises:
        QueueExists: There is a list of this name.
        IllegalFormatName: A member is nothing that can be sent to.
        DirectoryError: The directory could not be changed.
    """
    return _list("create", name, members)


def add_to_list(session: Session, name: str, *members: str) -> Plan[ListView]:
    """Add members; those that are there already stay."""
    return _list("add", name, members)


def remove_from_list(session: Session, name: str, *members: str) -> Plan[ListView]:
    """Remove members; raises QueueNotFound if one is none."""
    return _list("remove", name, members)


def drop_list(session: Session, name: str) -> Plan[None]:
    """Remove a list from the directory."""
    yield from _list("drop", name, ())


def explain_name(session: Session, name: str) -> Plan[list[NameView]]:
    """What a name means and why: which queue here, or which manager, address and session elsewhere,
    by which rule or setting; changes nothing, and sends nothing.

    Args:
        name: A path name, a format name, or the name of a list.

    Returns:
        The name; of several elements each. Behind a list what it stands for, one deeper.

    Raises:
        IllegalFormatName, IllegalPathName: It cannot be read as one.
    """
    return look_at(looks.EXPLAIN_NAME, name)


# ---- steering it -------------------------------------------------------------------------------


def _steer(destination: str, action: str, answer: type[T]) -> Plan[T]:
    return ask(requests.SteerOutgoing(destination, action), answer)


def pause(session: Session, destination: str) -> Plan[None]:
    """Let messages gather, in an outgoing queue or in a queue of this manager.

    Of an outgoing queue nothing more is transmitted. From a queue nobody receives the next message:
    receives wait until their time is over, also where messages wait in the queue or come. Looking
    goes on, and so does taking out a message that is named by its lookup identifier, for operators
    and for streams of Spark, which remove what they have read.

    Raises:
        UnsupportedFormatName: It is a system queue or a subqueue.
    """
    return _steer(destination, "pause", type(None))


def resume(session: Session, destination: str) -> Plan[None]:
    """Transmit again, or let messages be received again."""
    return _steer(destination, "resume", type(None))


def resend(session: Session, destination: str) -> Plan[None]:
    """Transmit at once what is not acknowledged, with unchanged numbers (EOD-45)."""
    return _steer(destination, "resend", type(None))


def release_queue(session: Session, queue: str) -> Plan[int]:
    """End the holds of those who have opened a queue so that nobody else can receive from it.

    Their receives and transactions there fail from then on, as if their time were over; they may
    open the queue again. The refusal ``SharingViolation`` says who holds a queue.

    Returns:
        How many holds ended.

    Raises:
        AccessDenied: It needs the right ``operate``.
        QueueNotFound: It is no queue of this manager.
    """
    return _steer(queue, "release", int)


def disconnect(session: Session) -> Plan[None]:
    """Close every session with other managers and make none, until ``connect``."""
    return _steer("", "disconnect", type(None))


def connect(session: Session) -> Plan[None]:
    """Talk to other managers again after ``disconnect``."""
    return _steer("", "connect", type(None))


def tidy(session: Session) -> Plan[int]:
    """Forget outgoing queues in which nothing is and that nobody uses; returns how many."""
    return _steer("", "tidy", int)


def forget_unanswered(session: Session) -> Plan[int]:
    """Give up the acknowledgment messages for strangers that nobody has answered at, and forget
    what is empty then; returns how many messages.

    They are those of the outgoing queues that are ``unanswered``. A stranger may be an honest
    manager that has just begun to send, and that is away.
    """
    return _steer("", "forget-unanswered", int)


def reload(session: Session) -> Plan[Reloaded]:
    """Let it read its ``onceq.toml`` again; what can be applied holds from now on.

    Returns:
        ``changed``: what is different now; ``restart``: what is taken at the next start.

    Raises:
        ConfigurationError: The file is not good; nothing has changed.
    """
    return _steer("", "reload", Reloaded)


def damages(session: Session) -> Plan[list[DamageView]]:
    """Messages that were set aside because their stored bytes are damaged."""
    return look_at_all(session, looks.DAMAGES)


def drop_damaged(session: Session, number: int | None = None) -> Plan[int]:
    """Forget an entry of ``damages``, or all; returns how many messages that were."""
    return _steer("" if number is None else str(number), "drop-damaged", int)


def scrub(session: Session, bytes_s: int = 0) -> Plan[None]:
    """Look at every stored byte, slowly; what is damaged is set aside.

    Args:
        bytes_s: The most in a second; 0: as the setting ``scrub_bytes_s`` says.
    """
    return _steer(str(bytes_s) if bytes_s else "", "scrub", type(None))


def scrub_stop(session: Session) -> Plan[None]:
    """Stop the scrub that runs."""
    return _steer("", "scrub-stop", type(None))


def scrub_status(session: Session) -> Plan[ScrubView]:
    """How far the scrub has come that runs, or that ran last."""
    return look_at(looks.SCRUB)


def action(session: Session, action: str, destination: str = "") -> Plan[int | None]:
    """MQMgmtAction by its own strings.

    Args:
        action: PAUSE, RESUME or EOD_RESEND of an outgoing queue; CONNECT, DISCONNECT or TIDY
            of this manager.

    Returns:
        Of TIDY how many outgoing queues were forgotten; else None.
    """
    answer = yield from _steer(destination, action, object)
    return answer if isinstance(answer, int) else None
