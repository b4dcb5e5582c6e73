"""Mistakes about streams that a receiver has left: one condition each, that one test holds."""

from __future__ import annotations

from types import ModuleType

from onceq.core.transfer import abandoned_streams, pending_outcomes, transmit
from tests.planted.planted import Planted, edited

LEFT = "tests/conformance/test_left_streams.py::test_"
MOVED = LEFT + "what_stands_behind_what_was_moved_keeps_its_stream"
IN_VAIN = LEFT + "what_is_stranded_behind_a_stream_that_was_announced_in_vain"
FORGOTTEN = LEFT + "what_a_receiver_has_forgotten_is_not_said_to_have_never_come"
BY_TIME = LEFT + "a_stream_that_was_left_is_noticed_when_no_acknowledgment_comes"
ACKED = LEFT + "a_sender_that_is_acknowledged_another_stream_asks_at_once"
QUIET = LEFT + "nobody_is_asked_while_acknowledgments_come"
FUTURE = LEFT + "what_is_refused_for_being_from_the_future_is_not_asked_about"
PLAIN = LEFT + "managers_without_the_extension_are_not_asked_for_ends"
LESS = LEFT + "who_does_not_answer_is_asked_less_and_less_often"

# Name, the module, what is changed to what, and the test that finds it.
_ROWS: tuple[tuple[str, ModuleType, str, str, str], ...] = (
    ("one-more-than-was-moved-counts-as-moved", abandoned_streams, "last=end - 1)", "last=end)",
     MOVED),
    ("a-receiver-that-was-put-back-is-sure-of-what-never-came", pending_outcomes,
     " and not progress.vague:", ":", FORGOTTEN),
    ("a-stream-that-was-announced-counts-as-ahead-for-ever", abandoned_streams,
     "outgoing.fence if outgoing.fence > outgoing.head.stream else 0", "outgoing.fence", IN_VAIN),
    ("nobody-asks-when-no-acknowledgment-comes", abandoned_streams,
     "if outgoing.pace.timeouts > before:", "if False:", BY_TIME),
    ("each-ring-of-an-old-timer-asks", abandoned_streams,
     "if outgoing.pace.timeouts > before:", "if True:", QUIET),
    ("a-strange-acknowledgment-asks-nothing", abandoned_streams,
     "    if strange(step, peer, source, ack):",
     "    if strange(step, peer, source, ack) and False:", ACKED),
    ("whatever-is-turned-away-is-asked-about", abandoned_streams, " and said.reason == STALE", "",
     FUTURE),
    ("a-stranger-makes-a-sender-ask", abandoned_streams,
     "said.reason == STALE and outgoing.session == peer.session:", "said.reason == STALE:",
     LEFT + "what_somebody_else_says_of_a_stream_makes_nobody_ask"),
    ("ends-are-asked-of-managers-that-cannot-tell", pending_outcomes,
     " and peer.extended and serves", " and serves", PLAIN),
    ("who-does-not-answer-is-asked-each-minute", pending_outcomes,
     "AGAIN_S << min(ends.asked, 16)", "AGAIN_S", LESS),
    ("expired-messages-let-the-next-stream-leave", transmit, "start=start, end=last + 1,",
     "start=start,", "tests/conformance/test_lives.py::test_a_later_stream_waits_for_what_expired_"
     "ones_stood_between"),
    ("an-answer-does-not-make-asking-frequent-again", pending_outcomes,
     "outgoing.ends.asked = outgoing.ends.due_us = 0", "outgoing.ends.due_us = 0", LESS),
)  # fmt: skip

PLANTED = tuple(
    Planted(name, edited(module, old, new), finder) for name, module, old, new, finder in _ROWS
)
