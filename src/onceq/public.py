"""The names that ``import onceq`` gives; see there."""

from onceq import directory, errors
from onceq.client.credentials import Tls
from onceq.client.opening import connect
from onceq.client.plans.send import Ending
from onceq.client.plans.unit_of_work import SenderTransaction
from onceq.client.properties import BatchProperties, SendProperties
from onceq.client.results import BackupReport, MessageIds, RestoreReport
from onceq.client.stopping import stopping
from onceq.client.threads import letters
from onceq.client.threads.administration import (
    ManagerAdmin,
    ManagerJobs,
    ManagerLists,
    ManagerRights,
    ManagerTokens,
)
from onceq.client.threads.manager import Cursor, OpenQueue, QueueManager
from onceq.client.threads.transaction import Branch, Groups, Tracked, Transaction, Xa
from onceq.embedded.data_directory import restore
from onceq.embedded.opening import open
from onceq.errors import (
    InDoubt,
    OnceqError,
    ReceiveTimeout,
    Retryable,
    SendFailed,
    ServiceNotAvailable,
)
from onceq.model import names
from onceq.model.branches import Vote, Xid
from onceq.model.identity import MessageId, TransactionId
from onceq.model.message import Acknowledge, Delivery, Journal, Message, MessageHeaders, Properties
from onceq.model.results import Outcome
from onceq.model.settings import Settings
from onceq.model.views.looks import BranchView, DecisionView, GroupResult, GroupView
from onceq.model.views.managers import (
    ClashView,
    ClockAccepted,
    DamageView,
    ListView,
    NameView,
    PeerView,
    Reloaded,
    Restored,
    ScrubView,
    SettingView,
    StatusView,
    TokenMade,
    TokenView,
    TransactionView,
    UndoneView,
)
from onceq.model.views.queues import (
    ConnectionView,
    ConsumerView,
    ManagementValue,
    OutgoingView,
    PutBackView,
    QueueView,
    ReceiveInfo,
    SendInfo,
    SequenceInfo,
    StreamReset,
    StreamView,
)
from onceq.model.views.view import Durations, MetricsView, OutgoingMetrics, QueueMetrics, View
from onceq.packet.arrived import Batch

__all__ = [
    "Acknowledge",
    "BackupReport",
    "Batch",
    "BatchProperties",
    "Branch",
    "BranchView",
    "ClashView",
    "ClockAccepted",
    "ConnectionView",
    "ConsumerView",
    "Cursor",
    "DamageView",
    "DecisionView",
    "Delivery",
    "Durations",
    "Ending",
    "GroupResult",
    "GroupView",
    "Groups",
    "InDoubt",
    "Journal",
    "ListView",
    "ManagementValue",
    "ManagerAdmin",
    "ManagerJobs",
    "ManagerLists",
    "ManagerRights",
    "ManagerTokens",
    "Message",
    "MessageHeaders",
    "MessageId",
    "MessageIds",
    "MetricsView",
    "NameView",
    "OnceqError",
    "OpenQueue",
    "Outcome",
    "OutgoingMetrics",
    "OutgoingView",
    "PeerView",
    "Properties",
    "PutBackView",
    "QueueManager",
    "QueueMetrics",
    "QueueView",
    "ReceiveInfo",
    "ReceiveTimeout",
    "Reloaded",
    "RestoreReport",
    "Restored",
    "Retryable",
    "ScrubView",
    "SendFailed",
    "SendInfo",
    "SendProperties",
    "SenderTransaction",
    "SequenceInfo",
    "ServiceNotAvailable",
    "SettingView",
    "Settings",
    "StatusView",
    "StreamReset",
    "StreamView",
    "Tls",
    "TokenMade",
    "TokenView",
    "Tracked",
    "Transaction",
    "TransactionId",
    "TransactionView",
    "UndoneView",
    "View",
    "Vote",
    "Xa",
    "Xid",
    "connect",
    "directory",
    "errors",
    "letters",
    "names",
    "open",
    "restore",
    "stopping",
]
