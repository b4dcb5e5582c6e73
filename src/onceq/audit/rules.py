"""The rules of an audit: what each compares, and the SQL that says what is wrong.

It also has the verdicts: which rules are broken, by which messages, and what was compared.

A rule is a condition over one of the tables of ``ledger.sql``. It speaks only where the histories
are complete enough to be certain: what was cut off, or is not written yet, is no loss.

Both engines run this text, so it is the SQL that DuckDB and Spark have in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceq.audit.engine import SqlEngine, one_row, union
from onceq.model.marks import TRACE_BYTES

# ---- rules ---------------------------------------------------------------------------------------


LANE: Final = "source, stream, home"
"""What copies have in common whose numbers follow each other."""
_ORDER: Final = "ORDER BY stream NULLS FIRST, home, number, source, copy"
_BEFORE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_COUNT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which a message can contradict an invariant.

    Attributes:
        invariant, fault: Its names.
        looks_at: What it compares, for people.
        of: Which rows of the table it looks at.
        wrong: Which of these are wrong.
        said: What is said of such a row; names in braces are numbers of it.
        steps: Columns with window functions that are added one after another for ``wrong``.
        among: The rows that the windows see, if other than ``of``.
        table: What it is about.
        about: Of another table than ``copy``: an event of the message, as the number of its row.
        named: And what names the message where it has none: its source and number, or NULL.
    """

    invariant: str
    fault: str
    looks_at: str
    of: str
    wrong: str
    said: str
    steps: tuple[str, ...] = ()
    among: str = ""
    table: str = "copy"
    about: str = "about_row"
    named: tuple[str, str] = ("NULL", "NULL")

    def query(self) -> str:
        """The rows that are wrong, with the first two numbers that are said of each."""
        rows = f"SELECT * FROM {self.table} WHERE {self.among or self.of}"
        for step in self.steps:
            rows = f"SELECT *, {step} FROM ({rows})"
        counts = [*_COUNT.findall(self.said), "NULL", "NULL"][:2]
        names = "copy, source, stream, number, message, home"
        if self.table != "copy":
            source, message = self.named
            names = f"{self.about} AS about_row, {source} AS source, {message} AS message"
        return (
            f"SELECT {names}, CAST({counts[0]} AS BIGINT) AS one, "
            f"CAST({counts[1]} AS BIGINT) AS two FROM ({rows}) WHERE ({self.of}) AND ({self.wrong})"
        )

    def text(self, *numbers: object) -> str:
        """What is said of a row with these numbers."""
        found = iter(numbers)
        return _COUNT.sub(lambda _: str(next(found)), self.said)


def _another(columns: str) -> str:
    """How many rows with the same values in the columns come before each."""
    return f"row_number() OVER (PARTITION BY {columns} {_ORDER}) AS nth"


