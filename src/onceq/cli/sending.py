"""``onceq send``: lines, files or words become messages, in transactions that are reported truly.

What was committed and what was not is said at every end: after the last line, after Ctrl-C, after
an error in the middle. A commit whose answer was lost is asked about, and sent again only if it
did not happen.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from json import dumps
from typing import TYPE_CHECKING, Any, Final

from onceq import errors
from onceq.cli import arguments, out
from onceq.cli.arguments import check_dollar, meant
from onceq.cli.common import Exit, Json, Where, as_json, manager
from onceq.cli.terminal import Interruptible, in_doubt
from onceq.model.identity import read_number
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager

READ_BYTES = 1 << 20
BATCH_BYTES_MAX = 64 << 20
"""Bodies of one transaction; a batch ends before it is larger."""
PAUSE_S = 0.1
"""A pause of the input for this time sends its messages so far (``tail -f | onceq send``)."""
SHOW_S = 0.2
"""Between two updates of the progress line."""


def pieces(descriptor: int, separator: bytes) -> Iterator[list[bytes]]:
    """Read messages from a file descriptor as they come; an empty list means a pause.

    Raises:
        BodyTooLarge: A message without an end.
    """
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], PAUSE_S)
        if not ready:
            yield []
            select.select([descriptor], [], [])
        data = os.read(descriptor, READ_BYTES)
        if not data:
            break
        *whole, rest = (rest + data).split(separator)
        if whole:
            yield whole
        if len(rest) > PACKET_BYTES_MAX:
            raise errors.BodyTooLarge(
                f"a message of more than {PACKET_BYTES_MAX:,} bytes in the input; send it in parts"
            )
    if rest:
        yield [rest]


def checked_json(found: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """The same, as far as each is JSON; raises InvalidParameter, which says which is not, when
    those before it were taken."""
    import msgspec

    done = 0
    for some in found:
        for at, body in enumerate(some):
            try:
                msgspec.json.decode(body)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                yield some[:at]
                raise errors.InvalidParameter(
                    f"message {done + at + 1} of the input is not JSON: {error}; neither it nor "
                    "what follows was sent"
                ) from None
        done += len(some)
        yield some


class Batches:
    """Messages in groups for one transaction each: full ones, and what there is at a pause.

    Attributes:
        read: Messages taken from the input so far.
    """

    def __init__(self, found: Iterator[list[bytes]], count: int) -> None:
        self._found = found
        self._count = count
        self.read = 0

    def __iter__(self) -> Iterator[list[bytes]]:
        waiting: list[bytes] = []
        waiting_bytes = 0
        wrong: errors.OnceqError | None = None
        found = iter(self._found)
        while True:
            try:
                some = next(found)
            except StopIteration:
                break
            except errors.OnceqError as error:
                wrong = error  # what was read before it is sent first (finding U3)
                break
            self.read += len(some)
            if not some and waiting:
                yield waiting
                waiting, waiting_bytes = [], 0
            for body in some:
                if waiting and waiting_bytes + len(body) > BATCH_BYTES_MAX:
                    yield waiting
                    waiting, waiting_bytes = [], 0
                waiting.append(body)
                waiting_bytes += len(body)
                if len(waiting) >= self._count:
                    yield waiting
                    waiting, waiting_bytes = [], 0
        if waiting:
            yield waiting
        if wrong is not None:
            raise wrong


@dataclass(slots=True)
class Tally:
    """What has become certain so far."""

    messages: int = 0
    bytes: int = 0
    commits: int = 0
    first_id: str = ""
    last_id: str = ""
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds if self.seconds else 0.0


class Sender:
    """Sends batches to one destination and keeps count of what is certain."""

    def __init__(
        self, qm: QueueManager, destination: str, values: dict[str, Any], *, transactional: bool
    ) -> None:
        self._qm = qm
        self._destination = destination
        self._values = values
        self._transactional = transactional
        self._began = time.monotonic()
        self._shown = 0.0
        self.tally = Tally()

    def send(self, bodies: list[bytes]) -> None:
        """Send one batch; when this returns, it is certain.

        Raises:
            InDoubt: Its outcome could not be found out.
            OnceqError: Nothing of it was sent.
        """
        if not self._transactional:
            sent = self._qm.send_many(
                self._destination, bodies, transactional=False, **self._values
            )
        else:
            sent = self._commit(bodies)
        tally = self.tally
        tally.messages += len(bodies)
        tally.bytes += sum(map(len, bodies))
        tally.commits += 1
        if sent is not None:
            tally.first_id = tally.first_id or str(sent[0])
            tally.last_id = str(sent[-1])
        tally.seconds = time.monotonic() - self._began
        if sys.stderr.isatty() and tally.seconds - self._shown > SHOW_S:
            self._shown = tally.seconds
            sys.stderr.write(f"\r{tally.messages:,} messages, {tally.rate:,.0f}/s ")
            sys.stderr.flush()

    def _commit(self, bodies: list[bytes]) -> Any:
        """One transaction; if its answer is lost, ask, and send it again if it did not happen."""
        while True:
            tx = self._qm.transaction()
            try:
                tx.send_many(self._destination, bodies, **self._values)
                return tx.commit()
            except errors.InDoubt as error:
                try:
                    outcome = self._qm.outcome(error.transaction)
                except errors.ServiceNotAvailable:
                    raise error from None
                if outcome == "committed":
                    return None
                if outcome != "aborted":
                    raise
            except KeyboardInterrupt:  # the second one: nobody waits for the answer any more
                if not tx.id:
                    raise
                raise in_doubt(tx.id) from None

    def end(self) -> None:
        """Nothing more comes."""
        self.tally.seconds = time.monotonic() - self._began
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _values(
    label: str, priority: int | None, delivery: str | None, app_specific: int | None,
    correlation_id: str, response_queue: str, admin_queue: str, reach: int | None,
    received: int | None, trace: bool, acknowledge: str,
) -> dict[str, Any]:  # fmt: skip
    try:
        correlation = bytes.fromhex(correlation_id) if correlation_id else None
    except ValueError:
        raise errors.IllegalPropertyValue(
            f"--correlation-id {correlation_id!r}: write 20 bytes in hexadecimal"
        ) from None
    values = {
        "label": label or None, "priority": priority, "delivery": delivery,
        "app_specific": app_specific, "correlation_id": correlation,
        "response_queue": response_queue or None, "admin_queue": admin_queue or None,
        "time_to_reach_queue": reach, "time_to_be_received": received,
        "acknowledge": _level(acknowledge), "trace": True if trace else None,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _due(delay: str, at: str) -> dict[str, Any]:
    """From when on messages can be received."""
    if delay and at:
        raise errors.ConfigurationError("say --delay or --at, not both")
    if delay:
        return {"delay": length("--delay", delay)}
    return {"deliver_at": moment("--at", at)} if at else {}


def _level(text: str) -> int | None:
    """The bits of an acknowledgment level by names."""
    level = 0
    for name in filter(None, text.split(",")):
        bits = arguments.ACKNOWLEDGE.get(name.strip().casefold().replace("_", "-"))
        if bits is None:
            known = ", ".join(arguments.ACKNOWLEDGE)
            raise errors.IllegalPropertyValue(f"--acknowledge {name!r}: there are {known}")
        level |= bits
    return level or None


def _endings(dead_letter: bool, journal: bool, dead_letter_queue: str) -> dict[str, Any]:
    """What is to be kept of messages that have ended."""
    bits = (1 if dead_letter or dead_letter_queue else 0) | (2 if journal else 0)
    values: dict[str, Any] = {"journal": bits} if bits else {}
    return values | ({"dead_letter_queue": dead_letter_queue} if dead_letter_queue else {})


def _mode(
    qm: QueueManager, destination: str, *, transactional: bool, recoverable: bool, express: bool
) -> tuple[bool, str | None]:
    """(in transactions?, delivery): as asked, or as every send chooses it (``kind_of_send``)."""
    from onceq.client.plans.send import kind_of_send

    if transactional + recoverable + express > 1:
        raise errors.ConfigurationError("say one of --transactional, --recoverable and --express")
    delivery = "express" if express else "recoverable" if recoverable else None
    if transactional or delivery:
        return transactional, delivery
    return qm._run(kind_of_send(qm._state, destination, {})), None


def send(
    destination: arguments.Target,
    texts: arguments.Texts = None,
    file: arguments.File = None,
    nul: arguments.NulInput = False,
    batch: arguments.SendBatch = 1000,
    transactional: arguments.Transactional = False,
    recoverable: arguments.Recoverable = False,
    express: arguments.Express = False,
    label: arguments.Label = "",
    priority: arguments.Priority = None,
    app_specific: arguments.AppSpecific = None,
    correlation_id: arguments.CorrelationId = "",
    response_queue: arguments.ResponseQueue = "",
    admin_queue: arguments.AdminQueue = "",
    time_to_reach_queue: arguments.TimeToReachQueue = None,
    time_to_be_received: arguments.TimeToBeReceived = None,
    delay: arguments.Delay = "",
    at: arguments.At = "",
    dead_letter: arguments.DeadLetter = False,
    dead_letter_queue: arguments.DeadLetterQueue = "",
    journal: arguments.Journaled = False,
    acknowledge: arguments.AcknowledgeLevel = "",
    trace: arguments.Trace = False,
    traceparent: arguments.TraceParent = "",
    json_body: arguments.JsonBodies = False,
    track: arguments.Track = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Send messages: each line of the input, a whole file, or the texts given.

    Without a mode, messages are sent as a local queue takes them, and in transactions to others.
    Ctrl-C ends it after the commit under way, and says what was committed.
    """
    from onceq.client.plans.send import wishes
    from onceq.model.marks import trace_trailer
    from onceq.model.message import BODY_TYPE

    due = _due(delay, at)
    if traceparent:
        trace_trailer(traceparent)  # one that is none is refused before anything is read
    check_dollar(destination)
    with manager(qm, name=destination) as connection:
        destination = meant(connection, destination)
        in_transactions, delivery = _mode(
            connection, destination, transactional=transactional, recoverable=recoverable,
            express=express,
        )  # fmt: skip
        values = _values(
            label, priority, delivery, app_specific, correlation_id, response_queue, admin_queue,
            time_to_reach_queue, time_to_be_received, trace, acknowledge,
        ) | _endings(dead_letter, journal, dead_letter_queue) | due  # fmt: skip
        if json_body:
            values["body_type"] = BODY_TYPE
        if traceparent:
            values["traceparent"] = traceparent
        if track:
            values = wishes(values, connection.tracking_queue())
        sender = Sender(connection, destination, values, transactional=in_transactions)
        with _source(texts, file, nul=nul) as source, Interruptible() as guard:
            found = checked_json(source) if json_body else source
            _carry_out(sender, Batches(found, batch), guard, json=as_json(json))
        tally = sender.tally
        if track and tally.first_id and not as_json(json):
            last = f" to {tally.last_id}" if tally.last_id != tally.first_id else ""
            out.line(f"tracked: {tally.first_id}{last}; ask 'onceq outcome' what became of it")


