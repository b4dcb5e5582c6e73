"""Who is let in, by counting alone: no sockets, no time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.model.limits import ADDRESS_CONNECTIONS_MAX, ADDRESS_HANDSHAKES_MAX
from onceq.service.admission import (
    LOCAL,
    SHORT_OF_DESCRIPTORS,
    Admission,
    AdmittedConnection,
    Budget,
    Kind,
    budget,
)

BUDGET = budget(16_384, embedded=False)


class House:
    """Places that were given, and those that were cut."""

    def __init__(self, limits: Budget = BUDGET, known: str = "") -> None:
        self.admission = Admission(limits, lambda address: address == known)
        self.cut: list[AdmittedConnection] = []

    def enter(
        self, address: str, kind: Kind = Kind.PEER, number: int = 9
    ) -> AdmittedConnection | str:
        made: list[AdmittedConnection] = []

        def cut() -> None:
            self.cut.append(made[0])
            self.admission.leave(made[0])

        found = self.admission.enter(kind, address, number, cut)
        if isinstance(found, AdmittedConnection):
            made.append(found)
        return found

    def open(
        self, address: str, kind: Kind = Kind.PEER, *, known: bool = False
    ) -> AdmittedConnection:
        found = self.enter(address, kind)
        assert isinstance(found, AdmittedConnection), found
        assert self.admission.speaks(found, known=known) == ""
        return found


def test_of_those_who_say_nothing_the_oldest_of_the_most_crowded_address_goes() -> None:
    house = House(replace(BUDGET, handshakes=4))
    first = house.enter("10.0.0.1")
    crowd = [house.enter("10.0.0.2") for _ in range(3)]
    assert isinstance(house.enter("10.0.0.3"), AdmittedConnection)
    assert house.cut == [crowd[0]]
    assert first not in house.cut


def test_one_address_has_few_connections_that_say_nothing() -> None:
    house = House()
    crowd = [house.enter("10.0.0.2") for _ in range(ADDRESS_HANDSHAKES_MAX + 1)]
    assert house.cut == crowd[:1]
    here = House()
    for _ in range(ADDRESS_HANDSHAKES_MAX + 1):
        here.enter("127.0.0.1")
        here.enter("::1")
    assert not here.cut, "all managers of a computer have this address"


def test_one_address_has_not_all_places() -> None:
    house = House(known="10.0.0.7")
    for _ in range(ADDRESS_CONNECTIONS_MAX):
        house.open("10.0.0.2", Kind.APPLICATION)
        house.open("10.0.0.7", Kind.APPLICATION)
    assert house.enter("10.0.0.2", Kind.APPLICATION) == (
        f"this address has {ADDRESS_CONNECTIONS_MAX} connections already"
    )
    assert isinstance(house.enter("10.0.0.7", Kind.APPLICATION), AdmittedConnection)
    assert isinstance(house.enter("10.0.0.3", Kind.APPLICATION), AdmittedConnection)


def test_strangers_leave_room_for_those_that_are_known() -> None:
    house = House(replace(BUDGET, peers=4, strangers=2), known="10.0.0.9")
    strangers = [house.open(f"10.0.1.{n}") for n in range(2)]
    third = house.enter("10.0.1.3")
    assert isinstance(third, AdmittedConnection)
    assert "strangers" in house.admission.speaks(third, known=False)
    house.admission.leave(third)
    house.open("10.0.2.1", known=True)
    house.open("10.0.0.9")
    assert isinstance(house.enter("10.0.0.9"), str)
    house.admission.leave(strangers[0])
    house.open("10.0.1.3")


def test_who_says_nothing_keeps_no_peer_out() -> None:
    house = House(replace(BUDGET, peers=4, handshakes=100))
    silent = [house.enter("10.0.0.2") for _ in range(4)]
    assert isinstance(house.enter("10.0.0.3"), AdmittedConnection)
    assert house.cut == silent[:1]


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(
    "limit", [64, 256, 1_024, 16_384, pytest.param(1 << 20, marks=pytest.mark.tier("rest"))]
)
def test_descriptors_of_the_store_are_nobody_elses(limit: int, embedded: bool) -> None:
    """Whoever comes, in whatever order: some numbers are never given to a connection."""
    share = budget(limit, embedded=embedded)
    house = House(share)
    in_use = 10
    for number in range(2 * limit):
        kind = (Kind.PEER, Kind.APPLICATION, Kind.LOCAL_APPLICATION)[number % 3]
        address = LOCAL if kind is Kind.LOCAL_APPLICATION else f"10.{number % 250}.0.1"
        found = house.enter(address, kind, in_use)
        if isinstance(found, AdmittedConnection):
            house.admission.speaks(found, known=True)
            in_use += 1
    assert in_use > 10
    assert in_use <= limit - limit // 8 - limit // 16 or limit > 4_096
    if embedded:
        assert in_use <= limit // 2
        assert in_use <= 10 + 3 * 256


def test_the_local_socket_has_descriptors_when_strangers_have_none_left() -> None:
    share = budget(1_024, embedded=False)
    house = House(share)
    assert house.enter("10.0.0.1", Kind.PEER, share.far) == SHORT_OF_DESCRIPTORS
    assert isinstance(house.enter(LOCAL, Kind.LOCAL_APPLICATION, share.far), AdmittedConnection)
    assert house.enter(LOCAL, Kind.LOCAL_APPLICATION, share.local) == SHORT_OF_DESCRIPTORS


def test_a_silent_connection_makes_room_where_descriptors_are_short() -> None:
    share = budget(1_024, embedded=False)
    house = House(share)
    silent = house.enter("10.0.0.1")
    assert isinstance(house.enter("10.0.0.2", Kind.PEER, share.far), AdmittedConnection)
    assert house.cut == [silent]


def test_what_is_cut_in_a_burst_takes_no_descriptors_from_the_local_socket() -> None:
    """It has its descriptor until the loop comes to it, and the next connection has one more."""
    share = budget(1_024, embedded=False)
    admission, number = Admission(share), share.far
    cut: list[AdmittedConnection] = []

    def enter() -> AdmittedConnection | str:
        made: list[AdmittedConnection] = []
        found = admission.enter(Kind.PEER, "10.0.0.1", number, lambda: cut.append(made[0]))
        if isinstance(found, AdmittedConnection):
            made.append(found)
        return found

    for _ in range(ADDRESS_HANDSHAKES_MAX):
        number = 9
        assert isinstance(enter(), AdmittedConnection)
    number = share.far
    while isinstance(enter(), AdmittedConnection):
        number += 1
    assert share.far < number < share.local
    assert isinstance(
        admission.enter(Kind.LOCAL_APPLICATION, LOCAL, number, print), AdmittedConnection
    )
    while cut:
        admission.leave(cut.pop())
    assert isinstance(enter(), AdmittedConnection)


def test_leaving_is_counted_once() -> None:
    house = House(replace(BUDGET, applications=1))
    place = house.open("10.0.0.1", Kind.APPLICATION)
    assert isinstance(house.enter("10.0.0.2", Kind.APPLICATION), str)
    house.admission.leave(place)
    house.admission.leave(place)
    house.open("10.0.0.2", Kind.APPLICATION)
    assert isinstance(house.enter("10.0.0.3", Kind.APPLICATION), str)


def test_other_accounts_at_the_socket_leave_places_for_the_one_that_runs_it() -> None:
    house = House(replace(BUDGET, local_applications=16))
    for who, most in (("account:alice", 8), ("account:bob", 4)):
        places = [house.enter(who, Kind.LOCAL_APPLICATION) for _ in range(most + 1)]
        assert all(isinstance(place, AdmittedConnection) for place in places[:most])
        assert isinstance(places[most], str), who
        assert "connections already" in str(places[most])
    for _ in range(4):
        assert isinstance(house.enter(LOCAL, Kind.LOCAL_APPLICATION), AdmittedConnection)
    assert isinstance(house.enter(LOCAL, Kind.LOCAL_APPLICATION), str)


def test_other_accounts_at_the_socket_give_their_places_back() -> None:
    house = House(replace(BUDGET, local_applications=4))
    for _ in range(3):
        first, second = (house.enter("account:alice", Kind.LOCAL_APPLICATION) for _ in range(2))
        assert isinstance(first, AdmittedConnection)
        assert isinstance(second, AdmittedConnection)
        assert isinstance(house.enter("account:alice", Kind.LOCAL_APPLICATION), str)
        house.admission.leave(first)
        house.admission.leave(second)


def test_the_last_descriptors_are_not_for_other_accounts() -> None:
    share = budget(1_024, embedded=False)
    house = House(share)
    found = house.enter("account:alice", Kind.LOCAL_APPLICATION, share.far)
    assert found == SHORT_OF_DESCRIPTORS
    assert isinstance(house.enter(LOCAL, Kind.LOCAL_APPLICATION, share.far), AdmittedConnection)
