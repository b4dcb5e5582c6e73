"""HTTP of one queue manager: its addresses as others know them, and TLS (HTTP-6)."""

from __future__ import annotations

import importlib.util
import ssl

from onceq.errors import ConfigurationError
from onceq.model.hosts import name_for_others
from onceq.model.http import ORDER_QUEUE_PATH, HttpNames, host_of
from onceq.permission import denied
from onceq.service.config import Configuration, split_address
from onceq.service.mappings import tables_of
from onceq.tls.contexts import Files, show, told, trust
from onceq.tls.handshakes import Guarded


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
    configuration: Configuration, identity: Files | None = None
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


def client_context(authorities: str, identity: Files | None = None) -> ssl.SSLContext:
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
            f"used: {told(error)}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if identity is not None:
        show(context, identity.certificate, identity.key)
    return context
