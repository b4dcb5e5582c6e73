"""A table of PostgreSQL as a queue: the way that is usually recommended."""

from __future__ import annotations

import signal
import time

import psycopg

from proof.bench.peers.contract import About, Address, Link
from proof.bench.peers.server import Measured, Served
from tests.servers import Postgres

POLL_S = 0.0005
"""Pause before an empty table is looked at again. Nobody waits while both ends take turns."""
TABLE = "CREATE TABLE queue (id bigserial PRIMARY KEY, body bytea NOT NULL)"
PLAIN = "ALTER TABLE queue ALTER body SET STORAGE EXTERNAL"
INSERT = "INSERT INTO queue (body) VALUES (%b)"
COPY = "COPY queue (body) FROM STDIN (FORMAT BINARY)"
TAKE = (
    "DELETE FROM queue WHERE id IN (SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED"
    " LIMIT %b) RETURNING id, body"
)


class _Server(Measured, Postgres):
    farewell = signal.SIGQUIT  # it removes its shared memory
    settings = ("fsync=on", "shared_buffers=128MB", "max_wal_size=4GB", "max_connections=50")

    def command(self) -> list[str]:
        words = super().command()  # of two values of one setting the last one counts
        return [*words, *(word for setting in self.settings for word in ("-c", setting))]


class TableLink(Link):
    """A connection in autocommit mode: each statement is one transaction."""

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True)
        self._connection.prepare_threshold = 0
        self._cursor = self._connection.cursor(binary=True)

    def send(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self._cursor.execute(INSERT, bodies)
            return
        with self._cursor.copy(COPY) as copy:
            copy.set_types(["bytea"])
            for body in bodies:
                copy.write_row((body,))

    def receive(self, count: int) -> list[bytes]:
        while True:
            rows = self._cursor.execute(TAKE, (count,)).fetchall()
            if rows:
                return [body for _, body in sorted(rows)]
            time.sleep(POLL_S)

    def close(self) -> None:
        self._connection.close()


class PostgresTable(Served):
    """PostgreSQL as the tests get it, with its log synced."""

    name = "postgresql"
    server: _Server

    def start(self) -> None:
        self.server = self.run(_Server(within=self.folder))
        for statement in (TABLE, PLAIN):
            self.server.sql(statement)

    def about(self) -> About:
        ((version,),) = self.server.sql("SHOW server_version")
        return About(
            f"PostgreSQL {version.split()[0]}, psycopg {psycopg.__version__}",
            ", ".join(("synchronous_commit=on", *_Server.settings[:3])) + "; INSERT, or COPY of"
            " several rows; DELETE of SELECT FOR UPDATE SKIP LOCKED",
        )

    def address(self) -> Address:
        return {"conninfo": self.server.conninfo()}

    @classmethod
    def link(cls, address: Address) -> Link:
        return TableLink(address["conninfo"])