COPIES: Final = (
    Rule("I2", "torn-send", "transactions of all copies of one message",
         "put_row IS NOT NULL", "put_transaction <> first_transaction",
         "another copy of the same message was committed in another transaction",
         (f"first_value(put_transaction) OVER (PARTITION BY source, message {_ORDER}) "
          "AS first_transaction",),
         among="put_transaction IS NOT NULL AND message IS NOT NULL"),
    Rule("I3", "phantom", "what is in a queue was committed by its sender",
         "sender_known", "committed = 0 AND (accepted > 0 OR queue_ends > 0)",
         "it is in a queue, and its sender never committed it"),
    Rule("I3", "from-nowhere", "what left a queue had come into it",
         "receiver_known AND stream IS NOT NULL", "accepted = 0 AND queue_ends > 0",
         "it left a queue that it never came into"),
    # A name may not say its queue (PRIVATE=). So the queue that it says is asked for only where any
    # of the lane came into it. What was sent over HTTP may lead elsewhere when a mapping changes.
    Rule("I3", "misdelivered", "queue of the acceptance with the destination of the commit",
         "taken_row IS NOT NULL AND native",
         "CASE WHEN as_named = 1 THEN put_path ELSE usual_path END <> taken_path",
         "it was accepted in another queue than the one that it was sent to",
         (f"count(*) OVER (PARTITION BY {LANE}, taken_path) AS often, "
          "max(CASE WHEN taken_path = put_path THEN 1 ELSE 0 END) "
          f"OVER (PARTITION BY {LANE}) AS as_named",
          f"first_value(taken_path) OVER (PARTITION BY {LANE} "
          "ORDER BY often DESC, taken_path DESC) AS usual_path"),
         among="taken_row IS NOT NULL"),
    # The mark of a trace is cut out on the way to a queue manager that knows of none. What comes
    # from HTTP is another packet, which knows nothing of the number of its transaction.
    Rule("I3", "altered", "size of the packet at the acceptance and at the commit",
         "put_row IS NOT NULL AND taken_row IS NOT NULL AND native",
         f"put_size <> taken_size AND put_size - taken_size <> {TRACE_BYTES}",
         "its packet had another size when it was accepted than when it was committed"),
    Rule("I3", "body-altered", "sums (CRC-32) of the body at the commit, the acceptance and the "
         "reception",
         "(put_crc IS NOT NULL AND taken_crc IS NOT NULL) OR (got_crc IS NOT NULL AND "
         "(CASE WHEN taken_row IS NOT NULL THEN taken_crc ELSE put_crc END) IS NOT NULL)",
         "coalesce(put_crc <> taken_crc, false) OR coalesce(got_crc <> "
         "(CASE WHEN taken_row IS NOT NULL THEN taken_crc ELSE put_crc END), false)",
         "its body was another one when it was accepted, or received, than before"),
    Rule("I3", "torn", "transaction at the acceptance and at the commit",
         "put_row IS NOT NULL AND taken_row IS NOT NULL AND native",
         "put_transaction <> taken_transaction",
         "it was accepted as part of another transaction than it was committed in"),
    Rule("I3", "effect-before-cause", "positions in the log: commit, acceptance, reception, "
         "acknowledgment", "got_row IS NOT NULL OR acked_row IS NOT NULL",
         "(taken_unbroken AND coalesce(taken_manager = got_manager "
         "AND got_position < taken_position, false)) "
         "OR (put_unbroken AND coalesce(put_manager = acked_manager "
         "AND acked_position < put_position, false)) "
         "OR (put_unbroken AND stream IS NULL AND coalesce(put_manager = got_manager "
         "AND got_position < put_position, false))",
         "it was received, or its acknowledgment came, before it was there"),
    Rule("I4", "accepted-twice", "acceptances", "true", "accepted > 1",
         "accepted {accepted} times"),
    Rule("I4", "committed-twice", "commits to local queues", "stream IS NULL", "committed > 1",
         "committed {committed} times to one queue"),
    Rule("I4", "received-twice", "receptions", "true", "received > 1",
         "received {received} times"),
    # One send may name a queue twice, by two names: then it comes by two ways, once by each. A
    # stream may be followed by another from the same outgoing queue: that is one way.
    Rule("I4", "accepted-again", "identifiers that one queue accepted from one outgoing queue",
         "taken_row IS NOT NULL AND message IS NOT NULL", "nth > 1",
         "the same message was accepted in the same queue under another number as well",
         (_another("taken_manager, taken_place, source, message, outgoing, "
                   "CASE WHEN outgoing IS NULL THEN stream END"),)),
    Rule("I5", "out-of-order", "acceptances of each sender in one queue, in the order of commits",
         "taken_row IS NOT NULL AND stream IS NOT NULL", "sent_before > sent",
         "accepted after one that was committed later",
         ("rank() OVER (PARTITION BY taken_manager, taken_place, source, outgoing, "
          "CASE WHEN outgoing IS NULL THEN stream END "
          "ORDER BY CASE WHEN outgoing IS NULL THEN number ELSE put_position END, "
          "CASE WHEN outgoing IS NULL THEN 0 ELSE put_ordinal END) AS sent",
          "max(sent) OVER (PARTITION BY taken_manager, taken_place, source, outgoing, "
          "CASE WHEN outgoing IS NULL THEN stream END "
          f"ORDER BY taken_position, taken_ordinal, number {_BEFORE}) AS sent_before")),
    Rule("I6", "gap", "messages before one that was accepted",
         "hole_known AND stream IS NOT NULL",
         "committed > 0 AND accepted + refused + given_up + not_received + confirmed = 0",
         "a later message of its stream was accepted, this one never"),
    Rule("I6", "number-missing", "numbers of each stream, which follow each other from 1",
         "stream IS NOT NULL AND sender_whole", "number <> number_before + 1",
         "nobody tells of the number before it, though its sender's history is whole",
         (f"coalesce(lag(number) OVER (PARTITION BY {LANE} ORDER BY number), 0) "
          "AS number_before",)),
    Rule("I7", "number-reused", "identifiers under one number", "true",
         "messages > 1 OR (committed > 1 AND stream IS NOT NULL)",
         "one number in one stream stands for {messages} messages, committed {committed} times"),
    Rule("I7", "numbered-out-of-order", "numbers of each stream, in the order of commits",
         "put_row IS NOT NULL AND stream IS NOT NULL", "put_before > put_rank",
         "committed before one with a smaller number",
         (f"rank() OVER (PARTITION BY {LANE}, put_manager, put_place "
          "ORDER BY put_position, put_ordinal) AS put_rank",
          f"max(put_rank) OVER (PARTITION BY {LANE}, put_manager, put_place "
          f"ORDER BY number {_BEFORE}) AS put_before")),
    Rule("I10", "released-twice", "releases at its sender", "true", "acknowledged > 1",
         "its sender forgot it {acknowledged} times"),
    Rule("I10", "released-unaccepted", "what its sender forgot as acknowledged",
         "end_known AND acknowledged > 0", "accepted = 0 AND refused = 0",
         "its sender was told that it arrived, and forgot it; it never arrived"),
    Rule("I11", "two-ends", "ends in its queue", "true", "queue_ends > 1 AND received <= 1",
         "it ended {queue_ends} times in its queue"),
    Rule("I11", "refused-twice", "refusals", "true", "refused > 1",
         "refused {refused} times"),
    Rule("I11", "two-ends-at-sender", "ends at its sender", "true", "sender_ends > 1",
         "its sender has noted {sender_ends} ends of it"),
    Rule("I11", "accepted-after-not-delivered", "the sender's word with the receiver's", "true",
         "not_delivered > 0 AND accepted > 0",
         "its sender says that it was not delivered, and it was accepted"),
    Rule("I11", "accepted-and-refused", "acceptances with refusals", "true",
         "accepted > 0 AND refused > 0", "it was accepted and refused"),
    Rule("I11", "confirmed-unreceived", "confirmations with receptions",
         "confirmed > 0 AND receiver_unbroken AND accepted > 0",
         "received = 0 AND queue_ends > 0",
         "its sender was told that it was received; it was not"),
    Rule("I11", "received-and-not", "notices of no reception with receptions", "true",
         "not_received > 0 AND received > 0",
         "its sender was told that it was not received; it was"),
    # A move may be in a part of its manager's history that is missing.
    Rule("I18", "received-elsewhere", "place of the reception with the place of the arrival",
         "got_row IS NOT NULL",
         "got_unbroken AND (CASE WHEN stream IS NULL THEN put_row ELSE taken_row END) IS NOT NULL "
         "AND (got_manager IS DISTINCT FROM (CASE WHEN moved_row IS NOT NULL THEN moved_manager "
         "WHEN stream IS NULL THEN put_manager ELSE taken_manager END) "
         "OR got_place IS DISTINCT FROM (CASE WHEN moved_row IS NOT NULL THEN moved_place "
         "WHEN stream IS NULL THEN put_place ELSE taken_place END) "
         "OR got_lookup IS DISTINCT FROM (CASE WHEN moved_row IS NOT NULL THEN moved_lookup "
         "WHEN stream IS NULL THEN put_lookup ELSE taken_lookup END))",
         "it was received at another place than where it had come, and nobody moved it"),
    Rule("I18", "place-shared", "messages at one place of a queue", "taken_row IS NOT NULL",
         "nth > 1", "another message was accepted at the same place",
         (_another("taken_manager, taken_place, taken_lookup"),)),
    Rule("I18", "placed-out-of-order", "places of each stream in its queue",
         "taken_row IS NOT NULL AND stream IS NOT NULL", "lookup_before > taken_lookup",
         "it stands before one with a smaller number of its stream",
         (f"max(taken_lookup) OVER (PARTITION BY {LANE}, taken_manager, taken_place "
          f"ORDER BY number {_BEFORE}) AS lookup_before",)),
)  # fmt: skip
"""Rules about copies."""

