"""The configuration file of a queue manager: ``onceq.toml`` in its data directory.

It also reads the mapping files, again when one has changed, and the addresses of HTTP with their
TLS.

Every key and value is checked before anything starts. An unknown key is refused with the nearest
that exists, because a setting that silently does nothing costs days; and each error names the
file, the line and what to write instead. ``docs/reference/configuration.md`` lists the keys.
"""

from __future__ import annotations

import difflib
import importlib.util
import ipaddress
import logging
import os
import re
import ssl
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from onceq.errors import ConfigurationError, MalformedPacket
from onceq.file_access import CONFIGURATION_FILE, denied
from onceq.model import limits
from onceq.model.addresses import HERE, name_for_others
from onceq.model.http import ORDER_QUEUE_PATH, HttpNames, Mappings, host_of
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.settings import SETTING_NAMES, WORDS, Settings
from onceq.service.logs import FORMATS, LEVELS, event
from onceq.tls.contexts import Guarded, IdentityFiles, explain_error, show, trust
from onceq.wire.srmp.mapping import MappingFile, read_mappings

# ---- config --------------------------------------------------------------------------------------


PORT_FILE = "onceq.port"
PID_FILE = "onceq.pid"

POSITIVE = frozenset(
    {
        "resend_first_s", "resend_second_s", "resend_third_s", "resend_last_s",
        "connect_retry_s", "session_idle_s", "session_init_s", "session_ack_wait_s",
        "session_window_messages", "order_ack_messages_max", "unacknowledged_messages_max",
        "time_to_reach_queue_s", "checkpoint_log_bytes", "history_bytes_max", "history_roll_s",
        "trail_file_bytes_max",
    }
)  # fmt: skip
"""Settings that must not be 0: nothing would work then."""


def check_segment_bytes(size: int) -> int:
    """Return a usable size of the log's segments; raises ConfigurationError."""
    if not limits.LOG_SEGMENT_BYTES_MIN <= size <= limits.LOG_SEGMENT_BYTES_MAX:
        raise ConfigurationError(
            f"log_segment_bytes is a number from {limits.LOG_SEGMENT_BYTES_MIN} to "
            f"{limits.LOG_SEGMENT_BYTES_MAX}, not {size!r}"
        )
    return size


_HEADER = re.compile(r"\s*\[\s*([A-Za-z_]+)\s*\]")
_ENTRY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*[=.]""")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a queue manager is told.

    Attributes:
        name: Computer name; if it is given, it must be the name of the store.
        listen: "host:port" for other managers; "" for none.
        client_listen: "host:port" for applications over TCP; "" for none.
        peers: Address book: computer name, address or GUID to "host:port".
        routes: GUID of a queue manager to the name of the one that passes messages on to it.
        addresses: Further names and addresses of this computer.
        directory: File of the directory of public queues and lists; "" for none (workgroup mode).
        databases: Addresses of databases that transactions are committed with: what applications
            leave prepared there is brought to its outcome.
        http_listen: "host:port" for messages over HTTP (SRMP); "" for none.
        http_names: Hosts ("host" or "host:port") under which this computer is reached over HTTP.
        http_receipts: URL of its order queue, as others reach it, for receipts of its streams.
        http_certificate, http_key: Files for HTTPS; "" for plain HTTP.
        http_authorities: File with the certificates that HTTPS servers are checked against; "" for
            those of the system.
        http_mapping: Folder of mapping files, in the data directory if it has no leading slash; ""
            for ``mapping`` there.
        receipt_addresses: Destination (URL, or its beginning and ``*``) to the URL for receipts.
        redirections: URL under which messages arrive to the URL of a queue here, or on another
            host, to which they are passed on.
        socket_group: Group whose members may connect to the Unix socket; "": nobody else may.
        metrics_listen: "host:port" for those who look at metrics and health; "" for none.
        tls_certificate, tls_key, tls_authorities: Files of an own identity, and of those who sign
            the certificates of other queue managers; "": those in ``tls/`` of the data directory,
            if there are any.
        tls_minimum: The oldest version of TLS that is spoken: "1.3" or "1.2".
        authorities: What those are limited to, by fingerprint.
        plain_peers: Who may speak without TLS: "10.1.2.3", or "10.1.2.3=GUID" for one of them.
        log_level: What is logged: debug, info, warning or error, and what is worse.
        log_format: How: text, or json for programs.
    """

    name: str = ""
    listen: str = "127.0.0.1:1801"
    client_listen: str = ""
    peers: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    directory: str = ""
    databases: tuple[str, ...] = ()
    http_listen: str = ""
    http_names: tuple[str, ...] = ()
    http_receipts: str = ""
    http_certificate: str = ""
    http_key: str = ""
    http_authorities: str = ""
    http_mapping: str = ""
    receipt_addresses: Mapping[str, str] = field(default_factory=dict)
    redirections: Mapping[str, str] = field(default_factory=dict)
    socket_group: str = ""
    metrics_listen: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_authorities: str = ""
    tls_minimum: str = "1.3"
    plain_peers: tuple[str, ...] = ()
    authorities: Mapping[str, Any] = field(default_factory=dict)
    log_level: str = "info"
    log_format: str = "text"
    settings: Settings = field(default_factory=Settings)


