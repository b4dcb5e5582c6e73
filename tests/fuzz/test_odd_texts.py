"""Any text in any place of any request, from anybody: an answer or an error of onceq, no fault.

A fault of one request would end the queue manager (finding R1). Each text of a request is odd in
turn, and all else is as it should be; who asks may do everything, may do nothing, or is nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.client.link import check_types
from onceq.core.inputs import OwnerCame, Tick
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.letters import JobAction
from onceq.model.requests import Request
from onceq.model.requests.request import list_given
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.looks import LOOKS
from onceq.service.api import admit
from tests.unit.core.somebody import ALICE, BOB, RUNS, STRANGER, XID, core, grant, item

GUID = "01234567-89ab-cdef-0123-456789abcdef"
PIECES: Final = (
    "", "\0", "9" * 5_000, "\u00b2", "\u0665", "-1", "1e999", "nan", "0x" + "f" * 5_000, "1_0",
    " 1 ", "\ud800", "x" * 70_000, "\n", "[" * 20_000, "\u0130", "%", "\\", "/", ";", ",", "=", "*",
    "orders", "18446744073709551616",
)  # fmt: skip
WHOLE: Final = (
    "{}", "{} 0 0 0 private$\\orders", "0 {} 0 0 private$\\orders", "0 9 0 0 {}", ".\\private$\\{}",
    ".\\private$\\orders;{}", "DIRECT=OS:{}\\private$\\orders", "DIRECT=HTTP://b:{}/msmq/orders",
    "MULTICAST=234.1.1.1:{}", "PRIVATE=" + GUID + "\\{}", "PUBLIC={}", "MACHINE={};DEADXACT",
    "DL=" + GUID + "@{}", "{{" + GUID + "}}\\{}", "{}:g:b", "[{}]", '["{}",1]', "class-{}", "0x{}",
    "account:{}", "token:{}", "uuid:{}", "b{}=[", "os:{}",
)  # fmt: skip
"""Where a number, a name or a word is looked for."""
TEXTS: Final = tuple(dict.fromkeys(whole.format(piece) for whole in WHOLE for piece in PIECES))
VALUES: Final[dict[str, Any]] = {
    "transaction": 1, "count_max": 1, "bytes_max": 1 << 20, "first": 1, "last": 9, "lookup": 1,
    "number": 1, "version": 1, "found": 1, "age_s": 60, "returns_max": 1, "wait_ms": 0, "id": "",
    "limit": 1, "what": "queues", "word": "send", "action": "move", "partner": "b",
}  # fmt: skip
QUEUE: Final = r".\private$\orders"
KINDS: Final = tuple(
    kind
    for _, kind in sorted(vars(requests).items())
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
)


def fill(kind: type[Request]) -> dict[str, Any]:
    """A value for each thing that an application says in it."""
    hints = get_type_hints(kind)
    return {name: _filled(kind, name, hints[name]) for name in list_given(kind)}


def _filled(kind: type[Request], name: str, hint: Any) -> Any:
    given: dict[str, dict[str, Any]] = {
        "CreateQueue": {"values": {"name": "made", "label": "a", "poison_then": "stop"}},
        "SetQueue": {"values": {"label": "a", "poison_then": "stop"}},
        "Claim": {"ranges": [(1, 1)]},
        "CreateToken": {"grants": [("send", "*")]},
        "SteerOutgoing": {"action": "pause", "destination": "DIRECT=OS:b\\private$\\q"},
        "EditDirectory": {"what": "add"},
    }
    values = given.get(kind.__name__, {})
    if name in values:
        return values[name]
    if get_origin(hint) is Sequence:
        return [_filled(kind, "", get_args(hint)[0])]
    plain: type = hint if isinstance(hint, type) else get_args(hint)[0]
    if issubclass(plain, Enum):
        return VALUES["action"] if plain is JobAction else next(iter(plain))
    if name in VALUES and isinstance(VALUES[name], plain):
        return VALUES[name]
    return {
        str: QUEUE, int: 0, bool: False, bytes: bytes(16), requests.SendItem: item(),
        TransactionId: TransactionId(bytes(16), 1), type(XID): XID, float: 0.0,
    }[plain]  # fmt: skip


Asking = Callable[[str], Request]


def askings() -> Iterator[tuple[str, Asking]]:
    """Each place of a text, by its name."""
    for kind in KINDS:
        if kind is not requests.Look:
            values = fill(kind)
            for name, value in values.items():
                for at, put in _puts(value):
                    title = f"{kind.__name__}.{name}{at}"
                    yield title, partial(_asked, kind, values, name, put)
    for what in LOOKS:
        for name in ("name", "after", "sort", "only", "part"):
            yield f"Look.{what}.{name}", partial(_look, what, name)


def _asked(
    kind: type[Request], values: Mapping[str, Any], name: str, put: Callable[[str], Any], text: str
) -> Request:
    return kind(**{**values, name: put(text)})


def _look(what: str, name: str, text: str) -> Request:
    asked = requests.Look(what)
    setattr(asked, name, text)
    return asked


def _puts(value: Any) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Ways to have an odd text in a value."""
    if isinstance(value, (str, JobAction)):
        yield "", lambda text: text
    elif isinstance(value, dict):
        for key in value:
            yield f".{key}", partial(_with, value, key)
        yield ".key", lambda text: {**value, text: text}
    elif isinstance(value, list) and isinstance(value[0], str):
        yield "[]", lambda text: [text]
    elif isinstance(value, list) and isinstance(value[0], tuple) and isinstance(value[0][0], str):
        yield "[0]", lambda text: [(text, "*")]
        yield "[1]", lambda text: [("send", text)]
    elif isinstance(value, list) and isinstance(value[0], requests.SendItem):
        yield ".destination", lambda text: [_sent(text)]
        for name in ("label", "admin_queue", "response_queue", "dead_letter_queue"):
            yield f".{name}", partial(_with_property, name)


