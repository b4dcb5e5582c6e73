"""Planted mistakes about who is told a token, and what is taken for the proof of one."""

from __future__ import annotations

from onceq.client import address, credentials
from onceq.model import tokens as model
from onceq.service import api, tokens
from tests.planted.planted import Planted, edited

TOLD = "tests/unit/client/test_credentials.py::test_"
TAKEN = "tests/unit/service/test_tokens.py::test_"
MADE = "tests/unit/model/test_tokens.py::test_"

PLANTED = (
    Planted(
        "a-token-is-told-to-whoever-answers",
        edited(credentials, "if not compare_digest(talk.known(digest), said.proof):", "if False:"),
        f"{TOLD}who_does_not_know_a_token_is_not_told_it",
    ),
    Planted(
        "a-greeting-is-believed-without-a-proof",
        edited(credentials, "ANSWER and not self._nonce:", "ANSWER:"),
        f"{TOLD}an_answer_to_what_was_not_asked_is_none",
    ),
    Planted(
        "a-proof-is-good-on-every-connection",
        edited(model, "self.theirs, self.ours, self.bound)", "self.theirs, self.ours)"),
        f"{MADE}what_was_said_is_good_on_one_connection",
    ),
    Planted(
        "a-proof-is-good-at-every-time",
        edited(model, "self.theirs, self.ours, self.bound)", "self.theirs, self.bound)"),
        f"{MADE}what_was_said_is_good_on_one_connection",
    ),
    Planted(
        "a-proof-may-be-said-back",
        edited(model, 'b"onceq token", who, ', 'b"onceq token", '),
        f"{MADE}what_one_side_says_is_not_what_the_other_one_would",
    ),
    Planted(
        "names-of-tokens-are-learnt-by-their-salt",
        edited(tokens, "salt_of(self._manager.identity.guid, name)", "random(16)"),
        f"{TAKEN}a_name_that_there_is_is_answered_as_one_that_there_is_not",
    ),
    Planted(
        "who-does-not-go-on-is-not-counted",
        edited(api, "                self._engine.tokens.missed(self._challenge)\n",
               "                pass\n"),
        "tests/unit/service/test_api.py::test_who_asks_and_goes_counts_as_a_wrong_token",
    ),
    Planted(
        "an-answer-without-a-question-is-no-matter",
        edited(api, "        elif proof:\n", "        elif False:\n"),
        "tests/unit/service/test_api.py::test_a_token_that_is_said_is_not_looked_at",
    ),
    Planted(
        "whoever-listens-at-a-socket-is-the-queue-manager",
        edited(credentials, "if account is None or account in (0, os.geteuid()):", "if True:"),
        "tests/unit/sockets/test_both_ends_binding.py::test_the_account_of_the_directory_listens",
    ),
    Planted(
        "every-directory-is-taken-for-a-queue-manager",
        edited(address, "if owner not in (0, os.geteuid()):", "if False:"),
        "tests/unit/sockets/test_both_ends_binding.py::test_a_directory_that_nobody_has_named_is_ones_own",
    ),
)  # fmt: skip
