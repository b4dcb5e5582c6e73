"""Making queues, changing and removing them, and looking at them; and jobs on their messages.

It also gives, takes and explains rights and tokens, and reads the trail of who did what.

Upholds: a job that was started runs in the queue manager, also when its client goes away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from onceq import errors
from onceq.client.link import Session
from onceq.client.plans.plan import Plan, ask, do, look_at, look_at_all, look_at_page
from onceq.model import requests
from onceq.model.identity import GUID_BYTES, guid_text
from onceq.model.letters import ALL, Filter
from onceq.model.limits import RETURNS_MAX
from onceq.model.names import parse_path_name
from onceq.model.rights import Right
from onceq.model.views import looks
from onceq.model.views.looks import JobFailure, JobView
from onceq.model.views.managers import (
    ActView,
    GrantView,
    RightView,
    TokenMade,
    TokenView,
    TrailView,
)
from onceq.model.views.queues import ConsumerView, QueueView, RangeAsked, RangeView
from onceq.model.views.view import Page

# ---- queues --------------------------------------------------------------------------------------


def property_values(values: dict[str, Any]) -> dict[str, Any]:
    """Queue properties as they go into a frame; those that are None are left out."""
    plain = {name: value for name, value in values.items() if value is not None}
    kind = plain.get("type")
    if isinstance(kind, UUID):
        plain["type"] = str(kind)
    elif isinstance(kind, (bytes, bytearray)) and len(kind) == GUID_BYTES:
        plain["type"] = guid_text(bytes(kind))
    return plain


def create_queue(
    session: Session,
    /,
    name: str,
    *,
    transactional: bool = False,
    label: str = "",
    quota_kb: int | None = None,
    exist_ok: bool = False,
    **more: Any,
) -> Plan[QueueView]:
    """Make a queue; it stays transactional, or not, from then on.

    Args:
        name: Such as ``private$\\orders``.
        quota_kb: Most that it may hold, in KiB; None: no limit.
        exist_ok: A queue of that name and kind may be there already.
        more: journal, journal_quota_kb, type, base_priority, authenticate, priv_level, as in
            ``set_queue``.

    Raises:
        QueueExists, IllegalPathName, IllegalPropertyValue.
    """
    path = parse_path_name(name)
    if not path.queue or path.subqueue or path.is_read_only:
        raise errors.IllegalPathName(f"{name!r} is not a queue that can be made")
    values: dict[str, Any] = {"name": path.queue, "transactional": transactional, "label": label}
    if not path.private:
        values["private"] = False
    values |= property_values({"quota_kb": quota_kb, **more})
    try:
        yield from do(requests.CreateQueue(values))
    except errors.QueueExists:
        if not exist_ok:
            raise
        there = yield from queue(session, name)
        if there.transactional != transactional:
            raise
        return there
    return (yield from queue(session, name))


def set_queue(session: Session, /, name: str, **values: Any) -> Plan[QueueView]:
    """Change properties of a queue: all that are named, or none.

    Args:
        values: label, quota_kb, journal, journal_quota_kb, type (a GUID), base_priority,
            authenticate, priv_level (PRP-7). ``transactional`` cannot be changed.

    Returns:
        The queue after the change.

    Raises:
        PropertyNotAllowed, IllegalPropertyId, IllegalPropertyValue, EncryptionNotSupported,
        AuthenticationNotSupported, MulticastNotSupported, QueueNotFound.
    """
    yield from do(requests.SetQueue(name, property_values(values)))
    return (yield from queue(session, name))


def set_poison_policy(
    session: Session,
    queue: str,
    *,
    attempts: int = 3,
    retry_after: int = 0,
    retries: int = 1,
    then: str = "move:poison",
) -> Plan[QueueView]:
    """What becomes of a message whose receive is undone again and again; kept with the queue.

    Args:
        attempts: How many aborts are too many; 0 switches the policy off.
        retry_after: Seconds in the subqueue ``retry``, after which it is tried again; 0: it is not.
        retries: How often it is tried again.
        then: In the end: "move:SUBQUEUE", "dead-letter" (refused, and kept in the dead-letter queue
            of this computer) or "reject" (refused: its sender is told, if it asked).

    Returns:
        The queue after the change.
    """
    return set_queue(
        session, queue, poison_attempts=attempts, poison_retry_after=retry_after,
        poison_retries=retries, poison_then=then,
    )  # fmt: skip


def delete_queue(session: Session, name: str) -> Plan[int]:
    """Delete a queue; returns how many messages went with it. Raises QueueNotFound."""
    session.destinations.clear()
    return ask(requests.DeleteQueue(name), int)


def purge(session: Session, name: str) -> Plan[int]:
    """Remove the messages of a queue, or of an outgoing queue; returns how many. Those that a
    transaction holds go when it ends without them, and do not count."""
    return ask(requests.PurgeQueue(name), int)


def queue(session: Session, name: str) -> Plan[QueueView]:
    """One queue; raises QueueNotFound."""
    return look_at(looks.QUEUE, name)


def count_range(
    session: Session, queue: str, first: int, last: int, *, messages: int = 0, bytes: int = 0
) -> Plan[RangeView]:
    """Count what is in a range of places, up to the first message that a transaction holds.

    Places from which messages have gone are no messages, and none of them is looked at singly. A
    long range is asked for in portions, so it may change meanwhile; what comes in behind ``last``
    is never in it.

    Args:
        first, last: Lookup identifiers, both included.
        messages: End behind this number of messages; 0: do not.
        bytes: End before more bytes of packets than this, but behind one message at least; 0: do
            not, and do not count them.

    Raises:
        QueueNotFound.
        InvalidParameter: Also from a queue manager that is older than this request.
    """
    after, total = first - 1, RangeView(to=first - 1)
    while True:
        size = bytes - total.bytes
        if bytes and size <= 0:
            return total
        asked = RangeAsked(queue, after, last, messages and messages - total.messages, size)
        some = yield from look_at(looks.RANGE, asked.text())
        if bytes and total.messages and some.bytes > size:
            # Its first message alone is too large, and is not the first of all.
            return total
        total = total.and_then(some)
        if not some.more or (messages and total.messages >= messages):
            return total
        after = some.to


def queues(session: Session, *, only: str = "", part: str = "") -> Plan[list[QueueView]]:
    """All queues of this manager, subqueues and system queues included, as they were made.

    Args:
        only: "" is all of them; "used" those that are no empty system queues; "busy" those in which
            something is, or that are paused; "poison" the subqueues in which messages are that were
            received too often without success.
        part: Only those with this in their names.

    Raises:
        InvalidParameter: There is no such part of the list.
    """
    return look_at_all(session, looks.QUEUES, only=only, part=part)


def queue_page(
    session: Session,
    *,
    sort: str = "",
    only: str = "",
    part: str = "",
    after: str = "",
    limit: int = 0,
) -> Plan[Page[QueueView]]:
    """Some of the queues of this manager, sorted: as many as are looked at.

    Args:
        sort: "number" (as they were made), "name", "messages" (the most first), "bytes" or "oldest"
            (the one with the oldest message first).
        only, part: See ``queues``.
        after: ``next`` of the page before; "" is the first page.
        limit: The most; 0: as many as go on a page (``VIEWS_AT_ONCE``).

    Returns:
        A page: ``views``, ``next``, and ``of``, which is how many there are on all pages if they
        are sorted otherwise than by number.

    Raises:
        InvalidParameter: There is no such order, part of the list, or page.
    """
    return look_at_page(
        session, looks.QUEUES, sort=sort, only=only, part=part, after=after, limit=limit
    )


def consumers(session: Session, queue: str) -> Plan[list[ConsumerView]]:
    """List who works on a queue now: the holders of its messages, the oldest first, then those who
    wait at it, and then those who have only opened it. A user who may look at the queue, but not at
    the whole queue manager, sees only their own entries.

    Raises:
        QueueNotFound: There is no such queue here.
        InvalidParameter: The queue manager is of an older version, which does not tell it.
    """
    return look_at(looks.CONSUMERS, queue)


LOOK_S: Final = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Who waits for a job looks at it after these times; the last one is repeated."""