class _Bad(Exception):
    """A fault at a key: its table, the key, and what to say."""

    def __init__(self, table: str, key: str, text: str) -> None:
        super().__init__(text)
        self.table, self.key, self.text = table, key, text


def load(path: str) -> Configuration:
    """Read ``onceq.toml`` of a data directory; defaults if there is none.

    Raises:
        ConfigurationError: With file, line, key and what to do.
    """
    name = os.path.join(path, CONFIGURATION_FILE)
    try:
        with open(name, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return Configuration()
    except PermissionError:
        raise denied(name) from None
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None
    try:
        text = raw.decode()
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{name} is not UTF-8 text: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from None
    return parse(values, name, text=text)


def parse(
    values: Mapping[str, Any], name: str = CONFIGURATION_FILE, *, text: str = ""
) -> Configuration:
    """Return the configuration for the values of a file.

    Args:
        name: The name of the file in errors.
        text: Its content, so that errors can name a line.

    Raises:
        ConfigurationError: With file, line, key and what to do.
    """
    try:
        return _configuration(values)
    except _Bad as bad:
        line = _line_of(text, bad.table, bad.key)
        place = f"{name}:{line}" if line else name
        key = f"{bad.table}.{bad.key}" if bad.table else bad.key
        raise ConfigurationError(f"{place}: {key}: {bad.text}") from None


def _configuration(values: Mapping[str, Any]) -> Configuration:
    _known("", values, [item.name for item in fields(Configuration)])
    plain = {key: check for key, check in _PLAIN.items() if key in values}
    found: dict[str, Any] = {k: _checked("", k, values[k], check) for k, check in plain.items()}
    for key, (example, one_of) in _LISTS.items():
        if key in values:
            listed = values[key]
            if not isinstance(listed, list):
                raise _Bad("", key, f"must be a list such as {example}")
            found[key] = tuple(_checked("", key, one, one_of) for one in listed)
    for key in ("receipt_addresses", "redirections"):
        found[key] = _table(values, key, _url)
        for given in found[key]:
            _checked(key, given, given, _url)
    if found.get("http_key") and not found.get("http_certificate"):
        raise _Bad("", "http_key", "needs http_certificate, the certificate that it is the key of")
    for key, other in (
        ("tls_certificate", "tls_authorities"),
        ("tls_authorities", "tls_certificate"),
        ("tls_key", "tls_certificate"),
    ):
        if found.get(key) and not found.get(other):
            raise _Bad("", key, f"needs {other}, too")
    found["peers"] = _table(values, "peers", _text)
    for peer, where in found["peers"].items():
        try:
            check_peers({peer: where})
        except (ValueError, ConfigurationError) as error:
            raise _Bad("peers", peer, str(error)) from None
    found["routes"] = _table(values, "routes", _elsewhere)
    for guid in found["routes"]:
        try:
            guid_bytes(guid)
        except ValueError as error:
            raise _Bad("routes", guid, str(error)) from None
    found["authorities"] = _authorities(values.get("authorities", {}))
    found["settings"] = _settings(values.get("settings", {}))
    return Configuration(**found)


def _authorities(given: object) -> dict[str, Any]:
    from onceq.tls.identity import scopes  # who does not speak of it does not load TLS

    try:
        return scopes(given)
    except ValueError as error:
        raise _Bad("", "authorities", str(error)) from None


def _known(table: str, values: Mapping[str, Any], known: list[str]) -> None:
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}"
            if not table and key in SETTING_NAMES:
                hint = "it is a setting: write it below the line [settings]"
            raise _Bad(table, key, f"there is no such key; {hint}")


def _table(values: Mapping[str, Any], table: str, check: Callable[[object], str]) -> dict[str, str]:
    given = values.get(table, {})
    if not isinstance(given, Mapping):
        raise _Bad("", table, f"must be a table: write [{table}] and its entries below")
    return {key: _checked(table, key, value, check) for key, value in given.items()}


