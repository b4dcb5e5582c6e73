"""Mistakes about who comes in: certificates, identities, invitations, plain peers."""

from __future__ import annotations

from onceq import file_access
from onceq.core import rights as required_rights
from onceq.core.management import trail
from onceq.core.peers import trust
from onceq.model import identification, policy
from onceq.model.rights import ActorKind
from onceq.service import api, peer_transports, wires
from onceq.tls import folder, identity, invitations, joining, members
from onceq.wire.mqqb import session
from tests.planted.planted import Planted, edited, replaced

DOORS = "tests/unit/service/test_peer_transports_doors.py"
NETWORK = "tests/unit/service/test_network.py"
TLS = "tests/unit/tls"
PROOFS = "tests/unit/core/state/test_peer_table_binding_proofs.py"

PLANTED = (
    Planted(
        "certificate-speaks-for-anybody",
        edited(identification, "        if guid == who.guid:\n", "        if guid:\n"),
        f"{DOORS}::test_a_right_certificate_speaks_for_its_own_guid_alone",
    ),
    Planted(
        "proven-by-whoever-answers",
        edited(session, "        prove(self._who, packet.server)\n", ""),
        f"{DOORS}::test_a_right_certificate_speaks_for_its_own_guid_alone",
    ),
    Planted(
        "no-certificate-is-this-computer",
        edited(identification, "        return _NO_MANAGER\n", "        return ON_THIS_COMPUTER\n"),
        f"{DOORS}::test_an_invitation_lets_nobody_speak_as_a_peer",
    ),
    Planted(
        "any-protocol-inside-tls",
        edited(peer_transports, "and tls.selected_alpn_protocol() != rule.alpn:", "and False:"),
        f"{DOORS}::test_what_is_spoken_in_tls_is_agreed_on",
    ),
    Planted(
        "strangers-always-invited",
        edited(peer_transports, "and self._expected(now_s):", "and True:"),
        f"{DOORS}::test_who_comes_to_join_gets_an_answer_and_no_session",
    ),
    Planted(
        "open-to-all-without-identity",
        edited(peer_transports, "if where and not guarded and", "if False and"),
        f"{DOORS}::test_without_an_identity_nothing_but_this_computer_is_listened_at",
    ),
    Planted(
        "plain-peers-let-applications-in",
        edited(peer_transports, '("client_listen", tls),', '("client_listen", closed),'),
        f"{DOORS}::test_plain_peers_open_no_door_for_applications",
    ),
    Planted(
        "plain-to-whoever-answers",
        edited(identification, "not house.identity and is_loopback(address)",
               "not house.identity and address"),
        f"{DOORS}::test_doors_by_address",
    ),
    Planted(
        "this-computer-posts-at-an-identity",
        edited(identification, "not house.identity and is_loopback(address)",
               "is_loopback(address)"),
        f"{DOORS}::test_with_an_identity_no_address_posts_without_a_proof",
    ),
    Planted(
        "tcp-names-an-account",
        edited(identification, "shown.over is Over.SOCKET and shown.account", "shown.account"),
        "tests/unit/model/test_identification.py::test_no_account_speaks_over_tcp",
    ),
    Planted(
        "who-shows-nothing-is-this-computer",
        edited(identification, "(Proof.ACCOUNT, actor)\n    return SOMEBODY",
               "(Proof.ACCOUNT, actor)\n    return ON_THIS_COMPUTER"),
        "tests/unit/model/test_identification.py::test_no_account_speaks_over_tcp",
    ),
    Planted(
        "looks-of-one-hold-up-all",
        edited(api, "        self._looking = code == _LOOK\n", ""),
        "tests/unit/service/test_looks_in_turn.py"
        "::test_a_look_waits_for_the_answer_to_the_one_before",
    ),
    Planted(
        "proven-once-believed-plainly",
        edited(identification, "    if proven:\n", "    if False:\n"),
        f"{PROOFS}::test_one_that_has_proven_itself_is_believed_with_a_certificate_alone",
    ),
    Planted(
        "a-proof-is-forgotten",
        edited(trust, "step.setup(PeerProven(guid=item.peer), forced=False)", "pass"),
        f"{PROOFS}::test_one_that_has_proven_itself_is_believed_with_a_certificate_alone",
    ),
    Planted(
        "an-address-is-anybody",
        edited(identification, "allowed = who.guids or before", "allowed = who.guids"),
        f"{PROOFS}::test_an_address_is_the_queue_manager_that_it_first_said",
    ),
    Planted(
        "any-member-under-any-name",
        edited(identification, "names is not Names.CERTIFIED or is_for(host, who.names)", "host"),
        f"{PROOFS}::test_a_member_answers_under_its_own_name_alone",
    ),
    Planted(
        "names-change-hands-by-themselves",
        edited(identification, "if bound and (pinned or names is Names.CERTIFIED):", "if False:"),
        f"{PROOFS}::test_a_name_stays_with_its_queue_manager_until_an_operator_says_otherwise",
    ),
    Planted(
        "handshake-has-a-time-of-its-own",
        edited(wires, "(self.came_s or loop.time())", "loop.time()"),
        f"{DOORS}::test_the_time_for_saying_who_one_is_includes_the_handshake",
    ),
    Planted(
        "address-is-everybody",
        replaced(policy, "UNPROVEN", frozenset((ActorKind.NOBODY,))),
        "tests/unit/model/test_rights.py::test_whom_a_grant_is_about",
    ),
    Planted(
        "address-runs-the-manager",
        edited(policy, "rights - RUNS if", "rights if"),
        "tests/unit/model/test_rights.py::test_an_address_runs_nothing_whatever_it_was_granted",
    ),
    Planted(
        "over-http-the-word-counts",
        edited(required_rights, "peer.http or source == peer.peer", "source == peer.peer"),
        "tests/unit/core/test_rights_judge.py"
        "::test_over_http_a_message_that_names_a_queue_manager_has_not_its_rights",
    ),
    Planted(
        "invitation-used-again",
        edited(
            invitations, "            os.rename(name, self._file(wanted, expires_s, USED))\n", ""
        ),
        f"{TLS}/test_invitations_invites.py::test_an_invitation_is_used_once",
    ),
    Planted(
        "invitation-for-ever",
        edited(invitations, "            if expires_s <= now_s:\n", "            if False:\n"),
        f"{TLS}/test_invitations_invites.py::test_an_invitation_is_good_for_its_time",
    ),
    Planted(
        "the-request-says-its-name",
        edited(invitations, "replace(request, name=name, hosts=(name, *hosts))", "request"),
        f"{TLS}/test_invitations_granting.py::test_the_names_in_a_certificate_are_those_of_the_invitation",
    ),
    Planted(
        "an-address-of-somebody-else",
        edited(members, "        if other is not None:\n", "        if False:\n"),
        f"{TLS}/test_invitations_granting.py"
        "::test_a_certificate_has_no_name_that_is_shared_or_of_somebody_else",
    ),
    Planted(
        "removed-and-still-believed",
        edited(members, "begins_s < found.at_s else None", "False else None"),
        f"{TLS}/test_members_removed.py::test_a_removal_puts_out_what_was_made_before",
    ),
    Planted(
        "a-list-of-removed-ones-is-replaced",
        edited(members, "found = joined(before, removals)", "found = dict(removals)"),
        f"{TLS}/test_members_removed.py::test_a_list_only_grows",
    ),
    Planted(
        "removed-and-renewed",
        edited(invitations, "self._who.begins_s < removal.at_s:", "False:"),
        f"{TLS}/test_invitations_granting.py::test_a_removed_member_renews_nothing_and_comes_back_by_invitation",
    ),
    Planted(
        "a-guid-within-a-scope-has-every-name",
        edited(identity, "not _within(one.casefold(), self.names):", "False:"),
        f"{TLS}/test_identity_scope.py::test_a_certificate_is_within_a_scope_if_each_of_its_names_is",
    ),
    Planted(
        "any-authority-names-applications",
        edited(members, "self._naming not in (None, authority)", "False"),
        f"{TLS}/test_identity_scope.py::test_of_several_authorities_the_own_one_names_applications",
    ),
    Planted(
        "another-authority-renews",
        edited(invitations, "self._who.authority not in folder.here(self._own):", "False:"),
        f"{TLS}/test_invitations_granting.py::test_a_certificate_of_another_authority_renews_nothing",
    ),
    Planted(
        "run-where-others-write",
        edited(file_access, "if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):", "if False:"),
        "tests/unit/service/test_data_directory.py::test_no_queue_manager_is_where_others_may_write",
    ),
    Planted(
        "the-old-authority-stays",
        edited(folder, "gone = set(forget) - set(new)", "gone: set[str] = set()"),
        f"{TLS}/test_folder_lineage.py::test_one_takes_the_place_of_another_and_those_of_others_stay",
    ),
    Planted(
        "a-guid-that-has-rights",
        edited(invitations, "        if means:\n", "        if False:\n"),
        f"{TLS}/test_invitations_granting.py"
        "::test_a_guid_that_means_something_is_signed_for_by_name_alone",
    ),
    Planted(
        "guid-of-somebody-else",
        edited(invitations, "member.name.casefold() != whom.name.casefold()", "False"),
        f"{TLS}/test_invitations_granting.py::test_a_guid_stays_with_its_name",
    ),
    Planted(
        "renewed-for-somebody-else",
        edited(invitations, "if self._who.guid != request.guid:", "if False:"),
        f"{TLS}/test_invitations_granting.py::test_who_has_a_certificate_renews_his_own_and_no_other",
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
        edited(peer_transports, "self._tls, self._entrances = made, entrances",
               "self._tls, self._entrances = made, entrances | {Entrance.POSTS: "
               "self._entrances.get(Entrance.POSTS) or entrances.get(Entrance.POSTS)}"),
        f"{DOORS}::test_other_authorities_are_believed_at_every_door_at_once",
    ),
    Planted(
        "an-end-is-told-the-day-after",
        edited(peer_transports, "return min(left_s, DAY_S) if left_s > 0 else DAY_S",
                                            "return DAY_S"),
        f"{NETWORK}::test_that_a_certificate_has_ended_is_told_when_it_does",
    ),
    Planted(
        "fingerprint-not-compared",
        edited(joining, "if authority.fingerprint(own) != code.fingerprint:", "if False:"),
        "tests/daemon/test_tls.py::test_what_is_wrong_with_a_code_is_told",
    ),
)  # fmt: skip
