"""Views of a queue manager as a whole: its status, settings, rights, tokens, trail, and its peers.

Times are seconds since 1970 UTC, 0 meaning never, and sizes are bytes, where nothing else is said.
"""

from __future__ import annotations

from typing import Annotated

from onceq.model.identity import guid_text
from onceq.model.record import field, repr_without
from onceq.model.views.view import Column, View


class Restored(View, frozen=True):
    """The last restore of a queue manager.

    Attributes:
        at_s: When it was.
        taken_s: When its backup was taken; what happened later is undone.
        position: Where the log ended then.
        previous: GUID of the queue manager that the backup is of, in hexadecimal digits, if this
            one is another; "" if it is the same.
        aside: Messages that waited for other queue managers then and were set aside, because the
            one that the backup is of sends them.
        told: Whether the operator was told of it, at the first start.
        jobs: Of the one that the backup is of, which were cancelled because this one is another.
        promises: Its prepared branches, which were undone here.
        tokens: Its tokens, which are not good here.
    """

    at_s: int = 0
    taken_s: int = 0
    position: int = 0
    previous: str = ""
    aside: int = 0
    told: bool = False
    jobs: int = 0
    promises: int = 0
    tokens: int = 0


class UndoneView(View, frozen=True):
    """Another queue manager that knows of something that a restore has undone here.

    Attributes:
        id: Its GUID.
        name: Its name; "" if that is not known.
        what: What it has shown.
        since: When it did so first.
    """

    id: str = ""
    name: str = ""
    what: str = ""
    since: int = 0


class ClashView(View, frozen=True):
    """One identity that two queue managers use (I25).

    Attributes:
        id: The GUID.
        name: The name that goes with it; "" if that is not known.
        found: What was found.
        since: When it was noticed first.
        last: When it was noticed last.
        count: How often.
    """

    id: str = ""
    name: str = ""
    found: str = ""
    since: int = 0
    last: int = 0
    count: int = 0


class StatusView(View, frozen=True):
    """A queue manager at a glance.

    Attributes:
        name: Its computer name.
        id: Its GUID.
        queues: How many it has, system queues and subqueues not counted.
        messages: How many are in them.
        bytes: Of all messages that it holds.
        outgoing: How many outgoing queues it has.
        outgoing_messages: How many messages are in them.
        sessions: Connections with other queue managers.
        transactions: Those that are open.
        waiting_readers: Receives and peeks that wait for a message.
        streams: Incoming streams that it remembers.
        log_position: Where its log ends.
        space_low: Whether its disk is nearly full.
        dead_letters: Messages in the dead-letter queue.
        transactional_dead_letters: Messages in the transactional dead-letter queue.
        poison_messages: Messages that policies have moved aside, because their receives
            were aborted too often.
        offline_since: When an operator has disconnected it; 0: it is not disconnected.
        damaged_messages: Those that were set aside because their stored bytes are damaged.
        restored: The restore that it comes from; None: from none.
        undone: Who knows of what that has undone.
        disbelieved: What other queue managers said since the start that does not count, and how
            often.
        life: A GUID that is another one after each start.
        clashes: Identities, its own or others', that two queue managers use.
        tls: Whether it has an identity, and speaks TLS with other queue managers.
        certificate_ends: Until when its certificate is good; 0: it has none that is good now.
        certificate_problem: Why nobody believes its certificate; "" if there is no reason.
        plain_peers: Addresses that may speak without proving who they are.
        rights_trouble: Why it does not follow what the directory says of rights, and goes on with
            what it has read before; "": it follows, or there is nothing to follow.
        trail_trouble: Why acts of administration wait that are to be told outside; "": none does.
        trail_lost: Acts that went before they were told, since the start.
        directory_trouble: Why it cannot read the directory now; "": it can, or has none.
        failing: Queues of which a consumer says that it can handle no message, and what it says.
        failing_others: How many more such queues there are.
        started: When it was started (seconds since 1970); 0: an older one, which does not say it.
        wrong_names: What is wrong with names of computers, its own among them: a sentence with
            the cure for each, and how often it was met since the start.
        silent_s: Seconds without a word after which the other side of a connection is lost; 0: an
            older one, which does not say it.
    """

    name: str = ""
    id: str = ""
    queues: int = 0
    messages: int = 0
    bytes: int = 0
    outgoing: int = 0
    outgoing_messages: int = 0
    sessions: int = 0
    transactions: int = 0
    waiting_readers: int = 0
    streams: int = 0
    log_position: int = 0
    space_low: bool = False
    dead_letters: int = 0
    transactional_dead_letters: int = 0
    poison_messages: int = 0
    offline_since: int = 0
    damaged_messages: int = 0
    restored: Restored | None = None
    undone: tuple[UndoneView, ...] = ()
    disbelieved: dict[str, int] = field(default_factory=dict)
    life: str = ""
    clashes: tuple[ClashView, ...] = ()
    tls: bool = False
    certificate_ends: int = 0
    certificate_problem: str = ""
    plain_peers: tuple[str, ...] = ()
    rights_trouble: str = ""
    started: int = 0
    silent_s: int = 0
    wrong_names: dict[str, int] = field(default_factory=dict)
    directory_trouble: str = ""
    trail_trouble: str = ""
    trail_lost: int = 0
    failing: dict[str, str] = field(default_factory=dict)
    failing_others: int = 0


