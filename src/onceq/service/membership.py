"""Membership of one authority, at a running queue manager.

It refuses to grant a GUID that has a meaning here already: rights, names, a place in the directory.

It grants certificates, learns of removed members, and takes in the changes of files that commands
have made since the last check.

A member regularly asks its authority which members were removed. While the authority does not
answer, the member goes on with what it knows: it still trusts the others. It keeps that knowledge
even if the authority has lost it; then it reports the loss, there and here.

An act is in the trail before anybody hears of it.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Final, Protocol

from onceq.core.inputs import Witnessed
from onceq.core.manager import Manager
from onceq.errors import AccessDenied, ManagerAway, OnceqError
from onceq.model.directory import Snapshot
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.limits import MEMBERS_ASK_S
from onceq.model.marks import DAY_S
from onceq.model.rights import Actor, ActorKind, actor_pattern
from onceq.service.config import split_address
from onceq.service.engine import Engine
from onceq.service.peer_transports import Doors, describe_error
from onceq.tls import folder, own
from onceq.tls.invitations import Granting, Signed
from onceq.tls.joining import (
    ANSWER_BYTES_MAX,
    WAIT_S,
    as_member,
    authorities_in,
    check,
    read_answer,
    removed_in,
)
from onceq.tls.members import TOLD, listed, put_removed, read_removed
from onceq.tls.members import joined as joined_lists

# ---- meanings ------------------------------------------------------------------------------------
#
# What a GUID means at this queue manager before its owner has joined: rights, names, an entry in
# the directory. GUIDs are no secret, so a client that asks for a certificate for a GUID has not
# proven to be its owner (`tls/invitations.py`).


def meaning_of(manager: Manager, directory: Snapshot | None, guid: bytes, name: str) -> str:
    """Return what a requested GUID means here, for a client that was invited by a name; "" if
    nothing, or if the GUID is known by that name.

    Args:
        directory: What the directory says; None: there is none.
    """
    called = name.casefold()
    names = [one.partition(":")[2] for one in manager.state.bindings.named(guid)]
    computer = directory.computer_of(guid) if directory is not None else None
    listed = [] if computer is None else [one.casefold() for one in computer.names]
    if called in (*names, *listed):
        return ""
    who = guid_text(guid)
    if names:
        return f"queue manager {who} answers under {names[0]}"
    if computer is not None:
        return f"the directory knows queue manager {who} as {computer.name}"
    wanted = actor_pattern(f"{ActorKind.PEER.value}:{who}")
    policy = manager.state.policy
    if any(one.who == wanted for one in (*policy, *policy.shared.grants)):
        return f"queue manager {who} has rights here"
    return ""


# ---- membership ----------------------------------------------------------------------------------


TOLD_MAX: Final = 50
"""Trusted authorities that are reported to an authority, at most."""
FORGOTTEN_MAX: Final = 100
"""Removals that are reported at once to an authority that has forgotten them."""


class MembershipNetwork(Protocol):
    """The part of the network that membership uses."""

    loop: asyncio.AbstractEventLoop
    engine: Engine
    doors: Doors

    def use(self, wire: None, work: Callable[[], None]) -> None:
        """Let the handler of an event use the engine."""

    def judge_again(self) -> None:
        """Cut the connections whose certificates do not count any more."""


class Membership:
    """Membership of one queue manager."""

    def __init__(self, host: MembershipNetwork) -> None:
        """Prepare; nothing is asked yet."""
        self._host = host
        self.directory: Snapshot | None = None
        """What the directory says; None if there is none."""
        self._owner = 0
        self._numbers = itertools.count(1)
        self._recorded: dict[int, Callable[[], None]] = {}
        """Work to do once an act is on record, by the number that the core gives back."""
        self._taken: set[str] = set()
        """Files of acts that are being recorded."""
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._wanted = False
        """True if the authority is to be asked, again if it is being asked."""
        self._trouble = ""
        """Why the authority did not answer last; "" if it did."""
        self._told_s = 0
        """When that was reported."""

    # ---- who comes for a certificate ----------------------------------------------------------

    def granting(self, transport: asyncio.BaseTransport | None, address: str) -> Granting | None:
        """Return the dialog with a client that wants a certificate; None if the client is a
        peer."""
        engine, doors = self._host.engine, self._host.doors
        known = partial(meaning_of, engine.manager, self.directory)
        note = partial(self._note, "joining")
        found = doors.granting(transport, address, self._now_s(), note=note, known=known)
        if found is not None:
            self._take_acts()  # the trail has the invitation before the client that uses it
        return found

    def granted(self, signed: Signed, address: str, say: Callable[[], None]) -> None:
        """Record a new certificate; call ``say`` once it is durable in the trail."""
        actor = Actor(ActorKind.PEER, signed.peer)
        what = "join" if signed.joined else "renew certificate"
        self._record(Witnessed(str(actor), address, what, signed.name), say)

    # ---- whose certificate counts -------------------------------------------------------------

    def disbelieved(self, transport: asyncio.BaseTransport | None) -> str:
        """Return the reason to reject the other side's certificate; "" if it counts or there is
        none."""
        if self._more_removed():
            # Not within this one: the others are cut on their own.
            self._host.loop.call_soon(self._host.judge_again)
        return self._host.doors.disbelieved(transport)

    def _more_removed(self) -> bool:
        try:
            return self._host.doors.standing.removed.read_changes()
        except OnceqError as error:
            # The previous knowledge still holds.
            self._note("the list of removed members cannot be used", level=logging.ERROR,
                       reason=error.text)  # fmt: skip
            return False

    # ---- now and then -------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in changed files, and ask the authority; repeated after a while."""
        if self._host.engine.stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._host.loop.call_later(MEMBERS_ASK_S, self.refresh)
        if not self._host.doors.path:
            return
        self._host.use(None, self._take_acts)
        if self._more_removed():
            self._host.judge_again()
        self._wanted = True
        if self._asking is None or self._asking.done():
            self._asking = self._host.loop.create_task(self._ask())

    def stop(self) -> None:
        """Stop asking."""
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _take_acts(self) -> None:
        """Put on record what commands have done."""
        for act in own.left(folder.folder_of(self._host.doors.path)):
            if act.file not in self._taken:
                self._taken.add(act.file)
                noted = Witnessed(act.who, "local", act.what, act.about)
                self._record(noted, partial(self._stands, act.file))

    def _stands(self, file: str) -> None:
        """Delete the file of an act that is durable in the trail."""
        own.forget(file)
        self._taken.discard(file)

    def _record(self, act: Witnessed, then: Callable[[], None]) -> None:
        """Put an act on record, then call ``then``."""
        engine = self._host.engine
        if not self._owner:
            self._owner = engine.owner(lambda request, _: self._recorded.pop(request)())
        request = next(self._numbers)
        self._recorded[request] = then
        engine.submit(replace(act, owner=self._owner, request=request))

    # ---- asking the authority -----------------------------------------------------------------

    async def _ask(self) -> None:
        while self._wanted:
            self._wanted = False
            await self._ask_once()

    async def _ask_once(self) -> None:
        """Ask, if another queue manager has signed for this one."""
        doors = self._host.doors
        own, files = folder.folder_of(doors.path), doors.files
        joined = os.path.join(own, folder.JOINED)
        if files is None or files.certificate != os.path.join(own, folder.CERTIFICATE):
            return
        if not os.path.exists(joined):
            return
        try:
            by = folder.read_joined(own)
            address = str(by["address"])
            believed = [sha256(one).hexdigest() for one in doors.authorities]
            asked = {"want": "news", "believes": believed[:TOLD_MAX]}
            known = read_removed(own, TOLD)
            found = await self._asked(by, asked)
            told = removed_in(found)
            forgotten = [one for one in known.values() if one.id not in told]
            if forgotten:
                self._note(
                    "removals are not known any more where this queue manager has joined",
                    level=logging.WARNING, address=address, count=len(forgotten),
                    first=f"{forgotten[0].name} {forgotten[0].id}",
                    cure="onceq tls remove there; here they hold",
                )  # fmt: skip
                more = listed(forgotten[:FORGOTTEN_MAX])
                await self._asked(by, asked | {"removed": more})
            if joined_lists(known, told) != known:
                put_removed(own, TOLD, told)
            authorities = authorities_in(found)
            if authorities and folder.follow(own, authorities):
                doors.read_again()
                self._note("the authorities of other queue managers have changed")
                self._wanted = True  # to report it
        except (OSError, TimeoutError, OnceqError, ValueError, KeyError, TypeError) as error:
            self._failed(error)
            return
        if self._trouble:
            self._note("the authority of this queue manager answers again")
        self._trouble = ""
        if self._more_removed():
            self._host.judge_again()

    async def _asked(self, by: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
        """Ask the authority one question; return the answer."""
        address, guid = str(by["address"]), guid_bytes(by["guid"])
        own = self._host.doors.own
        believed = by["lineage"] or ([own.authority] if own is not None else [])
        host, port = split_address(address, None)
        files = self._host.doors.files
        assert files is not None, "it was looked at"
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=as_member(files), server_hostname="", limit=ANSWER_BYTES_MAX
            )
            try:
                check(writer.get_extra_info("ssl_object"), address, guid, believed)
                writer.write(json.dumps(asked).encode() + b"\n")
                await writer.drain()
                raw = await reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                raise ManagerAway(f"{address} gave no answer that can be read") from None
            finally:
                writer.transport.abort()
        return read_answer(raw, address)

    def _failed(self, error: Exception) -> None:
        """Log a failed question when failures begin, and each day; more often at a detailed log
        level."""
        reason = describe_error(error) if isinstance(error, OSError) else str(error)
        now_s = self._now_s()
        first = not self._trouble or now_s - self._told_s >= DAY_S
        level = logging.WARNING if first else logging.DEBUG
        if first:
            self._told_s = now_s
        self._trouble = reason or type(error).__name__
        refused = isinstance(error, AccessDenied)
        self._note(
            "the authority of this queue manager does not say who was removed",
            level=logging.ERROR if refused and first else level, reason=self._trouble,
        )  # fmt: skip

    def _now_s(self) -> int:
        return self._host.engine.clock.read().wall_s

    def _note(self, what: str, **values: Any) -> None:
        self._host.engine.rates.event(what, **values)