_AT_HOME: Final = (
    "stream IS NULL AND put_row IS NOT NULL AND put_lookup IS NOT NULL AND put_unbroken"
)
"""Copies that were committed to a queue of their own manager, with their places. One that was put
back has given places and positions twice."""
_CAME_SIZE: Final = "(CASE WHEN stream IS NULL THEN put_size ELSE taken_size END)"
HOME: Final = (
    Rule("I2", "torn-commit", "positions in the log of each transaction's commits",
         "put_row IS NOT NULL AND put_transaction IS NOT NULL AND put_unbroken",
         "put_position <> first_position",
         "another message of its transaction was committed by another record",
         (f"first_value(put_position) OVER (PARTITION BY {LANE}, put_manager, put_transaction "
          "ORDER BY number, copy) AS first_position",)),
    Rule("I3", "resized", "size of the packet at the reception and at the arrival",
         "got_row IS NOT NULL AND (CASE WHEN stream IS NULL THEN put_row ELSE taken_row END) "
         "IS NOT NULL", f"{_CAME_SIZE} <> got_size",
         "its packet had another size when it was received than when it had come"),
    # The highest byte of a place is its lane; places rise within one lane.
    Rule("I5", "own-out-of-order", "places in each local queue, in the order of commits",
         _AT_HOME, "lookup_before > put_lookup",
         "it stands before one that was committed earlier",
         (f"max(put_lookup) OVER (PARTITION BY put_manager, put_place, put_lookup >> 56 "
          f"ORDER BY put_position, put_ordinal, copy {_BEFORE}) AS lookup_before",)),
    Rule("I18", "own-place-shared", "messages at one place of a local queue", _AT_HOME,
         "nth > 1", "another message was committed to the same place",
         (_another("put_manager, put_place, put_lookup"),)),
)  # fmt: skip
"""Rules about copies at one queue manager: a message that never leaves its manager has no stream.
What the stream proves of others its place and its commit prove of it."""


