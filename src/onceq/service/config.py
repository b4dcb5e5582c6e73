"""The configuration file of a queue manager: ``onceq.toml`` in its data directory.

Every key is checked; an unknown one is refused with the nearest that exists, because a setting
that silently does nothing costs days.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from onceq.errors import ConfigurationError
from onceq.model.identity import guid_bytes
from onceq.model.limits import Settings

FILE = "onceq.toml"
SOCKET = "onceq.sock"
PORT_FILE = "onceq.port"
PID_FILE = "onceq.pid"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a queue manager is told.

    Attributes:
        listen: "host:port" for other managers; "" for none.
        client_listen: "host:port" for applications over TCP; "" for none.
        peers: Address book: computer name, address or GUID to "host:port".
        routes: GUID of a queue manager to the name of the one that passes messages on to it.
        addresses: Further names and addresses of this computer.
    """

    name: str = ""
    listen: str = "127.0.0.1:1801"
    client_listen: str = ""
    peers: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    log_level: str = "info"
    settings: Settings = field(default_factory=Settings)


def load(path: str) -> Configuration:
    """Read ``onceq.toml`` of a data directory; defaults if there is none.

    Raises:
        ConfigurationError: With file, key and what to do.
    """
    name = os.path.join(path, FILE)
    try:
        with open(name, "rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        return Configuration()
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None
    return parse(values, name)


def parse(values: Mapping[str, Any], name: str = FILE) -> Configuration:
    """A configuration from the values of a file."""
    known = {item.name for item in fields(Configuration)}
    _check_keys(values, known, name)
    settings = _settings(values.get("settings", {}), name)
    plain: dict[str, Any] = {}
    for key in ("name", "listen", "client_listen", "log_level"):
        if key in values:
            plain[key] = _text(values[key], f"{name}: {key}")
    peers = values.get("peers", {})
    if not isinstance(peers, Mapping):
        raise ConfigurationError(f'{name}: [peers] is a table of NAME = "host:port"')
    for peer, where in peers.items():
        _text(where, f"{name}: peers.{peer}")
    routes = _routes(values.get("routes", {}), name)
    addresses = values.get("addresses", [])
    if not isinstance(addresses, list):
        raise ConfigurationError(f"{name}: addresses is a list of names")
    for address in addresses:
        _text(address, f"{name}: addresses")
    return Configuration(
        **plain,
        peers=dict(peers),
        routes=routes,
        addresses=tuple(addresses),
        settings=settings,
    )


def _routes(values: object, name: str) -> dict[str, str]:
    if not isinstance(values, Mapping):
        raise ConfigurationError(f'{name}: [routes] is a table of "GUID" = "NAME"')
    for guid, via in values.items():
        _text(via, f"{name}: routes.{guid}")
        try:
            guid_bytes(guid)
        except ValueError as error:
            raise ConfigurationError(f"{name}: [routes]: {error}") from None
    return dict(values)


def _check_keys(values: Mapping[str, Any], known: set[str], name: str) -> None:
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, sorted(known), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"{name}: there is no key {key!r}{hint}")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where} is text in quotes, not {value!r}")
    return value


def _settings(values: object, name: str) -> Settings:
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{name}: [settings] is a table")
    kinds = {item.name: item.type for item in fields(Settings)}
    _check_keys(values, set(kinds), f"{name}: [settings]")
    changes: dict[str, Any] = {}
    for key, value in values.items():
        kind = kinds[key]
        if kind == "bool":
            good = isinstance(value, bool)
        elif kind == "int":
            good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        else:
            good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if not good:
            raise ConfigurationError(f"{name}: settings.{key} cannot be {value!r} (a {kind})")
        changes[key] = float(value) if kind == "float" else value
    return replace(Settings(), **changes)
