"""How source and sink connect: as whom, for how long they try, and what they keep between tasks.

It also reads which queues a reader is about: names on one queue manager, or ``address/name`` on
many.

``CredentialFiles`` names the files that say who a query is and whom it trusts. Options travel in
plans, on Spark's pages, in its event log and in checkpoints, so they have names of files and never
a secret. Each connection reads the files where it is made. What the options do not say comes from
the environment there.

``Patience`` says how long to try when a queue manager does not answer. One that is started again
is away for a moment, and with many messages for half a minute; a computer that is started again
for some minutes. A query that ends because of that must be started by somebody, so it waits: at
first a tenth of a second, then longer and longer, up to ``retry_s`` in all. The log says once that
it waits, and once that it goes on. ``BackOff`` decides and knows no clock; ``Spell`` acts on it.

``ConnectionPool`` keeps the connections of a worker process for a short time between its tasks.
Spark gives the tasks of a query to the same few processes, one after another. A task borrows a
connection and gives it back; one that no task wants for some seconds is closed, so that nothing is
left of a query that has ended. One whose task failed is closed at once, because its state is
unknown. A connection belongs to a user, so it serves only tasks with the same files of credentials.

Upholds: I24 (bounded time, bounded attempts, as many connections as tasks); a secret is in its file
and in the hello of a connection, and nowhere else; I4 at the connector (a place belongs to one
queue, and to no other queue of its name).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from onceq.client.credentials import Credentials, Tls, environment_files, is_secret
from onceq.client.opening import connect_for_job
from onceq.client.stopping import pause
from onceq.client.threads.manager import QueueManager
from onceq.errors import OnceqError
from onceq.model.names import folded, local, usual
from onceq.model.views.queues import QueueView
from onceq.spark.argument_checks import TOKEN_SHOWN, SparkOption, coded, number, span_s, wrong

# ---- connections ---------------------------------------------------------------------------------


RETRIES_MAX: Final = 1_000
MILLISECONDS_MAX: Final = 86_400_000
"""A day."""
RETRY_INTERVAL_S: Final = 1.0
"""Between attempts of a number that was asked for."""

CREDENTIALS: Final = (
    SparkOption(
        "tokenFile", "name of a file", "as the environment says",
        "File with the token that says who the query is (`onceq token create`), or with a line "
        "for each of several queue managers (`ADDRESS TOKEN`); no other account may read it. It "
        "must be on each host. Goes before `ONCEQ_TOKEN_FILE` and `ONCEQ_TOKEN`.",
    ),
    SparkOption(
        "tlsAuthorities", "name of a file", "as the environment says",
        "File with certificates of the authorities of the queue managers, for `tls://host:port`; "
        "on each host. Goes before `ONCEQ_TLS_AUTHORITIES`; without both the system's count.",
    ),
    SparkOption(
        "tlsCertificate", "name of a file", "as the environment says",
        "File with the query's own certificate, which says who it is; on each host. Goes before "
        "`ONCEQ_TLS_CERTIFICATE`, and with `tlsKey` before `ONCEQ_TLS_KEY`.",
    ),
    SparkOption(
        "tlsKey", "name of a file", "in `tlsCertificate`",
        "File with the private key of that certificate; on each host.",
    ),
)  # fmt: skip
"""Of source and sink: who a query is. Names of files only."""

FIRST_WAIT_S: Final = 0.1
"""Before the second attempt; the wait before each later one is twice as long..."""
LONGEST_WAIT_S: Final = 5.0
"""... up to this: so much later than need be it is noticed that a queue manager is back."""
SHORTEST_WAIT_S: Final = 0.01
"""The least wait, for any option: without it one minute would hold some million attempts."""
RETRY_S: Final = 60.0
"""How long it is tried by default: longer than a queue manager with some million messages takes to
start, shorter than anybody waits for an error."""

log = logging.getLogger("onceq.spark")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try with a queue manager that does not answer.

    Attributes:
        timeout_s: For a connection, and for each answer.
        retry_s: For all attempts together, from the first failure on.
        retries: Attempts after the first, at most; None: as many as there is time for.
        interval_s: Wait before each of them; None: it grows.
    """

    timeout_s: float = 10.0
    retry_s: float = RETRY_S
    retries: int | None = None
    interval_s: float | None = None


