"""Read the configuration again while the manager runs: ``onceq qm reload``, SIGHUP.

Either all of the file is good, or nothing changes. Keys that can be applied hold for everything
that begins from then on. Keys that cannot are named, and named again by each further reload until a
restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from onceq.core.inputs import Reconfigure, Witnessed
from onceq.core.step.step import WHOLE
from onceq.errors import ConfigurationError, OnceqError
from onceq.model.identity import guid_bytes
from onceq.model.settings import AT_START as SETTINGS_AT_START
from onceq.model.settings import Settings
from onceq.model.views.managers import Reloaded
from onceq.service import config, logs
from onceq.service.config import Configuration
from onceq.service.logs import event
from onceq.service.peer_transports import Doors

if TYPE_CHECKING:
    from onceq.service.engine import Engine

APPLIED: Final = frozenset(
    (
        "peers", "routes", "log_level", "log_format", "http_names", "http_receipts",
        "http_certificate",
        "http_key", "http_authorities", "receipt_addresses", "redirections", "settings",
        "tls_certificate", "tls_key", "tls_authorities", "tls_minimum", "plain_peers",
        "authorities",
    )
)  # fmt: skip
"""Keys of the file that a reload applies."""
AT_START: Final = frozenset(
    (
        "name", "listen", "client_listen", "http_listen", "http_mapping", "addresses",
        "directory", "databases", "socket_group", "metrics_listen",
    )
)  # fmt: skip
"""Keys of the file that are read at the start only."""
_PLAIN: Final = (str, int, float, bool)


class Reconfigured(Protocol):
    """A part that takes other addresses."""

    doors: Doors

    def reconfigure(self, peers: Mapping[str, str]) -> None:
        """Use this address book, and what the doors hold, for connections from now on."""


@dataclass(slots=True)
class Reloading:
    """Reloads the configuration of one manager.

    Attributes:
        now: The configuration in force.
        read: Reads the file, with the values that replace its own.
        http_at: Where it listens for HTTP.
    """

    engine: Engine
    network: Reconfigured
    now: Configuration
    read: Callable[[], Configuration]
    http_at: str = ""

    def signalled(self) -> None:
        """Reload after SIGHUP; the result goes to the log and the trail."""
        code = ""
        try:
            self.reload()
        except OnceqError as error:
            code = error.code
            logs.log.error("the configuration was not reloaded, nothing has changed: %s", error)
        # The system does not name the sender: any account that may signal this process.
        self.engine.submit(Witnessed("signal:SIGHUP", "local", "reload", WHOLE, code))

    def reload(self) -> Reloaded:
        """Read it again, and apply what can be applied.

        Raises:
            ConfigurationError: The file is not good; nothing has changed.
        """
        wanted = self.read()
        own = self.engine.manager.identity.name
        if wanted.name and wanted.name.casefold() != own.casefold():
            raise ConfigurationError(
                f"name: this is queue manager {own}, which keeps its name; the file says "
                f"{wanted.name}"
            )
        applied, changed, restart = _compared(self.now, wanted)
        names = config.names_of(applied, own, self.http_at or applied.http_listen)
        # The last thing that can fail comes before the first that changes anything.
        doors = self.network.doors
        hold = doors.prepared(applied)
        self.engine.http = names
        self.engine.settings = applied.settings
        self.engine.submit(
            Reconfigure(
                applied.settings,
                {guid_bytes(guid): via for guid, via in applied.routes.items()},
                applied.peers,
            )
        )
        own_before, believed_before = doors.own, doors.authorities
        hold()
        if doors.own != own_before:
            changed.append("the certificate for other queue managers")
        if doors.authorities != believed_before:
            changed.append("the authorities of other queue managers")
        self.engine.submit(doors.report())
        self.network.reconfigure(applied.peers)
        logs.change(applied.log_level, applied.log_format)
        doors.tell(self.engine.clock.read().wall_s)
        self.now = applied
        event(
            "configuration reloaded", changed="; ".join(changed) or "nothing",
            needs_restart="; ".join(restart) or "nothing",
        )  # fmt: skip
        return Reloaded(tuple(changed), tuple(restart))


def reloading(
    engine: Engine,
    network: Reconfigured,
    configuration: Configuration,
    read: Callable[[], Configuration] | None,
) -> Reloading:
    """Let an engine read its configuration again; without ``read`` it does not change."""
    made = Reloading(engine, network, configuration, read or (lambda: configuration))
    engine.reloading = made.reload
    return made


def _compared(
    now: Configuration, wanted: Configuration
) -> tuple[Configuration, list[str], list[str]]:
    """Return the configuration in force from now on, its changes, and what needs a restart."""
    changed: list[str] = []
    restart: list[str] = []
    keep: dict[str, Any] = {}
    for name in (field.name for field in fields(Configuration)):
        old, new = getattr(now, name), getattr(wanted, name)
        if name == "settings" or old == new:
            continue
        late = name in AT_START or (name == "http_certificate" and not (old and new))
        if late:
            keep[name] = old
        (restart if late else changed).append(_describe_change(name, old, new))
    settings: dict[str, Any] = {}
    for name in (field.name for field in fields(Settings)):
        old, new = getattr(now.settings, name), getattr(wanted.settings, name)
        if old == new:
            continue
        late = name in SETTINGS_AT_START
        if late:
            settings[name] = old
        (restart if late else changed).append(_describe_change(f"settings.{name}", old, new))
    keep["settings"] = replace(wanted.settings, **settings)
    return replace(wanted, **keep), changed, restart


def _describe_change(name: str, old: object, new: object) -> str:
    """Describe a change; values that fit on a line are shown, lists and tables, which may hold
    secrets, only named."""
    if isinstance(old, _PLAIN) and isinstance(new, _PLAIN):
        return f"{name}: {_value(old)} -> {_value(new)}"
    return name


def _value(value: object) -> str:
    return '""' if value == "" else str(value).lower() if isinstance(value, bool) else str(value)