def _letter(invariant: str, fault: str, looks_at: str, of: str, wrong: str, said: str) -> Rule:
    return Rule(invariant, fault, looks_at, of, wrong, said, table="letter")


LETTERS: Final = (
    _letter("I12", "dead-letter-missing", "ends that their senders asked a dead letter for",
            "committed > 0 AND wanted AND negative > 0", "dead = 0",
            "it ended unreceived, and its sender asked for a dead letter; there is none"),
    _letter("I12", "dead-letter-twice", "dead letters of each message",
            "dead > 0", "dead > graves", "it has {dead} dead letters"),
    _letter("I12", "dead-letter-unfounded", "dead letters with the ends of their messages",
            "committed > 0 AND dead > 0", "negative = 0",
            "there is a dead letter of it, and it has not ended"),
    _letter("I12", "dead-letter-misnamed",
            "reasons of dead letters with the ends of their messages",
            "reason IS NOT NULL AND ended IS NOT NULL", "reason <> ended",
            "its dead letter names another reason than the one that it ended for"),
    _letter("I12", "dead-letter-unasked", "dead letters with what their senders asked for",
            "committed > 0 AND dead > 0", "NOT wanted AND NOT refused",
            "there is a dead letter of it, its sender asked for none, and its destination took it"),
    _letter("I14", "journal-unasked", "journal copies at senders with what those asked for",
            "committed > 0 AND own > 0", "NOT journaled",
            "a journal has a copy of it, and its sender asked for none"),
    _letter("I14", "journal-twice", "journal copies of each message",
            "copied > 0", "copied > journals", "it stands {copied} times in a journal"),
    _letter("I14", "journal-unfounded", "journal copies with the ends of their messages",
            "committed > 0 AND copied > 0", "positive = 0",
            "a journal has a copy of it, and what it tells has not happened"),
)  # fmt: skip
"""Rules about dead letters and journal copies. Nothing is said of a manager that has rows of which
nobody knows what they are about."""


