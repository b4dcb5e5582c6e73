"""The directory as a value: computers, public queues and distribution lists (DL-14).

Wherever a directory is kept, a queue manager decides with a snapshot of it that it was handed, so
that the core reads nothing and the same snapshot always gives the same destinations (I27).

Two names are of one *place* if they lead to the same queue of the same computer however they are
written. Messages for one place share one outgoing queue and so one stream (EOD-3).

Upholds: I24 (lists that contain each other come to an end; what they stand for is limited).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onceq.errors import IllegalFormatName, OnceqError, QueueNotFound
from onceq.model.addresses import HERE
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import FORMAT_NAME_ELEMENTS_MAX
from onceq.model.names import FormatName, Kind, Suffix, parse_any, parse_format_name, queue_key
from onceq.model.wording import plural


@dataclass(frozen=True, slots=True)
class Computer:
    """A queue manager, as others find it.

    Attributes:
        guid: Of the manager; zeros if it is not known.
        addresses: Further names and addresses under which direct names reach it.
        private: Number of each private queue and its name: they alone show that a private format
            name means the same queue as a direct one.
        endpoint: "host:port" at which it takes connections of other managers; "": its name is its
            address, or the address book of the connecting manager has it.
    """

    name: str
    guid: bytes = NO_GUID
    addresses: tuple[str, ...] = ()
    private: Mapping[int, str] = field(default_factory=dict)
    endpoint: str = ""

    @property
    def names(self) -> list[str]:
        """Its name and its other ones, but for those under which nobody looks for another."""
        return [n for n in (self.name, *self.addresses) if n.casefold() not in HERE]


@dataclass(frozen=True, slots=True)
class PublicQueue:
    """A queue that ``PUBLIC=guid`` names."""

    guid: bytes
    computer: str
    name: str
    transactional: bool = False
    label: str = ""

    @property
    def direct(self) -> str:
        """The same queue by a direct name."""
        return f"DIRECT=OS:{self.computer}\\{self.name}"


@dataclass(frozen=True, slots=True)
class DistributionList:
    """A list that ``DL=guid`` names. ``members`` are format names of one element each."""

    guid: bytes
    name: str
    members: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} (DL={guid_text(self.guid)})"


class Snapshot:
    """All that a directory says at one moment; never changed."""

    __slots__ = ("_hosts", "_ids", "_lists", "computers", "lists", "queues")

    def __init__(
        self,
        computers: Iterable[Computer] = (),
        queues: Iterable[PublicQueue] = (),
        lists: Iterable[DistributionList] = (),
    ) -> None:
        self.computers = tuple(computers)
        self.queues: Mapping[bytes, PublicQueue] = {queue.guid: queue for queue in queues}
        self.lists: Mapping[bytes, DistributionList] = {one.guid: one for one in lists}
        self._lists = {one.name.casefold(): one for one in self.lists.values()}
        self._hosts: dict[str, Computer] = {}
        for computer in self.computers:
            for name in computer.names:
                self._hosts.setdefault(name.casefold(), computer)
        self._ids = {one.guid: one for one in self.computers if one.guid != NO_GUID}

    def endpoints(self) -> dict[str, str]:
        """Where queue managers take connections, by their names and GUIDs, folded."""
        return {
            name.casefold(): computer.endpoint
            for computer in self.computers
            if computer.endpoint
            for name in (*computer.names, guid_text(computer.guid))
        }

    # ---- looking up -------------------------------------------------------------------------

    def computer(self, host: str) -> Computer | None:
        """The computer that has a name or an address."""
        return self._hosts.get(host.casefold())

    def computer_of(self, guid: bytes) -> Computer | None:
        """The computer of a queue manager."""
        return self._ids.get(guid)

    def list_named(self, name: str) -> DistributionList | None:
        """The list that has a name."""
        return self._lists.get(name.casefold())

    def queue_at(self, computer: str, name: str) -> PublicQueue | None:
        """The public queue with a path."""
        wanted = (computer.casefold(), name.casefold())
        for queue in self.queues.values():
            if (queue.computer.casefold(), queue.name.casefold()) == wanted:
                return queue
        return None

    def place_of(self, name: FormatName) -> str:
        """Where a name leads, written in one way; "" if the directory does not know."""
        if name.suffix is not Suffix.NONE or name.subqueue:
            return ""
        if name.kind is Kind.PUBLIC:
            queue = self.queues.get(name.guid)
            return "" if queue is None else _place(queue.computer, queue_key(False, queue.name))
        if name.kind is Kind.DIRECT and name.protocol in ("OS", "TCP"):
            computer = self.computer(name.host)
            path = queue_key(name.private, name.queue)
            return "" if computer is None else _place(computer.name, path)
        if name.kind is Kind.PRIVATE:
            computer = self.computer_of(name.guid)
            known = "" if computer is None else computer.private.get(name.number, "")
            if computer is not None and known:
                return _place(computer.name, queue_key(True, known))
        return ""

    # ---- lists ------------------------------------------------------------------------------

    def expand(self, names: Iterable[FormatName]) -> list[FormatName]:
        """Names with the members of lists in place of the lists, however deep (DL-2 to DL-4).

        Raises:
            QueueNotFound: A list, or a list or public queue in a list, is not in the directory.
            IllegalFormatName: A member cannot be sent to, or they are more than
                FORMAT_NAME_ELEMENTS_MAX.
        """
        found: dict[str, FormatName] = {}
        for name, _ in self._walk(names):
            missing = self._missing(name)
            if missing:
                raise QueueNotFound(f"{name}: {missing}; 'list show' shows what there is")
            if name.kind is Kind.DL:
                continue
            found.setdefault(name.key(), name)
            if len(found) > FORMAT_NAME_ELEMENTS_MAX:
                raise IllegalFormatName(
                    f"these lists stand for more than {FORMAT_NAME_ELEMENTS_MAX} queues"
                )
        return list(found.values())

    def explain(self, names: Iterable[FormatName]) -> list[tuple[FormatName, int, str]]:
        """The way of ``expand``, step by step: a name, how many lists deep it stands, and what it
        becomes; what would be refused is said, not raised."""
        steps: list[tuple[FormatName, int, str]] = []
        seen: dict[str, str] = {}
        lists: set[bytes] = set()
        for name, depth in self._walk(names):
            missing = self._missing(name)
            if missing:
                steps.append((name, depth, f"{missing}: the whole send is refused"))
                continue
            if name.kind is Kind.DL:
                again = name.guid in lists
                lists.add(name.guid)
                count = plural(len(self.lists[name.guid].members), "member")
                steps.append((name, depth, "was expanded before" if again else count))
                continue
            key = self.place_of(name) or name.key()
            if key in seen:
                steps.append((name, depth, f"the same queue as {seen[key]}: one copy"))
                continue
            seen[key] = str(name)
            queue = self.queues.get(name.guid) if name.kind is Kind.PUBLIC else None
            steps.append((name, depth, "" if queue is None else queue.direct))
        return steps

    def _walk(self, names: Iterable[FormatName]) -> Iterator[tuple[FormatName, int]]:
        """Every name in its turn, and how many lists deep it stands; lists before their members.

        What a list that was seen before contains does not come again (DL-3). Not recursive: lists
        may be nested deeper than Python's stack.
        """
        seen: set[bytes] = set()
        stack = [iter(tuple(names))]
        while stack:
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                continue
            yield name, len(stack) - 1
            if name.kind is Kind.DL and name.guid not in seen and name.guid in self.lists:
                seen.add(name.guid)
                stack.append(map(member_of, self.lists[name.guid].members))

    def lacks(self, destination: str) -> bool:
        """Whether a destination names a public queue or list, itself or by a list, that is not in
        the directory. What cannot be read as a name lacks nothing."""
        text = destination.upper()
        if "PUBLIC=" not in text and "DL=" not in text:
            return False
        try:
            names = parse_any(destination)
        except OnceqError:
            return False
        return any(self._missing(name) for name, _ in self._walk(names))

    def _missing(self, name: FormatName) -> str:
        """What the directory lacks of a name; "" if nothing."""
        if name.kind is Kind.DL and name.guid not in self.lists:
            return "there is no such list in the directory"
        if name.kind is Kind.PUBLIC and name.guid not in self.queues:
            return "there is no such public queue in the directory"
        return ""


def member_of(text: str) -> FormatName:
    """A member of a list.

    Raises:
        IllegalFormatName: It is no name of one element that messages can be sent to.
    """
    elements = parse_format_name(text)
    if len(elements) != 1:
        raise IllegalFormatName(f"{text}: a member of a list is one name; add them one by one")
    (name,) = elements
    if name.kind not in (Kind.PUBLIC, Kind.PRIVATE, Kind.DIRECT, Kind.DL) or (
        name.suffix is not Suffix.NONE or name.subqueue
    ):
        raise IllegalFormatName(f"{name} cannot be a member of a list: nobody can send to it")
    return name


def _place(computer: str, path: str) -> str:
    return f"{computer.casefold()}\\{path}"
