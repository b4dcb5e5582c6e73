"""Views of queues, outgoing queues, the streams that lead into queues, and ranges of messages.

Those at the end have MSMQ's own names: EodGetSendInfo, EodGetReceiveInfo, PROPID_MGMT_*. Times are
seconds since 1970 UTC, 0 meaning never, and sizes are bytes, where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from onceq.errors import InvalidParameter
from onceq.model.identity import read_number
from onceq.model.record import Record, field
from onceq.model.views.view import Column, View

EVERY_FAILS: Final = "every message fails"
"""With these words begins what a consumer says of itself while it can handle no message..."""
FAILING_SHOWN: Final = 20
"""... and an overview names at most this number of queues with such consumers."""
QUOTA_WARN: Final = 0.9
"""From this share on a quota is told to be nearly used up."""
REFUSALS_SHOWN_S: Final = 7 * 86_400
"""How long an overview names a destination that has refused messages."""


class PutBackView(View, frozen=True):
    """What a restore of this queue manager means for one queue.

    Attributes:
        at: When the restore was.
        to: The moment that this queue manager was put back to.
        messages: Of the queue, that were there at that moment and still are.
        known: What other queue managers have shown that they know of the time between: of an
            outgoing queue its receiver, of a queue any sender.
    """

    at: int = 0
    to: int = 0
    messages: int = 0
    known: tuple[str, ...] = ()


class QueueView(View, frozen=True):
    """One queue. A subqueue has its parent's properties and its own messages.

    Attributes:
        name: Name of the queue, with its subqueue (``orders;retry``).
        path: The path name, such as ``private$\\\\orders``.
        transactional: Whether it accepts transactional messages, and no others.
        system: Whether it is one of the queues that every queue manager has.
        label: A description for people.
        messages: Messages in it, including those that transactions hold.
        available: Of these, those that can be received now.
        locked: Messages in it that open transactions have received.
        bytes: Size of its messages.
        first_lookup: Lookup identifier of the first message; 0: it is empty.
        last_lookup: Lookup identifier of the last message; 0: it is empty.
        quota_kb: Most that it may hold, in KiB; 4294967295: no limit.
        created: When it was made.
        readers_waiting: Receives and peeks that wait for a message.
        number: Its number in ``PRIVATE=`` format names.
        instance: Its GUID, in hexadecimal digits.
        journal: Whether received messages are copied to its journal.
        journal_quota_kb: Most that its journal may hold, in KiB; 4294967295: no limit.
        type: GUID that applications give to queues of one kind; zeros for none.
        base_priority: Of a public queue, for routing.
        authenticate: Whether messages must be authenticated: always false.
        priv_level: 0 only clear bodies, 1 clear or encrypted ones.
        modified: When its properties were changed last.
        state: Always ``LOCAL CONNECTION``.
        xact: ``YES`` if it is transactional, else ``NO``.
        foreign: Always ``NO``.
        parent: Of a subqueue, the name of its queue; else "".
        poison_attempts: Aborts after which a message is moved aside; 0: never.
        poison_retry_after: Seconds that it then waits to be tried again; 0: it is not.
        poison_retries: How often it is tried again.
        poison_then: What becomes of it in the end: ``move:SUBQUEUE``, ``dead-letter`` or
            ``reject``.
        format_name: The name that stays valid if the computer is renamed; of a system queue, the
            one with the computer's name; "" for a subqueue.
        put_back: What a restore means for it; None: nothing. Given for one queue only.
        delayed: Messages of its subqueue ``delayed``, which are received later; none of
            ``messages``.
        delayed_until: When the first of them is due.
        in_subqueues: Messages of its subqueues, delayed ones among them; none of ``messages``. They
            go with the queue when it is deleted.
        bytes_in_subqueues: Their size.
        paused_since: When an operator has paused it; 0: it is not paused.
        poison: Of the messages of its subqueues, those that its policy has moved aside, because
            their receives were aborted too often.
        oldest: When the oldest of its messages came; 0: it is empty.
        quota_used: How much of its quota is used, with what is in its subqueues: 1.0 is all of it;
            0.0: it has none.
    """

    name: str = ""
    path: Annotated[str, Column("queue", "name")] = ""
    transactional: Annotated[bool, Column("transactional", leaves=5)] = False
    system: bool = False
    messages: Annotated[int, Column("messages")] = 0
    available: int = 0
    locked: Annotated[int, Column("locked", leaves=4)] = 0
    bytes: Annotated[int, Column("bytes", "bytes", leaves=3)] = 0
    first_lookup: int = 0
    last_lookup: int = 0
    quota_kb: int = 0
    created: int = 0
    readers_waiting: Annotated[int, Column("readers waiting", leaves=2)] = 0
    label: Annotated[str, Column("label", leaves=1, cut=True, empty="")] = ""
    number: int = 0
    instance: str = ""
    journal: bool = False
    journal_quota_kb: int = 0
    type: str = ""
    base_priority: int = 0
    authenticate: bool = False
    priv_level: int = 0
    modified: int = 0
    state: str = ""
    xact: str = ""
    foreign: str = ""
    parent: str = ""
    poison_attempts: int = 0
    poison_retry_after: int = 0
    poison_retries: int = 0
    poison_then: str = ""
    format_name: str = ""
    put_back: PutBackView | None = None
    delayed: int = 0
    delayed_until: int = 0
    in_subqueues: int = 0
    bytes_in_subqueues: int = 0
    paused_since: int = 0
    poison: int = 0
    oldest: int = 0
    quota_used: float = 0.0


class ConnectionView(View, frozen=True):
    """One attempt to connect an outgoing queue (Q-10).

    Attributes:
        status: What became of it, as MSMQ numbers that.
        status_name: The same in words.
        time: When it was.
        hresult: MSMQ's result code for it; 0: it went well.
        address: Where it went.
        reason: Why it failed; "" if it did not.
    """

    status: int = 0
    status_name: str = ""
    time: int = 0
    hresult: int = 0
    address: str = ""
    reason: str = ""


class EndingView(View, frozen=True):
    """Messages of an outgoing queue that ended in one way.

    Attributes:
        message_class: How they ended; 0 stands for every class that only another queue manager
            knows.
        cause: Of those in doubt what has ended the wait for them; else 0.
        messages: How many.
        dead_letters: How many of them were kept as dead letters; these may have been returned or
            purged since.
        last: When the last one ended.
        late: How many of them were refused after they were acknowledged: nothing is kept of these.
    """

    message_class: int = 0
    cause: int = 0
    messages: int = 0
    dead_letters: int = 0
    last: int = 0
    late: int = 0


class LateRefusalView(View, frozen=True):
    """A message that was refused after it was acknowledged, so that its sender had let go of it.

    Attributes:
        id: Of the message.
        message_class: Why it was refused.
        at: When that was heard (seconds since 1970).
    """

    id: str = ""
    message_class: int = 0
    at: int = 0


class OutgoingView(View, frozen=True):
    """One outgoing queue: its state, and what is known of its stream (EOD-48).

    Attributes:
        destination: Format name of the queue that its messages go to.
        state: One of the strings of PROPID_MGMT_QUEUE_STATE (Q-40).
        messages: Messages in it (PRP-6).
        unacknowledged: Messages in it without an order acknowledgment.
        awaiting_final: Messages in it that have arrived and await their final acknowledgment.
        bytes: Size of its messages.
        peer: GUID of the queue manager that it is connected to; "": it is not connected.
        paused_since: When an operator has paused it; 0: it is not paused.
        connected_since: When its session was made; 0: it has none.
        trouble: Why it cannot be reached; "" if nothing is known to be wrong.
        trouble_since: When that was noticed first.
        trouble_last: When that was noticed last.
        attempts: Failed attempts to connect since then.
        retry_in_s: Seconds from now until the next attempt; -1: none is planned.
        stream: The stream that is transmitted now.
        behind_stream: Messages in streams that follow when that one is acknowledged.
        first_unacked: Number of the first message of the stream without an acknowledgment; 0:
            there is none.
        last_unacked: Number of the last one.
        last_unacked_previous: The number that this one names as its predecessor.
        next_number: The number that the next message will get.
        last_ack_stream: Stream of the last order acknowledgment.
        last_ack: The number that it acknowledges; 0: none has come.
        last_ack_time: When it came.
        last_ack_count: How many have come since the start.
        no_ack_count: Messages that were transmitted and not acknowledged.
        no_read_count: The same as ``awaiting_final``, by MSMQ's name.
        transmitted: Counter of the last message that was ever transmitted.
        resend_at: When what is not acknowledged is sent again; 0: no such time is set.
        resend_in_s: The same in seconds from now; -1: no such time is set.
        resend_interval_s: Seconds that an acknowledgment is waited for.
        resend_count: Time-outs since the last acknowledgment.
        expires_next: When the next of its messages expires.
        unprocessed: The same as ``awaiting_final``.
        unsent: The other messages that it holds.
        in_doubt: Dead letters of which it is not known whether they arrived.
        endings: How messages for it have ended otherwise than by being taken over there, since
            this queue manager first sent there.
        late_refusals: The last messages that were refused after they were acknowledged.
        offline_since: When an operator has disconnected the whole queue manager; 0: it is not.
        turned_away: What the receiver says of messages that it turns away; "": it turns none away.
        turned_away_at: Since when.
        turned_away_for: The stream that the receiver is in instead.
        xact: Always ``UNKNOWN``: nobody here knows of what kind another computer's queue is
            (PRP-5).
        foreign: Always ``NO``.
        next_hops: Where its messages go next.
        history: The last attempts to connect, the oldest first.
        clash: What was found if another queue manager uses this one's identity; else "".
        answered_by: What is wrong with the computer that answers under its name, as far as that
            is known; "": nothing.
        stranded_since: When the receiver has left the stream that messages wait in; 0: it has not.
        unanswered: Whether it is there to answer a stranger only, and was never reached.
        put_back: What a restore means for it; None: nothing.
        elsewhere: Messages that have not left here, and that another queue manager with this one's
            identity may have transmitted.
        number: Its number in this queue manager; queues and outgoing queues are counted together.
        oldest: When the first of those came that have no acknowledgment; 0: there are none.
    """

    destination: Annotated[str, Column("destination", "name")] = ""
    state: Annotated[str, Column("state", leaves=4)] = ""
    messages: Annotated[int, Column("messages")] = 0
    unacknowledged: Annotated[int, Column("unacknowledged", leaves=2)] = 0
    awaiting_final: int = 0
    bytes: Annotated[int, Column("bytes", "bytes", leaves=1)] = 0
    peer: str = ""
    paused_since: int = 0
    connected_since: int = 0
    trouble: str = ""
    trouble_since: int = 0
    trouble_last: int = 0
    attempts: int = 0
    retry_in_s: float = -1.0
    stream: int = 0
    behind_stream: int = 0
    first_unacked: int = 0
    last_unacked: int = 0
    last_unacked_previous: int = 0
    next_number: int = 0
    last_ack_stream: int = 0
    last_ack: int = 0
    last_ack_time: int = 0
    last_ack_count: int = 0
    no_ack_count: int = 0
    no_read_count: int = 0
    transmitted: int = 0
    resend_at: int = 0
    resend_in_s: float = -1.0
    resend_interval_s: float = 0.0
    resend_count: int = 0
    expires_next: int = 0
    unprocessed: int = 0
    unsent: int = 0
    in_doubt: int = 0
    endings: tuple[EndingView, ...] = ()
    late_refusals: tuple[LateRefusalView, ...] = ()
    offline_since: int = 0
    turned_away: str = ""
    turned_away_at: int = 0
    turned_away_for: int = 0
    xact: str = ""
    foreign: str = ""
    next_hops: tuple[str, ...] = ()
    history: tuple[ConnectionView, ...] = ()
    clash: str = ""
    answered_by: str = ""
    stranded_since: int = 0
    unanswered: bool = False
    put_back: PutBackView | None = None
    elsewhere: int = 0
    number: int = 0
    oldest: int = 0


class ReaderView(View, frozen=True):
    """A reader that looks at messages of a queue, and removes them when they are written elsewhere;
    of each the last removal.

    Attributes:
        queue: Name of the queue.
        reader: Name of the reader: for a stream of Spark the option ``subscription``; "" is a name.
        query: Identifier of its run; "": it gave none.
        to: Lookup identifier of the last message that it has removed.
        since: When it removed that (seconds since 1970).
        who: Description that it gave of itself.
    """

    queue: Annotated[str, Column("queue", "name")] = ""
    reader: Annotated[str, Column("subscription", empty="")] = ""
    query: Annotated[str, Column("query", empty="")] = ""
    to: Annotated[int, Column("up to", "place")] = 0
    since: Annotated[int, Column("ago", "since")] = 0
    who: Annotated[str, Column("who", empty="")] = ""


class ConsumerView(View, frozen=True):
    """Who works on a queue: waits at it, has it open, or holds messages of it. One for each
    application, and one for each branch that holds messages and at which nobody is at work.

    Attributes:
        queue: Name of the queue.
        who: Who it is, such as ``account:anna``; "": a program in the queue manager's own process.
            Of a prepared branch who has prepared it; "": the account that runs the
            queue manager.
        place: From where: an address, or ``local``, with the process if that is known; "": it is
            not known.
        connection: Its connection, as ``TransactionView.owner``; 0: nobody is at work in it.
        waiting: Receives and peeks of it that wait for a message.
        opened: How often it has the queue open to receive, to peek, or to move messages there.
        access: What it has opened the queue for, such as ``receive, peek``; "": it has not.
        denies: What it keeps others from by that: ``receive``, or "".
        says: What it has said of itself when it opened the queue.
        holds: Messages that its open transactions have received.
        since: When its oldest transaction that holds messages began, or its branch was prepared;
            else when it opened the queue.
        branch: The branch that holds them, where the oldest of these transactions is one; else "".
    """

    queue: str = ""
    who: Annotated[str, Column("who")] = ""
    place: Annotated[str, Column("from", leaves=5, rare=True)] = ""
    connection: int = 0
    holds: Annotated[int, Column("holds")] = 0
    waiting: Annotated[int, Column("waiting")] = 0
    since: Annotated[int, Column("for", "since", leaves=4, rare=True)] = 0
    opened: int = 0
    access: Annotated[str, Column("opened to", leaves=3, rare=True)] = ""
    denies: str = ""
    says: Annotated[str, Column("says", leaves=2, cut=True, rare=True)] = ""
    branch: Annotated[str, Column("branch", leaves=1, rare=True)] = ""


class StreamView(View, frozen=True):
    """One incoming stream (EOD-48).

    Attributes:
        queue: The queue that it leads to, as its sender names it: the key that it is known by.
        name: Name of the queue that it leads to, for people.
        source: GUID of its sender.
        sender: Name of its sender; "" if that is not known.
        stream: The stream.
        number: Number of the last message that was accepted in it.
        last_access: When that message was accepted.
        rejects: Messages that were turned away since the last one was accepted: they had come
            already, or too early.
        duplicates: Messages that were dropped because they had come before.
        gaps: Messages that came too early, and could not be kept.
        stale: Messages of older streams that were turned away.
        connected: Whether its sender is connected.
        begun: When its sender says that it began the stream.
        stale_stream: An older one of which something came since the last message was accepted; 0:
            none.
        stale_at: When that came last.
        reset_at: When an operator has set it back last; 0: nobody has.
        reset_reason: Why.
        reset_from: From which stream.
        conflicts: Messages that came under numbers that other ones were accepted under.
        clash: What was found if two queue managers use its sender's identity; else "".
    """

    queue: str = ""
    name: Annotated[str, Column("queue", "name")] = ""
    source: Annotated[str, Column("source", shortens=1)] = ""
    sender: str = ""
    stream: int = 0
    number: Annotated[int, Column("last number", leaves=3)] = 0
    last_access: Annotated[int, Column("last accepted", "moment", leaves=7, shortens=2)] = 0
    duplicates: Annotated[int, Column("duplicates", leaves=5)] = 0
    gaps: Annotated[int, Column("gaps", leaves=4)] = 0
    rejects: Annotated[int, Column("refused", leaves=8)] = 0
    stale: int = 0
    connected: Annotated[bool, Column("connected", leaves=6)] = False
    begun: int = 0
    stale_stream: int = 0
    stale_at: int = 0
    reset_at: int = 0
    reset_reason: str = ""
    reset_from: int = 0
    conflicts: int = 0
    clash: str = ""


class StreamReset(View, frozen=True):
    """A stream that was set back.

    Attributes:
        queue: The queue that it leads to, as its sender names it.
        source: GUID of its sender.
        from_stream: The stream that it was in.
        from_number: Number of the last message that was accepted in it.
        stream: The stream that it is in now; 0: in none, everything is forgotten.
        number: Number of the last message that was accepted in that.
        reason: Why, as the operator has said.
        dry_run: Whether nothing has changed.
    """

    queue: str = ""
    source: str = ""
    from_stream: int = 0
    from_number: int = 0
    stream: int = 0
    number: int = 0
    reason: str = ""
    dry_run: bool = False


class RangeAsked(Record, frozen=True):
    """Which range a look is about; its text is the name that the request carries.

    Attributes:
        queue: Its name.
        after: Lookup identifier before the first place.
        to: The last place.
        messages: Most messages in it; 0: no limit.
        bytes: Most bytes of packets in it, but one message at least;
            0: it does not.
    """

    queue: str
    after: int
    to: int
    messages: int = 0
    bytes: int = 0

    def text(self) -> str:
        """As a request carries it."""
        return f"{self.after} {self.to} {self.messages} {self.bytes} {self.queue}"

    @classmethod
    def of(cls, text: str) -> RangeAsked:
        """From the form of ``text``; raises InvalidParameter."""
        parts = text.split(" ", 4)
        numbers = [number for part in parts[:4] if (number := read_number(part)) is not None]
        if len(numbers) != 4 or len(parts) != 5:
            raise InvalidParameter(f"{text[:200]!r} is no range of a queue")
        return cls(parts[4], *numbers)


class RangeView(View, frozen=True):
    """The content of a range of places.

    Attributes:
        to: The last place of it that this is about.
        messages: How many messages are there; what a transaction holds is not among them.
        bytes: Of their packets, if the range has a limit of bytes; else 0.
        locked: Lookup identifier of a message that a transaction holds: the range ends before it;
            0: there is none.
        more: Whether so much had to be looked at that the rest, behind ``to``, is another request.
        ended: How many messages of it are known to have ended since the queue manager was started,
            and were not received, by what became of them: expired, purged, rejected, moved,
            damaged.
    """

    to: int = 0
    messages: int = 0
    bytes: int = 0
    locked: int = 0
    more: bool = False
    ended: Mapping[str, int] = field(default_factory=dict)

    def and_then(self, more: RangeView) -> RangeView:
        """This and what stands behind it, as one."""
        ended = dict(self.ended)
        for how, count in more.ended.items():
            ended[how] = ended.get(how, 0) + count
        return RangeView(
            more.to, self.messages + more.messages, self.bytes + more.bytes, more.locked, more.more,
            ended,
        )  # fmt: skip


class WaitingRow(View, frozen=True):
    """A queue, or an outgoing queue.

    Attributes:
        number: Its number in this queue manager.
        name: As people call it; of an outgoing queue the format name.
        messages: How many transactional messages wait there; of an outgoing queue those that its
            receiver has not acknowledged.
    """

    number: int = 0
    name: str = ""
    messages: int = 0


class WaitingView(View, frozen=True):
    """The next queues behind a number, in the order of their numbers.

    Attributes:
        manager: GUID of the queue manager.
        position: Every record of its log before this place is counted, and none behind it.
        at: When it counted (seconds since 1970 by its clock).
        rows: Transactional queues, their subqueues, and outgoing queues.
        more: Whether there are others behind them.
    """

    manager: str = ""
    position: int = 0
    at: int = 0
    rows: tuple[WaitingRow, ...] = ()
    more: bool = False


class SequenceInfo(View, frozen=True):
    """SEQUENCE_INFO: a place in a stream; all zero where there is no such message.

    Attributes:
        seq_id: The stream.
        seq_no: Number in it.
        prev_no: Number of the message before; 0: it is the first.
    """

    seq_id: int = 0
    seq_no: int = 0
    prev_no: int = 0


class SendInfo(View, frozen=True):
    """EodGetSendInfo of an outgoing queue: its eleven items.

    Attributes:
        eod_last_ack: The last message that was acknowledged.
        eod_last_ack_time: When the last order acknowledgment came.
        eod_last_ack_count: How many have come since the start.
        eod_first_non_ack: The first message that was transmitted and not acknowledged.
        eod_last_non_ack: The last one.
        eod_next_seq: What the next message will get.
        eod_no_ack_count: Messages that were transmitted and not acknowledged.
        eod_no_read_count: Messages that have arrived and await their final acknowledgment.
        eod_resend_time: When what is not acknowledged is sent again; 0: no such time is set.
        eod_resend_interval: Seconds that an acknowledgment is waited for.
        eod_resend_count: Time-outs since the last acknowledgment.
    """

    eod_last_ack: SequenceInfo = SequenceInfo()
    eod_last_ack_time: int = 0
    eod_last_ack_count: int = 0
    eod_first_non_ack: SequenceInfo = SequenceInfo()
    eod_last_non_ack: SequenceInfo = SequenceInfo()
    eod_next_seq: SequenceInfo = SequenceInfo()
    eod_no_ack_count: int = 0
    eod_no_read_count: int = 0
    eod_resend_time: int = 0
    eod_resend_interval: int = 0
    eod_resend_count: int = 0


class ReceiveInfo(View, frozen=True):
    """EodGetReceiveInfo of a local queue: one sending queue manager.

    Attributes:
        queue_format_name: The queue, as the sender names it.
        sender_id: GUID of the sender.
        sender_name: Its name, which MSMQ does not tell; "" if it is not known.
        seq_id: The stream.
        seq_no: Number of the last message that was accepted in it.
        last_access_time: When that was.
        reject_count: Messages that were turned away since the last one was accepted.
    """

    queue_format_name: str = ""
    sender_id: str = ""
    sender_name: str = ""
    seq_id: int = 0
    seq_no: int = 0
    last_access_time: int = 0
    reject_count: int = 0


ManagementValue = int | str | SequenceInfo | list[str | ReceiveInfo | list[int | str]]
"""The value of one PROPID_MGMT_* property."""
Management = dict[str, ManagementValue]
"""Management properties by their names in small letters, without PROPID_MGMT_QUEUE_ or
PROPID_MGMT_MSMQ_; ``docs/reference/management.md`` says what each means."""