def start_job(
    session: Session, /, action: str, *queues: str, which: Filter = ALL, to: str = "",
    limit: int = 0, returns_max: int = RETURNS_MAX, in_doubt: bool = False, second: bool = False,
) -> Plan[JobView]:  # fmt: skip
    """Do something to the messages that are in some queues now: as a job of the queue manager,
    which goes on when this application has gone, and after a crash.

    Args:
        action: ``return`` (to its destination), ``purge``, ``move`` (to another queue), or
            ``send-as-new`` (to its destination, and the message stays).
        queues: Such as ``onceq.letters.DEAD_XACT``.
        which: What fits is meant (``onceq.letters.filter_of``); ages count from now.
        to: Another destination for all of them; ``move`` needs one.
        limit: After how many it ends; 0: when all were looked at.
        returns_max: What was returned so often stays.
        in_doubt, second: Also letters that may have been received; also those of which their
            sender has another one.

    Returns:
        number, state, total, looked, done, ...; once the job is durable.

    Raises:
        AccessDenied: The caller might not do that by hand.
        QueueNotFound: There is no such queue.
        InvalidParameter: It makes no sense.
        InsufficientResources: JOBS_RUNNING_MAX jobs are running.
    """
    request = requests.StartJob(
        action, list(queues), to, limit, returns_max, in_doubt, second, which.reason,
        which.destination, which.label, which.origin, which.older_s, which.younger_s, which.id,
    )  # fmt: skip
    return ask(request, JobView)