class BackOff:
    """Decides when the next attempt is made. It has no clock: the caller gives the elapsed time.

    Attributes:
        failed: Attempts so far.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self.failed = 0

    def next_s(self, elapsed_s: float) -> float | None:
        """An attempt has failed: seconds until the next one; None: give up.

        The last one is made when the time is over, so that nobody gives up before.

        Args:
            elapsed_s: Seconds since the first attempt has failed.
        """
        self.failed += 1
        patience = self._patience
        left = patience.retry_s - elapsed_s
        if patience.retries is not None and self.failed > patience.retries:
            return None
        if patience.retries is None and left <= 0:
            return None
        wait = patience.interval_s
        if wait is None:
            wait = min(FIRST_WAIT_S * 2.0 ** min(self.failed - 1, 16), LONGEST_WAIT_S)
        # A number of attempts that is asked for is made, however long that takes.
        return wait if patience.retries is not None else min(max(wait, SHORTEST_WAIT_S), left)


class Spell:
    """One time that somebody is away: begins with the first failure, ends with ``over``."""

    def __init__(
        self, patience: Patience, who: str, *, clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            who: Does not answer, in words, for the log.
        """
        self._back_off = BackOff(patience)
        self._patience = patience
        self._who = who
        self._clock = clock
        self._sleep = sleep or pause
        self._since = clock()

    @property
    def attempts(self) -> int:
        """How many have failed."""
        return self._back_off.failed

    @property
    def seconds(self) -> float:
        """Since the first of them."""
        return self._clock() - self._since

    def again(self, error: Exception) -> bool:
        """An attempt has failed: wait, and then make another one; False: give up."""
        wait = self._back_off.next_s(self.seconds)
        if wait is None:
            return False
        if self.attempts == 1:
            how_long = f"for {self._patience.retry_s:g} s (retryTimeout)"
            if self._patience.retries is not None:
                how_long = f"{self._patience.retries} times (numRetries)"
            log.warning("%s does not answer (%s); trying again %s", self._who, error, how_long)
        self._sleep(wait)
        return True

    def over(self) -> None:
        """It answers again."""
        if self.attempts:
            log.warning("%s answers again, after %.1f s", self._who, self.seconds)

    def describe_tries(self) -> str:
        """Return the number of tries and their time, for the error that ends it; "" for one."""
        if self.attempts <= 1:
            return ""
        return f", tried {self.attempts} times in {self.seconds:.0f} s"


def patience_of(values: Mapping[str, str]) -> Patience:
    """How long to try; raises ConfigurationError."""
    if "numRetries" in values and "retryTimeout" in values:
        raise wrong("numRetries and retryTimeout both say how long to try; give one of them")
    retry_s = span_s(values.get("retryTimeout", f"{RETRY_S:g}s"), "retryTimeout")
    if retry_s > MILLISECONDS_MAX / 1000:
        raise wrong(f"retryTimeout is at most a day, not {values['retryTimeout']!r}")
    retries, interval_s = None, None
    if "numRetries" in values:
        retries, interval_s = number(values, "numRetries", 0, RETRIES_MAX), RETRY_INTERVAL_S
    if "retryIntervalMs" in values:
        interval_s = number(values, "retryIntervalMs", 0, MILLISECONDS_MAX) / 1000
    timeout_s = number(values, "timeoutMs", 10_000, MILLISECONDS_MAX, least=1) / 1000
    return Patience(timeout_s, retry_s, retries, interval_s)


