"""Answers go home: where acknowledgments may be sent that another manager's message asks for."""

from __future__ import annotations

from array import array

import pytest

from onceq.core import inputs
from onceq.core.decision import Connect
from onceq.core.names import outgoing_for
from onceq.core.peers.answer_addresses import HOMES_MAX
from onceq.core.state import snapshot
from onceq.core.state.peer_table import Binding
from onceq.core.state.setups import OutgoingOpened, OutgoingWanted
from onceq.core.state.state import State
from onceq.core.transfer.admission import ASTRAY
from onceq.model import requests
from onceq.model.addresses import AWAY
from onceq.model.identification import ON_THIS_COMPUTER, Identification, Proof
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.names import parse_format_name
from onceq.model.rights import HERE, Actor, ActorKind
from onceq.packet.arrived import cut
from proof.sim.faults import lies
from tests.unit.core.alone import IDENTITY, WALL_S, Core
from tests.unit.core.somebody import RUNS, create, grant, item

PEER, OTHER = b"P" * 16, b"Q" * 16
TO = r"OS:A\private$\q"
MEMBER = Actor(ActorKind.PEER, guid_text(PEER))
OWN = "10.0.0.2"


def shown(actor: Actor) -> Identification:
    """What a queue manager that is this actor has proven."""
    if actor == HERE:
        return ON_THIS_COMPUTER
    if actor.kind is ActorKind.PEER:
        return Identification(
            Proof.CERTIFICATE, actor, guid_bytes(actor.name), frozenset(("certified",))
        )
    return Identification(Proof.ADDRESS, actor)


class House(Core):
    """A manager with a queue, to which somebody sends what asks for acknowledgments."""

    session = 0
    number = 0
    connects: list[Connect]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.connects = []
        create(self, RUNS, "q", transactional=False)

    def step(self, item: inputs.Input) -> None:
        decision = self.manager.step(self.now(), item)
        self.kept(decision)
        self.connects += [one for one in decision.actions if isinstance(one, Connect)]

    def may(self, actor: Actor, right: str = "send", pattern: str = r"private$\q") -> None:
        grant(self, right, pattern, who=str(actor))

    def sent(
        self, admin: str, *, actor: Actor = MEMBER, address: str = OWN, source: bytes = PEER
    ) -> bool:
        """Somebody sends a message that asks for acknowledgments; whether one was made."""
        self.session += 1
        self.number += 1
        opened = inputs.SessionOpened(self.session, source, address, 0, who=shown(actor))
        self.step(opened)
        data = lies.messages(source, TO, [b"x"], number=self.number, sent_s=WALL_S, admin=admin)
        (run,) = cut(data, array("I", (len(data),)))
        before = self.waiting()
        self.step(inputs.Arrived(self.session, run))
        self.step(inputs.SessionClosed(self.session, "over"))
        return self.waiting() > before

    def waiting(self) -> int:
        return sum(len(one) for one in self.manager.state.outgoing.values())

    def homes(self) -> dict[str, frozenset[str] | None]:
        return {one.name.host: one.homes for one in self.manager.state.outgoing.values()}

    @property
    def astray(self) -> int:
        return self.manager._step.sessions.disbelieved[ASTRAY]


@pytest.fixture
def house() -> House:
    made = House()
    made.may(MEMBER)
    return made


@pytest.mark.parametrize("scheme", ["TCP:{}\\private$\\a", "HTTP://{}/msmq/private$/a"])
def test_an_answer_goes_to_the_address_that_its_message_came_from(
    house: House, scheme: str
) -> None:
    assert house.sent(scheme.format(OWN))
    assert house.homes() == {OWN: frozenset((OWN,))}
    assert not house.sent(scheme.format("10.0.0.3"))
    assert house.astray == 1


NEAR = (
    "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "0.0.0.0", "0",
    "169.254.169.254", "2852039166",
)  # fmt: skip


@pytest.mark.parametrize("host", NEAR)
@pytest.mark.parametrize("scheme", ["OS:{}\\private$\\a", "HTTP://{}:8080/msmq/private$/a"])
def test_no_answer_goes_to_this_computer_for_who_is_elsewhere(
    house: House, scheme: str, host: str
) -> None:
    house.may(MEMBER, pattern="*")
    house.may(MEMBER, "forward", "")
    assert not house.sent(scheme.format(host))
    assert not house.sent(scheme.format(host), address="127.0.0.1"), "perhaps through a tunnel"
    assert house.manager.state.outgoing == {}
    # With OS it means this queue manager, which has no such queue.
    assert house.astray == (0 if scheme.format(host).startswith("OS:localhost") else 2)