def _word(fault: str, looks_at: str, of: str, wrong: str, said: str) -> Rule:
    return Rule("I13", fault, looks_at, of, wrong, said, table="word")


WORDS: Final = (
    _word("untrue-arrival", "acknowledgments of arrivals with arrivals",
          "reached > 0", "entries = 0", "an acknowledgment says that it arrived; it did not"),
    _word("told-twice", "acknowledgments of each kind",
          "alone AND reached + got > 0", "reached > 1 OR got > 1",
          "the same acknowledgment was made more than once"),
    _word("untrue-receive", "acknowledgments of receptions with receptions",
          "got > 0", "received = 0", "an acknowledgment says that it was received; it was not"),
    _word("contradiction", "acknowledgments of arrival with each other",
          "alone AND reached > 0", "unreached > 0",
          "it is acknowledged as arrived, and as not"),
    _word("contradiction", "acknowledgments of reception with each other",
          "alone AND got > 0", "ungot > 0", "it is acknowledged as received, and as not"),
)  # fmt: skip
"""Rules about what acknowledgment messages say; one message has several only if it has one
destination must they agree."""

RULES: Final = tuple(
    sorted((*COPIES, *HOME, *LETTERS, *WORDS), key=lambda rule: int(rule.invariant[1:]))
)
"""All of them, in the order in which they are told."""


# ---- judge ---------------------------------------------------------------------------------------
#
# The verdicts: which rules are broken, by which messages, and what was compared.


KEY: Final = "source, stream, number"
"""What names the message of a violation, beside its identifier."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What one rule has found.

    Attributes:
        looked_at: How many rows it has compared.
        violations: How many of these are wrong.
    """

    rule: Rule
    looked_at: int
    violations: int

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "invariant": self.rule.invariant, "fault": self.rule.fault,
            "looks_at": self.rule.looks_at, "looked_at": self.looked_at,
            "violations": self.violations,
        }  # fmt: skip


