"""Requests of operators: views, outgoing queues, other managers, backups.

Also here:

* Requests about jobs: start one, and cancel one.
* Requests about rights: give them, take them away, and ask why somebody may do something.
* Requests about tokens: make one, and take one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model import limits, rights
from onceq.model.letters import JobAction, Order, filter_of
from onceq.model.names import elements_of
from onceq.model.patterns import ActorPattern, queue_name
from onceq.model.record import repr_without
from onceq.model.requests.request import (
    COUNT,
    Needs,
    Request,
    check_lookups,
    choice,
    is_text,
    quoted,
)
from onceq.model.tokens import token_name
from onceq.model.views.looks import LOOKS, JobView
from onceq.model.views.managers import (
    BackupHold,
    ClockAccepted,
    PeerView,
    Reloaded,
    RightView,
    TokenMade,
)
from onceq.model.views.queues import StreamReset


class Look(Request):
    """Read the state. Answer: the view named (``core/management/views.py``).

    Attributes:
        what: A word of ``model/views/looks.py``.
        name: The subject of the view.
        after: Of a list that is read a page at a time: ``next`` of the page before; "" is the first
            page.
        limit: The most entries of a page; 0: as many as a page can have.
        sort: The order of the list; "": the order that costs least.
        only: A part of the list; "": all.
        part: Of queues and outgoing queues, those with this in their names.
    """

    code = 16
    needs = Needs.STATE
    what: str
    name: str = ""
    after: str = ""
    limit: int = 0
    sort: str = ""
    only: str = ""
    part: str = ""

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if not 0 <= self.limit < 1 << 31:
            raise InvalidParameter(f"a page of {self.limit} is none")

    def answer_type(self) -> object:
        """The kind of its view."""
        look = LOOKS.get(self.what.lower())
        return COUNT if look is None else look.kind


class Steer(Enum):
    """What an operator may do to an outgoing queue, and, from DISCONNECT on, to the manager.

    PAUSE and RESUME are for a queue of the manager, too, and RELEASE is for such a one alone.
    """

    PAUSE = "pause"
    RESUME = "resume"
    RESEND = "resend"
    RELEASE = "release"
    DISCONNECT = "disconnect"
    CONNECT = "connect"
    TIDY = "tidy"
    FORGET_UNANSWERED = "forget-unanswered"
    RELOAD = "reload"
    DROP_DAMAGED = "drop-damaged"
    SCRUB = "scrub"
    SCRUB_STOP = "scrub-stop"


class SteerOutgoing(Request):
    """Pause, resume or resend; or, with no destination, an action of the whole manager.

    Answer: None; of RELEASE how many holds ended, of TIDY how many outgoing queues went, of
    FORGET_UNANSWERED and DROP_DAMAGED how many messages, of RELOAD what changed (the host's).

    Attributes:
        destination: Of DROP_DAMAGED the number of an entry ("": all), of SCRUB the bytes a second
            ("": as the setting ``scrub_bytes_s`` says).
        action: As text until it is checked: capitals do not matter, nor does MSMQ's "EOD_".
    """

    code = 15
    needs = rights.Right.OPERATE
    destination: str
    action: Steer | str

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if isinstance(self.action, str):
            self.action = choice(Steer, self.action.lower().removeprefix("eod_"))

    def answer_type(self) -> object:
        """A RELOAD says what changed."""
        action = self.action
        text = action.lower() if isinstance(action, str) else action.value
        return Reloaded if text == Steer.RELOAD.value else COUNT


class ResetStream(Request):
    """Set back what is known of one sender's messages to one queue. Answer: StreamReset.

    Attributes:
        queue: Name of a local queue, or of the stream's destination as ``stream list`` shows it.
        source: The sender: its name, or the beginning of its GUID.
        reason: Why; it is recorded.
        whole: Forget everything, also what is known of the stream before.
        dry_run: Only say what would happen.
    """

    code = 30
    needs = rights.Right.OPERATE
    answer = StreamReset
    queue: str
    source: str
    reason: str
    whole: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_reason(self.reason)


class ForgetPeer(Request):
    """Bind a name to the manager that answers next under it. Answer: the PeerView from before.

    Attributes:
        name: As ``peer list`` shows it, such as ``os:beta``, the name of a computer, or an address
            of ``plain_peers``.
        to: GUID of the queue manager that it means from now on; "": the one that answers next.
    """

    code = 54
    needs = rights.Right.OPERATE
    answer = PeerView
    name: str
    dry_run: bool = False
    to: str = ""


class AcceptClock(Request):
    """Take the streams of a manager whose clock was ahead when it started. Answer: ClockAccepted.

    Attributes:
        source: The manager: its name, or the beginning of its GUID.
        reason: Why; it is recorded.
        dry_run: Only say what would happen.
    """

    code = 55
    needs = rights.Right.OPERATE
    answer = ClockAccepted
    source: str
    reason: str
    dry_run: bool = False

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_reason(self.reason)


class Grip(Enum):
    """What is asked of a hold."""

    BEGIN = "begin"
    KEEP = "keep"
    END = "end"


class HoldLog(Request):
    """Hold the files of the log as they are now, go on holding them, or let them go.

    The core keeps nothing of it: what a backup copies is what is durable, and that is the engine's
    and the store's. Only the order is the core's: a cut is made after everything that was decided
    before.

    Attributes:
        number: Which hold, as BEGIN has answered; 0 for BEGIN.
    """

    code = 29
    needs = rights.Right.OPERATE
    verb: Grip
    number: int = 0

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.verb = choice(Grip, self.verb)
        check_lookups(self.number)

    def answer_type(self) -> object:
        """A BEGIN says what it holds."""
        return BackupHold if self.verb is Grip.BEGIN else COUNT


def _check_reason(reason: str) -> None:
    if not is_text(reason):
        raise InvalidParameter(f"{quoted(reason)} is no reason that can be kept")


# ---- jobs ----------------------------------------------------------------------------------------


_ACTIONS: Final = tuple(one.value for one in JobAction)


class _StartJob(Request, kw_only=True):
    """Of the start of a job, what the service and the core fill in."""

    order: Order | None = None
    number: int = 0


class StartJob(_StartJob):
    """Do something to the present messages of some queues. Answer: a JobView, once durable.

    Attributes:
        action: As text until it is checked.
        queues: Local ones, in the order in which they are worked off.
        to, limit, returns_max, in_doubt, second: As in ``model/jobs.Order``.
        reason, destination, label, origin, older_s, younger_s, id: Which messages are meant, as in
            ``model/letters.Filter``; "" and 0: whichever.
        order: What they say.
        number: Of the job that was made.
    """

    code = 39
    needs = Needs.STATE
    answer = JobView
    action: JobAction | str
    queues: Sequence[str]
    to: str = ""
    limit: int = 0
    returns_max: int = 1
    in_doubt: bool = False
    second: bool = False
    reason: str = ""
    destination: str = ""
    label: str = ""
    origin: str = ""
    older_s: int = 0
    younger_s: int = 0
    id: str = ""

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if isinstance(self.action, str) and self.action not in _ACTIONS:
            raise InvalidParameter(
                f"there is no action {quoted(self.action)}; say one of {', '.join(_ACTIONS)}"
            )
        action = self.action = choice(JobAction, self.action)
        if not 1 <= len(self.queues) <= limits.JOB_QUEUES_MAX:
            raise InvalidParameter(f"a job is about 1 to {limits.JOB_QUEUES_MAX} queues")
        for text in (self.reason, self.destination, self.label, self.origin):
            if len(text) > limits.JOB_TEXT_CHARS_MAX:
                raise InvalidParameter(f"{quoted(text)} is longer than any message has it")
        for name in (*self.queues, self.to):
            if len(name) > limits.FORMAT_NAME_CHARS_MAX:
                raise InvalidParameter(f"{quoted(name)} is longer than any name")
        if self.to:
            elements_of(self.to)
        which = filter_of(
            reason=self.reason, destination=self.destination, label=self.label,
            origin=self.origin, older_s=self.older_s, younger_s=self.younger_s, id=self.id,
        )  # fmt: skip
        self.order = Order(
            action, which, self.to, self.limit, self.returns_max, self.in_doubt, self.second
        )
        self.order.check()


class CancelJob(Request):
    """Let a job end between two batches; what is done stays done. Answer: a JobView; of one that
    was over before how it had ended.
    """

    code = 40
    needs = Needs.STATE
    answer = JobView
    number: int


# ---- rights --------------------------------------------------------------------------------------


_UNCHECKED: Final = rights.Grant(ActorPattern.exactly(""), frozenset())
"""What nobody has asked for yet."""


class _SetRights(Request, kw_only=True):
    """Of a change of rights, what the service fills in."""

    grant: rights.Grant = _UNCHECKED
    guid: bytes = b""


class SetRights(_SetRights):
    """Give rights, or take them away. Answer: None, once durable (``everywhere``: once the
    directory says so).

    Attributes:
        who: As ``model/rights.py`` has it; a name alone means an account.
        words: Rights.
        pattern: Of names of queues; "" for rights over the whole queue manager.
        take: Take them away, instead.
        everywhere: In the directory, for every queue manager that shares it.
        grant: What the words say.
        guid: Of the directory's book of rights if this is its beginning, which the service draws.
    """

    code = 35
    needs = Needs.STATE
    who: str
    words: Sequence[str]
    pattern: str = ""
    take: bool = False
    everywhere: bool = False

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if not self.take:
            rights.check_word(self.who)
        grant = rights.grant_of(self.who, self.words, self.pattern)
        if not self.take:
            rights.check_given(grant)
            if self.everywhere:
                rights.check_shareable(grant)
        self.who, self.pattern, self.grant = str(grant.who), str(grant.pattern), grant


class _ExplainRight(Request, kw_only=True):
    """Of a question about a right, what the service fills in."""

    right: rights.Right = rights.Right.ADMINISTER


class ExplainRight(_ExplainRight):
    """May somebody do something? Answer: a RightView.

    Attributes:
        who: One actor; "" for the one who asks.
        word: A right.
        queue: Name of a queue; "" for the whole queue manager.
    """

    code = 36
    needs = Needs.STATE
    answer = RightView
    who: str
    word: str
    queue: str = ""

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if self.who:
            who = rights.actor_pattern(self.who).name
            if who is None:
                raise InvalidParameter("ask about one, not about a pattern")
            self.who = who
        (self.right,) = rights.rights_of([self.word])
        self.queue = queue_name(self.queue) if self.queue else ""


# ---- tokens --------------------------------------------------------------------------------------


class _CreateToken(Request, kw_only=True):
    """Of the making of a token, what the service fills in."""

    secret: bytes = b""
    given: Sequence[SetRights] = ()


class CreateToken(_CreateToken):
    """Make a token. Answer: a TokenMade, once durable; nobody can be told its secret later.

    Attributes:
        name: Of the token; grants to it are made to ``token:NAME``.
        age_s: Seconds after which it is no longer good; 0: it does not expire.
        grants: Rights that it has from the first moment on: their words with commas, and the
            names of queues as ``SetRights`` has them.
        secret: Random bytes.
        given: What the grants say.
    """

    code = 37
    needs = rights.Right.ADMINISTER
    answer = TokenMade
    name: str
    age_s: int = 0
    grants: Sequence[tuple[str, str]] = ()

    __repr__ = repr_without("secret")

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.name = token_name(self.name)
        if not 0 <= self.age_s <= limits.TOKEN_AGE_S_MAX:
            raise InvalidParameter(
                f"a token is good for 1 to {limits.TOKEN_AGE_S_MAX} seconds, or without end (0)"
            )
        if len(self.grants) > limits.TOKEN_GRANTS_MAX:
            raise InvalidParameter(
                f"more than {limits.TOKEN_GRANTS_MAX} grants with a token; "
                "use patterns, or grant later"
            )
        who = f"{rights.ActorKind.TOKEN.value}:{self.name}"
        self.given = [SetRights(who, words.split(","), queue) for words, queue in self.grants]
        for one in self.given:
            one.check()


class RevokeToken(Request):
    """Take a token back, and what was granted to it by its name. Connections that came with it are
    cut. Answer: how many those were, once durable.
    """

    code = 38
    needs = rights.Right.ADMINISTER
    name: str

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.name = token_name(self.name)
