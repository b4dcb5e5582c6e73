"""Mistakes about what whoever comes may cost and learn before he has said who he is."""

from __future__ import annotations

from onceq.service import admission, peer_transports
from onceq.tls import contexts
from onceq.wire.srmp import session
from tests.planted.planted import Planted, edited

HANDSHAKES = "tests/unit/tls/test_contexts_handshakes.py"
ADMISSION = "tests/unit/service/test_admission.py"
STRANGERS = "tests/unit/wire/srmp/test_session_stranger.py"
DOORS = "tests/unit/service/test_peer_transports_doors.py"

PLANTED = (
    Planted(
        "handshake-of-any-length",
        edited(contexts, "if self.heard > HANDSHAKE_BYTES_MAX:", "if False:"),
        f"{HANDSHAKES}::test_one_that_uses_too_much_has_failed",
    ),
    Planted(
        "half-a-handshake-of-any-length",
        edited(contexts, "            self._used(before)\n            raise\n",
               "            raise\n"),
        f"{HANDSHAKES}::test_a_handshake_is_counted_to_its_end",
    ),
    Planted(
        "first-words-counted-as-handshake",
        edited(contexts, "before - self.incoming.pending", "before"),
        f"{HANDSHAKES}::test_what_comes_with_the_end_of_it_is_not_counted",
    ),
    Planted(
        "whole-post-of-a-stranger-is-waited-for",
        edited(session, "and self._heard <= DROPPED_BYTES_MAX:", "and True:"),
        f"{STRANGERS}::test_what_is_kept_of_it_is_bounded",
    ),
    Planted(
        "stranger-hears-when-it-is-no-http",
        edited(session, "if found is None and self._heard <=",
               "if not isinstance(found, HttpRequest) and self._heard <="),
        f"{STRANGERS}::test_one_answer_to_whatever_comes",
    ),
    Planted(
        "http-is-spoken-from-the-first-byte",
        edited(session, "            self._begun_us = now_us\n",
               "            self._begun_us = now_us\n"
               "            self._events.append(Opened(NO_GUID, http=True))\n"),
        "tests/unit/wire/srmp/test_session.py"
        "::test_others_are_told_of_once_a_whole_head_is_there",
    ),
    Planted(
        "another-account-takes-all-places",
        edited(admission, "if here and not own:", "if False:"),
        f"{ADMISSION}::test_other_accounts_at_the_socket_leave_places_for_the_one_that_runs_it",
    ),
    Planted(
        "places-of-another-account-are-lost",
        edited(admission,
               "self._guests -= place.kind is Kind.LOCAL_APPLICATION and place.address != LOCAL",
               "pass"),
        f"{ADMISSION}::test_other_accounts_at_the_socket_give_their_places_back",
    ),
    Planted(
        "last-descriptors-for-anybody-here",
        edited(admission, "limits.local if own else limits.far",
               "limits.local if here else limits.far"),
        f"{ADMISSION}::test_the_last_descriptors_are_not_for_other_accounts",
    ),
    Planted(
        "unreadable-invitations-end-accepting",
        edited(peer_transports, "        except OnceqError as error:\n            self.note(",
               "        except ZeroDivisionError as error:\n            self.note("),
        f"{DOORS}::test_invitations_that_cannot_be_read_keep_nobody_out",
    ),
    Planted(
        "reload-forgets-the-identity",
        edited(peer_transports, "if files is None and self._tls is not None:", "if False:"),
        f"{DOORS}::test_an_identity_that_is_gone_is_no_reason_to_do_without",
    ),
)  # fmt: skip
