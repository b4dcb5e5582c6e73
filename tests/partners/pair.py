"""Two real PostgreSQL servers, of which one follows the other and takes its place when it dies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

from tests.servers import Postgres

CAUGHT_UP_S = 60
LOOK_S = 0.05


class Pair:
    """A primary and its standby.

    Attributes:
        primary, standby: As they are now.
        failovers: How often they have changed places.
    """

    def __init__(self, within: Path, *, synchronous: bool) -> None:
        """Make both; nothing runs before ``start``.

        Args:
            synchronous: A commit waits for the standby, so that no failover loses one.
        """
        self._within = within
        self._synchronous = synchronous
        self.failovers = 0
        self.primary = Postgres(within=within)
        self.standby = self.primary

    def __enter__(self) -> Self:
        self.primary.start()
        self.primary.crash()
        self._follow()
        return self

    def __exit__(self, *_: object) -> None:
        self.standby.close()
        self.primary.close()

    @property
    def conninfo(self) -> str:
        """A connection string of libpq that names both, and wants the one that writes."""
        both = (self.primary, self.standby)
        ports = ",".join(str(server.port) for server in dict.fromkeys(both))
        hosts = ",".join("127.0.0.1" for _ in dict.fromkeys(both))
        return (
            f"host={hosts} port={ports} user=onceq dbname=postgres connect_timeout=20 "
            "target_session_attrs=read-write"
        )

    def _follow(self) -> None:
        """Make a standby of the primary, which is down, and start both."""
        self.standby = Postgres(within=self._within, copied=self.primary)
        self.primary.start()
        self.standby.start()
        if self._synchronous:
            self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.primary.sql("SELECT pg_reload_conf()")
        self.catch_up()

    @property
    def followed(self) -> bool:
        """Whether there is a standby."""
        return self.standby is not self.primary

    def catch_up(self) -> None:
        """Return when the standby has all that the primary has."""
        ((here,),) = self.primary.sql("SELECT pg_current_wal_lsn()::text")
        pause = threading.Event()
        for _ in range(int(CAUGHT_UP_S / LOOK_S)):
            ((there,),) = self.standby.sql(
                f"SELECT coalesce(pg_last_wal_replay_lsn() >= '{here}'::pg_lsn, false)"
            )
            if there:
                return
            pause.wait(LOOK_S)
        raise AssertionError("the standby does not catch up")

    def fail_over(self) -> None:
        """Kill the primary, and let the standby take its place; it starts if it is down. The old
        primary is gone, and a new standby follows the new one."""
        self.failovers += 1
        self.primary.crash()
        if self.standby.process is not None and self.standby.process.poll() is not None:
            self.standby.start()
        self.standby.promote()
        if self._synchronous:
            self.standby.sql("ALTER SYSTEM RESET synchronous_standby_names")
            self.standby.sql("SELECT pg_reload_conf()")
        self.primary.close()
        self.primary = self.standby

    def follow_again(self) -> None:
        """Make a new standby, after a failover; connections to the primary are cut."""
        self.primary.crash()
        self._follow()