def _checked(table: str, key: str, value: object, check: Callable[[object], str]) -> str:
    try:
        return check(value)
    except (ValueError, ConfigurationError) as error:
        raise _Bad(table, key, str(error)) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {value!r}")
    return value


def check_peers(peers: Mapping[str, str]) -> None:
    """Check names of other queue managers, each with its address; raises ConfigurationError."""
    for peer, where in peers.items():
        _elsewhere(peer)
        split_address(where, 1801)


def _elsewhere(value: object) -> str:
    """Return the name of another queue manager: the name of this computer would have no effect."""
    name = _text(value)
    if name.casefold() in HERE:
        raise ConfigurationError(
            f"{name!r} always means this computer: write the name by which you send to the other "
            "queue manager"
        )
    return name


def _listen(value: object) -> str:
    if value:
        split_address(_text(value), None)
    return _text(value)


def _url(value: object) -> str:
    url = _text(value)
    if url and not re.fullmatch(r"(?i)https?://[^\s/]+/\S*", url):
        raise ValueError(f"must be a URL such as http://host/msmq/private$/queue, not {url!r}")
    return url


def _address(value: object) -> str:
    """Return an IP address in the form that the system uses for connections."""
    text = _text(value)
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(
            f"must be an IP address such as 10.1.2.3, not {value!r}: a name could lead anywhere"
        ) from None
    if found.is_unspecified:
        raise ValueError(f"must be the address of one computer; {text} stands for all of them")
    return str(found)


def _plain_peer(value: object) -> str:
    """Return an address, with the GUID of its queue manager if there is one."""
    address, equals, guid = _text(value).partition("=")
    found = _address(address.strip())
    if not equals:
        return found
    try:
        return f"{found}={guid_text(guid_bytes(guid.strip()))}"
    except ValueError:
        raise ValueError(
            f"must be an address, or one with the GUID of its queue manager behind =, not {value!r}"
        ) from None


def plain_peers(entries: Iterable[str]) -> dict[str, frozenset[bytes]]:
    """Return the addresses of ``Configuration.plain_peers``, each with its GUIDs."""
    found: dict[str, frozenset[bytes]] = {}
    for entry in entries:
        address, equals, guid = entry.partition("=")
        named = frozenset((guid_bytes(guid),)) if equals else frozenset[bytes]()
        found[address] = found.get(address, frozenset()) | named
    return found


def _version(value: object) -> str:
    from onceq.tls.contexts import version  # who does not speak of it does not load TLS

    version(_text(value))
    return _text(value)


def _one_of(words: tuple[str, ...], value: object) -> str:
    word = _text(value).lower()
    if word not in words:
        raise ValueError(f"must be one of {', '.join(words)}, not {value!r}")
    return word


_PLAIN: dict[str, Callable[[object], str]] = {
    "name": _text,
    "listen": _listen,
    "client_listen": _listen,
    "directory": _text,
    "http_listen": _listen,
    "metrics_listen": _listen,
    "http_receipts": _url,
    "http_certificate": _text,
    "http_key": _text,
    "http_authorities": _text,
    "http_mapping": _text,
    "socket_group": _text,
    "tls_certificate": _text,
    "tls_key": _text,
    "tls_authorities": _text,
    "tls_minimum": _version,
    "log_level": partial(_one_of, LEVELS),
    "log_format": partial(_one_of, FORMATS),
}


_LISTS: dict[str, tuple[str, Callable[[object], str]]] = {
    "addresses": ('["host.example", "10.0.0.7"]', _text),
    "databases": ('["postgresql://user@host/name"]', _text),
    "http_names": ('["host.example", "10.0.0.7"]', _text),
    "plain_peers": ('["10.1.2.3"]', _plain_peer),
}


