"""Mistakes about who comes in: certificates, identities, invitations, plain peers."""

from __future__ import annotations

from onceq.core.management import trail
from onceq.core.rights import judge
from onceq.model import rights
from onceq.service import doors, wires
from onceq.tls import folder, granting, identity, invites, joining
from onceq.wire.mqqb import session
from tests.planted.planted import Planted, edited, replaced

DOORS = "tests/unit/service/test_doors.py"
NETWORK = "tests/unit/service/test_network.py"
TLS = "tests/unit/tls"

PLANTED = (
    Planted(
        "certificate-speaks-for-anybody",
        edited(session, "if self._proven not in (NO_GUID, said):", "if False:"),
        f"{DOORS}::test_a_right_certificate_speaks_for_its_own_guid_alone",
    ),
    Planted(
        "proven-by-whoever-answers",
        edited(session, "        self._prove(packet.server)\n", ""),
        f"{DOORS}::test_a_right_certificate_speaks_for_its_own_guid_alone",
    ),
    Planted(
        "no-certificate-is-this-computer",
        edited(
            doors, 'return "it has shown no certificate of a queue manager"',
            "return ON_THIS_COMPUTER",
        ),
        f"{DOORS}::test_an_invitation_lets_nobody_speak_as_a_peer",
    ),
    Planted(
        "any-protocol-inside-tls",
        edited(doors, "if tls.selected_alpn_protocol() != PEERS:", "if False:"),
        f"{DOORS}::test_what_is_spoken_in_tls_is_agreed_on",
    ),
    Planted(
        "strangers-always-invited",
        edited(doors, "if self._expected(now_s) else", "if True else"),
        f"{DOORS}::test_who_comes_to_join_gets_an_answer_and_no_session",
    ),
    Planted(
        "open-to-all-without-identity",
        edited(doors, "if where and not guarded and", "if False and"),
        f"{DOORS}::test_without_an_identity_nothing_but_this_computer_is_listened_at",
    ),
    Planted(
        "plain-peers-let-applications-in",
        edited(doors, '("client_listen", tls),', '("client_listen", closed),'),
        f"{DOORS}::test_plain_peers_open_no_door_for_applications",
    ),
    Planted(
        "plain-to-whoever-answers",
        edited(doors, "        if is_loopback(address):\n", "        if address:\n"),
        f"{DOORS}::test_doors_by_address",
    ),
    Planted(
        "handshake-has-a-time-of-its-own",
        edited(wires, "(self.came_s or loop.time())", "loop.time()"),
        f"{DOORS}::test_the_time_for_saying_who_one_is_includes_the_handshake",
    ),
    Planted(
        "address-is-everybody",
        replaced(rights, "UNPROVEN", frozenset((rights.ActorKind.NOBODY,))),
        "tests/unit/model/test_rights.py::test_whom_a_grant_is_about",
    ),
    Planted(
        "address-runs-the-manager",
        edited(rights, "grant.rights - RUNS if", "grant.rights if"),
        "tests/unit/model/test_rights.py::test_an_address_runs_nothing_whatever_it_was_granted",
    ),
    Planted(
        "over-http-the-word-counts",
        edited(judge, "peer.http or source == peer.peer", "source == peer.peer"),
        "tests/unit/core/rights/test_judge.py"
        "::test_over_http_a_message_that_names_a_queue_manager_has_not_its_rights",
    ),
    Planted(
        "invitation-used-again",
        edited(
            invites, "            os.rename(name, self._file(wanted, expires_s, USED))\n", ""
        ),
        f"{TLS}/test_invites.py::test_an_invitation_is_used_once",
    ),
    Planted(
        "invitation-for-ever",
        edited(invites, "            if expires_s <= now_s:\n", "            if False:\n"),
        f"{TLS}/test_invites.py::test_an_invitation_is_good_for_its_time",
    ),
    Planted(
        "any-host-in-a-certificate",
        edited(granting, "if host in granted)", "if granted)"),
        f"{TLS}/test_granting.py"
        "::test_who_is_invited_gets_a_certificate_for_his_guid_and_no_foreign_host",
    ),
    Planted(
        "guid-of-somebody-else",
        edited(granting, 'known["name"] != whom.name', "False"),
        f"{TLS}/test_granting.py::test_a_guid_stays_with_its_name",
    ),
    Planted(
        "renewed-for-somebody-else",
        edited(granting, "if self._who.guid != request.guid:", "if False:"),
        f"{TLS}/test_granting.py::test_who_has_a_certificate_renews_his_own_and_no_other",
    ),
    Planted(
        "first-of-two-identities",
        edited(identity, "    if len(named) != 1:\n", "    if not named:\n"),
        f"{TLS}/test_identity.py::test_the_queue_manager_that_a_certificate_is_for",
    ),
    Planted(
        "key-that-others-read",
        edited(folder, "if mode & ~allowed & 0o077:", "if False:"),
        f"{TLS}/test_own.py::test_who_can_read_the_key_can_speak_as_the_queue_manager",
    ),
    Planted(
        "joined-before-it-is-on-record",
        edited(wires, "if granting.signed is None:", "if True:"),
        f"{NETWORK}::test_nobody_hears_of_a_certificate_that_is_not_on_record",
    ),
    Planted(
        "joined-and-told-nothing",
        edited(trail, "    step.answer(item.owner, item.request, None)\n", ""),
        "tests/unit/core/management/test_trail.py::test_who_has_witnessed_an_act_hears_when_it_stands",
    ),
    Planted(
        "https-believes-whom-it-believed-at-the-start",
        edited(doors, "self._tls, self._plain, self._https = made, plain, https",
               "self._tls, self._plain, self._https = made, plain, self._https or https"),
        f"{DOORS}::test_other_authorities_are_believed_at_every_door_at_once",
    ),
    Planted(
        "an-end-is-told-the-day-after",
        edited(doors, "return min(left_s, DAY_S) if left_s > 0 else DAY_S", "return DAY_S"),
        f"{NETWORK}::test_that_a_certificate_has_ended_is_told_when_it_does",
    ),
    Planted(
        "fingerprint-not-compared",
        edited(joining, "if authority.fingerprint(own) != code.fingerprint:", "if False:"),
        "tests/daemon/test_tls.py::test_what_is_wrong_with_a_code_is_told",
    ),
)  # fmt: skip
