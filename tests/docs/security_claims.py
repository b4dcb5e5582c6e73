"""Which tests hold each sentence of SECURITY.md, by its words.

A sentence that is changed is looked at again: without a line here it fails a test
(``test_security_page.py``).

A sentence is held by a test if that fails where the sentence is not true. Of a sentence that
promises nothing it is said why it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HELD: Final[Mapping[str, tuple[str, ...]]] = {
    "the stranger: a port: nothing: with TLS none of their bytes reaches the parser of the "
    "protocol, and every refusal is the same": (
        "matrix/test_peers.py::test_of_a_stranger_no_byte_is_parsed",
        "matrix/test_showing.py::test_who_somebody_is",
        "daemon/test_before_names.py::test_a_stranger_hears_the_same_whatever_certificate_he_has",
    ),
    "the peer: another queue manager, with a certificate for its GUID, or at an address of "
    "`plain_peers`: that it has this GUID and the names in its certificate, or this address; it "
    "may only send where it was granted `send`": (
        "matrix/test_peers.py::test_what_becomes_of_each_packet",
        "matrix/test_peers.py::test_a_certificate_is_for_one_guid",
        "matrix/test_peers.py::test_a_plain_host_is_nobody_else",
        "matrix/test_answers.py::test_what_becomes_of_who_answers",
    ),
    "the application: the Unix socket, loopback, or TCP in TLS: its account at the socket, its "
    "token, or its certificate; it may do what was granted to it": (
        "matrix/test_showing.py::test_who_somebody_is",
        "matrix/test_applications.py::test_at_the_socket_with_tokens",
        "matrix/test_applications.py::test_at_every_other_door",
    ),
    "the operator: commands: like an application: `monitor`, `operate` and `administer` are "
    "rights, and their acts are in the audit trail": (
        "matrix/test_applications.py::test_at_the_socket_with_tokens",
        "matrix/test_applications.py::test_with_a_single_right",
        "unit/core/management/test_trail.py::test_what_only_operators_may_do_is_an_act",
    ),
    "the disk: the data directory, backups, histories: everything: only the account of the queue "
    "manager and root can write there; a backup only if a trusted queue manager signed it, or "
    "with `--unsigned`": (
        "unit/service/test_data_directory.py::test_only_its_own_user_may_look_inside",
        "unit/service/test_data_directory.py::test_no_queue_manager_is_where_others_may_write",
        "unit/service/test_restoring.py::test_the_backup_of_nobody_else_is_put_back",
    ),
    "Nobody speaks for a queue manager that has a certificate.": (
        "matrix/test_peers.py::test_of_a_stranger_no_byte_is_parsed",
        "matrix/test_peers.py::test_a_certificate_is_for_one_guid",
        "matrix/test_peers.py::test_a_plain_host_is_nobody_else",
    ),
    "One with an identity speaks TLS 1.3 (1.2 if `tls_minimum` says so) before the "
    "first byte, with every address that is not in `plain_peers`; both sides show a "
    "certificate, and it names the GUID of the session.": (
        "unit/service/test_peer_transports_doors.py::test_no_byte_of_a_stranger_is_parsed",
        "unit/service/test_peer_transports_doors.py::test_a_right_certificate_speaks_for_its_own_guid_alone",
        "unit/service/test_peer_transports_doors.py::test_a_certificate_of_an_older_tls_is_let_in_only_where_that_is_set",
    ),
    "A queue manager that once showed a certificate, got one here, or has its own right is "
    "accepted only over TLS.": (
        "daemon/test_other_names.py::test_a_plain_host_is_no_member",
        "unit/core/state/test_peer_table_binding_proofs.py::test_so_is_one_with_a_certificate_of_ours_or_a_right_of_its_own",
        "unit/core/state/test_peer_table_binding_proofs.py::test_one_that_has_proven_itself_is_believed_with_a_certificate_alone",
        "matrix/test_peers.py::test_a_plain_host_is_nobody_else",
    ),
    "No member answers under another member's name, before first contact or later: "
    "where there is an identity the certificate is for the name that was asked for, "
    "and a name stays with its queue manager until an operator says otherwise.": (
        "daemon/test_other_names.py::test_a_member_gets_nothing_under_another_name",
        "unit/core/state/test_peer_table_binding_proofs.py::test_a_name_stays_with_its_queue_manager_until_an_operator_says_otherwise",
        "matrix/test_answers.py::test_what_becomes_of_who_answers",
        "unit/core/state/test_peer_table_binding_proofs.py::test_a_member_answers_under_its_own_name_alone",
    ),
    "Without an identity nothing listens for other computers, except for the addresses in "
    "`plain_peers` (never for applications), and for HTTPS and metrics with their own certificate "
    "(`http_certificate`), where clients without credentials are `nobody`.": (
        "daemon/test_tls.py::test_nothing_that_others_reach_is_listened_at_without_an_identity",
        "unit/service/test_peer_transports_doors.py::test_plain_peers_open_no_door_for_applications",
        "matrix/test_over_http.py::test_what_becomes_of_each_post",
        "unit/service/test_http_watching.py::test_doors_of_those_who_watch",
    ),
    "An invitation is valid once, for a limited time, for one name, and only at the authority "
    "whose fingerprint it carries.": (
        "daemon/test_tls.py::test_a_code_is_used_once_and_says_by_whom",
        "unit/tls/test_invitations_invites.py::test_an_invitation_is_good_for_its_time",
        "daemon/test_tls.py::test_what_is_wrong_with_a_code_is_told",
        "unit/tls/test_invitations_invites.py::test_an_invitation_is_used_once",
    ),
    "A certificate is for the name that was invited, and no member has one for a name"
    " or an address of another, or of every computer; a GUID that means something "
    "already is signed only by an invitation that names it.": (
        "unit/tls/test_invitations_granting.py::test_the_names_in_a_certificate_are_those_of_the_invitation",
        "unit/tls/test_invitations_granting.py::test_a_certificate_has_no_name_that_is_shared_or_of_somebody_else",
        "daemon/test_tls.py::test_a_guid_that_has_rights_is_not_signed_for_somebody_else",
    ),
    "A removed member is refused: no earlier certificate of it counts, in either direction, and "
    "it gets no new one until it is invited again.": (
        "daemon/test_removing.py::test_who_is_removed_gets_and_says_nothing_any_more_until_invited_again",
        "unit/tls/test_invitations_granting.py::test_a_removed_member_renews_nothing_and_comes_back_by_invitation",
        "matrix/test_peers.py::test_of_a_stranger_no_byte_is_parsed",
        "matrix/test_showing.py::test_who_somebody_is",
        "matrix/test_over_http.py::test_what_becomes_of_each_post",
        "matrix/test_answers.py::test_what_becomes_of_who_answers",
    ),
    "A queue manager does not run where others may write, nor in a folder of another account: "
    "anybody who can put an `onceq.toml` there decides who is trusted.": (
        "unit/service/test_data_directory.py::test_no_queue_manager_is_where_others_may_write",
        "unit/service/test_data_directory.py::test_no_queue_manager_is_in_a_folder_of_another_account",
    ),
    "A backup is what its queue manager has made.": (
        "unit/service/test_restoring.py::test_the_backup_of_nobody_else_is_put_back",
        "unit/service/test_restoring.py::test_each_field_of_the_manifest",
    ),
    "With an identity it signs the manifest; a restore accepts nothing without a trusted "
    "signature, and nothing that a removed member signed, unless `--trust` or `--unsigned` says "
    "so (without an identity nothing is signed, so you must pass `--unsigned`), and touches no "
    "file outside its target, even if a backup was forged.": (
        "unit/service/test_restoring.py::test_each_field_of_the_manifest",
        "unit/service/test_restoring.py::test_a_file_more_in_the_manifest",
        "unit/service/test_restoring.py::test_where_nothing_tells_by_whom_it_was_signed_the_ways_out_are_named",
        "unit/tls/test_signing.py::test_another_member_does_not_sign_for_it",
        "crash/test_backup.py::test_a_mark_leads_to_no_directory_that_no_restore_has_made",
        "unit/service/test_restoring.py::test_the_backup_of_a_removed_member_is_put_back_only_by_who_says_so",
        "unit/tls/test_signing.py::test_a_member_that_was_removed_signs_nothing_any_more",
        "unit/tls/test_signing.py::test_a_partners_authority_signs_for_its_own_alone",
    ),
    "Everything that was not granted is refused, for each queue and operation, also in a "
    "transaction that is open when a right is revoked; a promise to a coordinator is checked "
    "once, when it is made.": (
        "unit/core/test_rights.py::test_every_request_says_what_it_needs",
        "unit/core/test_rights.py::test_a_commit_is_judged_at_its_time_and_undone",
        "unit/core/test_rights_promises.py::test_a_right_that_is_taken_away_after_the_promise_changes_nothing",
        "matrix/test_applications.py::test_at_the_socket_with_tokens",
        "matrix/test_applications.py::test_at_every_other_door",
    ),
    "A queue is one queue, with any characters in its name.": (
        "unit/core/test_rights_patterns.py::test_its_owner_and_those_whom_he_gives_rights_have_them_there_alone",
        "unit/model/test_patterns.py::test_a_name_is_the_only_one_that_its_pattern_matches",
        "daemon/test_tokens.py::test_who_owns_a_queue_that_is_called_like_a_pattern_owns_that_one_alone",
        "matrix/test_applications.py::test_at_the_socket_with_tokens",
    ),
    "Only administrators admit unauthenticated clients, and only users with `receive` at a queue, "
    "or `operate`, can open it exclusively.": (
        "unit/core/test_rights_whole.py::test_who_owns_a_queue_opens_no_door",
        "unit/core/test_rights_whole.py::test_who_may_only_look_keeps_nobody_from_receiving",
        "unit/core/test_rights_whole.py::test_who_may_take_or_operate_does_until_he_may_not",
        "matrix/test_applications.py::test_at_the_socket_with_tokens",
    ),
    "A decision about databases and other queue managers belongs to the user who made it: only "
    "this user and operators can end it, also after a restart.": (
        "unit/core/test_rights_deciders.py::test_who_has_decided_says_when_it_is_told",
        "unit/core/test_rights_recovering.py::test_recovery_of_another_neither_ends_nor_forgets_it",
    ),
    "Nobody commits what another one has rolled back, although others read the "
    "identifiers of transactions, in databases and in `onceq tx list`: the queue "
    "manager makes them itself, each for one transaction, and those of groups with a "
    "mark that says for whom they are.": (
        "unit/core/test_rights_groups.py::test_nobody_names_the_transaction_that_a_commit_decides",
        "unit/core/test_rights_groups.py::test_nobody_decides_what_another_has_rolled_back",
    ),
    "A stranger learns nothing but what the certificate says where TLS is spoken (the"
    " GUID, the name and the hosts of the queue manager): not what runs there, not "
    "which queues there are.": (
        "unit/core/test_rights.py::test_a_stranger_gets_nothing_and_learns_nothing",
        "daemon/test_tls.py::test_an_unchecked_tls_client_learns_nothing",
        "daemon/test_tokens.py::test_wrong_tokens_learn_nothing_and_are_counted",
        "daemon/test_before_names.py::test_an_application_that_proves_nothing_hears_the_same_whatever_there_is",
        "daemon/test_before_names.py::test_who_posts_without_a_certificate_hears_the_same_whatever_there_is",
    ),
    "Nor does a queue manager without a right learn from refusals which queues exist: it gets "
    "*access denied* whether the queue exists or not.": (
        "matrix/test_peers.py::test_what_becomes_of_each_packet",
    ),
    "Tokens are 256 random bits, kept as a salted hash, and proven only over TLS, at "
    "the socket and over loopback; a revoked one ends its connections.": (
        "unit/model/test_tokens.py::test_a_secret_has_256_bits_and_its_salted_hash_is_kept",
        "unit/client/test_credentials.py::test_it_is_not_shown_where_others_can",
        "daemon/test_tokens.py::test_one_that_is_revoked_in_use_is_cut_with_the_reason",
        "unit/service/test_tokens.py::test_where_a_token_may_be_shown",
    ),
    "An application tells its token only to one that has proven to know it, in a form"
    " that is good on that connection alone; and takes no socket of an account for a "
    "queue manager of another one's directory, nor a directory of another account "
    "that nobody has named.": (
        "daemon/test_impostors.py::test_who_takes_the_place_of_a_dead_one_is_told_no_token",
        "daemon/test_impostors.py::test_who_passes_on_what_is_said_does_not_come_in",
        "daemon/test_impostors.py::test_what_was_heard_on_one_connection_is_good_on_no_other",
        "daemon/test_impostors.py::test_a_socket_of_another_account_is_no_queue_manager",
        "daemon/test_impostors.py::test_a_directory_of_another_account_is_not_taken_by_itself",
        "unit/service/test_tokens.py::test_what_is_kept_lets_nobody_in",
    ),
    "Spark keeps no secret: plans, logs, the event log, checkpoints and errors contain only names "
    "of files.": (
        "spark/test_spark_secured.py::test_a_secret_stands_in_nothing_that_spark_keeps_or_says",
    ),
    "Answers go home: acknowledgments and receipts that a message asks for go to the address of "
    "its sender, or where the sender was granted `send` by name; never to loopback or link-local "
    "addresses that no operator named, even if a name resolves to another address later.": (
        "daemon/test_answers_go_home.py::test_receipts_of_a_plain_host_go_to_its_own_address",
        "daemon/test_answers_go_home.py::test_a_name_that_leads_to_this_computer_is_judged_when_it_is_connected_to",
        "unit/core/peers/test_answer_addresses_homes.py::test_no_answer_goes_to_this_computer_for_who_is_elsewhere",
        "daemon/test_answers_go_home.py::test_acknowledgments_go_to_the_address_of_their_sender",
        "daemon/test_answers_go_home.py::test_after_a_restart_acknowledgments_go_home_still",
    ),
    "No web page posts a message: what a browser marks, or sends without asking, is "
    "refused by its head, also on loopback.": (
        "daemon/test_web_pages.py::test_no_request_of_a_browser_is_taken",
        "daemon/test_web_pages.py::test_a_page_in_a_real_browser_sends_nothing",
    ),
    "A body costs what it weighs: chunks are refused, and a body that is longer than "
    "a receipt (16 KiB) is taken only from somebody who may send to a queue here.": (
        "unit/wire/srmp/test_session_heads.py::test_bytes_in_small_pieces_cost_what_they_weigh",
        "unit/wire/srmp/test_session_heads.py::test_what_no_queue_manager_sends_is_refused",
        "unit/wire/srmp/test_session_heads.py::test_who_may_send_nowhere_may_post_what_a_receipt_takes",
    ),
    "A web page reads nothing either: metrics, health and console answer under their "
    "own names alone, and no page of another site.": (
        "unit/service/test_http_watching.py::test_a_name_that_was_made_to_lead_here_is_answered_nothing",
        "unit/service/test_http_watching.py::test_a_page_of_another_site_is_answered_nothing",
        "unit/console/test_guard.py::test_another_sites_page_reads_nothing",
    ),
    "An ID token counts if it is signed with a key that the provider publishes, never without one "
    "or with a public key as a secret, and is of this provider, for this console, in time, and of "
    "this sign-in.": (
        "unit/console/test_provider_lies.py::test_what_the_provider_says_is_not_believed",
        "unit/console/test_provider_lies.py::test_a_token_of_another_key_is_not_believed",
        "unit/console/test_provider_lies.py::test_unknown_keys_do_not_have_it_asked_again_and_again",
        "unit/console/test_provider_lies.py::test_a_description_that_lies_is_not_believed",
    ),
    "An answer counts in the browser that has begun, once, and leads nowhere else.": (
        "unit/console/test_sign_in.py::test_a_link_of_somebody_else_signs_nobody_in",
        "unit/console/test_sign_in.py::test_an_answer_is_taken_once",
        "unit/console/test_sign_in.py::test_nothing_leads_anywhere_else",
    ),
    "People may do what the token of their group may, which the queue managers judge; who is in no "
    "group that was let in is refused, and nobody gets what the console itself may.": (
        "unit/console/test_sign_in.py::test_whose_groups_are_not_let_in_is_told_so",
        "daemon/test_sign_in.py::test_a_group_may_do_what_its_token_may_and_the_trail_has_the_person",
        "daemon/test_sign_in.py::test_a_token_that_is_revoked_lets_its_group_see_nothing",
        "unit/client/test_credentials.py::test_who_always_shows_a_token_is_connected_nowhere_without",
    ),
    "Sessions end by signing out and by their time.": (
        "unit/console/test_sign_in.py::test_a_session_ends_by_sign_out",
        "unit/console/test_sign_in.py::test_a_session_ends_with_its_time",
    ),
    "No account, token, certificate or queue manager uses up what all share: of queues, subqueues, "
    "outgoing queues, grants, running jobs, queues held open, cursors, waiting receives, "
    "transactions, branches, decisions, names of applications and streams each has a share, and "
    "there is a reserve for administrators.": (
        "unit/core/step/test_step_shares.py::test_one_fills_and_another_works",
        "property/test_shares.py::test_what_is_counted_is_what_is_there",
        "daemon/test_shares.py::test_one_account_fills_and_another_works",
    ),
    "Very many names together fill what all share, but for what is kept for administrators.": (
        "unit/core/step/test_step_shares.py::test_one_fills_and_another_works",
    ),
    "Each new one finds half of what is left at most (shares).": (
        "unit/core/step/test_step_shares.py::test_one_fills_and_another_works",
    ),
    "Half requests do not keep others from the console.": (
        "unit/console/test_app_serving_connection.py::test_those_that_have_said_nothing_whole_are_few",
        "daemon/test_console.py::test_half_requests_keep_nobody_out",
    ),
    "Malformed input of every kind is refused: packets, requests, names, files of the store, "
    "XML.": (
        "fuzz/test_packets.py::test_headers_and_decode",
        "fuzz/test_client_protocol.py::test_any_values_are_answered_once_and_leave_the_manager_whole",
        "fuzz/test_names.py::test_any_text_is_a_name_or_a_declared_error",
        "fuzz/test_store.py::test_a_mangled_store_is_opened_or_refused",
        "fuzz/test_srmp.py::test_changed_envelopes_are_read_or_refused",
    ),
    "Strangers do not exhaust what others need: see the limits below.": (
        "unit/service/test_admission.py::test_strangers_leave_room_for_those_that_are_known",
        "unit/service/test_admission.py::test_descriptors_of_the_store_are_nobody_elses",
        "daemon/test_before_names.py::test_handshakes_that_do_not_end_take_nothing_from_those_who_are_known",
    ),
    "Who did it is known: each act of administration is written with what it did, in "
    "the store, in a file beside it and in syslog, where there is one.": (
        "unit/core/management/test_trail.py::test_an_act_and_what_it_did_are_there_after_a_restart",
        "unit/service/test_trail_files_export.py::test_syslog_is_told_each_act_and_what_it_may_have_is_marked",
        "unit/service/test_trail_files_export.py::test_no_act_is_missing_nor_told_twice_wherever_the_power_goes",
    ),
    "A user with very many acts pushes out only their own acts of that kind.": (
        "daemon/test_tokens.py::test_one_small_right_wipes_nothing_out_of_the_trail",
        "unit/core/management/test_trail.py::test_who_does_one_thing_very_often_pushes_out_neither_others_nor_other_kinds",
    ),
    "The acts are a chain, whose end other queue managers hold: `onceq trail verify` "
    "names what was removed or changed.": (
        "daemon/test_trail.py::test_what_is_changed_or_removed_is_found",
    ),
    "An audit of the histories misses an act that was removed.": (
        "audit/test_acts.py::test_an_act_that_was_removed_is_missed_wherever_it_stood",
    ),
    "What is installed is what was tested: lock files have the hash of each file, no "
    "version that is allowed has a known advisory of our list, and a release has a "
    "bill of materials and checksums.": (
        "unit/tools/test_lock.py::test_no_version_that_is_allowed_has_a_known_weakness",
        "unit/tools/test_lock.py::test_each_package_of_a_lock_has_hashes_and_nothing_else",
        "unit/tools/test_sbom.py::test_it_has_every_package_of_the_lock_with_the_hashes_of_its_files",
    ),
    "The unit and the containers may do little: no capabilities, system calls of a "
    "list, nothing written but their own directory.": (
        "docs/test_packaging.py::test_systemd_finds_the_unit_closed",
        "docs/test_packaging.py::test_no_container_may_write_or_do_more_than_it_must",
    ),
    "Anybody who can read the disk or a backup can read the messages, and in the `onceq.toml` of "
    "a backup the passwords of `databases` (`--without-configuration` leaves it out).": (
        "unit/service/test_restoring.py::test_a_backup_without_the_configuration_has_no_password",
    ),
    "The data directory is for the account of the queue manager alone (0700, with "
    "`socket_group` 0710; files 0600); encrypt the disk, or the bodies before they "
    "are sent.": (
        "unit/service/test_data_directory.py::test_only_its_own_user_may_look_inside",
        "unit/service/test_listening_socket_group.py::test_a_group_may_pass_through_and_nothing_is_readable",
    ),
    "What they cannot change is the end of the trail that another queue manager "
    "holds, and what a syslog elsewhere has.": (
        "daemon/test_trail.py::test_what_is_changed_or_removed_is_found",
        "unit/model/test_audit_trail_check.py::test_others_hold_digests_that_nobody_here_can_change",
    ),
    "A plain peer is believed by its address, without encryption.": (
        "unit/service/test_peer_transports_doors.py::test_a_plain_peer_is_known_by_its_address_and_nobody_else_comes_in_so",
    ),
    "It can never operate, and never speaks for a queue manager that has a certificate.": (
        "unit/service/test_peer_transports_doors.py::test_plain_peers_open_no_door_for_applications",
        "matrix/test_peers.py::test_a_plain_host_is_nobody_else",
        "daemon/test_other_names.py::test_a_plain_host_is_no_member",
    ),
    "The address is the queue manager that it first says to be; of two plain "
    "addresses one can claim to be the other, unless `plain_peers` names their GUIDs.": (
        "unit/core/state/test_peer_table_binding_proofs.py::test_an_address_is_the_queue_manager_that_it_first_said",
        "unit/model/test_identification.py::test_an_address_is_one_queue_manager",
        "matrix/test_peers.py::test_a_plain_host_is_nobody_else",
    ),
    "It may also answer under a name that is nobody's yet: until a member has "
    "answered under its name once, DNS can lead that name to a plain address.": (
        "matrix/test_answers.py::test_what_becomes_of_who_answers",
    ),
    "Members hear of a removal within a minute, and not while their authority is away: until then "
    "they still trust the removed member.": (
        "docs/test_security_page.py::test_what_other_numbers_say",
        "daemon/test_removing.py::test_other_members_are_told_and_keep_what_a_restored_authority_forgets",
    ),
    "Lists of revoked certificates of other authorities (CRL, OCSP) are not read: say"
    " `onceq tls remove GUID` at each queue manager.": (
        "daemon/test_removing.py::test_what_is_removed_where_no_authority_is_holds_there_alone",
    ),
    "Every authority of queue managers that has no line in `[authorities]` may speak "
    "for any GUID and any name.": (
        "unit/service/test_peer_transports_doors.py::test_other_authorities_are_believed_at_every_door_at_once",
        "unit/tls/test_identity_scope.py::test_of_several_authorities_the_own_one_names_applications",
    ),
    "Limit those of others.": (
        "daemon/test_removing.py::test_a_partners_authority_speaks_for_its_own_alone",
    ),
    "The key of one is enough to impersonate another queue manager to applications that show no "
    "token.": ("daemon/test_impostors.py::test_who_passes_on_what_is_said_does_not_come_in",),
    "Anybody who has read the store or a backup can answer applications as that queue manager: "
    "the stored hash of a token gives no access, but it is enough to pose as the queue manager to "
    "the token's holder, who then sends the token.": (
        "unit/model/test_tokens.py::test_who_knows_the_digest_uncovers_the_secret",
        "unit/service/test_tokens.py::test_what_is_kept_lets_nobody_in",
    ),
    "A token for metrics is said in clear (`Authorization: Bearer`, which is all that"
    " those who collect metrics know), over TLS and loopback: let anybody who "
    "collects them without TLS have a token of its own, with `monitor` and nothing "
    "else.": ("unit/service/test_http_watching.py::test_from_elsewhere_it_is_tls_and_a_token",),
    "Without an identity a queue manager believes its own computer.": (
        "matrix/test_peers.py::test_what_becomes_of_each_packet",
    ),
    "Each process that can open a connection to its `listen` or `http_listen` address"
    " on loopback is taken for the queue manager that it says it is.": (
        "matrix/test_peers.py::test_what_becomes_of_each_packet",
    ),
    "Where accounts share a computer that do not trust each other, give it an "
    "identity (`onceq tls init`): then loopback needs a certificate at both, too.": (
        "daemon/test_whose_connection.py::test_with_an_identity_nobody_posts_from_this_computer",
        "matrix/test_over_http.py::test_what_becomes_of_each_post",
        "unit/service/test_peer_transports_doors.py::test_doors_by_address",
        "unit/model/test_identification.py::test_with_an_identity_no_address_of_loopback_is_believed",
    ),
    "Over TCP no account is known, also over loopback: an application shows a token "
    "or a certificate, or it is `nobody`.": (
        "matrix/test_showing.py::test_who_somebody_is",
        "matrix/test_applications.py::test_at_every_other_door",
        "daemon/test_whose_connection.py::test_whoever_stays_is_nobody_also_as_root",
    ),
    "The Unix socket alone says accounts.": (
        "daemon/test_whose_connection.py::test_one_that_closes_at_once_is_not_the_administrator",
        "matrix/test_showing.py::test_who_somebody_is",
        "unit/model/test_identification.py::test_no_account_speaks_over_tcp",
    ),
    "An older backup is signed, too: a signature does not say that there is no newer one.": (
        "unit/service/test_restoring.py::test_an_older_backup_is_put_back_as_a_newer_one_is",
    ),
    "A restored backup has the rights and tokens of its time: revoke again what was "
    "revoked since.": (
        "unit/service/test_restoring.py::test_a_restore_brings_the_rights_and_tokens_of_its_time",
    ),
    "Rights in a directory are those of the present directory; a queue manager that read a newer "
    "copy does not follow an older one.": (
        "unit/core/management/test_rights_shared.py::test_an_older_copy_is_not_followed",
        "daemon/test_shared_rights.py::test_an_older_copy_gives_nothing_back",
    ),
    "Write access to a directory's files is enough to redirect messages and to grant any right at "
    "every queue manager that shares it, except the rights to run a queue manager, to forward for "
    "others and to grant (`administer`, `operate`, `forward`, `set-rights`), which are never read "
    "from there.": (
        "unit/core/management/test_rights_shared.py::test_nobody_becomes_who_runs_a_queue_manager",
    ),
    "Rights that everybody on the computer could write are not read.": (
        "unit/core/management/test_rights_shared.py::test_nobody_becomes_who_runs_a_queue_manager",
    ),
    "How long a judgment takes does not depend on the number of grants.": (
        "budgets/test_rights.py::test_it_costs_the_same_however_many_grants_there_are",
    ),
    "What one of them decided, promised or committed belongs to it, and no other can end it.": (
        "unit/core/test_rights_deciders.py::test_who_has_decided_says_when_it_is_told",
        "unit/core/test_rights_deciders.py::test_a_branch_that_decides_for_others_is_decided_by_who_has_promised_it",
        "matrix/test_applications.py::test_at_the_socket_with_tokens",
    ),
    "But the name of an application, of a database that is the last agent, or of a branch belongs "
    "to its first user; each sees which branches exist.": (
        "unit/core/test_rights_deciders.py::test_a_branch_of_another_is_seen_without_what_it_does",
    ),
    "A sender with a right can fill a queue up to its quota, and with messages, journal copies "
    "and dead letters the computer's quota; and the right to receive is the right to remove.": (
        "conformance/test_group_5_quotas.py::test_case_097_the_quota_of_the_queue_is_final",
        "conformance/test_group_5_quotas.py::test_case_097_the_quota_of_the_manager_is_for_now",
    ),
    "MSMQ's signatures and encryption of messages are not made and not checked; what a queue "
    "manager passes on for others needs the right `forward`, and with it is trusted.": (
        "matrix/test_peers.py::test_what_becomes_of_each_packet",
    ),
    "Members, plain hosts, accounts, tenants, writers of backups and web pages lie to real queue "
    "managers in `make liar`; members and plain hosts do in the simulator.": (
        "daemon/test_liar.py::test_nothing_is_lost_repeated_or_out_of_order_among_lies",
        "daemon/test_liar_finds.py::test_it_finds_a_mistake",
        "simulation/test_rights.py::test_worlds_in_which_members_lie",
    ),
    "Images are named by their digests.": (
        "docs/test_packaging.py::test_images_are_named_by_their_digests",
    ),
    "Without `--openid` people have no names at a console: everybody who has signed in "
    "may do what that console may.": ("matrix/test_showing.py::test_who_somebody_is",),
    "time to say it: 5 s, the TLS handshake included": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "daemon/test_before_names.py::test_who_does_not_say_who_he_is_in_time_is_cut_at_every_door",
    ),
    "bytes until then: 16 KiB": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "daemon/test_before_names.py::test_who_sends_much_and_does_not_say_who_he_is_is_cut_in_the_handshake_too",
    ),
    "connections of one address that have not said it: 64": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "unit/service/test_admission.py::test_one_address_has_few_connections_that_say_nothing",
    ),
    "such connections in all: 1,024; above, the oldest of the most crowded address goes": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "unit/service/test_admission.py::test_of_those_who_say_nothing_the_oldest_of_the_most_crowded_address_goes",
    ),
    "connections of one address that is not known: 512": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "unit/service/test_admission.py::test_one_address_has_not_all_places",
    ),
    "descriptors that connections from elsewhere never get: 256, of which 64 are for "
    "the local socket": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "unit/service/test_admission.py::test_descriptors_of_the_store_are_nobody_elses",
        "unit/service/test_admission.py::test_the_local_socket_has_descriptors_when_strangers_have_none_left",
    ),
    "wrong tokens of one address: 10 at once, then 2 a second": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "unit/service/test_tokens.py::test_wrong_ones_cost_only_so_much",
    ),
    "log lines of one kind that others can cause: 20 in 60 s; the rest is counted": (
        "docs/test_security_page.py::test_the_limits_are_those_of_the_code",
        "unit/service/test_pacing_rates.py::test_the_first_ones_are_lines_and_the_rest_a_number",
    ),
    "Loopback is not counted by address: all of a computer have one there.": (
        "unit/service/test_admission.py::test_one_address_has_not_all_places",
    ),
}
"""Tests are named below ``tests/``."""

HEADING: Final = "a heading: the sentences behind it say it"
MORE: Final = "where to find more"
NOT_HELD: Final[Mapping[str, tuple[str, ...]]] = {
    "heads of the columns": (
        "who: what they can reach: what they are believed",
        "limit: value",
    ),
    MORE: (
        "Which tests hold which sentence is listed with the tests; other pages say how it works.",
        "What attacks from outside found, and what is still open, is in findings.",
    ),
    HEADING: (
        "People are who their provider says, for this console, now.",
        "Nobody weakens what is not theirs.",
        "Messages prove nothing for themselves.",
    ),
    "an admission: nothing is promised": (
        "Bodies at rest are not encrypted.",
        "Root and the account that runs the queue manager may do everything, also to its "
        "files: they can give themselves an identity, forge a trail and a history without"
        " a contradiction in these, and read everything.",
        "Each computer that can use that address is that host, and one between reads and "
        "changes what passes.",
        "Every authority that an application names is believed about every address.",
        "The size, the time and the parties of traffic can be seen by anybody who can watch the "
        "network.",
        "Applications that have a name can be in each other's way in external transactions.",
        "Releases are not signed.",
        "With it, a person who leaves a group, or is locked out at the provider, works on until "
        "the session ends (`session_minutes`), and that an act was of this person is what the "
        "console says: a queue manager proves the token alone.",
        "There is no sign-in by LDAP.",
        "onceq has been attacked by its own tests, and audited by nobody else.",
        "Only the newest version is mended.",
    ),
    "advice": (
        "Let queue managers that do not trust each other join one authority.",
        "Make new tokens when a store was read by others.",
        "Report it privately to the maintainers, as a private security advisory of the "
        "repository (on GitHub: *Security*, *Report a vulnerability*).",
        "Where that is not offered, open an issue without details that asks for a contact.",
        "Say which version, what you did, and what happened; a failing test is the best report.",
    ),
}
"""Sentences that promise nothing, by why."""