class TransactionView(View, frozen=True):
    """One transaction that is open.

    Attributes:
        owner: Number of the connection that began it.
        number: Its number in that connection.
        began: When it began.
        sent: Messages that it has sent so far.
        received: Messages that it has received.
        bytes: Size of the messages that it has sent.
        who: Who has begun it, such as ``account:anna``; "": a program in the queue manager's own
            process.
        place: From where: an address, or ``local``, with the process if that is known,
            and the person for whom it says that it works.
    """

    owner: Annotated[int, Column("application")] = 0
    who: Annotated[str, Column("who")] = ""
    number: Annotated[int, Column("transaction", leaves=4)] = 0
    began: Annotated[int, Column("open for", "since")] = 0
    sent: Annotated[int, Column("sent", leaves=2)] = 0
    received: Annotated[int, Column("received", leaves=3)] = 0
    bytes: Annotated[int, Column("bytes", "bytes", leaves=1)] = 0
    place: str = ""


class PeerView(View, frozen=True):
    """Who answers under a name that was connected to.

    Attributes:
        name: The name, such as ``os:beta``.
        id: GUID of the queue manager that answers there.
        since: When it first answered there.
        connected: Whether it is connected now.
    """

    name: Annotated[str, Column("name")] = ""
    id: Annotated[str, Column("queue manager")] = ""
    since: Annotated[int, Column("since", "moment")] = 0
    connected: Annotated[bool, Column("connected")] = False

    @property
    def title(self) -> str:
        """The name as people write it: of a computer, an address, or a queue (``PUBLIC=...``)."""
        kind, _, rest = self.name.partition(":")
        return f"PUBLIC={guid_text(bytes.fromhex(rest))}" if kind == "public" else rest


class ClockAccepted(View, frozen=True):
    """A queue manager whose streams from the future are taken.

    Attributes:
        id: Its GUID.
        name: Its name; "" if that is not known.
        begun: The second in which the latest stream that was refused claims to begin.
        until: The last second in which a stream of it may begin from now on.
        reason: Why, as the operator has said.
        dry_run: Whether nothing has changed.
    """

    id: str = ""
    name: str = ""
    begun: int = 0
    until: int = 0
    reason: str = ""
    dry_run: bool = False


class ListView(View, frozen=True):
    """A distribution list.

    Attributes:
        name: Name of the list.
        format_name: Format name to send to.
        members: Format names of queues and of other lists.
    """

    name: Annotated[str, Column("list")] = ""
    format_name: Annotated[str, Column("format name")] = ""
    members: Annotated[tuple[str, ...], Column("members", "count")] = ()


class NameView(View, frozen=True):
    """What one name means, and why.

    Attributes:
        depth: How many lists deep it stands.
        name: The name, as onceq writes it.
        kind: ``direct``, ``private``, ``public``, ``machine``, ``connector``, ``list`` or
            ``multicast``.
        leads_to: ``here``, ``elsewhere``, ``list``, or ``nobody``: a send is refused.
        rule: Why: the rule or the setting that says so.
        queue: Path of the queue there, if it is known; of a list its name.
        manager: Computer name of the queue manager; if nobody has said one, the name by which it
            is looked for.
        manager_id: Its GUID; "": nobody has answered yet, and no directory says it.
        address: Where it is connected to, "host:port" or a URL; "": not known, or not to be seen.
        address_by: Who says that: ``[peers]``, the directory, or the system.
        session: Address of the other side of the session that serves it now; "": there is none.
        outgoing: The outgoing queue that a message to it has, or would have.
        becomes: In a list: its members, or that another name means the same queue; of a public
            queue its direct name.
    """

    depth: int = 0
    name: str = ""
    kind: str = ""
    leads_to: str = ""
    rule: str = ""
    queue: str = ""
    manager: str = ""
    manager_id: str = ""
    address: str = ""
    address_by: str = ""
    session: str = ""
    outgoing: str = ""
    becomes: str = ""