def _settings(values: object) -> Settings:
    if not isinstance(values, Mapping):
        raise _Bad("", "settings", "must be a table: write [settings] and the settings below")
    kinds = {item.name: item.type for item in fields(Settings)}
    _known("settings", values, list(kinds))
    changes: dict[str, Any] = {}
    for key, value in values.items():
        kind = kinds[key]
        if kind == "bool":
            if not isinstance(value, bool):
                raise _Bad("settings", key, f"must be true or false, not {value!r}")
            changes[key] = value
            continue
        if kind == "str":
            if not isinstance(value, str):
                raise _Bad("settings", key, f"must be a text, not {value!r}")
            if value not in WORDS.get(key, (value,)):
                words = ", ".join(WORDS[key])
                raise _Bad("settings", key, f"must be one of {words}, not {value!r}")
            changes[key] = value
            continue
        least = "more than 0" if key in POSITIVE else "0 or more"
        wanted = "a whole number" if kind == "int" else "a number"
        good = isinstance(value, int if kind == "int" else (int, float))
        if not good or isinstance(value, bool) or not 0 <= value < 1 << 62:
            raise _Bad("settings", key, f"must be {wanted}, {least}, not {value!r}")
        if not value and key in POSITIVE:
            raise _Bad("settings", key, f"must be {wanted}, {least}")
        if key == "log_segment_bytes":
            try:
                check_segment_bytes(value)
            except ConfigurationError as error:
                raise _Bad("settings", key, error.text) from None
        changes[key] = float(value) if kind == "float" else value
    return replace(Settings(), **changes)


def _line_of(text: str, table: str, key: str) -> int:
    """Return the line of a key; 0 if it is unknown (TOML has many ways to write)."""
    here = ""
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            here = header[1]
        found = (header and not table and here == key) or (
            entry and here == table and key in entry.groups()
        )
        if found:
            return number
    return 0


def split_address(where: str, port: int | None) -> tuple[str, int]:
    """Return host and port of "host:port", "host" or "[v6]:port".

    Args:
        port: For "host" alone; None if there must be one.

    Raises:
        ConfigurationError: It is not an address.
    """
    host, separator, tail = where.rpartition(":")
    if not separator or tail.endswith("]"):
        host, tail = where, "" if port is None else str(port)
    bare = host.strip("[]")
    good = re.fullmatch(r"[0-9]{1,5}", tail) and int(tail) <= 65535 and bare.isprintable()
    if not good or not bare or (":" in bare and not host.startswith("[")) or " " in bare:
        raise ConfigurationError(f"{where!r} is not an address such as 127.0.0.1:1801")
    return bare, int(tail)


# ---- mappings ------------------------------------------------------------------------------------
#
# Mapping files of a queue manager: read from a folder, and again when one of them has changed.


FOLDER = "mapping"
_Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ReadFile:
    """One file of a folder.

    Attributes:
        name: Without the folder.
        content: Its mappings; None if it cannot be used.
        problem: Why not; "" if it can.
    """

    name: str
    content: MappingFile | None
    problem: str = ""