def jobs(session: Session) -> Plan[list[JobView]]:
    """Jobs that run, and the last that are over, the oldest first, without ``failures``."""
    return look_at(looks.JOBS)


def job(session: Session, number: int) -> Plan[JobView]:
    """One job, and its first JOB_FAILURES_MAX ``failures``; raises InvalidParameter."""
    return look_at(looks.JOB, str(number))


def job_destinations(session: Session, job: JobView) -> Plan[list[str]]:
    """Where the messages of a job's ``failures`` were going, one for each; a job may have sent them
    elsewhere. A job keeps no destinations: each message is looked at where it stands.

    Returns:
        The destination of each; "" for one that does not stand there any more, or may not be looked
        at.
    """
    found: list[str] = []
    hidden: set[str] = set()
    for one in job.failures:
        destination = ""
        if one.queue not in hidden:
            try:
                destination = yield from _destination(session, one)
            except (errors.Refused, errors.UsageError):
                # The others in it are not asked for: each refusal would be an act on record.
                hidden.add(one.queue)
        found.append(destination)
    return found


def _destination(session: Session, one: JobFailure) -> Plan[str]:
    # Who only looks at jobs reads no messages, and does not wait until what reads them is loaded.
    from onceq.client.plans.receive import peek_headers

    try:
        page = yield from peek_headers(session, one.queue, 1, after=max(one.lookup_id - 1, 0))
    except errors.ReceiveTimeout:
        return ""
    message = page[0].message
    return message.destination if message.lookup_id == one.lookup_id else ""


def cancel_job(session: Session, number: int) -> Plan[JobView]:
    """End a job between two batches: what is done stays done. One that is over does not change.

    Raises:
        AccessDenied: Somebody else has started it, and the caller does not operate the queue
            manager.
        InvalidParameter: There is none of that number.
    """
    return ask(requests.CancelJob(number), JobView)


def pauses() -> Iterator[float]:
    """Seconds between two looks at a job."""
    yield from LOOK_S
    while True:
        yield LOOK_S[-1]


# ---- rights --------------------------------------------------------------------------------------
#
# Rights and tokens through a connection: give them, take them away, look at them, ask why; and the
# trail of who did what.


Words = str | Right | Iterable[str | Right]
"""One right or several: their words, with commas between them or one by one."""


def grant(
    session: Session, who: str, rights: Words, queue: str = "", *, everywhere: bool = False
) -> Plan[None]:
    """Let somebody do something from now on.

    Args:
        who: Name of an account, or ``token:NAME``, ``certificate:NAME``, ``peer:GUID``; ``*`` in
            it stands for any characters, and alone for everybody who has a name.
        rights: Such as ``"send,peek"``; the reference lists them.
        queue: Its name, or a pattern such as ``private$\\\\orders*``; "" for rights over the whole
            queue manager.
        everywhere: In the directory, for every queue manager that shares it: to certificates, other
            queue managers and ``*`` alone, and no right to run a queue manager or to give rights.

    Raises:
        AccessDenied: The caller may not give these rights.
        InvalidParameter: It is no name, no right, or no place for these rights.
        DirectoryError: The directory could not be changed.
        NoDirectory, UnsupportedOperation: It cannot be read, or there is none.
    """
    return do(requests.SetRights(who, words_of(rights), queue, everywhere=everywhere))