TOKEN_FILE: Final = "tokenFile"
AUTHORITIES: Final = "tlsAuthorities"
CERTIFICATE: Final = "tlsCertificate"
KEY: Final = "tlsKey"


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """Names of files; "": what the environment says.

    Attributes:
        token: That holds a token.
        authorities: With certificates of those who may have signed the queue manager's.
        certificate: With the query's own certificate.
        key: With the private key of that certificate; "": it is in the same file.
    """

    token: str = ""
    authorities: str = ""
    certificate: str = ""
    key: str = ""

    def credentials(self) -> Credentials:
        """For connections of this process; raises ConfigurationError."""
        around = environment_files()
        # A key belongs to its certificate: those two come from one place.
        own = (self.certificate, self.key) if self.certificate else (around.certificate, around.key)
        return Credentials(
            token_file=self.token or None, tls=Tls(self.authorities or around.authorities, *own)
        )

    def check(self, place: str) -> None:
        """Read them once, before anything runs.

        Args:
            place: Who needs them, for the error.

        Raises:
            ConfigurationError, AccessDenied: One cannot be used; it is named.
        """
        try:
            shown = self.credentials()
            shown.check()
            if self.authorities or self.certificate:
                shown.context()
        except OnceqError as error:
            raise coded(error, place) from None

    def options(self) -> dict[str, str]:
        """As options of a source or sink; what is not said is none."""
        named = {
            TOKEN_FILE: self.token, AUTHORITIES: self.authorities,
            CERTIFICATE: self.certificate, KEY: self.key,
        }  # fmt: skip
        return {option: name for option, name in named.items() if name}


FROM_ENVIRONMENT: Final = CredentialFiles()


def credential_files_of(values: Mapping[str, str]) -> CredentialFiles:
    """What options say; raises ConfigurationError."""
    names: dict[str, str] = {}
    for option in (TOKEN_FILE, AUTHORITIES, CERTIFICATE, KEY):
        name = names[option] = values.get(option, "").strip()
        if is_secret(name):
            raise wrong(f"{option} is the name of a file, and a token was given: {TOKEN_SHOWN}")
        if option in values and not name:
            raise wrong(
                f"{option} is the name of a file, and is empty; leave it out where the environment "
                "says it"
            )
    if names[KEY] and not names[CERTIFICATE]:
        raise wrong(
            f"{KEY} is the private key of the certificate in {CERTIFICATE}, which is not given"
        )
    return CredentialFiles(*names.values())


KEEP_S: Final = 2.0
"""How long a connection waits for the next task."""
CONNECT_S_MAX: Final = 10.0
"""Of those for writing: for connecting."""
ANSWER_S_MAX: Final = 60.0
"""Of those for writing: for each answer. A commit of two million messages takes some seconds, more
if they leave for other queue managers; from a computer that is gone nothing ever comes."""


class Closable(Protocol):
    """What is kept."""

    def close(self) -> None:
        """End it."""


C = TypeVar("C", bound=Closable)


class ConnectionPool:
    """Connections by what they are for. One for each process (``borrowed``, ``connection``)."""

    def __init__(self, keep_s: float = KEEP_S) -> None:
        self.keep_s = keep_s
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._idle: dict[Hashable, list[tuple[float, Closable]]] = {}
        self._sweeper: threading.Thread | None = None

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    @contextlib.contextmanager
    def borrowed(self, key: Hashable, make: Callable[[], C]) -> Iterator[C]:
        """A connection for the time of one task.

        Args:
            key: Says what ``make`` makes, and where to: those with one key may stand for each
                other.
        """
        kept = self._take(key)
        made = cast("C", kept) if kept is not None else make()
        try:
            yield made
        except BaseException:
            made.close()
            raise
        self._give(key, made)

    def close(self) -> None:
        """Close all that wait."""
        with self._changed:
            idle, self._idle = self._idle, {}
            self._changed.notify_all()
        if self._process == os.getpid():  # After a fork they are the other process's.
            for kept in idle.values():
                for _, made in kept:
                    made.close()

    def _take(self, key: Hashable) -> Closable | None:
        if self._process != os.getpid():
            # After a fork: its connections are the parent's, and a lock that another thread held
            # stays so.
            self.__init__(self.keep_s)  # type: ignore[misc]
        with self._changed:
            kept = self._idle.get(key)
            return kept.pop()[1] if kept else None

    def _give(self, key: Hashable, made: Closable) -> None:
        with self._changed:
            self._idle.setdefault(key, []).append((time.monotonic(), made))
            if self._sweeper is None:
                self._sweeper = threading.Thread(target=self._sweep, daemon=True)
                self._sweeper.start()

    def _sweep(self) -> None:
        """Close what was not wanted for a while; ends when nothing is left."""
        while True:
            with self._changed:
                until = time.monotonic() - self.keep_s
                old = [one for kept in self._idle.values() for since, one in kept if since <= until]
                left = {
                    key: [pair for pair in kept if pair[0] > until]
                    for key, kept in self._idle.items()
                }
                self._idle = {key: kept for key, kept in left.items() if kept}
                if not old and not self._idle:
                    self._sweeper = None
                    return
                if not old:
                    oldest = min(since for kept in self._idle.values() for since, _ in kept)
                    self._changed.wait(max(oldest - until, 0.01))
            for made in old:
                made.close()