class _source:
    """Where messages come from, as an iterator of lists; closes what it opened."""

    def __init__(self, texts: list[str] | None, file: str | None, *, nul: bool) -> None:
        if texts and file:
            raise errors.ConfigurationError("say texts or --file, not both")
        self._texts, self._file, self._nul = texts, file, nul

    def __enter__(self) -> Iterator[list[bytes]]:
        if self._texts:
            return iter([[text.encode("utf-8", "surrogateescape") for text in self._texts]])
        if self._file:
            try:
                with open(self._file, "rb") as file:
                    body = file.read(PACKET_BYTES_MAX + 1)
                    if len(body) > PACKET_BYTES_MAX:
                        # Of what is no plain file nobody can tell before its end how large it is.
                        found = os.fstat(file.fileno())
                        plain = stat.S_ISREG(found.st_mode)
                        size = f"{found.st_size:,} bytes" if plain else "more bytes than that"
                        raise errors.BodyTooLarge(
                            f"{self._file} has {size}, and a packet holds at most "
                            f"{PACKET_BYTES_MAX:,} with its headers; send it in parts"
                        )
                    return iter([[body]])
            except OSError as error:
                raise errors.ConfigurationError(f"{self._file}: {error.strerror}") from None
        if sys.stdin.isatty():
            out.note("each line is a message; end with Ctrl-D")
        return pieces(sys.stdin.fileno(), b"\0" if self._nul else b"\n")

    def __exit__(self, *exc: object) -> None:
        return None


