"""Mistakes about messages over HTTP: receipts, mappings, borders."""

from __future__ import annotations

from array import array

import pytest

from onceq.core.state.peer_table import Receipts
from onceq.core.transfer import forward
from onceq.model import http
from onceq.model.run import Run
from onceq.service.config import MappingFolder
from onceq.wire.srmp import convert, session
from tests.planted.planted import Planted, edited

BORDER = "tests/conformance/test_group_7_http_border.py"
STREAMS = "tests/conformance/test_group_7_http_streams.py"
HEADS = "tests/unit/wire/srmp/test_session_heads.py"


def _forget_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipts, "queue_of", lambda self, source, stream: "")


def _drop_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = convert._envelope
    monkeypatch.setattr(convert, "_envelope", lambda m, url, to, hash: kept(m, url, to, 0))


def _never_count_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "hops_of", lambda fields: 0)


def _keep_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_waits", lambda step, run, outgoing: False)


def _forget_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    edited(forward, "if run.receipts and receipts.of_stream(", "if False and (")(monkeypatch)


def _pass_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "hopped", lambda packets: Run(b"", array("I")))


def _ignore_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        http.HttpNames, "way", lambda self, url: http.mapped(self.mappings.outbound, url) or url
    )


def _never_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MappingFolder, "_check", lambda self: None)


def _case_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "fits", lambda patterns, url: url in tuple(patterns))


PLANTED = (
    Planted(
        "receipts-name-no-queue", _forget_the_queue,
        f"{STREAMS}::test_a_receipt_names_the_queue_that_it_is_about",
    ),
    Planted(
        "hash-algorithm-dropped", _drop_the_hash,
        f"{STREAMS}::test_a_hash_algorithm_is_passed_on",
    ),
    Planted(
        "hops-not-counted", _never_count_hops, f"{BORDER}::test_a_message_that_goes_round_ends"
    ),
    Planted(
        "repetitions-kept-at-the-border", _keep_repetitions,
        f"{BORDER}::test_what_waits_at_the_border_is_not_kept_twice",
    ),
    Planted(
        "way-back-forgotten", _forget_the_way_back, f"{BORDER}::test_inward_once_and_in_order"
    ),
    Planted("passed-on-empty", _pass_nothing_on, f"{BORDER}::test_inward_once_and_in_order"),
    Planted("exceptions-ignored", _ignore_exceptions, f"{BORDER}::test_an_exception_is_left_alone"),
    Planted(
        "mapping-files-read-once", _never_look_again,
        "tests/unit/service/test_config_mappings.py"
        "::test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing",
    ),
    Planted(
        "capitals-matter-in-urls", _case_matters,
        "tests/unit/wire/srmp/test_convert_mapping.py::test_addresses_for_stream_receipts",
    ),
    Planted(
        "web-pages-post", edited(session, "if name == b\"origin\" or", "if False or"),
        f"{HEADS}::test_requests_of_web_pages_are_refused",
    ),
    Planted(
        "any-content-type", edited(session, "if kind not in _TYPES:", "if False:"),
        f"{HEADS}::test_what_no_queue_manager_sends_is_refused",
    ),
    Planted(
        "chunks-are-read", edited(session, 'b"transfer-encoding" in known or', ""),
        f"{HEADS}::test_what_no_queue_manager_sends_is_refused",
    ),
    Planted(
        "long-bodies-of-anybody", edited(session, "and not granted", "and False"),
        f"{HEADS}::test_who_may_send_nowhere_may_post_what_a_receipt_takes",
    ),
)  # fmt: skip