def revoke(
    session: Session, who: str, rights: Words, queue: str = "", *, everywhere: bool = False
) -> Plan[None]:
    """Take rights away that were given by these words; see ``grant``.

    What is open is looked at again: receives that wait end, and a transaction is judged when it
    commits. What was given in the directory is taken away with ``everywhere`` alone, and what was
    given here without it.
    """
    request = requests.SetRights(who, words_of(rights), queue, take=True, everywhere=everywhere)
    return do(request)


def rights(session: Session, queue: str = "") -> Plan[list[GrantView]]:
    """All grants, or those that are about a queue."""
    return look_at_all(session, looks.RIGHTS, queue)


def explain_right(
    session: Session, right: str | Right, queue: str = "", *, who: str = ""
) -> Plan[RightView]:
    """Whether somebody may do something, and why or why not, in one sentence.

    Args:
        queue: Its name, as patterns have it; "" for the whole queue manager.
        who: "": the one who asks.
    """
    (word,) = words_of(right)
    return ask(requests.ExplainRight(who, word, queue), RightView)


def trail(session: Session, after: int = 0) -> Plan[list[ActView]]:
    """The audit trail: the acts of administration that are kept, in their order.

    Args:
        after: Only those behind this number.
    """
    found: list[ActView] = []
    while some := (yield from look_at(looks.TRAIL, str(found[-1].number if found else after))):
        found += some
    return found


def trail_end(session: Session) -> Plan[TrailView]:
    """The digest of the last act of administration, and what is held of the trails of others."""
    return look_at(looks.TRAIL_END)


def words_of(rights: Words) -> list[str]:
    """The words of one right or several."""
    if isinstance(rights, Right):
        return [rights.value]
    if isinstance(rights, str):
        return [word for part in rights.split(",") if (word := part.strip())]
    return [one.value if isinstance(one, Right) else one for one in rights]


def create_token(
    session: Session,
    name: str,
    *,
    expires: float | timedelta | None = None,
    grants: Mapping[str, Words] | None = None,
) -> Plan[TokenMade]:
    """Make a token, by which an application says that it is ``token:NAME``.

    Args:
        name: Of the token, by which rights are granted to it: letters, digits, ``.``, ``_``, ``-``.
        expires: Seconds after which it is no longer good; None: it does not expire.
        grants: Rights that it has from the first moment on: by the name of a queue, or a pattern,
            ``"send,peek"``; by "" rights over the whole queue manager. More can be granted later.

    Returns:
        name, token, expires_s. The token is shown this once; make another one if it is lost.

    Raises:
        AccessDenied: The caller does not administer the queue manager.
        InvalidParameter: There is one of that name; or it is no name, no right, or no time.
    """
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    if seconds is not None and seconds < 1:
        raise errors.InvalidParameter(
            f"a token is good for a second or longer, not for {seconds} s"
        )
    given = [(",".join(words_of(rights)), queue) for queue, rights in (grants or {}).items()]
    return ask(requests.CreateToken(name, int(seconds or 0), given), TokenMade)


def tokens(session: Session) -> Plan[list[TokenView]]:
    """All tokens, by name: name, made_s, expires_s, expired, connections. Nobody is told a secret
    again."""
    return look_at_all(session, looks.TOKENS)


def revoke_token(session: Session, name: str) -> Plan[int]:
    """Take a token back, and with it what was granted to ``token:NAME``.

    Connections that came with it are cut at once; what was open on them ends as it does when an
    application is lost.

    Returns:
        How many connections those were.

    Raises:
        AccessDenied: The caller does not administer the queue manager.
        InvalidParameter: There is none of that name.
    """
    return ask(requests.RevokeToken(name), int)