def _carry_out(sender: Sender, found: Batches, guard: Interruptible, *, json: bool) -> None:
    """Send batch after batch, and say at the end what is certain."""
    tally = sender.tally
    waiting: list[bytes] = []
    try:
        for waiting in found:
            with guard.step():
                sender.send(waiting)
            waiting = []
    except KeyboardInterrupt:
        sender.end()
        _summary(tally, json=json, interrupted=True)
        left = found.read - tally.messages
        more = f"; {plural(left, 'message')} read after them were not sent" if left else ""
        out.note(f"interrupted: {_certain(tally)}{more}")
        raise Exit(130) from None
    except errors.OnceqError as error:
        sender.end()
        _summary(tally, json=json, interrupted=True)
        first, last = tally.messages + 1, tally.messages + len(waiting)
        several = tally.messages or len(waiting) > 1
        # Which messages of the input are certain, and which the error is about.
        if several and isinstance(error, errors.InDoubt):
            out.note(
                f"{_certain(tally)}; {first:,} to {last:,} in doubt; none after them sent. 'onceq "
                f"outcome ID' says what became of them; go on with line {last + 1:,} of the input "
                f"if they were committed, else with line {first:,}"
            )
        elif several:
            out.note(f"{_certain(tally)}; none from number {first:,} on was sent")
        raise
    sender.end()
    _summary(tally, json=json)