def judge(engine: SqlEngine, rules: Sequence[Rule] = RULES) -> list[RuleVerdict]:
    """Judge by each rule, and make ``violation``, of events as well: with the copies that those
    belong to."""
    looked, some = _count(engine, rules)
    nothing = {
        "copy": "SELECT copy, source, stream, number, message, home, CAST(NULL AS BIGINT) AS one, "
        "CAST(NULL AS BIGINT) AS two FROM copy WHERE false",
        "about_row": "SELECT about_row, source, message, CAST(NULL AS BIGINT) AS one, "
        "CAST(NULL AS BIGINT) AS two FROM word WHERE false",
    }
    for name, key in (("wrong_copy", "copy"), ("wrong_event", "about_row")):
        queries = [
            f"SELECT {at} AS rule, * FROM ({rule.query()})" for at, rule in enumerate(rules)
            if at in some and (rule.table == "copy") == (key == "copy")
        ]  # fmt: skip
        engine.make(name, union([f"SELECT 0 AS rule, * FROM ({nothing[key]})", *queries]))
    # An acknowledgment names a message, and not its place in a stream: it is about the copy in a
    # queue of its own manager, or the only copy.
    engine.make(
        "wrong_message",
        "SELECT w.rule, w.about_row, w.one, w.two, coalesce(e.source, w.source) AS source, "
        "e.stream, coalesce(e.message, w.message) AS message, "
        "CASE WHEN e.stream IS NULL THEN coalesce(e.message, w.message) ELSE e.number END "
        "AS number "
        "FROM wrong_event w LEFT JOIN event e ON e.event_row = w.about_row",
    )
    engine.make(
        "wrong_candidate",
        "SELECT w.rule, w.about_row, max(c.copy) AS copy FROM wrong_message w JOIN copy c "
        "ON c.source = w.source AND c.stream = w.stream AND c.number = w.number "
        "GROUP BY w.rule, w.about_row UNION ALL "
        "SELECT w.rule, w.about_row, coalesce(max(c.copy) FILTER (WHERE c.stream IS NULL), "
        "CASE WHEN count(*) = 1 THEN max(c.copy) END) AS copy FROM wrong_message w JOIN copy c "
        "ON c.source = w.source AND c.message = w.message "
        "WHERE w.stream IS NULL AND w.about_row IS NOT NULL "
        "GROUP BY w.rule, w.about_row",
    )
    engine.make(
        "violation",
        "SELECT rule, copy, source, stream, number, message, home, one, two, copy AS place "
        "FROM wrong_copy UNION ALL "
        "SELECT w.rule, c.copy, w.source, "
        "CASE WHEN c.copy IS NULL THEN w.stream ELSE c.stream END AS stream, "
        "CASE WHEN c.copy IS NULL THEN w.number ELSE c.number END AS number, "
        "w.message, c.home, w.one, w.two, w.about_row AS place "
        "FROM wrong_message w "
        "LEFT JOIN wrong_candidate n ON n.rule = w.rule AND n.about_row = w.about_row "
        "LEFT JOIN copy c ON c.copy = n.copy",
    )
    wrong = {
        row["rule"]: row["wrong"]
        for row in engine.rows("SELECT rule, count(*) AS wrong FROM violation GROUP BY rule")
    }
    return [RuleVerdict(rule, looked[at], wrong.get(at, 0)) for at, rule in enumerate(rules)]


def _count(engine: SqlEngine, rules: Sequence[Rule]) -> tuple[dict[int, int], set[int]]:
    """How many rows each rule looks at, and which rules may have found something: one look at each
    table answers both for all rules without windows."""
    looked, some = dict[int, int](), set[int]()
    for table in dict.fromkeys(rule.table for rule in rules):
        here = [(at, rule) for at, rule in enumerate(rules) if rule.table == table]
        counts = [f"count(*) FILTER (WHERE {rule.of}) AS of{at}" for at, rule in here]
        counts += [
            f"count(*) FILTER (WHERE ({rule.of}) AND ({rule.wrong})) AS wrong{at}"
            for at, rule in here if not rule.steps
        ]  # fmt: skip
        row = one_row(engine, f"SELECT {', '.join(counts)} FROM {table}")
        looked |= {at: row[f"of{at}"] for at, _ in here}
        some |= {at for at, _ in here if row.get(f"wrong{at}", 1)}
    return looked, some


def count_messages(engine: SqlEngine) -> int:
    """How many messages the violations are about; one may contradict several rules."""
    query = f"SELECT count(*) AS found FROM (SELECT DISTINCT {KEY} FROM violation)"
    return int(one_row(engine, query)["found"])