POOL: Final = ConnectionPool()
atexit.register(POOL.close)


def connection(
    where: str, *, credentials: CredentialFiles
) -> contextlib.AbstractContextManager[QueueManager]:
    """A connection of this process for writing, for the time of one task; raises
    ServiceNotAvailable, AccessDenied, ConfigurationError."""
    return POOL.borrowed(
        (QueueManager, where, credentials),
        lambda: connect_for_job(
            where, timeout=CONNECT_S_MAX, answers=ANSWER_S_MAX,
            credentials=credentials.credentials(),
        ),
    )  # fmt: skip


# ---- targets -------------------------------------------------------------------------------------
#
# Which queues a reader is about: names on one queue manager or on many.


EARLIEST: Final = -2
LATEST: Final = -1
LOOKUP_MAX: Final = (1 << 63) - 1
QUEUES_MAX: Final = 256
SCHEME: Final = "onceq://"
SCHEMES: Final = (SCHEME, "tls://")
"""Of an address with a port: plainly, and in TLS."""


@dataclass(frozen=True, slots=True)
class SourceTarget:
    """One queue to read.

    Attributes:
        key: How offsets name it.
        manager: Address for the driver.
        near: Address for executors; mostly the same.
        queue: Its name there.
    """

    key: str
    manager: str
    near: str
    queue: str

    def __str__(self) -> str:
        return f"{self.queue} of the queue manager at {self.manager}"


