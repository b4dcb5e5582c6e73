"""How values look; that nothing is shown as markup."""

from __future__ import annotations

import pytest

from onceq.console.guard import HEX_BYTES_MAX, SHOWN_BYTES_MAX
from onceq.console.table import age, body_view, environment, fitting, link, show_value, size, when


def test_sizes_and_ages() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 * 2**30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
    assert [age(n) for n in (None, -3, 59, 61, 7260, 90_000)] == [
        "–", "0 s", "59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert when(0) == "–"
    assert when(1_000_000_000) == "2001-09-09 01:46:40 UTC"


def test_fields_are_shown_by_their_names() -> None:
    assert show_value(1_000_000_000, "sent_time").startswith("2001")
    assert show_value(0xFFFF_FFFF, "time_to_reach_queue") == "no limit"
    assert show_value(30, "time_to_be_received") == "30 s"
    assert show_value(True, "transactional") == "yes"
    assert show_value([], "x") == "–"
    assert show_value(1234, "messages") == "1,234"
    assert show_value(0x8002, "message_class") == "nack-reach-queue-timeout (0x8002)"
    assert show_value(0x8002, "note") == "its time was over"
    assert show_value(6, "acknowledge") == "positive-receive, negative-arrival"
    assert show_value(1, "journal") == "deadletter"
    assert show_value(True, "journal") == "yes", "that of a queue"
    assert show_value(4113, "body_type") == "0x1011"
    assert show_value(7, "stream") == "0x0000000000000007"


def test_an_address_is_encoded_and_has_nothing_empty() -> None:
    made = link("/m/a/queue", {"queue": r"private$\a&b", "label": ""}, after=None, limit=0)
    assert made == "/m/a/queue?queue=private%24%5Ca%26b&limit=0"
    assert link("/x") == "/x"


def test_bodies() -> None:
    assert body_view(b'{"a":1}', "json") == ('{\n  "a": 1\n}', False)
    assert body_view(b"{", "json") == ("this is no JSON", False)
    assert body_view(b"[" * 50_000, "json")[0] == "this is no JSON"
    text, cut = body_view(bytes(range(16)) + b"A", "hex")
    assert text.splitlines()[1] == "000010  " + "41".ljust(47) + "  A"
    assert not cut
    assert body_view(b"x" * (HEX_BYTES_MAX + 1), "hex")[1]
    text, cut = body_view(b"x" * (SHOWN_BYTES_MAX + 1), "text")
    assert (len(text), cut) == (SHOWN_BYTES_MAX, True)
    assert body_view(b"\xff", "text") == ("�", False)


@pytest.mark.parametrize(
    ("body", "view"),
    [
        (b"hello", "text"),
        (b"\xff\x00", "hex"),
        (b' {"a": 1}', "json"),
        (b"{no", "text"),
        (b"", "text"),
    ],
)
def test_a_body_is_shown_as_what_it_is(body: bytes, view: str) -> None:
    assert fitting(body) == view


def test_templates_escape_everything_and_miss_nothing() -> None:
    made = environment(lambda: 0)
    assert made.autoescape is True
    text = made.from_string("<a title='{{ x }}'>{{ x }}</a>").render(x="<script>'\"&")
    assert "<script>" not in text
    assert "'\"" not in text.removeprefix("<a title='")
    with pytest.raises(Exception, match="undefined"):
        made.from_string("{{ nothing }}").render()
    for name in made.list_templates():
        source, _, _ = made.loader.get_source(made, name)  # type: ignore[union-attr]
        assert "|safe" not in source.replace(" ", ""), name
        assert "style=" not in source, name
        assert "<script>" not in source, name
