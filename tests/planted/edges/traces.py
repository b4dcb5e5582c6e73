"""Planted mistakes about messages of a trace."""

from __future__ import annotations

from onceq.client import properties
from onceq.model import letters, marks
from onceq.otel import faces, spans
from onceq.packet import decode, headers
from onceq.wire.mqqb import session
from onceq.wire.srmp import convert
from tests.planted.planted import Planted, edited

CASES = "tests/conformance/test_traced.py::test_"
NO_BYTE = f"{CASES}no_byte_of_it_goes_to_one_that_knows_of_no_traces"

PLANTED = (
    Planted(
        "who-knows-of-no-traces-is-sent-them",
        edited(session, "data if self.traces else untraced_packets(data)", "data"),
        NO_BYTE,
    ),
    Planted(
        "nobody-is-sent-traces",
        edited(session, "data if self.traces else", "data if False else"),
        f"{CASES}a_trace_goes_along_and_survives_crashes",
    ),
    Planted(
        "a-trace-behind-which-a-delay-stands-is-overlooked",
        edited(marks, "        end -= DELAY_BYTES\n", "        pass\n"),
        NO_BYTE,
    ),
    Planted(
        "a-packet-without-its-trace-says-its-old-size",
        edited(headers, "len(packet) - (last - first))", "len(packet))"),
        "tests/unit/packet/test_headers_untraced.py::test_packets_are_as_if_no_mark_had_been_there",
    ),
    Planted(
        "a-trace-goes-over-http",
        edited(convert, "without_trace(parts.properties.extension)", "parts.properties.extension"),
        "tests/unit/wire/srmp/test_convert.py::test_no_byte_of_a_trace_goes_over_http",
    ),
    Planted(
        "applications-see-the-mark-of-a-trace",
        edited(decode, "plain, traceparent = untraced(plain)", 'traceparent = ""'),
        f"{CASES}a_dead_letter_keeps_it",
    ),
    Planted(
        "a-letter-that-goes-home-has-lost-its-trace",
        edited(letters, "if message.traceparent else extension", "if False else extension"),
        "tests/unit/client/test_letters.py::test_a_letter_goes_home_with_its_trace",
    ),
    Planted(
        "a-message-is-refused-for-its-trace",
        edited(properties, "a + b if len(a) + len(b) <= EXTENSION_BYTES_MAX else a", "a + b"),
        "tests/unit/client/test_properties.py::"
        "test_a_trace_is_left_out_where_the_extension_has_no_room_for_it",
    ),
    Planted(
        "the-span-of-a-send-that-was-aborted-says-that-it-was-committed",
        edited(spans, '"in doubt") else ABORTED', '"in doubt") else COMMITTED'),
        "tests/unit/otel/test_spans_units.py::test_an_abort_is_said_by_the_spans_of_its_sends",
    ),
    Planted(
        "a-branch-that-commits-itself-is-over-when-its-work-ends",
        edited(spans, "self._deciding = True", "self._deciding = False"),
        "tests/unit/otel/test_spans_units.py::test_a_branch_that_commits_itself_ends_once",
    ),
    Planted(
        "a-branch-that-is-prepared-counts-as-aborted",
        edited(spans, "(Vote.PREPARED.value, Vote.READ_ONLY.value)", "()"),
        "tests/unit/otel/test_spans_units.py::"
        "test_a_branch_that_is_prepared_says_so_and_its_decision_has_its_own_span",
    ),
    Planted(
        "work-that-a-verb-starts-has-no-spans",
        edited(faces, 'vars(made)["start"] = start', "pass"),
        "tests/unit/otel/test_faces.py::test_the_verbs_of_a_coordinator_have_spans",
    ),
    Planted(
        "a-decision-that-was-refused-says-that-it-was-carried-out",
        edited(
            spans,
            "            if isinstance(error, (errors.RolledBack, errors.RolledBackByHand)):\n"
            "                outcome = ABORTED\n"
            "            elif isinstance(error, errors.CommittedByHand):\n"
            "                outcome = COMMITTED\n"
            "            else:\n"
            "                outcome = IN_DOUBT if isinstance(error, errors.InDoubt) "
            'else ""\n',
            "",
        ),
        "tests/unit/otel/test_spans_units.py::"
        "test_a_decision_that_is_refused_says_what_became_of_the_branch",
    ),
    Planted(
        "spans-of-a-large-transaction-have-no-bound",
        edited(spans, "if len(self._sends) >= SPANS_MAX:", "if False:"),
        "tests/unit/otel/test_spans_units.py::test_open_spans_are_bounded",
    ),
    Planted(
        "links-of-a-batch-have-no-bound",
        edited(spans, "islice(texts, LINKS_MAX)", "texts"),
        "tests/unit/otel/test_spans.py::test_links_are_bounded_and_each_is_there_once",
    ),
    Planted(
        "a-message-loses-its-trace-to-who-sends-it-on",
        edited(spans, " and not _has_trace(values)", ""),
        "tests/unit/otel/test_spans.py::test_a_message_that_has_a_trace_keeps_it",
    ),
)
