"""Names of the semantic conventions for messaging, which OpenTelemetry may still change.

They have the status "Development": whoever follows a change of theirs changes this module alone.
Those under ``onceq.`` are ours.
"""

from __future__ import annotations

from typing import Final

SYSTEM: Final = "messaging.system"
SYSTEM_ONCEQ: Final = "onceq"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
COUNT: Final = "messaging.batch.message_count"
SERVER: Final = "server.address"
ERROR_TYPE: Final = "error.type"

CREATE: Final = "create"
SEND: Final = "send"
RECEIVE: Final = "receive"
PROCESS: Final = "process"
SETTLE: Final = "settle"

OUTCOME: Final = "onceq.transaction.outcome"
"""What became of the transaction: committed, aborted or in-doubt; of a branch, whose coordinator
decides later, prepared or ended."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
IN_DOUBT: Final = "in-doubt"
PREPARED: Final = "prepared"
ENDED: Final = "ended"
BRANCH: Final = "onceq.transaction.branch"
"""Which branch of an external transaction is prepared, decided or left: as ``Xid`` prints it."""
RECEIVED: Final = "onceq.transaction.received_count"
SENT: Final = "onceq.transaction.sent_count"
ABORT_COUNT: Final = "onceq.message.abort_count"
"""How often the message was received before, and given back."""
