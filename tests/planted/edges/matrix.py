"""Mistakes in who may do what that show where every cell is tried, on real queue managers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.core.rights import demands
from onceq.core.transaction import groups
from onceq.core.transfer import admission, arrival
from onceq.model import grant_index, identification, requests
from onceq.model.requests import Request
from onceq.service import api, doors
from tests.planted.planted import Planted, demanded, edited

MATRIX = "tests/matrix/test_"
ROWS = f"{MATRIX}applications.py::test_at_the_socket_with_tokens"
SINGLE = f"{MATRIX}applications.py::test_with_a_single_right"
PACKETS = f"{MATRIX}peers.py::test_what_becomes_of_each_packet"
STRANGERS = f"{MATRIX}peers.py::test_of_a_stranger_no_byte_is_parsed"
SHOWN = f"{MATRIX}showing.py::test_who_somebody_is"


def _free(kind: type[Request]) -> Callable[[pytest.MonkeyPatch], None]:
    """A request that needs nothing."""
    return demanded(kind, demands._own)


PLANTED = (
    Planted("readers-are-forgotten-by-anybody", _free(requests.ForgetReader), ROWS),
    Planted("held-messages-are-fetched-by-anybody", _free(requests.Fetch), ROWS),
    Planted("outgoing-queues-are-steered-by-anybody", _free(requests.SteerOutgoing), ROWS),
    Planted("lists-are-edited-by-anybody", _free(requests.EditDirectory), ROWS),
    Planted(
        "an-operator-decides-his-own-work-alone",
        edited(demands, "        yield _OPERATE\n        return\n", "        yield _OPERATE\n"),
        ROWS,
    ),
    Planted(
        "a-batch-is-undone-by-anybody",
        edited(groups, "if not own or one.by == own]", "]"),
        ROWS,
    ),
    Planted(
        "only-operators-have-groups-forgotten",
        demanded(requests.ForgetGroup, demands._operates),
        ROWS,
    ),
    Planted(
        "branches-are-joined-by-anybody",
        edited(
            demands,
            "    yield NAMED\n"
            "    yield from to_decide(step, item.owner, step.units.branches.get(item.xid))\n\n\n"
            "def _ends_branch",
            "    yield NAMED\n\n\ndef _ends_branch",
        ),
        ROWS,
    ),
    Planted(
        "tokens-are-listed-for-monitors",
        edited(demands, 'if what == "tokens":', 'if what == "no-tokens":'),
        ROWS,
    ),
    Planted(
        "first-bytes-are-no-body",
        edited(
            demands, "bodies = item.pick not in (PickBy.HEADS, PickBy.BODILESS)",
            "bodies = item.pick not in (PickBy.HEADS, PickBy.BODILESS, PickBy.TOPS)",
        ),
        ROWS,
    ),
    Planted(
        "one-right-of-several-is-enough",
        edited(demands, "for right in rights]", "for right in rights if not right]"),
        SINGLE,
    ),
    Planted(
        "what-is-for-others-needs-no-right",
        edited(arrival, 'if own and not elsewhere else', "if own else"),
        PACKETS,
    ),
    Planted(
        "what-others-have-sent-needs-no-right",
        edited(arrival, 'if own and not elsewhere else', "if not elsewhere else"),
        PACKETS,
    ),
    Planted(
        "who-has-no-right-hears-which-queues-there-are",
        edited(admission, "    if not peer.actor.free and _no_right(",
               "    if not peer.actor.free and queue is not None and _no_right("),
        PACKETS,
    ),
    Planted(
        "a-plain-peer-is-on-this-computer",
        edited(identification, "        actor = Actor(ActorKind.ADDRESS, address)\n",
               "        actor = HERE\n"),
        PACKETS,
    ),
    Planted(
        "whoever-comes-plainly-is-let-in",
        edited(doors, "return found if isinstance(found, str) else None\n\n    def _expected",
               "return None\n\n    def _expected"),
        STRANGERS,
    ),
    Planted(
        "a-wrong-token-is-no-token",
        edited(api, "        if token:\n", "        if token and self._private is None:\n"),
        SHOWN,
    ),
    Planted(
        "monitors-operate",
        edited(grant_index, "if right in _IMPLIED", "if one is Right.MONITOR or right in _IMPLIED"),
        ROWS,
    ),
)  # fmt: skip