class DamageView(View, frozen=True):
    """Neighbouring messages that were set aside because their stored bytes are damaged.

    Attributes:
        number: Number of this entry, for ``drop_damaged``.
        queue: The queue that they were in.
        lookup: Lookup identifier of the first message.
        count: Number of messages.
        bytes: Size of all of them.
        address: Where in the log the damage is.
        at: When the damage was found.
        reason: Message class that says what became of them; 0: nothing yet.
    """

    number: Annotated[int, Column("number")] = 0
    queue: Annotated[str, Column("queue", "name")] = ""
    lookup: Annotated[int, Column("lookup", "hex", leaves=3)] = 0
    count: Annotated[int, Column("messages")] = 0
    bytes: Annotated[int, Column("bytes", "bytes", leaves=1)] = 0
    address: int = 0
    at: Annotated[int, Column("set aside", "moment", leaves=2)] = 0
    reason: Annotated[int, Column("ended as", leaves=4)] = 0


class ScrubView(View, frozen=True):
    """A look at every stored byte: the one that runs, or the last one.

    Attributes:
        running: Whether it still looks.
        began: When it began; 0: there was none since the start.
        ended: When it ended; 0: not yet.
        bytes: Looked at so far.
        total: To be looked at.
        damaged: Damaged places found.
        stopped: Whether it ended before it had seen everything.
    """

    running: bool = False
    began: int = 0
    ended: int = 0
    bytes: int = 0
    total: int = 0
    damaged: int = 0
    stopped: bool = False


class Reloaded(View, frozen=True):
    """What came of reading the configuration again.

    Attributes:
        changed: What is different from now on, one text for each setting.
        restart: What is taken at the next start.
    """

    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


class StoreCut(View, frozen=True):
    """A store as of one position of its log: what a backup copies.

    Attributes:
        path: Its directory.
        position: Everything before it is durable, and nothing behind it belongs to the cut.
        epoch: No frame before it has a newer one.
        checkpoint: What the newest checkpoint covers; there is none if it has no file.
        segments: (base, end, bytes of the file) of each segment.
    """

    path: str = ""
    position: int = 0
    epoch: int = 0
    checkpoint: int = 0
    segments: tuple[tuple[int, int, int], ...] = ()


class BackupHold(View, frozen=True):
    """A hold on the files of a store, for a backup.

    Attributes:
        number: Under which it goes on and ends.
        cut: What to copy.
        keep_s: Seconds after which it ends by itself if nothing is heard of the backup.
    """

    number: int = 0
    cut: StoreCut = StoreCut()
    keep_s: float = 0.0


SettingValue = bool | int | float | str
"""A setting is a truth value, a number in the unit that its name ends in, or a text."""


class SettingView(View, frozen=True):
    """One setting.

    Attributes:
        name: Its name in the table ``[settings]`` of ``onceq.toml``.
        value: Its value now.
        default: Its default.
        at_start: Whether only a restart changes it, and no reload.
    """

    name: Annotated[str, Column("setting")] = ""
    value: Annotated[SettingValue, Column("value", "setting")] = ""
    default: Annotated[SettingValue, Column("default", "setting")] = ""
    at_start: bool = False

    @property
    def read(self) -> Annotated[str, Column("read")]:
        """When a change in ``onceq.toml`` takes effect."""
        return "at a start" if self.at_start else "at a reload"


class TokenView(View, frozen=True):
    """A token, as everybody may see it who administers.

    Attributes:
        name: Rights are granted to ``token:NAME``.
        made_s: When it was made (seconds since 1970).
        expires_s: When it expires (seconds since 1970); 0: never.
        expired: Whether it has expired.
        connections: Applications that are connected with it now.
    """

    name: Annotated[str, Column("token")] = ""
    made_s: Annotated[int, Column("made", "moment")] = 0
    expires_s: Annotated[int, Column("expires", "moment")] = 0
    expired: bool = False
    connections: Annotated[int, Column("connections")] = 0


