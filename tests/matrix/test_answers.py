"""Every cell of the table of who answers where a queue manager connects, on a real one.

Upholds: I10, I28.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

import onceq
from onceq.embedded import trusting
from onceq.model import requests as r
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.message import Delivery
from onceq.model.requests import Steer
from onceq.model.views import looks
from onceq.tls.authority import fingerprint
from onceq.tls.contexts import APPLICATIONS, IdentityFiles, server_context
from tests.certificates import LONG_AGO_S, Authority
from tests.matrix import answers as table
from tests.matrix.answers import ASKED, WHO, Cell
from tests.matrix.applications import item
from tests.matrix.crowd import Host
from tests.matrix.scene import SETTINGS
from tests.matrix.speaker import Answering

pytestmark = [pytest.mark.slow, pytest.mark.tier("rest")]

PLAIN, CLAIMING = "127.0.0.2", "127.0.0.3"
ADDRESSES = {table.PLAIN: PLAIN, table.PLAIN_CLAIMING: CLAIMING}
"""Those of hosts that are believed by them."""
HOST_GUID = b"a plain host 123"


class Place:
    """One cell: who is looked for, and whoever answers there."""

    def __init__(self, town: Town, who: str, asked: str, number: int) -> None:
        self.town, self.who, self.asked = town, who, asked
        self.name, self.guid = f"N{number}", b"%016d" % number
        self.answering = self._answering(ADDRESSES.get(who, "127.0.0.1"))
        self.right = self._answering("127.0.0.1") if asked == table.BOUND else self.answering
        self.at = self.right.where
        self.queue = rf"DIRECT=OS:{self.name}\private$\q"
        if asked == table.GUID:
            self.queue = f"PRIVATE={guid_text(self.guid)}\\00000007"

    def _answering(self, address: str) -> Answering:
        made = Answering(self.guid, None, address=address, stays=True)
        made.start()
        return made

    @property
    def leads(self) -> str:
        """A line of ``[peers]``."""
        name = guid_text(self.guid) if self.asked == table.GUID else self.name
        return f'"{name}" = "{self.at}"'

    def outcome(self) -> Cell:
        """What becomes of a message, and why."""
        town, answering = self.town, self.answering
        before = self._bound() if self.asked == table.BOUND else ""
        answering.become(*self._shows())
        self.at = answering.where
        if self.who == table.REMOVED:
            trusting.remove(str(town.path), guid_text(self.guid))
        town.configure()
        town.host.ask(r.SteerOutgoing("", Steer.RELOAD))
        self._send()
        while not answering.given and (trouble := self._seen().trouble) in ("", before):
            pass  # asked until it is so
        if answering.given:
            while self._seen().messages:
                pass  # asked until it is there
            return table.GIVEN, ""
        assert self._seen().messages == 1, "it waits"
        why = next(
            (part for _, part in WHO[self.who].values() if part and part in trouble), trouble
        )
        return table.ENDED if answering.begun else table.NOTHING, why

    def _send(self) -> None:
        sent = item(self.queue, delivery=int(Delivery.RECOVERABLE))
        self.town.host.ask(r.Send(0, [sent]))

    def _bound(self) -> str:
        """Its queue manager answers, has a message, and goes away; what is said of that."""
        self.right.become(self.guid, self.town.certified(self.guid, self.name))
        self._send()
        while not self.right.given or self._seen().messages:
            pass  # asked until it is so
        self.right.hang_up()
        while self._seen().peer:
            pass  # asked until it is so
        return str(self._seen().trouble)

    def _shows(self) -> tuple[bytes, ssl.SSLContext | None]:
        """The GUID that is said, and TLS."""
        town, who = self.town, self.who
        other = bytes(reversed(self.guid))
        if who in (table.PLAINLY, table.PLAIN_CLAIMING):
            return self.guid, None
        if who == table.PLAIN:
            return HOST_GUID, None
        if who == table.OTHER:
            return other, town.certified(other, "MALLORY")
        if who == table.TWIN:
            return other, town.certified(other, self.name)
        if who == table.CLAIMING:
            return self.guid, town.certified(other, self.name)
        if who == table.FOREIGN:
            return self.guid, town.certified(self.guid, self.name, town.foreign)
        if who == table.SELF_SIGNED:
            return self.guid, town.context(town.foreign.certificate + town.foreign.key)
        if who == table.EXPIRED:
            return self.guid, town.certified(self.guid, self.name, ago_s=LONG_AGO_S)
        if who == table.APPLICATION:
            leaf = town.applications.issue_cert(self.name, common_name=self.name)
            return self.guid, town.context(leaf.private_key_and_cert_chain_pem.bytes())
        found = town.certified(self.guid, self.name)
        if who == table.PROTOCOL:
            found.set_alpn_protocols([APPLICATIONS])
        return self.guid, found

    def _seen(self) -> Any:
        """The outgoing queue."""
        return self.town.host.ask(r.Look(looks.OUTGOING_QUEUE.what, self.queue))


class Town:
    """A queue manager with an identity, and whoever answers where it connects."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "here"
        self.signs, self.foreign = Authority(), Authority("FOREIGN")
        self.applications = trustme.CA()
        with onceq.open(self.path, name="HERE", create=True) as qm:
            guid = guid_bytes(qm.admin.status().id)
        self.trusted = self.signs.certificate + self.applications.cert_pem.bytes()
        self.signs.identity(self.path, guid, trusts=self.trusted)
        cells = [(who, asked) for who in WHO for asked in ASKED]
        self.places = {
            cell: Place(self, *cell, number) for number, cell in enumerate(cells, 1)
        }  # fmt: skip
        self.configure()
        self.host = Host(self.path, guid)
        # A member that was given a certificate here, or has a right, is believed with one alone.
        for (who, _), place in self.places.items():
            if who == table.PLAIN_CLAIMING:
                self.host.ask(r.SetRights(f"peer:{guid_text(place.guid)}", ["send"], "x"))

    def configure(self) -> None:
        """Names lead to where they do now."""
        leads = "\n".join(one.leads for one in self.places.values())
        (self.path / "onceq.toml").write_text(
            f'listen = "127.0.0.1:0"\nplain_peers = ["{PLAIN}", "{CLAIMING}"]\n'
            f"[peers]\n{leads}\n[authorities]\n"
            f'"{fingerprint(self.applications.cert_pem.bytes()).hex()}" = ["certificate:*"]\n'
            f"{SETTINGS}"
        )

    def certified(
        self, guid: bytes, name: str, signs: Authority | None = None, *, ago_s: int = 0
    ) -> ssl.SSLContext:  # fmt: skip
        """With a certificate for a queue manager."""
        made, key = (signs or self.signs).issue(guid, name, ago_s=ago_s)
        return self.context(made + key)

    def context(self, pem: bytes) -> ssl.SSLContext:
        """With what is shown."""
        own, authorities = self.folder / "own.pem", self.folder / "authorities.pem"
        own.write_bytes(pem)
        authorities.write_bytes(self.trusted)
        return server_context(IdentityFiles(str(own), str(own), str(authorities)), peers=True)

    def close(self) -> None:
        """Everybody leaves."""
        self.host.close()
        for place in self.places.values():
            place.answering.close()
            place.right.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    made = Town(tmp_path_factory.mktemp("town"))
    yield made
    made.close()


def test_the_table_is_complete() -> None:
    assert all(tuple(row) == ASKED for row in WHO.values())
    assert {cell for row in WHO.values() for cell, _ in row.values()} == set(table.MEANING)


@pytest.mark.parametrize("who", WHO)
def test_what_becomes_of_who_answers(town: Town, who: str) -> None:
    assert {asked: town.places[who, asked].outcome() for asked in ASKED} == WHO[who]