class MappingFolder:
    """The mapping files of one folder."""

    def __init__(self, path: str) -> None:
        """Name the folder; nothing is read yet. It may be missing."""
        self.path = path
        self._seen: _Signature | None = None
        self._due_us = 0
        self._found = Mappings()
        self._problem = ""
        """The last logged fault; a fault is logged once."""

    def files(self) -> list[ReadFile]:
        """Return every file of the folder, read now.

        Raises:
            ConfigurationError: The folder cannot be read, or has too many files.
        """
        return [self._file(name) for name, *_ in self._signature()]

    def load(self) -> Mappings:
        """Return the mappings of all files.

        Raises:
            ConfigurationError: A file cannot be used; it is named with its fault.
        """
        self._seen = self._signature()
        found = Mappings()
        for file in self.files():
            if file.content is None:
                raise ConfigurationError(
                    f"{os.path.join(self.path, file.name)}: {file.problem}; "
                    "mend it or take it out of the folder"
                )
            found += file.content.mappings
        self._found = found
        return found

    def current(self, now_us: int) -> Mappings:
        """Return the mappings in force; looks for changed files at most each MAPPING_LOOK_S.

        Args:
            now_us: Monotonic microseconds.
        """
        if now_us >= self._due_us:
            self._due_us = now_us + int(limits.MAPPING_LOOK_S * 1_000_000)
            self._check()
        return self._found

    def _check(self) -> None:
        try:
            if self._signature() == self._seen:
                return
            self.load()
        except ConfigurationError as error:
            if error.text != self._problem:
                self._problem = error.text
                event(
                    "mapping files cannot be used: what was read before stays in force",
                    level=logging.WARNING, reason=error.text,
                )  # fmt: skip
            return
        self._problem = ""
        event(
            "mapping files were read", folder=self.path, files=len(self._seen or ()),
            redirections=len(self._found.redirections), receipts=len(self._found.receipts),
            outbound=len(self._found.outbound),
        )  # fmt: skip

    def _signature(self) -> _Signature:
        """Return name, size, time of change and number of each file, by name."""
        try:
            with os.scandir(self.path) as entries:
                found = [entry for entry in entries if entry.name.casefold().endswith(".xml")]
                stats = [(entry.name, entry.stat()) for entry in found]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be read: {error.strerror}") from None
        if len(stats) > limits.MAPPING_FILES_MAX:
            raise ConfigurationError(
                f"{self.path} has {len(stats)} mapping files; "
                f"at most {limits.MAPPING_FILES_MAX} are read"
            )
        return tuple(
            # The number as well: a file that has replaced another may have its size and time.
            sorted((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)
        )

    def _file(self, name: str) -> ReadFile:
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                data = file.read(limits.MAPPING_FILE_BYTES_MAX + 1)
        except OSError as error:
            return ReadFile(name, None, f"it cannot be read: {error.strerror}")
        if len(data) > limits.MAPPING_FILE_BYTES_MAX:
            return ReadFile(name, None, f"it has more than {limits.MAPPING_FILE_BYTES_MAX} bytes")
        try:
            return ReadFile(name, read_mappings(data))
        except MalformedPacket as error:
            return ReadFile(name, None, error.text)


def folder_of(path: str, configuration: Configuration) -> MappingFolder:
    """Return the folder of mapping files of a data directory."""
    return MappingFolder(os.path.join(path, configuration.http_mapping or FOLDER))


def tables_of(configuration: Configuration) -> Mappings:
    """Return the mappings in the configuration itself."""
    return Mappings(
        tuple(configuration.redirections.items()), tuple(configuration.receipt_addresses.items())
    )


# ---- web -----------------------------------------------------------------------------------------
#
# HTTP of one queue manager: its addresses as others know them, and TLS (HTTP-6).


def available() -> bool:
    """Return True if the library for HTTP is installed."""
    return importlib.util.find_spec("h11") is not None


def check_metrics() -> None:
    """Raise ConfigurationError if a library for ``metrics_listen`` is missing."""
    if not available() or importlib.util.find_spec("prometheus_client") is None:
        raise ConfigurationError(
            "metrics_listen needs the libraries h11 and prometheus-client: pip install "
            "'onceq[metrics]', or leave the key out"
        )


def names_of(configuration: Configuration, name: str, where: str) -> HttpNames:
    """Return the names of this manager for others.

    Args:
        name: Its computer name.
        where: "host:port" at which it listens for HTTP; "" if it does not.
    """
    scheme = "https" if configuration.http_certificate else "http"
    port = split_address(where, None)[1] if where else 0
    hosts = configuration.http_names or (name, "localhost", *configuration.addresses)
    own = {host_of(f"{scheme}://{host}/") for host in hosts}
    if where and not configuration.http_names:
        own |= {host_of(f"{scheme}://{host}:{port}/") for host in hosts}
        own.add(host_of(f"{scheme}://{where}/"))
    receipts = configuration.http_receipts
    if not receipts and where:
        called = name_for_others(name, configuration.addresses)
        first = configuration.http_names[0] if configuration.http_names else f"{called}:{port}"
        receipts = f"{scheme}://{host_of(f'{scheme}://{first}/')}{ORDER_QUEUE_PATH}"
    forward = configuration.settings.forward_messages
    return HttpNames(frozenset(own), receipts, tables_of(configuration), forward)


def server_context(
    configuration: Configuration, identity: IdentityFiles | None = None
) -> ssl.SSLContext | None:
    """Return the TLS context for listening, with the current files; None for plain HTTP.

    Args:
        identity: Of this queue manager: a poster may show a certificate, too, which must then come
            from an authority that is trusted there.

    Raises:
        ConfigurationError, AccessDenied: A file cannot be used, or the library is missing.
    """
    if not available():
        raise ConfigurationError(
            "http_listen needs the library h11: pip install 'onceq[http]', or leave the key out"
        )
    if not configuration.http_certificate:
        return None
    context = Guarded(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # No earlier session is resumed: its certificate may not be good any more.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    show(context, configuration.http_certificate, configuration.http_key)
    if identity is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        trust(context, identity.authorities)
    return context


def client_context(authorities: str, identity: IdentityFiles | None = None) -> ssl.SSLContext:
    """Return the TLS context for connecting, with the current files.

    Args:
        authorities: File with certificates of the trusted signers of servers; "": those that the
            system trusts.
        identity: Shown to servers that ask for our identity.

    Raises:
        ConfigurationError, AccessDenied: A file cannot be used; it is named.
    """
    try:
        context = ssl.create_default_context(cafile=authorities or None)
    except PermissionError:
        raise denied(authorities) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"http_authorities {authorities} holds no certificates of authorities that can be "
            f"used: {explain_error(error)}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if identity is not None:
        show(context, identity.certificate, identity.key)
    return context