def _certain(tally: Tally) -> str:
    return f"{plural(tally.messages, 'message')} of the input committed"


def _summary(tally: Tally, *, json: bool, interrupted: bool = False) -> None:
    if json:
        said = {**asdict(tally), "rate": round(tally.rate, 1), "interrupted": interrupted}
        print(dumps(said))
    elif not interrupted:
        count = f"{tally.commits:,} batch{'' if tally.commits == 1 else 'es'}"
        out.line(
            f"sent {plural(tally.messages, 'message')} in {count}, {tally.seconds:.3f} s, "
            f"{tally.rate:,.0f}/s"
        )


# ---- times as people write them: 10m, 2026-12-01T08:00 ------------------------------------------

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NUMBER_MAX: Final = 999_999_999


def length(option: str, text: str) -> timedelta:
    """A length of time: seconds, or a number with s, m, h or d.

    Raises:
        IllegalPropertyValue: It is none; the text names the option.
    """
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    number = read_number(digits, _NUMBER_MAX)
    if number is None:
        raise errors.IllegalPropertyValue(
            f"{option} {text!r}: write a number of seconds, or one with s, m, h or d, such as 10m"
        )
    return timedelta(seconds=number * unit)


def moment(option: str, text: str) -> datetime:
    """A point in time, as ISO 8601 has it; without a time zone it is the local one.

    Raises:
        IllegalPropertyValue: It is none, or the local clock shows it twice or never; the text
            names the option.
    """
    try:
        said = datetime.fromisoformat(text)
        found = said.astimezone()
        other = said.replace(fold=1).astimezone()
    except (ValueError, OverflowError):
        raise errors.IllegalPropertyValue(
            f"{option} {text!r}: write a date and a time, such as 2026-12-01T08:00, which is local "
            "time, or 2026-12-01T08:00Z"
        ) from None
    if said.tzinfo is None and found.utcoffset() != other.utcoffset():
        # The clock changes there: it leaves this time out, or shows it twice (finding K16).
        left_out = found.replace(tzinfo=None) != said
        raise errors.IllegalPropertyValue(
            f"{option} {text!r}: the local clock shows that {'never' if left_out else 'twice'}; "
            f"say {min(found, other).isoformat()} or {max(found, other).isoformat()}"
        )
    return found
