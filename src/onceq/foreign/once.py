"""Effect once without two-phase commit: the place in the stream is kept in one's own tables.

For databases that cannot take part with others. The application commits its own transaction first,
with a note of the last message that it has worked in; then the message is removed from its queue.
If it crashes between the two, the message comes again, and the note says that its work is done:

    done = Done(connection, "orders")
    with qm.transaction() as tx:
        message = tx.receive(r"private$\\orders")
        if done.first(message):
            connection.execute("UPDATE ...")
        connection.commit()

Messages of one sender to one queue come in order, so one row for each sender is enough: stream and
number of the last one. Messages that were sent to a queue of the same manager have no stream; their
identifiers rise, and take its place.
"""

from __future__ import annotations

from typing import Any

from onceq.errors import InvalidParameter
from onceq.model.message import Message

TABLE = "onceq_done"
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (consumer VARCHAR(100) NOT NULL, "
    "source CHAR(32) NOT NULL, stream VARCHAR(20) NOT NULL, number VARCHAR(20) NOT NULL, "
    "PRIMARY KEY (consumer, source))"
)
"""The small table; numbers are text, because a stream has 64 bits without a sign."""
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":1"}


class Done:
    """What one consumer has worked in, in its own database (PEP 249)."""

    def __init__(self, connection: Any, consumer: str, *, paramstyle: str = "qmark") -> None:
        """Make the table if it is not there; the caller commits that.

        Args:
            connection: Of any driver of PEP 249, not in autocommit mode.
            consumer: Name of the one who works; each has places of its own.
            paramstyle: Of the driver: qmark (sqlite3), format or pyformat (psycopg, PyMySQL).

        Raises:
            InvalidParameter: Another style, or a name of more than 100 characters.
        """
        if paramstyle not in ("qmark", "format", "pyformat"):
            raise InvalidParameter(f"paramstyle is qmark, format or pyformat, not {paramstyle!r}")
        if not 0 < len(consumer) <= 100:
            raise InvalidParameter("a consumer's name has 1 to 100 characters")
        self._connection = connection
        self._consumer = consumer
        self._mark = _MARKS[paramstyle]
        self._do(CREATE)

    def _do(self, text: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(text.replace("?", self._mark), values)
        return cursor

    def first(self, message: Message) -> bool:
        """Whether it comes for the first time; if so it is noted, with the caller's transaction.

        Raises:
            InvalidParameter: It was not sent in a transaction: such messages have no order.
        """
        if not message.transactional:
            raise InvalidParameter("only transactional messages come in order (EOD-1)")
        source = message.id.source.hex()
        place = (message.stream, message.number) if message.stream else (0, message.lookup_id)
        cursor = self._do(
            f"SELECT stream, number FROM {TABLE} WHERE consumer = ? AND source = ?",
            self._consumer, source,
        )  # fmt: skip
        row = cursor.fetchone()
        if row is not None and place <= (int(row[0]), int(row[1])):
            return False
        stream, number = map(str, place)
        if row is None:
            self._do(
                f"INSERT INTO {TABLE} (consumer, source, stream, number) VALUES (?, ?, ?, ?)",
                self._consumer, source, stream, number,
            )  # fmt: skip
        else:
            self._do(
                f"UPDATE {TABLE} SET stream = ?, number = ? WHERE consumer = ? AND source = ?",
                stream, number, self._consumer, source,
            )  # fmt: skip
        return True