def _with(values: dict[str, Any], key: str, text: str) -> dict[str, Any]:
    return {**values, key: text}


def _with_property(name: str, text: str) -> list[requests.SendItem]:
    return [_sent(QUEUE, **{name: text, "journal": 1})]


def _sent(to: str, **values: Any) -> requests.SendItem:
    made = item(to)
    made.values = {**values, "acknowledge": 15} if values else {}
    return made


ASKINGS: Final = dict(askings())
CLOCK: Any = SimpleNamespace(read=lambda: SimpleNamespace(mono_us=1_000_000))


def tried(texts: Sequence[str], asking: Asking) -> int:
    """How many of these were answered, by a core that may not fail."""
    answered = 0
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    grant(made, "administer", who="bob")
    made.ask(requests.Commit(0, [item(count=3)]))
    number = made.asked + 1_000
    for owner in (RUNS, BOB, ALICE, STRANGER):
        for text in texts:
            number += 1
            try:
                request = asking(text)
                check_types(request)
                admit(request, owner, number, clock=CLOCK, random=bytes)
            except OnceqError:
                answered += 1
                continue
            made.step(request)
            for _ in range(50):
                if not made.manager.at_work:
                    break
                made.step(Tick())
            answered += number in made.answers
    assert made.ask(requests.Look("settings"))
    return answered


def test_numbers_of_any_length_are_answered() -> None:
    for place in ("Look.range.name", "Look.trail.name", "Look.waiting.name", "Look.job.name"):
        assert tried([whole.format("9" * 5_000) for whole in WHOLE], ASKINGS[place]) > 0, place


@pytest.mark.parametrize("place", ASKINGS)
def test_odd_texts_are_answered(place: str) -> None:
    asking = ASKINGS[place]
    texts = TEXTS if place.startswith("Look.") and place.endswith(".name") else PIECES
    if place.endswith(".after"):
        texts += tuple(f"[{piece}]" for piece in PIECES)
    assert tried(texts, asking) > 0


@given(
    st.sampled_from(sorted(ASKINGS)),
    st.lists(st.one_of(st.text(max_size=20), st.sampled_from(PIECES + WHOLE)), max_size=5),
)
def test_drawn_texts_are_answered(place: str, pieces: list[str]) -> None:
    assert tried(["".join(pieces)], ASKINGS[place]) > 0


def test_each_request_with_a_text_is_asked() -> None:
    """A place that is left out is one where the next fault stands."""
    missing = [
        f"{kind.__name__}.{name}"
        for kind in KINDS
        for name, hint in get_type_hints(kind).items()
        if name in list_given(kind) and "str" in str(hint) and kind is not requests.Look
        and not any(place.startswith(f"{kind.__name__}.{name}") for place in ASKINGS)
    ]  # fmt: skip
    assert not missing
    assert len(KINDS) > 40
