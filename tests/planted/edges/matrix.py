"""Mistakes in who may do what that show where every cell is tried, on real queue managers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.client import address
from onceq.core import rights as required_rights
from onceq.core.transaction import second_phase
from onceq.core.transfer import admission, arrival, sessions
from onceq.model import identification, policy, requests
from onceq.model.requests import Request
from onceq.model.requests.request import Needs
from onceq.model.rights import Right
from onceq.service import api, peer_transports
from onceq.tls import members, signing
from tests.planted.planted import Planted, demanded, edited, replaced

MATRIX = "tests/matrix/test_"
ROWS = f"{MATRIX}applications.py::test_at_the_socket_with_tokens"
SINGLE = f"{MATRIX}applications.py::test_with_a_single_right"
PACKETS = f"{MATRIX}peers.py::test_what_becomes_of_each_packet"
STRANGERS = f"{MATRIX}peers.py::test_of_a_stranger_no_byte_is_parsed"
ANSWERS = f"{MATRIX}answers.py::test_what_becomes_of_who_answers"
SIGNING = "tests/unit/tls/test_signing.py::"
IMPOSTORS = "tests/daemon/test_impostors.py::"
SHOWN = f"{MATRIX}showing.py::test_who_somebody_is"


def _free(kind: type[Request]) -> Callable[[pytest.MonkeyPatch], None]:
    """A request that needs nothing."""
    return demanded(kind, Needs.NOTHING)


PLANTED = (
    Planted("readers-are-forgotten-by-anybody", _free(requests.ForgetReader), ROWS),
    Planted("held-messages-are-fetched-by-anybody", _free(requests.Fetch), ROWS),
    Planted("outgoing-queues-are-steered-by-anybody", _free(requests.SteerOutgoing), ROWS),
    Planted("lists-are-edited-by-anybody", _free(requests.EditDirectory), ROWS),
    Planted(
        "an-operator-decides-his-own-work-alone",
        edited(required_rights, "        yield _OPERATE\n        return\n",
               "        yield _OPERATE\n"),
        ROWS,
    ),
    Planted(
        "a-batch-is-undone-by-anybody",
        edited(second_phase, "if not own or one.by == own]", "]"),
        ROWS,
    ),
    Planted(
        "only-operators-have-groups-forgotten",
        demanded(requests.ForgetGroup, Right.OPERATE),
        ROWS,
    ),
    Planted(
        "branches-are-joined-by-anybody",
        demanded(requests.StartBranch, Needs.NAME),
        ROWS,
    ),
    Planted(
        "tokens-are-listed-for-monitors",
        edited(required_rights, 'if what == "tokens":', 'if what == "no-tokens":'),
        ROWS,
    ),
    Planted(
        "first-bytes-are-no-body",
        edited(
            required_rights, "item.pick not in (requests.PickBy.HEADS, requests.PickBy.BODILESS)",
            "item.pick not in (requests.PickBy.HEADS, requests.PickBy.BODILESS, "
            "requests.PickBy.TOPS)",
        ),
        ROWS,
    ),
    Planted(
        "one-right-of-several-is-enough",
        edited(required_rights, "for right in rights]", "for right in rights if not right]"),
        SINGLE,
    ),
    Planted(
        "what-is-for-others-needs-no-right",
        edited(arrival, "if elsewhere or not own:", "if not own:"),
        PACKETS,
    ),
    Planted(
        "what-others-have-sent-needs-no-right",
        edited(arrival, "if elsewhere or not own:", "if elsewhere:"),
        PACKETS,
    ),
    Planted(
        "who-has-no-right-hears-which-queues-there-are",
        edited(admission, "    if not peer.actor.free:\n",
               "    if not peer.actor.free and queue is not None:\n"),
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
        edited(peer_transports, "return None if plain else rule.refusal", "return None"),
        "tests/unit/service/test_peer_transports_doors.py::test_what_each_entrance_asks_for",
    ),
    Planted(
        "a-wrong-token-is-no-token",
        edited(
            api,
            "            found = door.proven(challenge, proof)\n",
            "            try:\n                found = door.proven(challenge, proof)\n"
            "            except errors.OnceqError:\n                return\n",
        ),
        SHOWN,
    ),
    Planted(
        "monitors-operate",
        edited(policy, "if right in _IMPLIED", "if one is Right.MONITOR or right in _IMPLIED"),
        ROWS,
    ),
    Planted(
        "who-peeks-keeps-others-from-receiving",
        edited(required_rights, "if share is requests.Share.DENY_RECEIVE:", "if False:"),
        ROWS,
    ),
    Planted(
        "removed-members-are-let-in",
        edited(members, "        if removal is not None:\n", "        if False:\n"),
        STRANGERS,
    ),
    Planted(
        "members-answer-under-every-name",
        replaced(sessions, "may_not_serve", lambda *_: ""),
        ANSWERS,
    ),
    Planted(
        "removed-members-sign",
        edited(signing, "        if removal is not None:\n", "        if False:\n"),
        f"{SIGNING}test_a_member_that_was_removed_signs_nothing_any_more",
    ),
    Planted(
        "every-authority-signs-for-everybody",
        edited(signing, "if scope is None or scope.speaks_for(guid):", "if True:"),
        f"{SIGNING}test_a_partners_authority_signs_for_its_own_alone",
    ),
    Planted(
        "a-program-takes-the-folder-of-anybody",
        edited(address, "    if where is None:\n", "    if False:\n"),
        f"{IMPOSTORS}test_a_directory_of_another_account_is_not_taken_by_itself",
    ),
)  # fmt: skip