class TokenMade(View, frozen=True):
    """A new token, and the only time that its secret is told.

    Attributes:
        name: Name of the token.
        token: The text that its holder shows to the queue manager; a ``repr`` leaves it out.
        expires_s: Seconds since 1970; 0: it does not expire.
    """

    name: str = ""
    token: str = ""
    expires_s: int = 0

    __repr__ = repr_without("token")


class GrantView(View, frozen=True):
    """Rights that somebody was given.

    Attributes:
        who: ``kind:name``, a pattern of such, or ``*``.
        rights: The rights, as ``onceq grant`` takes them.
        pattern: Pattern of names of queues; "" for rights over the whole queue manager.
        owner: Whether they come from having made the queue.
        origin: ``directory``: they hold at every queue manager that shares the directory; "": they
            were given here.
        of_one_queue: They go with the queue of that name: its owner has given them, or has them.
        by: Who has granted them; "": the account that runs the queue manager, or a version that did
            not keep it.
    """

    who: Annotated[str, Column("who")] = ""
    rights: Annotated[tuple[str, ...], Column("rights", "words")] = ()
    pattern: Annotated[str, Column("queues", "name", empty="(queue manager)")] = ""
    owner: bool = False
    origin: str = ""
    of_one_queue: bool = False
    by: str = ""

    @property
    def why(self) -> Annotated[str, Column("why")]:
        """Why they hold, in a few words."""
        if self.owner:
            return "has made it"
        everywhere = " everywhere" if self.origin else ""
        by = f" by {self.by}" if self.by else ""
        return f"granted{everywhere}{by}{', goes with the queue' if self.of_one_queue else ''}"


class RightView(View, frozen=True):
    """May somebody do something, and why or why not.

    Attributes:
        who: Whose right was asked about.
        right: Which right.
        queue: At which queue; "": over the whole queue manager.
        allowed: Whether it is allowed.
        because: Why, in one sentence.
        known: Whether somebody of that name was ever here: is connected, has acted or made a queue,
            or has a token, or is a queue manager that was met.
    """

    who: str = ""
    right: str = ""
    queue: str = ""
    allowed: bool = False
    because: str = ""
    known: bool = True


class HeadView(View, frozen=True):
    """The end of another queue manager's trail, as that manager has told it.

    Attributes:
        peer: GUID of the other queue manager.
        name: Its computer name; "": not known.
        number: Number of its last act at that moment.
        digest: Digest of that act, in hexadecimal digits.
        at: When it was told (seconds since 1970).
    """

    peer: Annotated[str, Column("queue manager")] = ""
    name: Annotated[str, Column("name", leaves=1)] = ""
    number: Annotated[int, Column("act")] = 0
    digest: Annotated[str, Column("digest")] = ""
    at: Annotated[int, Column("told", "moment", leaves=2)] = 0


class TrailView(View, frozen=True):
    """The end of a trail, and what is held of others'.

    Attributes:
        id: GUID of the queue manager.
        number: Of its last act; 0: there is none.
        digest: Of that act, hexadecimal; "": it has none.
        broken: Number of the first act that does not go on from the act before it, as the log has
            it; 0: all do.
        heads: What others have told of theirs.
    """

    id: str = ""
    number: int = 0
    digest: str = ""
    broken: int = 0
    heads: tuple[HeadView, ...] = ()


class ActView(View, frozen=True):
    """An act of administration.

    Attributes:
        number: Number of the act; each has the next one.
        at: When it was done (seconds since 1970).
        who: Who did it, as ``kind:name``.
        where: From where: an address, or "local", with the process if that is known; before that
            the person for whom the program there says that it works (``local for anna, process
            12``).
        what: What was done.
        about: What it was done to, such as a queue.
        result: The code of the error; "": it was done, or begun.
        times: How often it was done within the hour that follows it, itself included.
        last: When it was done last (seconds since 1970).
        before: Digest of the act before it, in hexadecimal digits; "": of a version without
            digests.
        digest: Its own digest, likewise.
    """

    number: Annotated[int, Column("number")] = 0
    at: Annotated[int, Column("when", "moment", leaves=4)] = 0
    who: Annotated[str, Column("who")] = ""
    where: Annotated[str, Column("from", leaves=1)] = ""
    what: Annotated[str, Column("what")] = ""
    about: Annotated[str, Column("about", "name", cut=True, empty="")] = ""
    result: Annotated[str, Column("result", leaves=3, cut=True, empty="done")] = ""
    times: Annotated[int, Column("times")] = 1
    last: Annotated[int, Column("last", "moment", leaves=2)] = 0
    before: str = ""
    digest: str = ""
