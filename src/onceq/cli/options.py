"""The options of ``onceq send``: how a message's properties are said on a command line."""

from __future__ import annotations

from typing import Annotated

from onceq.cli.common import Argument, Option

Target = Annotated[
    str,
    Argument(
        metavar="DEST",
        help="Format name of one or more elements, or a path name: private$/orders, "
        "DIRECT=OS:BETA/private$/stock.",
    ),
]
Texts = Annotated[
    list[str] | None,
    Argument(metavar="TEXT...", help="Messages; without any, lines of the input."),
]
File = Annotated[
    str | None,
    Option("--file", "-f", metavar="FILE", help="This whole file is one message."),
]
NulInput = Annotated[
    bool, Option("--nul", "-0", help="Messages in the input end with NUL, not newline.")
]
JsonBodies = Annotated[
    bool,
    Option("--json-body", help="Each message is JSON: checked before it goes, and marked as JSON."),
]
SendBatch = Annotated[
    int,
    Option("--batch", "-b", metavar="N", min=1, max=100_000, help="Messages of a transaction."),
]
Transactional = Annotated[
    bool, Option("--transactional", help="In transactions, once and in order.")
]
Recoverable = Annotated[
    bool, Option("--recoverable", help="Without transactions; survives a restart.")
]
Express = Annotated[bool, Option("--express", help="Without transactions; kept in memory only.")]
Label = Annotated[str, Option("--label", metavar="TEXT", help="Label.", show_default=False)]
Priority = Annotated[
    int | None, Option("--priority", metavar="N", help="0 to 7; not in transactions.")
]
AppSpecific = Annotated[
    int | None, Option("--app-specific", metavar="N", help="A number of your own.")
]
CorrelationId = Annotated[
    str, Option("--correlation-id", metavar="HEX", help="20 bytes.", show_default=False)
]
ResponseQueue = Annotated[
    str,
    Option("--response-queue", metavar="NAME", help="Where answers go.", show_default=False),
]
AdminQueue = Annotated[
    str,
    Option("--admin-queue", metavar="NAME", help="Where acknowledgments go.", show_default=False),
]
TimeToReachQueue = Annotated[
    int | None,
    Option(
        "--time-to-reach-queue", metavar="SECONDS", min=0, help="Until it counts as undeliverable."
    ),
]
TimeToBeReceived = Annotated[
    int | None,
    Option("--time-to-be-received", metavar="SECONDS", min=0, help="Until it expires unreceived."),
]
Delay = Annotated[
    str,
    Option("--delay", metavar="TIME", help="It is received not before: 30, 10m, 2h, 1d."),
]
At = Annotated[
    str,
    Option("--at", metavar="WHEN", help="Or not before then: 2026-12-01T08:00, local time."),
]
Trace = Annotated[
    bool,
    Option("--trace", help="Every manager on the way reports it to its report queue."),
]
TraceParent = Annotated[
    str,
    Option(
        "--traceparent", metavar="VALUE", show_default=False,
        help="The trace that it belongs to, as W3C Trace Context writes it: "
        "00-TRACE-SPAN-FLAGS in hexadecimal digits.",
    ),
]  # fmt: skip
ACKNOWLEDGE = {
    "pos-arrival": 1, "pos-receive": 2, "neg-arrival": 4, "neg-receive": 8,
    "nack-reach-queue": 4, "full-reach-queue": 5, "nack-receive": 12, "full-receive": 14,
}  # fmt: skip
"""Levels of acknowledgment by the names of MQMSG_ACKNOWLEDGMENT_..., with their bits."""

AcknowledgeLevel = Annotated[
    str,
    Option(
        "--acknowledge", metavar="LEVEL", show_default=False,
        help="With --admin-queue: full-reach-queue, full-receive, nack-reach-queue, nack-receive, "
        "or several of pos-arrival, pos-receive, neg-arrival, neg-receive with commas.",
    ),
]  # fmt: skip
Journaled = Annotated[
    bool, Option("--journal", help="A copy in this computer's journal once delivered.")
]
Track = Annotated[
    bool,
    Option("--track", help="So that 'onceq outcome' can tell what became of each copy."),
]
DeadLetterQueue = Annotated[
    str,
    Option(
        "--dead-letter-queue", metavar="NAME", show_default=False,
        help="A transactional queue here that takes its dead letters; implies --dead-letter.",
    ),
]  # fmt: skip
DeadLetter = Annotated[
    bool, Option("--dead-letter", help="Keep it in a dead-letter queue if it fails.")
]
