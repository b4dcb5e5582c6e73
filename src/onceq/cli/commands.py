"""The table of all commands: what is typed, and which function does it.

A function's module is loaded when its command is called, or when its help is wanted. So
a command that asks a daemon something does not wait for those that work on Spark, and what a
command loads is its own affair.

The order is that of the help and of the reference.
"""

from __future__ import annotations

import sys
from os.path import dirname, join
from typing import Any, Final

GROUPS: Final = {
    "qm": "Queue managers: make, run, status, check, scrub, backup, restore.",
    "queue": "Queues of this manager.",
    "outgoing": "Outgoing queues: what waits for others, and why.",
    "stream": "Incoming message streams: one for each sender and queue.",
    "peer": "Other queue managers: who answers under which name.",
    "rights": "Who may do what.",
    "token": "Who applications are over a network.",
    "tls": "Identities of queue managers, and TLS between them.",
    "tx": "Transactions: open, prepared, in doubt; here and in databases.",
    "dead": "Dead letters: list, show, send home or as new, remove.",
    "job": "Jobs: what the queue manager does to many messages.",
    "journal": "Journals: list, show, remove.",
    "mapping": "Mapping files: names of queues over HTTP outside and inside.",
    "damage": "Damaged messages: what was set aside because its stored bytes have changed.",
    "context": "Contexts: short names of queue managers, for -q.",
    "names": "Names: what they mean, and why.",
    "list": "Distribution lists: one name that stands for many queues.",
    "directory": "The directory: public queues, distribution lists, computers.",
    "spark": "Jobs on Apache Spark: queues into files and back, audits of histories.",
}
"""What stands before a verb, and what it is about."""
COMMANDS: Final = {
    "send": "onceq.cli.sending:send",
    "receive": "onceq.cli.receiving:receive",
    "peek": "onceq.cli.peeking:peek",
    "outcome": "onceq.cli.streams:outcome",
    "grant": "onceq.cli.rights:grant",
    "revoke": "onceq.cli.rights:revoke",
    "trail": "onceq.cli.lists:list_acts",
    "trail verify": "onceq.cli.trails:verify",
    "trail heads": "onceq.cli.lists:LISTS",
    "bench": "onceq.cli.bench:bench",
    "audit": "onceq.cli.audit:audit",
    "console": "onceq.cli.console:console",
    "top": "onceq.cli.top:top",
    "events": "onceq.cli.events:events",
    "qm backup": "onceq.cli.backups:backup_command",
    "qm restore": "onceq.cli.backups:restore_command",
    "qm scrub": "onceq.cli.damage:scrub_command",
    "qm metrics": "onceq.cli.metrics:metrics",
    "qm init": "onceq.cli.manage:init",
    "qm run": "onceq.cli.manage:run",
    "qm status": "onceq.cli.status:status",
    "qm settings": "onceq.cli.lists:list_settings",
    "qm reload": "onceq.cli.steering:reload",
    "qm disconnect": "onceq.cli.steering:disconnect",
    "qm connect": "onceq.cli.steering:connect",
    "qm tidy": "onceq.cli.steering:tidy",
    "qm check": "onceq.cli.manage:check",
    "queue create": "onceq.cli.queues:create",
    "queue list": "onceq.cli.lists:list_queues",
    "queue set": "onceq.cli.queues:set_",
    "queue poison": "onceq.cli.queues:poison",
    "queue show": "onceq.cli.queues:show",
    "queue delete": "onceq.cli.queues:delete",
    "queue purge": "onceq.cli.queues:purge",
    "queue pause": "onceq.cli.pausing:pause",
    "queue resume": "onceq.cli.pausing:resume",
    "queue release": "onceq.cli.pausing:release",
    "outgoing list": "onceq.cli.lists:list_outgoing",
    "outgoing show": "onceq.cli.outgoing:show",
    "outgoing why": "onceq.cli.outgoing:why_",
    "outgoing pause": "onceq.cli.outgoing:pause",
    "outgoing resume": "onceq.cli.outgoing:resume",
    "outgoing resend": "onceq.cli.outgoing:resend",
    "outgoing remove": "onceq.cli.outgoing:remove",
    "stream list": "onceq.cli.lists:list_streams",
    "stream show": "onceq.cli.streams:show_stream",
    "stream reset": "onceq.cli.streams:reset_stream",
    "peer list": "onceq.cli.lists:LISTS",
    "peer forget": "onceq.cli.streams:forget_peer",
    "peer accept": "onceq.cli.streams:accept_clock",
    "rights show": "onceq.cli.lists:list_grants",
    "rights explain": "onceq.cli.rights:explain",
    "rights list": "onceq.cli.rights:list_rights",
    "token create": "onceq.cli.tokens:create",
    "token list": "onceq.cli.lists:LISTS",
    "token revoke": "onceq.cli.tokens:revoke",
    "tls init": "onceq.cli.tls:init",
    "tls invite": "onceq.cli.tls:invite",
    "tls join": "onceq.cli.tls:join",
    "tls show": "onceq.cli.tls:show",
    "tls renew": "onceq.cli.tls:renew",
    "tls remove": "onceq.cli.tls:remove",
    "tls rotate": "onceq.cli.tls:rotate",
    "tx list": "onceq.cli.transaction_lists:list_transactions",
    "tx show": "onceq.cli.transactions:show_transaction",
    "tx commit": "onceq.cli.transactions:commit_branch",
    "tx abort": "onceq.cli.transactions:abort_branch",
    "tx forget": "onceq.cli.transactions:forget_branch",
    "tx recover": "onceq.cli.transactions:recover",
    "tx accept-database": "onceq.cli.transactions:accept_database",
    "tx groups": "onceq.cli.lists:LISTS",
    "tx forget-group": "onceq.cli.groups:forget_group",
    "dead list": "onceq.cli.letter_lists:list_dead",
    "dead show": "onceq.cli.letter_lists:show_dead",
    "dead return": "onceq.cli.letters:return_dead",
    "dead send-as-new": "onceq.cli.letters:send_dead_as_new",
    "dead purge": "onceq.cli.letters:purge_dead",
    "job list": "onceq.cli.lists:LISTS",
    "job show": "onceq.cli.jobs:show_job",
    "job start": "onceq.cli.jobs:start",
    "job follow": "onceq.cli.jobs:follow_job",
    "job cancel": "onceq.cli.jobs:cancel_job",
    "journal list": "onceq.cli.letter_lists:list_journal",
    "journal show": "onceq.cli.letter_lists:show_journal",
    "journal purge": "onceq.cli.letters:purge_journal",
    "mapping check": "onceq.cli.mapping:check",
    "mapping explain": "onceq.cli.mapping:explain",
    "damage list": "onceq.cli.lists:LISTS",
    "damage drop": "onceq.cli.damage:drop",
    "context add": "onceq.cli.context_commands:add",
    "context list": "onceq.cli.context_commands:list_",
    "context use": "onceq.cli.context_commands:use",
    "context remove": "onceq.cli.context_commands:remove",
    "names explain": "onceq.cli.explaining:explain",
    "list create": "onceq.cli.directories:create_list",
    "list add": "onceq.cli.directories:add",
    "list remove": "onceq.cli.directories:remove",
    "list drop": "onceq.cli.directories:drop",
    "list show": "onceq.cli.lists:list_members",
    "directory init": "onceq.cli.directories:init",
    "directory show": "onceq.cli.directories:show_directory",
    "spark land": "onceq.cli.spark_land:land",
    "spark drain": "onceq.cli.spark_land:drain",
    "spark replay": "onceq.cli.spark_replay:replay",
    "spark audit": "onceq.cli.spark_audit:audit",
    "spark readers": "onceq.cli.lists:list_readers",
    "spark forget": "onceq.cli.spark_readers:forget",
}
"""What is typed, and the function: ``module:name``; or the table with a row for it: ``LISTS``."""

