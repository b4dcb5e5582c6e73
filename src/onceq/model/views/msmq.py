"""Views with MSMQ's own names: EodGetSendInfo, EodGetReceiveInfo, PROPID_MGMT_*.

Times are seconds since 1970 UTC, 0 meaning never.
"""

from __future__ import annotations

from onceq.model.views.view import View


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
