"""Everything that can be asked of a queue manager through the console, in one table.

The HTTP interface is made of it, its OpenAPI page and the reference of the documentation as well,
and the pages call the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onceq.console import letters, reading, steering
from onceq.console.limits import FIELD_CHARS_MAX, ROWS_LIMIT, ROWS_MAX
from onceq.console.reading import Read
from onceq.model.limits import VIEWS_AT_ONCE


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a request may give.

    Attributes:
        kind: ``string``, ``integer`` or ``boolean``, as OpenAPI has it.
    """

    name: str
    kind: str
    text: str
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A page for collectors of metrics, which is text and no JSON.

    Attributes:
        path: Behind ``/api/managers/{manager}``: what the queue manager's own listener calls it.
        text: What it tells, one sentence or two.
        right: The right over the queue manager that it takes.
    """

    path: str
    text: str
    right: str

    @property
    def name(self) -> str:
        """One word, for OpenAPI."""
        return word_of(self.path)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked.

    Attributes:
        path: Behind ``/api/managers/{manager}``.
        changes: Whether it changes something: a POST, or else a GET.
        text: What it does, one sentence or two.
        right: The right over the queue manager, or at a queue, that it takes.
    """

    path: str
    run: Read
    text: str
    right: str
    parameters: tuple[Parameter, ...] = ()
    changes: bool = False

    @property
    def name(self) -> str:
        """One word, for OpenAPI: ``dead_return``."""
        return word_of(self.path)

    @property
    def method(self) -> str:
        """Of HTTP."""
        return "POST" if self.changes else "GET"

    @property
    def names(self) -> frozenset[str]:
        """Of its parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


def word_of(path: str) -> str:
    """A path as one word."""
    return path.strip("/").replace("/", "_").replace("-", "_")


def _p(name: str, kind: str, text: str, *, needed: bool = False) -> Parameter:
    return Parameter(name, kind, text, needed)


LIMIT: Final = _p("limit", "integer", f"Number of rows at most; {ROWS_MAX} by default, "
                  f"{ROWS_LIMIT} at most.")  # fmt: skip
PAGED: Final = (
    _p("name", "string", "A part of the name."),
    _p("sort", "string", "`number`, `name`, `messages`, `bytes` or `oldest`."),
    _p("after", "string", "`next` of the page before."),
    _p("limit", "integer", f"Number of rows at most; {ROWS_MAX} by default, "
       f"{VIEWS_AT_ONCE} at most."),
)  # fmt: skip
QUEUE: Final = _p("queue", "string", "Name of a queue, such as `private$\\orders`.", needed=True)
BRANCH: Final = _p("branch", "string", "As the list shows it.", needed=True)
DRY_RUN: Final = _p("dry_run", "boolean", "Say what would happen; change nothing.")
DESTINATION: Final = _p("destination", "string", "As the list of outgoing queues shows it.",
                        needed=True)  # fmt: skip
SEND: Final = (
    QUEUE,
    _p("body", "string", f"One line of at most {FIELD_CHARS_MAX} characters."),
    _p("form", "string", "`text` or `json`: the latter is checked, and told by the body type."),
    _p("label", "string", "For people."),
    _p("delay", "string", "A time such as `30s` or `5m` before which it is not received."),
    DRY_RUN,
)
LETTERS: Final = (
    _p("queue", "string", "A dead-letter queue of one's own; else both of the system's."),
    _p("reason", "string", "A word such as `expired`, or a class such as `0x8003`."),
    _p("destination", "string", "A part of the name."),
    _p("label", "string", "Substring of the label."),
    _p("origin", "string", "GUID of the queue manager that has sent it."),
    _p("older_than", "string", "An age such as `30s`, `5m`, `2h` or `1d`."),
    _p("younger_than", "string", "Likewise."),
    _p("id", "string", "Identifier of one message."),
)
RETURN: Final = (
    *LETTERS,
    _p("to", "string", "Another destination for all of them."),
    _p("limit", "integer", "Number of letters at most."),
    _p("max_returns", "integer", "None that was returned so often."),
    _p("in_doubt", "boolean", "Also those that may have been received: they may be received twice "
       "then."),
    _p("second", "boolean", "Also those of which their sender has another dead letter."),
    DRY_RUN,
)  # fmt: skip
AS_NEW: Final = tuple(one for one in RETURN if one.name not in ("max_returns", "second"))
NUMBER: Final = _p("number", "integer", "Of the job.", needed=True)

OPERATIONS: Final = (
    Operation("/settings", reading.settings, "What the queue manager says of itself.", "monitor"),
    Operation(
        "/queues", reading.queues, "A page of the queues, the one with the oldest message first.",
        "get-properties", PAGED,
    ),
    Operation(
        "/queue", reading.queue, "One queue, who works on it, and a page of the headers of its "
        "messages.", "peek",
        (QUEUE, _p("after", "integer", "Behind this lookup identifier."), LIMIT,
         _p("label", "string", "Substring of the label."), _p("id", "string", "Of one message."),
         _p("older_than", "string", "An age such as `30s`, `5m`, `2h` or `1d`.")),
    ),
    Operation(
        "/queue/pause", steering.pause_queue,
        "Let nobody receive the next message of a queue.", "operate", (QUEUE,), changes=True,
    ),
    Operation(
        "/queue/resume", steering.resume_queue,
        "Let messages of a queue be received again.", "operate", (QUEUE,), changes=True,
    ),
    Operation(
        "/queue/release", steering.release_queue,
        "End the holds of those who have opened a queue so that nobody else receives from it. They "
        "may open it again.", "operate", (QUEUE,), changes=True,
    ),
    Operation(
        "/queue/send", steering.send,
        "Send one message to a queue of the queue manager, to try what receives from it.", "send",
        SEND, changes=True,
    ),
    Operation(
        "/message", reading.message, "One message: its properties, its body, its story.",
        "peek-body, without it no body",
        (QUEUE, _p("lookup_id", "integer", "Its place in the queue.", needed=True)),
    ),
    Operation(
        "/dead", letters.dead, "Dead letters by reason, and a page of them, the oldest first.",
        "monitor", (*LETTERS, LIMIT),
    ),
    Operation(
        "/dead/return", letters.return_home,
        "Send dead letters to their destinations again, as a job. Each is sent and removed in one "
        "step. `state` says whether the job is over.",
        "operate", RETURN, changes=True,
    ),
    Operation(
        "/dead/send-as-new", letters.send_as_new,
        "Send messages like dead letters to their destinations, as a job; the letters stay.",
        "operate", AS_NEW, changes=True,
    ),
    Operation(
        "/dead/purge", letters.purge,
        "Remove dead letters for good, as a job.", "operate",
        (*LETTERS, DRY_RUN), changes=True,
    ),
    Operation("/jobs", letters.list_jobs, "Jobs that run, and the last that are over.", "monitor"),
    Operation(
        "/job", letters.show_job, "One job, with the first messages that failed.", "monitor",
        (NUMBER,),
    ),
    Operation(
        "/jobs/cancel", letters.cancel_job, "End a job: what is done stays done.", "operate",
        (NUMBER,),
        changes=True,
    ),
    Operation(
        "/transactions", steering.transactions,
        "Transactions that are open, branches with what can be done, and decisions.", "monitor",
    ),
    Operation(
        "/transactions/decide", steering.decide,
        "Decide a prepared branch by hand. Nobody asks its coordinator: if that decides otherwise, "
        "the partners differ permanently.", "operate",
        (BRANCH, _p("outcome", "string", "`commit` or `abort`.", needed=True), DRY_RUN),
        changes=True,
    ),
    Operation(
        "/transactions/forget", steering.forget,
        "Drop the memory of a branch that was decided by hand.", "operate", (BRANCH,),
        changes=True,
    ),
    Operation(
        "/outgoing", reading.outgoing, "A page of the outgoing queues, those in which most waits "
        "first, and why each moves or not.", "monitor", PAGED,
    ),
    Operation(
        "/outgoing/pause", steering.pause_outgoing,
        "Transmit nothing more to a destination; messages gather, and may expire.", "operate",
        (DESTINATION,), changes=True,
    ),
    Operation(
        "/outgoing/resume", steering.resume_outgoing, "Transmit again to a destination.",
        "operate", (DESTINATION,), changes=True,
    ),
    Operation("/streams", reading.streams, "Incoming message streams.", "monitor"),
    Operation("/peers", reading.peers, "Names that were connected to, and who answers.", "monitor"),
    Operation(
        "/trail", reading.trail, "The audit trail: who did what, the newest first.", "monitor",
        (_p("after", "integer", "Only acts behind this number."), LIMIT),
    ),
    Operation(
        "/rights", reading.rights, "Who may do what, and what the console may.", "get-rights",
        (_p("queue", "string", "Only what is about this queue."),),
    ),
)  # fmt: skip

METRICS: Final = (
    Text(
        "/metrics",
        "What the queue manager has counted and how it is: what it shows at its own `/metrics`, as "
        "text for Prometheus, or for OpenMetrics if `Accept` says so. It is made at most once a "
        "second. The console needs `onceq[metrics]` for it.",
        "monitor",
    ),
    Text(
        "/metrics/queues",
        "Likewise each of its queues; of too many those with the oldest messages.",
        "monitor",
    ),
)
"""What is asked for by collectors of metrics, with GET and without values."""

BY_PATH: Final[Mapping[str, Operation]] = {one.path: one for one in OPERATIONS}