TABLES: Final = frozenset(
    (
        "audit", "bench", "context list", "damage list", "dead list", "directory show",
        "job list", "job show", "journal list", "list show", "mapping check", "outcome",
        "outgoing list", "outgoing show",
        "peek", "peer list", "qm check", "qm status", "queue list", "queue show", "rights list",
        "rights show", "spark audit", "spark readers", "stream list", "stream show", "tls show",
        "token list", "top", "trail", "trail heads", "tx groups", "tx list", "tx show",
    )
)  # fmt: skip
"""Those that print tables or facts: it can be said how."""


def below(group: str) -> list[str]:
    """The words that may follow a group; of "" those that stand first, groups at the end."""
    if group:
        return [path.partition(" ")[2] for path in COMMANDS if path.startswith(f"{group} ")]
    return [*(path for path in COMMANDS if path.partition(" ")[0] not in GROUPS), *GROUPS]


def summaries(group: str) -> list[tuple[str, str]]:
    """The words that may follow a group, "" for the top, each with what it is about."""
    paths = [(word, f"{group} {word}".strip()) for word in below(group)]
    return [(word, GROUPS.get(path) or _first_sentence(path)) for word, path in paths]


def _first_sentence(path: str) -> str:
    """The first sentence of the help of a command, from the source of its module.

    A page that lists commands, or a shell that completes their names, would load every module there
    is to read one line of it. A search in the text takes some 50 us.
    """
    module, _, name = COMMANDS[path].partition(":")
    loader: Any = sys.modules[__name__].__loader__
    file = join(dirname(__file__), f"{module.rpartition('.')[2]}.py")
    source = loader.get_data(file).decode()
    begins = f'    "{path}": ' if name == "LISTS" else f"\ndef {name}("
    doc = source.partition(begins)[2].split('"""', 2)[1]
    words = doc.split()
    end = next(at for at, word in enumerate(words, 1) if word.endswith("."))
    return " ".join(words[:end])
