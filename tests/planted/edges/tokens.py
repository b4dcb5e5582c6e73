"""Mistakes about who an application is: tokens, credentials, TLS, and the socket's group."""

from __future__ import annotations

from onceq.client import credentials, tls_socket, token_files
from onceq.core.management import rights as core_tokens
from onceq.core.state import state
from onceq.model import identification, tokens
from onceq.service import api, listening
from onceq.service import tokens as door
from tests.planted.planted import Planted, edited

CORE = "tests/unit/core/management/test_rights_tokens.py::"
MODEL = "tests/unit/model/test_tokens.py::"
API = "tests/unit/service/test_api.py::"
DOOR = "tests/unit/service/test_tokens.py::"
CLIENT = "tests/unit/client/test_credentials.py::"
FILES = "tests/unit/client/test_token_files.py::"
TLS = "tests/unit/client/test_tls_socket.py::"

PLANTED = (
    Planted(
        "lines-are-for-any-port",
        edited(token_files, "return there == (self.host, self.port) and", "return"),
        FILES + "test_who_has_no_line_is_shown_nothing_and_the_line_is_told",
    ),
    Planted(
        "lines-in-tls-are-shown-in-the-clear-too",
        edited(token_files, "self.tls in (None, address.tls)", "True"),
        FILES + "test_who_has_no_line_is_shown_nothing_and_the_line_is_told",
    ),
    Planted(
        "the-first-of-two-lines-counts",
        edited(token_files, "if len(mine) > 1:", "if False:"),
        FILES + "test_two_lines_for_one_are_refused_whichever_is_meant",
    ),
    Planted(
        "an-only-token-is-for-others-too",
        edited(credentials, "if kept.by_name or not self._aside else None", "if kept else None"),
        FILES + "test_one_token_alone_is_for_whoever_is_asked",
    ),
    Planted(
        "the-environment-is-for-others-too",
        edited(credentials, "return None if self._aside else found", "return found"),
        FILES + "test_aside_only_what_says_for_whom_it_is",
    ),
    Planted(
        "a-guid-counts-unproven",
        edited(token_files, "return self.whom == guid", "return True"),
        FILES + "test_a_guid_counts_where_it_is_proven",
    ),
    Planted(
        "expired-tokens-are-good",
        edited(tokens, "and not token.over(now_s) else None", "else None"),
        MODEL + "test_a_token_is_good_until_its_second",
    ),
    Planted(
        "unknown-names-are-not-hashed",
        edited(
            tokens,
            "        same = compare_digest",
            "        if token is None:\n            return None\n        same = compare_digest",
        ),
        MODEL + "test_as_much_is_hashed_for_a_name_that_is_not_there",
    ),
    Planted(
        "what-was-granted-to-a-token-stays",
        edited(state, "forget_actor(ActorPattern.exactly(revoked.actor))", "__len__()"),
        CORE + "test_what_was_granted_to_a_token_goes_with_it",
    ),
    Planted(
        "revoking-forgets-who-is-connected",
        edited(core_tokens, "    for owner in holders:\n", "    for owner in ():\n"),
        CORE + "test_a_connection_is_nobodys_and_ends_when_its_token_is_revoked",
    ),
    Planted(
        "the-revoked-go-on-waiting",
        edited(
            core_tokens,
            "(owner, ())):\n        step.readers.leave(key)\n",
            "(owner, ())):\n        continue\n",
        ),
        CORE + "test_a_connection_is_nobodys_and_ends_when_its_token_is_revoked",
    ),
    Planted(
        "a-new-token-of-the-name-is-the-old-one",
        edited(core_tokens, "token is None or token.digest != item.proof", "token is None"),
        CORE + "test_a_token_that_was_made_anew_on_the_way_is_another_one",
    ),
    Planted(
        "each-connection-sets-a-timer",
        edited(core_tokens, "    if due_us < step.tokens_due_us:\n", "    if due_us:\n"),
        CORE + "test_a_timer_stands_for_the_first_of_many_and_no_more_than_an_hour",
    ),
    Planted(
        "strangers-are-greeted",
        edited(api, "elif self._actor == NOBODY and not", "elif self._actor is None and not"),
        API + "test_strangers_hear_nothing_where_nothing_is_granted_to_them",
    ),
    Planted(
        "tokens-are-taken-in-the-clear",
        edited(
            door,
            "        self._check_count(address)\n        token =",
            "        private = True\n        token =",
        ),
        API + "test_a_token_that_others_could_read_on_its_way_is_refused",
    ),
    Planted(
        "wrong-tokens-are-hashed-for-ever",
        edited(door, ">= WRONG_TOKENS_AT_ONCE:", "> 1 << 40:"),
        DOOR + "test_wrong_ones_cost_only_so_much",
    ),
    Planted(
        "addresses-are-remembered-for-ever",
        edited(door, "if len(self._wrong) > TOKEN_ADDRESSES_MAX:", "if not self._wrong:"),
        DOOR + "test_what_is_remembered_of_addresses_is_bounded",
    ),
    Planted(
        "names-of-certificates-may-be-patterns",
        edited(identification, "    if known.name is None:\n", "    if not known:\n"),
        DOOR + "test_a_name_that_is_none_or_could_be_a_pattern_is_nobodys",
    ),
    Planted(
        "tokens-are-shown-in-the-clear",
        edited(credentials, "or is_loopback(peer)):", "or peer):"),
        CLIENT + "test_it_is_not_shown_where_others_can",
    ),
    Planted(
        "files-of-tokens-may-be-anybodys",
        edited(token_files, "if mode & (stat.S_IRWXO | stat.S_IWGRP):", "if not mode:"),
        CLIENT + "test_a_file_that_others_can_read_or_change_is_refused",
    ),
    Planted(
        "any-protocol-in-tls-will-do",
        edited(credentials, "if chosen != APPLICATIONS:", "if chosen is Ellipsis:"),
        CLIENT + "test_one_that_speaks_something_else_in_tls_is_not_talked_to",
    ),
    Planted(
        "what-is-left-in-tls-is-not-seen",
        edited(tls_socket, "self.tls.pending() or self._in.pending", "False"),
        TLS + "test_many_records_come_at_once_and_what_is_left_over_is_seen",
    ),
    Planted(
        "changed-bytes-are-an-end",
        edited(tls_socket, "if self._broken is not None and not found:", "if False:"),
        TLS + "test_bytes_that_were_changed_on_their_way_end_it",
    ),
    Planted(
        "the-group-reads-what-lies-there",
        edited(listening, "    _close_files(path)\n", ""),
        "tests/unit/service/test_listening_socket_group.py::"
        "test_a_group_may_pass_through_and_nothing_is_readable",
    ),
)