def test_a_name_is_judged_where_it_leads(house: House) -> None:
    """A plain host of Windows names itself so, and nobody here knows it yet."""
    assert house.sent(r"OS:WINHOST\private$\a")
    assert house.homes() == {"WINHOST": frozenset((OWN,))}
    assert [one.homes for one in house.connects] == [(OWN,)]


def test_a_name_that_leads_to_another_manager_is_none_of_the_senders(house: House) -> None:
    for name, guid in (("os:beta", OTHER), ("os:peer", PEER)):
        house.manager.state.bindings.bind(name, Binding(guid, 1))
    assert not house.sent(r"OS:BETA\private$\a")
    assert house.sent(r"OS:PEER\private$\a")
    assert house.homes() == {"PEER": frozenset((OWN, AWAY))}


def test_a_name_in_the_certificate_is_the_senders(house: House) -> None:
    assert house.sent("HTTP://certified/msmq/private$/a")
    assert house.homes() == {"certified": frozenset((OWN, AWAY))}


def test_who_may_send_there_is_answered_there(house: House) -> None:
    admin = r"TCP:127.0.0.1\private$\a"
    house.may(MEMBER, pattern="*")
    assert not house.sent(admin), "all queues are those here"
    house.may(MEMBER, pattern="direct=tcp:127.0.0.1\\*")
    assert house.sent(admin)
    assert house.homes() == {"127.0.0.1": None}
    assert not house.sent(r"TCP:127.0.0.2\private$\a")


def test_who_passes_on_is_answered_at_other_computers(house: House) -> None:
    house.may(MEMBER, "forward", "")
    assert house.sent(r"OS:FAR\private$\a")
    assert house.sent(r"TCP:10.9.9.9\private$\a")
    assert house.homes() == {
        "FAR": frozenset((OWN, AWAY)), "10.9.9.9": frozenset(("10.9.9.9",))
    }  # fmt: skip


def test_a_plain_host_of_this_computer_is_known_to_be_here(house: House) -> None:
    near = Actor(ActorKind.ADDRESS, "127.0.0.2")
    house.may(near)
    assert house.sent(r"TCP:127.0.0.2\private$\a", actor=near, address="127.0.0.2", source=OTHER)
    assert not house.sent(
        r"TCP:127.0.0.1\private$\a", actor=near, address="127.0.0.2", source=OTHER
    )


def test_of_several_queues_all_must_be_the_senders(house: House) -> None:
    """The judgment is kept as what the message asks for, for all of them."""
    assert house.sent(r"OS:WINHOST\private$\a")
    assert not house.sent(r"OS:10.0.0.9\private$\a")
    assert house.homes()["WINHOST"] == frozenset((OWN,))


def test_where_all_are_free_nothing_is_kept() -> None:
    house = House()
    assert house.sent(r"TCP:127.0.0.1\private$\a", actor=HERE)
    assert house.homes() == {"127.0.0.1": None}
    assert not house.manager.state.homes_kept


def test_once_somebody_is_not_free_what_nobody_has_judged_goes_nowhere(house: House) -> None:
    """Its outgoing queue may have been forgotten between a message and its acknowledgment."""
    assert house.sent(r"OS:WINHOST\private$\a")
    assert house.sent(r"OS:FREE\private$\a", actor=HERE, source=OTHER)
    assert house.homes() == {"WINHOST": frozenset((OWN,)), "FREE": None}


def test_what_was_forgotten_is_not_sent(house: House) -> None:
    """An acknowledgment of receiving may be made when its outgoing queue was tidied away."""
    assert house.sent(r"OS:WINHOST\private$\a")
    name = parse_format_name(r"DIRECT=OS:LATER\private$\a")[0]
    step = house.manager._step
    assert outgoing_for(step, name, by="", answer=True).homes == frozenset()
    assert outgoing_for(step, name, by="").homes is None, "an application has chosen it"