def parts_of(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def targets_of(managers: str, executors: str, queues: str) -> tuple[SourceTarget, ...]:
    """The queues that three options mean together.

    Args:
        managers, executors: Addresses as the driver and as executors have them.
        queues: Names, with or without an address.

    Raises:
        ConfigurationError: They say nothing, too much, or the same twice.
    """
    addresses = parts_of(managers)
    named = [_url(entry) for entry in parts_of(queues)]
    whole = list(dict.fromkeys([*addresses, *(found[0] for found in named if found)]))
    if not whole:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    near = _near(addresses, parts_of(executors))
    if not named:
        raise wrong(r'say which queue to read: .option("queue", r"private$\orders")')
    found: list[SourceTarget] = []
    for entry, url in zip(parts_of(queues), named, strict=True):
        places = [url] if url else _places(entry, addresses)
        for address, name in places:
            queue = usual(name)
            key = queue if len(whole) == 1 else f"{address}/{queue}"
            found.append(SourceTarget(key, address, near.get(address, address), queue))
    if len({(t.manager, local(t.queue)) for t in found}) != len(found):
        raise wrong(f"a queue is named twice in {queues!r}")
    if len(found) > QUEUES_MAX:
        raise wrong(f"{len(found)} queues; one reader takes at most {QUEUES_MAX}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class QueueSearch:
    """Queues that are found by their names, also such as come to be later.

    Attributes:
        text: A regular expression for the whole name, with ``private$\\`` or without; capitals do
            not matter.
        managers: Addresses of each queue manager for the driver and for executors.
    """

    text: str
    managers: tuple[tuple[str, str], ...]

    def matching(self, manager: str, near: str, queues: Iterable[QueueView]) -> list[SourceTarget]:
        """Of the queues of one queue manager those that are meant: transactional ones only, as
        others cannot be streams, no system queues, and no subqueues."""
        wanted, found = re.compile(self.text, re.IGNORECASE), []
        for queue in queues:
            if queue.transactional and not queue.system and not queue.parent and (
                wanted.fullmatch(queue.path) or wanted.fullmatch(queue.name)
            ):  # fmt: skip
                key = queue.path if len(self.managers) == 1 else f"{manager}/{queue.path}"
                found.append(SourceTarget(key, manager, near, queue.path))
        return found


def pattern_of(managers: str, executors: str, text: str) -> QueueSearch:
    """What three options mean together; raises ConfigurationError."""
    addresses = parts_of(managers)
    if not addresses:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    try:
        re.compile(text)
    except re.error as error:
        raise wrong(f"subscribePattern {text!r} is no regular expression: {error}") from None
    near = _near(addresses, parts_of(executors))
    return QueueSearch(text, tuple((one, near.get(one, one)) for one in addresses))


class Everywhere(dict[str, int]):
    """The same place for every queue."""

    def __init__(self, place: int = EARLIEST) -> None:
        super().__init__()
        self.place = place

    def __missing__(self, key: str) -> int:
        return self.place


def word_of(text: str, name: str, *, ending: bool) -> Everywhere:
    """Where queues of a pattern begin or end: no JSON, as they are not known beforehand."""
    words = {"latest": LATEST} if ending else {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() not in words:
        raise wrong(f"with subscribePattern {name} is {' or '.join(words)}, not {text!r}")
    return Everywhere(words[text.lower()])


def _url(entry: str) -> tuple[str, str] | None:
    """Address and name of ``onceq://host:port/name`` or ``tls://host:port/name``."""
    scheme = scheme_of(entry)
    if not scheme:
        return None
    address, slash, queue = entry.removeprefix(scheme).partition("/")
    if not slash or not address or not queue:
        raise wrong(f"{entry!r} is not {scheme}host:port/queue")
    return scheme + address, queue


def scheme_of(text: str) -> str:
    """Which of SCHEMES a text begins with; "": none."""
    return next((scheme for scheme in SCHEMES if text.startswith(scheme)), "")


def _places(entry: str, addresses: Sequence[str]) -> list[tuple[str, str]]:
    """A name on one of the queue managers, if it says so, or on all of them."""
    for address in sorted(addresses, key=len, reverse=True):
        if entry.startswith(address + "/"):
            return [(address, entry.removeprefix(address + "/"))]
    if not addresses:
        raise wrong(f"{entry!r} does not say on which queue manager; set queueManager")
    return [(address, entry) for address in addresses]


def _near(addresses: Sequence[str], executors: Sequence[str]) -> dict[str, str]:
    if len(set(addresses)) != len(addresses):
        raise wrong("an address stands twice in queueManager")
    if not executors:
        return {}
    if len(executors) != len(addresses):
        raise wrong(
            f"executorQueueManager has {len(executors)} addresses and queueManager "
            f"{len(addresses)}; each stands for the one at the same place"
        )
    return dict(zip(addresses, executors, strict=True))


def offsets_of(
    text: str, name: str, targets: Sequence[SourceTarget], *, ending: bool
) -> dict[str, int]:
    """Places by key: ``earliest``, ``latest``, or JSON with a lookup identifier for each queue.

    Args:
        name: Of the option, for what is said if it makes no sense.
        ending: Whether it is the end; that is never ``earliest``.

    Raises:
        ConfigurationError: It makes no sense.
    """
    special = {"latest": LATEST} if ending else {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in special:
        return {target.key: special[text.lower()] for target in targets}
    words = " or ".join([*special, 'JSON such as {"private$\\\\orders": 17}'])
    try:
        found: Any = json.loads(text)
    except ValueError:
        raise wrong(f"{name} is {words}, not {text!r}") from None
    if not isinstance(found, dict):
        raise wrong(f"{name} is {words}, not {text!r}")
    for key, lookup in found.items():
        good = isinstance(lookup, int) and not isinstance(lookup, bool)
        if not good or not (lookup in special.values() or 0 <= lookup <= LOOKUP_MAX):
            raise wrong(f"{name} of {key} cannot be {lookup!r}")
    # A name alone means that queue on every queue manager.
    places = {folded(key): lookup for key, lookup in found.items()}
    chosen = {
        target.key: places.get(folded(target.key), places.get(folded(target.queue)))
        for target in targets
    }
    known = {folded(text) for target in targets for text in (target.key, target.queue)}
    if None in chosen.values() or not known.issuperset(places):
        keys = ", ".join(target.key for target in targets)
        raise wrong(f"{name} names exactly the queues that are read: {keys}")
    return {key: lookup for key, lookup in chosen.items() if lookup is not None}
