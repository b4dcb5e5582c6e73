"""What each command says of itself in a list: the first sentence of its function's docstring.

It stands here once more because a page that lists commands, or a shell that completes their
names, would load every module there is to read one line of it; a test holds both equal.
"""

from __future__ import annotations

from typing import Final

from onceq.cli.commands import GROUPS, below

SUMMARIES: Final = {
    "send": "Send messages: each line of the input, a whole file, or the texts given.",
    "receive": (
        "Take messages out of a queue and print their bodies, a line each: all that are there."
    ),
    "peek": "Print what is in a queue, as receive does, and leave it there.",
    "outcome": "Ask what became of a commit whose answer was lost, or of a message.",
    "grant": "Grant rights to a user, token, certificate or peer.",
    "revoke": "Revoke a grant; repeat the arguments of `onceq grant`.",
    "trail": "List who did what to the queue manager, when, from where, and with what result.",
    "trail verify": "Say whether acts of administration were removed, changed or put in.",
    "trail heads": "List what this queue manager holds of the trails of others.",
    "bench": "Measure durable transactional send and receive against the disk's own rate of syncs.",
    "audit": (
        "Prove or refute from queue managers' own histories that each committed message met "
        "exactly one end, once and in order."
    ),
    "console": "Show queue managers in a browser: queues, messages, dead letters, transactions.",
    "top": (
        "Show what moves, again and again: rates of each queue, what waits and why, what is in "
        "doubt."
    ),
    "events": (
        "Print what happened to messages, and acts of administration: a line for each, as they "
        "come."
    ),
    "qm backup": "Make a backup of a queue manager, while it runs or stopped, and read it back.",
    "qm restore": "Make a data directory of a backup.",
    "qm scrub": (
        "Look at every stored byte of a running queue manager, slowly, and name what is damaged."
    ),
    "qm metrics": "What a queue manager has counted since its start and how it is, for Prometheus.",
    "qm init": "Make a queue manager in a new directory, with its identity and its onceq.toml.",
    "qm run": "Run a queue manager in the foreground; SIGTERM or Ctrl-C stops it in order.",
    "qm status": "The queue manager at a glance, with what needs attention.",
    "qm settings": "What a queue manager goes by now, and what the defaults are.",
    "qm reload": (
        "Let a queue manager read its onceq.toml again; says what changed and what needs a restart."
    ),
    "qm disconnect": (
        "Take a queue manager off the network: no session with others until 'qm connect'."
    ),
    "qm connect": "Bring a queue manager back to the network after 'qm disconnect'.",
    "qm tidy": "Remove empty, unused outgoing queues.",
    "qm check": (
        "Read a whole store and say what is in it and what is wrong with it; changes nothing."
    ),
    "queue create": "Make a queue.",
    "queue list": "List the queues.",
    "queue set": "Change properties of a queue: all that are given, or none.",
    "queue poison": "Set what happens to a message whose receives are aborted again and again.",
    "queue show": "Show everything about one queue, and who works on it now.",
    "queue delete": "Delete a queue with its messages, subqueues and journal.",
    "queue purge": "Remove every message of a queue, or of an outgoing queue.",
    "queue pause": "Let nobody receive the next message of a queue until 'queue resume'.",
    "queue resume": "Let messages of a queue be received again.",
    "queue release": "End the holds that keep others from receiving from a queue.",
    "outgoing list": "List the outgoing queues.",
    "outgoing show": "Show everything about one outgoing queue.",
    "outgoing why": "Say in one sentence why messages for a destination do or do not move.",
    "outgoing pause": "Transmit nothing more to a destination; messages gather, and may expire.",
    "outgoing resume": "Transmit again to a destination that was paused.",
    "outgoing resend": (
        "Transmit at once what is not acknowledged, with the same numbers; connect if need be."
    ),
    "outgoing remove": "Take one message out of an outgoing queue.",
    "stream list": "List the incoming streams: what was accepted last, and what was turned away.",
    "stream show": (
        "Show the incoming streams of a queue, each with a sentence about what happens on it."
    ),
    "stream reset": (
        "Set an incoming stream back that was moved ahead, so that its sender is heard again."
    ),
    "peer list": "List the names that were connected to, and who answers there.",
    "peer forget": (
        "Let another queue manager answer under a name; what waits for it goes to that one."
    ),
    "peer accept": (
        "Take the messages of a queue manager whose clock was days ahead when it started."
    ),
    "rights show": "List the grants, or those that are about a queue.",
    "rights explain": "Say in one sentence why somebody may do something, or may not.",
    "rights list": "List the rights that there are, and what each allows.",
    "token create": "Make a token, and print it: this once, and never again.",
    "token list": "List the tokens; what they may do is shown by 'rights show'.",
    "token revoke": "Take a token back, with what was granted to it by its name.",
    "tls init": (
        "Give a queue manager an identity: an authority of its own, and a certificate for its GUID."
    ),
    "tls invite": "Print a code by which one other queue manager gets a certificate, once.",
    "tls join": "Give a queue manager an identity by the invitation of another one.",
    "tls show": (
        "Show the identity of a queue manager, until when it is good, and who has joined it."
    ),
    "tls renew": "Have another certificate made in the place of the one that is there.",
    "tls remove": "Remove a member: no certificate that it has counts any more.",
    "tls rotate": (
        "Let another authority take the place of this one, in three steps: say it three times."
    ),
    "tx list": "List transactions at work, branches, decisions, and what is prepared in databases.",
    "tx show": (
        "Show one branch: what it does here, what is prepared of it elsewhere, and the decision."
    ),
    "tx commit": "Commit a prepared branch: as its queue manager has decided, or by hand.",
    "tx abort": "Roll a prepared branch back: as its queue manager has decided, or by hand.",
    "tx forget": (
        "Drop the memory of a branch that was decided by hand, once all partners were compared."
    ),
    "tx recover": "Bring what is prepared elsewhere to the outcome that this manager has decided.",
    "tx accept-database": (
        "Take a database that decides by its rows as it is, after it was restored."
    ),
    "tx groups": (
        "List applications that commit groups of branches (Spark), and their last versions."
    ),
    "tx forget-group": (
        "Forget the last version of an application: its next batch is sent, whatever its version."
    ),
    "dead list": (
        "List dead letters: why each could not be delivered, how old it is, where it came from."
    ),
    "dead show": "Show one dead letter: every property, the reason in a sentence, and its body.",
    "dead return": "Send dead letters to their destinations again, as a job of the queue manager.",
    "dead send-as-new": (
        "Send messages like dead letters to their destinations, and keep the letters."
    ),
    "dead purge": "Remove dead letters for good, as a job of the queue manager.",
    "job list": "List the jobs that run, and the last that are over.",
    "job show": (
        "Show one job: how far it is, what stays and why, which messages failed, and where these "
        "were going."
    ),
    "job start": (
        "Do something to the messages that stand in some queues now, as a job of the queue manager."
    ),
    "job follow": (
        "Wait until a job is over, and say how far it is; Ctrl-C ends this command, not the job."
    ),
    "job cancel": "End a job: what is done stays done, the rest stands where it stood.",
    "journal list": "List the copies in a journal.",
    "journal show": "Show one copy: every property, and its body.",
    "journal purge": "Remove copies for good.",
    "mapping check": (
        "Read the mapping files of a data directory, and name what is wrong with them."
    ),
    "mapping explain": (
        "Say what the queue manager does with a URL, and which entry of which file says so."
    ),
    "damage list": "List what was set aside: where it was, when, and how much.",
    "damage drop": "Forget an entry, or all; its messages are gone for good then.",
    "context add": (
        "Keep where a queue manager is under a short name; -q takes the name from then on."
    ),
    "context list": "List the contexts, and which one is in use.",
    "context use": (
        "Take a context from now on where nothing else says which queue manager is meant."
    ),
    "context remove": "Forget a context; the queue manager stays as it is.",
    "names explain": "Say who a name is and why: which queue a message to it goes to, and how.",
    "list create": (
        "Make a distribution list; its format name, which is printed, is what you send to."
    ),
    "list add": "Add queues, or other lists.",
    "list remove": "Take members out; what was sent before goes to them all the same.",
    "list drop": "Remove a list from the directory.",
    "list show": "Show the lists of the directory, or the members of one.",
    "directory init": (
        'Make an empty directory; queue managers share it by `directory = "FILE"` in onceq.toml.'
    ),
    "directory show": "Check a directory's file, and show what is in it.",
    "spark land": (
        "Move messages of queues into a table as they come, each exactly once, through crashes."
    ),
    "spark drain": (
        "Move messages of queues into Parquet files, each exactly once, also through crashes."
    ),
    "spark replay": (
        "Send the rows of a table to queues, each exactly once, in order, also through crashes."
    ),
    "spark audit": (
        "The same as onceq audit, done by Spark: for histories that do not fit into memory."
    ),
    "spark readers": "List the streams that have read queues and removed what they had written.",
    "spark forget": (
        "Let a stream begin anew: forget that one of that subscription has read these queues."
    ),
}
"""By what is typed, in the order of the table of commands."""


def summaries(group: str) -> list[tuple[str, str]]:
    """The words that may follow a group, "" for the top, each with what it is about."""
    known = GROUPS | SUMMARIES
    return [(word, known[f"{group} {word}".strip()]) for word in below(group)]
