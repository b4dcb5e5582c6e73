"""What an application asks of its queue manager: one class for each request.

The client makes a request, the codec (``wire/app``) carries it as it is, the service checks it and
fills in what it knows, and a rule of the core takes it. The fields that can be given by position
are those that an application says; the keyword-only ones are the service's and the core's and
never cross the wire, so that no application can speak for another one.

Upholds: I24 (no value from outside makes the core fail: ``check`` refuses it before).
"""

from onceq.model.requests.batch import (
    SendItem,
)
from onceq.model.requests.directory import (
    EditDirectory,
)
from onceq.model.requests.jobs import (
    CancelJob,
    StartJob,
)
from onceq.model.requests.messages import (
    CancelReceive,
    Claim,
    CloseCursor,
    Fetch,
    Messages,
    MoveMessage,
    OpenCursor,
    Pick,
    PickBy,
    Receive,
    Reject,
    Remove,
    Seek,
)
from onceq.model.requests.operations import (
    AcceptClock,
    ForgetPeer,
    Grip,
    HoldLog,
    Look,
    ResetStream,
    Steer,
    SteerOutgoing,
)
from onceq.model.requests.queues import (
    Access,
    CloseQueue,
    CreateQueue,
    DeleteQueue,
    OpenQueue,
    PurgeQueue,
    SetQueue,
    Share,
)
from onceq.model.requests.reading import (
    ForgetReader,
    RenewHold,
    TakeRead,
)
from onceq.model.requests.request import (
    COUNT,
    KINDS,
    Request,
)
from onceq.model.requests.rights import (
    ExplainRight,
    SetRights,
)
from onceq.model.requests.tokens import (
    CreateToken,
    RevokeToken,
)
from onceq.model.requests.transactions import (
    Abort,
    AskOutcome,
    Begin,
    Commit,
    Send,
)
from onceq.model.requests.xa import (
    AskDecision,
    AskRows,
    BeginAttempt,
    CommitBranch,
    CommitGroup,
    DecisionDone,
    EndBranch,
    Enlist,
    ForgetBranch,
    ForgetGroup,
    LeaveDecision,
    PrepareBranch,
    Promise,
    RollbackBranch,
    RollbackGroup,
    StartBranch,
)

__all__ = [
    "COUNT",
    "KINDS",
    "Abort",
    "AcceptClock",
    "Access",
    "AskDecision",
    "AskOutcome",
    "AskRows",
    "Begin",
    "BeginAttempt",
    "CancelJob",
    "CancelReceive",
    "Claim",
    "CloseCursor",
    "CloseQueue",
    "Commit",
    "CommitBranch",
    "CommitGroup",
    "CreateQueue",
    "CreateToken",
    "DecisionDone",
    "DeleteQueue",
    "EditDirectory",
    "EndBranch",
    "Enlist",
    "ExplainRight",
    "Fetch",
    "ForgetBranch",
    "ForgetGroup",
    "ForgetPeer",
    "ForgetReader",
    "Grip",
    "HoldLog",
    "LeaveDecision",
    "Look",
    "Messages",
    "MoveMessage",
    "OpenCursor",
    "OpenQueue",
    "Pick",
    "PickBy",
    "PrepareBranch",
    "Promise",
    "PurgeQueue",
    "Receive",
    "Reject",
    "Remove",
    "RenewHold",
    "Request",
    "ResetStream",
    "RevokeToken",
    "RollbackBranch",
    "RollbackGroup",
    "Seek",
    "Send",
    "SendItem",
    "SetQueue",
    "SetRights",
    "Share",
    "StartBranch",
    "StartJob",
    "Steer",
    "SteerOutgoing",
    "TakeRead",
]
