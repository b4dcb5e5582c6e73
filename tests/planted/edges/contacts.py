"""Mistakes in what many outgoing queues have in common: one address, one call, one session."""

from __future__ import annotations

from onceq.core.ending import ending
from onceq.core.step.connections import ConnectAttempt
from onceq.core.transfer import connecting, sessions
from tests.planted.planted import SIM, Planted, edited, replaced

CONNECTING = "tests/unit/core/transfer/test_connecting.py::"

PLANTED = (
    Planted("who-waits-for-a-call-gets-no-session",
            edited(sessions, "asked |= dict.fromkeys(numbered(step.state, contact.taken()))",
                   "contact.taken()"),
            CONNECTING + "test_one_call_is_made_for_all_queues_of_an_address"),
    Planted("who-waits-for-a-call-is-not-told-that-it-failed",
            edited(sessions, "numbered(step.state, waiting), work", "numbered(step.state, "
                   "[caller]), work"),
            CONNECTING + "test_all_are_tried_again_together"),
    Planted("who-waits-for-an-address-waits-for-ever",
            replaced(ConnectAttempt, "taken", lambda contact: contact.waiting.clear() or []), SIM),
    Planted("what-an-operator-has-tried-in-vain-stays-put-off",
            edited(sessions, "                put_off(step, outgoing)", "                pass"),
            CONNECTING + "test_what_an_operator_has_tried_in_vain_is_tried_again"),
    Planted("a-session-that-is-over-serves-the-rest",
            edited(sessions, "if step.sessions.peers.get(peer.session) is not peer:", "if False:"),
            CONNECTING + "test_a_session_that_is_over_before_all_have_it_is_lost_for_all"),
    Planted("a-session-that-was-there-is-not-asked-first",
            edited(connecting, "step.sessions.served[outgoing.number] = None", "pass"),
            "tests/conformance/test_clones.py::"
            "test_that_it_never_came_from_one_copy_is_no_proof_for_both"),
    Planted("a-pinned-name-counts-for-all-names",
            edited(connecting, 'connected_name(step, outgoing) if pins(step) else ""',
                   '""'),
            CONNECTING + "test_names_of_one_computer_are_pinned_apart"),
    Planted("addresses-are-never-forgotten",
            edited(sessions,
                   "    step.sessions.contacts.release(contact)\n\n\n@rule_for(ConnectFailed)",
                   "\n\n@rule_for(ConnectFailed)"),
            CONNECTING + "test_addresses_that_nobody_needs_are_forgotten"),
    Planted("all-queues-of-an-address-in-one-step",
            edited(ending, "        if at:\n", "        if at < 0:\n"),
            CONNECTING + "test_what_happens_to_many_takes_several_steps_and_happens_to_all"),
)  # fmt: skip