def test_answers_and_messages_for_one_computer_are_tried_again_at_one_time(house: House) -> None:
    """Their ways differ in what they may be connected to, and their timers ring together."""
    house.manager.state.bindings.bind("os:winhost", Binding(PEER, 1))
    assert house.sent(r"OS:WINHOST\private$\a")
    house.ask(requests.Send(0, [item(r"DIRECT=OS:WINHOST\private$\b")]))
    asked = list(house.connects)
    assert [one.host for one in asked] == ["WINHOST", "WINHOST"]
    for one in asked:
        house.step(inputs.ConnectFailed(one.outgoing, "no answer"))
    house.pass_time(60)
    again = house.connects[len(asked) :]
    assert {one.outgoing for one in again} == {one.outgoing for one in asked}


def test_while_the_directory_is_away_answers_at_public_queues_wait_for_it(house: House) -> None:
    assert house.manager._step.names.directory is None
    house.sent("PUBLIC=58a1c6de-92a7-4a8e-8a2c-0f6d7b1e2c3d")
    assert house.manager._step.sessions.disbelieved[ASTRAY] == 0


def test_an_operator_that_tidies_up_leaves_homes_alone(house: House) -> None:
    """A message that is here may be received, and acknowledged, much later."""
    assert house.sent(r"OS:WINHOST\private$\a")
    outgoing = next(iter(house.manager.state.outgoing.values()))
    house.ask(requests.PurgeQueue(str(outgoing.name)))
    assert not len(outgoing)
    house.ask(requests.SteerOutgoing("", requests.Steer.TIDY))
    assert house.homes() == {"WINHOST": frozenset((OWN,))}


@pytest.mark.parametrize("before", [False, True], ids=["afterwards", "before"])
@pytest.mark.parametrize("restarted", ["", "log", "checkpoint"])
def test_tidying_up_leaves_a_way_of_answers_where_an_application_has_written(
    house: House, restarted: str, before: bool
) -> None:
    """Else the acknowledgment of a message that is received later would go nowhere."""
    name = rf"TCP:{OWN}\private$\a"
    if before:
        house.ask(requests.Send(0, [item(f"DIRECT={name}")]))
    assert house.sent(name)
    if not before:
        house.ask(requests.Send(0, [item(f"DIRECT={name}")]))
    house.ask(requests.PurgeQueue(f"DIRECT={name}"))
    if restarted == "log":
        house.manager = house.again()
    elif restarted:
        state = State(IDENTITY)
        snapshot.restore(state, b"".join(house.manager.snapshot().encode()))
        assert [one.answers for one in state.outgoing.values()] == [True]
    house.ask(requests.SteerOutgoing("", requests.Steer.TIDY))
    assert house.homes() == {OWN: None}


def test_an_application_that_sends_there_may_reach_it_anywhere(house: House) -> None:
    assert house.sent(r"OS:WINHOST\private$\a")
    assert house.sent(r"OS:WINHOST\private$\a"), "its name was found before"
    house.ask(requests.Send(0, [item(r"DIRECT=OS:WINHOST\private$\a")]))
    assert house.homes() == {"WINHOST": None}
    # The name is not known to be the sender's, and what waits is the application's, too.
    assert not house.sent(r"OS:WINHOST\private$\a", address="10.0.0.9")


def test_homes_are_durable_and_few(house: House) -> None:
    actors = [Actor(ActorKind.ADDRESS, f"10.1.0.{n}") for n in range(HOMES_MAX + 1)]
    for actor in actors:
        house.may(actor)
    made = [
        house.sent(r"OS:WINHOST\private$\a", actor=one, address=one.name, source=OTHER)
        for one in actors
    ]
    assert made == [True] * HOMES_MAX + [False]
    kept = house.homes()
    again = house.again().state
    assert {one.name.host: one.homes for one in again.outgoing.values()} == kept
    assert again.homes_kept
    loaded = State(IDENTITY)
    snapshot.restore(loaded, b"".join(house.manager.snapshot().encode()))
    assert {one.name.host: one.homes for one in loaded.outgoing.values()} == kept
    assert loaded.homes_kept


def test_older_records_say_nothing_of_homes() -> None:
    values = {"number": 9, "name": r"DIRECT=OS:B\private$\a", "marked": True}
    assert OutgoingOpened.of(values).homes is None
    assert not OutgoingWanted.of({"number": 9}).answers
