"""Every form of a name (FN-19), and every fault with its place."""

from __future__ import annotations

import pytest

from onceq.errors import IllegalFormatName, IllegalPathName, UnsupportedFormatName
from onceq.model.identity import guid_bytes
from onceq.model.limits import (
    COMPUTER_NAME_CHARS_MAX,
    FORMAT_NAME_CHARS_MAX,
    FORMAT_NAME_ELEMENTS_MAX,
    QUEUE_NAME_CHARS_MAX,
    SUBQUEUE_NAME_CHARS_MAX,
)
from onceq.model.names import (
    FormatName,
    Kind,
    Suffix,
    may_receive,
    may_send,
    parse_any,
    parse_format_name,
    parse_path_name,
    queue_key,
)

TEXT = "01234567-89ab-cdef-0123-456789abcdef"
GUID = guid_bytes(TEXT)


def direct(
    host: str, queue: str = "", *, protocol: str = "OS", private: bool = False,
    suffix: Suffix = Suffix.NONE, subqueue: str = "",
) -> FormatName:  # fmt: skip
    return FormatName(
        Kind.DIRECT, protocol=protocol, host=host, queue=queue, private=private, suffix=suffix,
        subqueue=subqueue,
    )  # fmt: skip


FORMS = [
    (f"PUBLIC={TEXT}", FormatName(Kind.PUBLIC, guid=GUID)),
    (f"PUBLIC={TEXT};JOURNAL", FormatName(Kind.PUBLIC, guid=GUID, suffix=Suffix.JOURNAL)),
    (f"PRIVATE={TEXT}\\0000001f", FormatName(Kind.PRIVATE, guid=GUID, number=0x1F)),
    (f"PRIVATE={TEXT}\\ffffffff;JOURNAL",
     FormatName(Kind.PRIVATE, guid=GUID, number=0xFFFF_FFFF, suffix=Suffix.JOURNAL)),
    (r"DIRECT=OS:beta\stock", direct("beta", "stock")),
    (r"DIRECT=OS:beta\private$\stock", direct("beta", "stock", private=True)),
    (r"DIRECT=OS:beta\stock;JOURNAL", direct("beta", "stock", suffix=Suffix.JOURNAL)),
    (r"DIRECT=OS:beta\private$\stock;JOURNAL",
     direct("beta", "stock", private=True, suffix=Suffix.JOURNAL)),
    (r"DIRECT=OS:beta\private$\stock;retry",
     direct("beta", "stock", private=True, subqueue="retry")),
    (r"DIRECT=OS:beta\SYSTEM$;JOURNAL", direct("beta", suffix=Suffix.JOURNAL)),
    (r"DIRECT=OS:beta\SYSTEM$;DEADLETTER", direct("beta", suffix=Suffix.DEADLETTER)),
    (r"DIRECT=OS:beta\SYSTEM$;DEADXACT", direct("beta", suffix=Suffix.DEADXACT)),
    (r"DIRECT=OS:.\private$\a=b", direct(".", "a=b", private=True)),
    (r"DIRECT=TCP:10.0.0.1\stock", direct("10.0.0.1", "stock", protocol="TCP")),
    (r"DIRECT=TCP:fe80::1\private$\stock",
     direct("fe80::1", "stock", protocol="TCP", private=True)),
    ("DIRECT=HTTP://beta/msmq/stock", direct("beta", "stock", protocol="HTTP")),
    ("DIRECT=HTTP://beta:8080/msmq/private$/stock",
     direct("beta:8080", "stock", protocol="HTTP", private=True)),
    ("DIRECT=HTTPS://b.example/msmq/private$/stock;JOURNAL",
     direct("b.example", "stock", protocol="HTTPS", private=True, suffix=Suffix.JOURNAL)),
    ("DIRECT=HTTPS://[::1]:443/msmq/SYSTEM$;DEADXACT",
     direct("[::1]:443", protocol="HTTPS", suffix=Suffix.DEADXACT)),
    (f"MACHINE={TEXT};JOURNAL", FormatName(Kind.MACHINE, guid=GUID, suffix=Suffix.JOURNAL)),
    (f"MACHINE={TEXT};DEADLETTER", FormatName(Kind.MACHINE, guid=GUID, suffix=Suffix.DEADLETTER)),
    (f"MACHINE={TEXT};DEADXACT", FormatName(Kind.MACHINE, guid=GUID, suffix=Suffix.DEADXACT)),
    (f"CONNECTOR={TEXT}", FormatName(Kind.CONNECTOR, guid=GUID)),
    (f"CONNECTOR={TEXT};XACTONLY",
     FormatName(Kind.CONNECTOR, guid=GUID, suffix=Suffix.XACTONLY)),
    (f"DL={TEXT}", FormatName(Kind.DL, guid=GUID)),
    (f"DL={TEXT}@sales.example", FormatName(Kind.DL, guid=GUID, domain="sales.example")),
    ("MULTICAST=224.0.0.0:1", FormatName(Kind.MULTICAST, host="224.0.0.0", number=1)),
    ("MULTICAST=239.255.255.255:65535",
     FormatName(Kind.MULTICAST, host="239.255.255.255", number=65535)),
]  # fmt: skip


def without_text(name: FormatName) -> FormatName:
    return FormatName(
        name.kind, name.guid, name.number, name.protocol, name.host, name.queue, name.private,
        name.suffix, name.subqueue, name.domain,
    )  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), FORMS, ids=[text for text, _ in FORMS])
def test_every_form_is_parsed_and_printed(text: str, meant: FormatName) -> None:
    (name,) = parse_format_name(text)
    assert without_text(name) == meant
    assert name.text == text
    assert str(name) == text


@pytest.mark.parametrize(("text", "meant"), FORMS, ids=[text for text, _ in FORMS])
def test_case_does_not_count(text: str, meant: FormatName) -> None:
    for other in (text.lower(), text.upper(), text.swapcase()):
        (name,) = parse_format_name(other)
        assert name.key() == meant.key()
        assert name.kind is meant.kind
        assert name.suffix is meant.suffix


def test_spelling_is_kept() -> None:
    (name,) = parse_format_name(r"direct=os:BeTa\PRIVATE$\Stock;Retry")
    assert (name.host, name.queue, name.subqueue) == ("BeTa", "Stock", "Retry")
    assert str(name) == r"DIRECT=OS:BeTa\private$\Stock;Retry"


def test_a_slash_may_be_written_for_a_backslash() -> None:
    for text, meant in FORMS:
        assert without_text(parse_format_name(text.replace("\\", "/"))[0]) == meant
    http = parse_format_name(r"DIRECT=http:\\beta\MSMQ\private$\stock")[0]
    assert str(http) == "DIRECT=HTTP://beta/msmq/private$/stock"


def test_several_elements_keep_their_order() -> None:
    text = rf"DIRECT=OS:BETA\private$\stock , DL={TEXT},PUBLIC={TEXT}, PRIVATE={TEXT}\1f"
    names = parse_format_name(text)
    assert [name.kind for name in names] == [Kind.DIRECT, Kind.DL, Kind.PUBLIC, Kind.PRIVATE]
    assert ",".join(name.text for name in names) == text
    assert names[3].number == 0x1F


# ---- faults: what, and where -------------------------------------------------------------

FAULTS = [
    ("", 0, "begins with"),
    ("DIRECT", 0, "begins with"),
    ("  BETA=x", 2, "begins with"),
    ("DIRECT=OS:b\\q,", 14, "begins with"),
    ("DIRECT=OS:b\\q,,DIRECT=OS:b\\r", 14, "begins with"),
    ("PUBLIC=", 7, "GUID"),
    ("PUBLIC={" + TEXT + "}", 7, "GUID"),
    (f"PUBLIC={TEXT};", 44, ";JOURNAL is expected"),
    (f"PUBLIC={TEXT};DEADXACT", 44, ";JOURNAL is expected"),
    (f"PUBLIC={TEXT[:-1]}", 7, "GUID"),
    (f"PRIVATE={TEXT}", 44, "hexadecimal"),
    (f"PRIVATE={TEXT}\\", 45, "hexadecimal"),
    (f"PRIVATE={TEXT}\\123456789", 45, "hexadecimal"),
    (f"PRIVATE={TEXT}\\x", 45, "hexadecimal"),
    (f"PRIVATE={TEXT}\\1;DEADXACT", 47, ";JOURNAL is expected"),
    (f"PRIVATE={TEXT}\\1;retry", 47, ";JOURNAL is expected"),
    (f"MACHINE={TEXT}", 44, ";JOURNAL or ;DEADLETTER or ;DEADXACT is expected"),
    (f"MACHINE={TEXT};XACTONLY", 45, "is expected"),
    (f"CONNECTOR={TEXT};JOURNAL", 47, ";XACTONLY is expected"),
    (f"DL={TEXT}@", 40, "domain"),
    (f"DL={TEXT}@a b", 40, "domain"),
    (f"DL={TEXT}@{'d' * 256}", 40, "domain"),
    (f"DL={TEXT};JOURNAL", 3, "GUID"),
    ("MULTICAST=234.1.1.1", 10, "port"),
    ("MULTICAST=223.255.255.255:1", 10, "224.0.0.0"),
    ("MULTICAST=240.0.0.0:1", 10, "224.0.0.0"),
    ("MULTICAST=234.1.1:1", 10, "224.0.0.0"),
    ("MULTICAST=234.1.1.256:1", 10, "224.0.0.0"),
    ("MULTICAST=234.01.1.1:1", 10, "224.0.0.0"),
    ("MULTICAST=234.1.1.1:0", 20, "port is"),
    ("MULTICAST=234.1.1.1:65536", 20, "port is"),
    ("DIRECT=", 7, "goes on with"),
    ("DIRECT=IPX:0:0\\q", 7, "goes on with"),
    ("DIRECT=OS", 7, "goes on with"),
    ("DIRECT= OS:b\\q", 7, "goes on with"),
    ("DIRECT=OS:\\q", 10, "computer name"),
    ("DIRECT=OS:a b\\q", 10, "computer name"),
    ("DIRECT=OS:private$\\q", 10, "missing before private$"),
    ("DIRECT=OS:SYSTEM$;x\\q", 10, "missing before SYSTEM$;x"),
    ("DIRECT=OS:beta", 14, "name of a queue are missing"),
    ("DIRECT=OS:beta\\", 15, "name of a queue is missing"),
    ("DIRECT=OS:beta\\private$", 23, "missing after private$"),
    ("DIRECT=OS:beta\\private$\\", 24, "name of a queue is missing"),
    ("DIRECT=OS:beta\\SYSTEM$", 22, "missing after SYSTEM$"),
    ("DIRECT=OS:beta\\SYSTEM$;", 23, "is expected"),
    ("DIRECT=OS:beta\\SYSTEM$;XACTONLY", 23, "is expected"),
    ("DIRECT=OS:beta\\SYSTEM$;JOURNAL;x", 23, "is expected"),
    ("DIRECT=OS:beta\\private$\\a\\b", 25, "not allowed"),
    ("DIRECT=OS:beta\\a+b", 16, "not allowed"),
    ('DIRECT=OS:beta\\a"b', 16, "not allowed"),
    ("DIRECT=OS:beta\\a b", 16, "not allowed"),
    ("DIRECT=OS:beta\\q;", 17, "name of a subqueue is missing"),
    ("DIRECT=OS:beta\\q;a;b", 18, "not allowed"),
    ("DIRECT=OS:beta\\q;JOURNAL;x", 24, "not allowed"),
    ("DIRECT=TCP:beta\\q", 11, "IP address"),
    ("DIRECT=TCP:10.0.0.256\\q", 11, "IP address"),
    ("DIRECT=HTTP:beta/msmq/q", 12, "//host/msmq/"),
    ("DIRECT=HTTP://beta/q", 12, "//host/msmq/"),
    ("DIRECT=HTTP://beta/msmqx/q", 12, "//host/msmq/"),
    ("DIRECT=HTTP://user@beta/msmq/q", 12, "//host/msmq/"),
    ("DIRECT=HTTP://beta:0/msmq/q", 19, "port is"),
    ("DIRECT=HTTP://beta:65536/msmq/q", 19, "port is"),
    ("DIRECT=HTTP://beta/msmq/", 24, "name of a queue is missing"),
    ("DIRECT=HTTP://beta/msmq/a/b", 25, "not allowed"),
    # Look-alikes and what terminals do not show: names are printable ASCII.
    ("DIRECT=OS:b\\q\0", 13, "is not allowed in a name"),
    ("DIRECT=OS:b\\q\n", 13, "is not allowed in a name"),
    ("DIRECT=OS:b\\q\x7f", 13, "is not allowed in a name"),
    ("DIRECT=OS:b\u00e9ta\\q", 11, "'\\xe9' is not allowed in a name"),
    ("DIRECT=HTTP\u017f://b/msmq/q", 11, "is not allowed in a name"),
    ("MULTICAST=\u0662\u0663\u0664.1.1.1:1", 10, "is not allowed in a name"),
    ("DIRECT=OS:b\\\ud800", 12, "is not allowed in a name"),
]


@pytest.mark.parametrize(("text", "at", "said"), FAULTS, ids=[ascii(f[0]) for f in FAULTS])
def test_faults_are_shown_where_they_are(text: str, at: int, said: str) -> None:
    with pytest.raises(IllegalFormatName) as caught:
        parse_format_name(text)
    sentence, shown, caret = caught.value.text.split("\n")
    assert said in sentence
    assert sentence.endswith(f", at position {at}")
    assert caught.value.hresult == 0xC00E001E
    place = caret.index("^")
    lead = 5 if shown.startswith("  ...") else 2
    assert shown[lead:place] == text[at - (place - lead) : at]


def test_limits_hold_exactly() -> None:
    host, queue = "h" * COMPUTER_NAME_CHARS_MAX, "q" * QUEUE_NAME_CHARS_MAX
    sub = "s" * SUBQUEUE_NAME_CHARS_MAX
    (name,) = parse_format_name(f"DIRECT=OS:{host}\\private$\\{queue};{sub}")
    assert (name.host, name.queue, name.subqueue) == (host, queue, sub)
    for text in (
        f"DIRECT=OS:{host}h\\q",
        f"DIRECT=OS:h\\{queue}q",
        f"DIRECT=OS:h\\q;{sub}s",
        f"DIRECT=HTTP://{host}h/msmq/q",
    ):
        with pytest.raises(IllegalFormatName, match="at most"):
            parse_format_name(text)


def test_a_name_has_a_longest_length_and_a_largest_number_of_elements() -> None:
    most = FORMAT_NAME_ELEMENTS_MAX
    assert len(parse_format_name(",".join([r"DIRECT=OS:b\q"] * most))) == most
    with pytest.raises(IllegalFormatName, match=f"at most {most} elements"):
        parse_format_name(",".join([r"DIRECT=OS:b\q"] * (most + 1)))
    with pytest.raises(IllegalFormatName, match=f"{FORMAT_NAME_CHARS_MAX} are allowed"):
        parse_format_name(" " * (FORMAT_NAME_CHARS_MAX + 1))
    (name,) = parse_format_name(r"DIRECT=OS:b\q".ljust(FORMAT_NAME_CHARS_MAX))
    assert name.queue == "q"


def test_a_long_text_is_not_repeated_whole() -> None:
    text = ",".join([r"DIRECT=OS:b\q"] * 100) + ",x" + ",y" * 100
    with pytest.raises(IllegalFormatName) as caught:
        parse_format_name(text)
    assert len(caught.value.text) < 400
    _, shown, caret = caught.value.text.split("\n")
    assert shown.endswith("...")
    assert shown[caret.index("^")] == "x"


@pytest.mark.parametrize(
    "element",
    [
        f"PUBLIC={TEXT};JOURNAL",
        f"PRIVATE={TEXT}\\1;JOURNAL",
        r"DIRECT=OS:b\q;JOURNAL",
        r"DIRECT=OS:b\SYSTEM$;DEADLETTER",
        r"DIRECT=OS:b\SYSTEM$;DEADXACT",
        r"DIRECT=OS:b\q;retry",
        f"MACHINE={TEXT};DEADXACT",
        f"CONNECTOR={TEXT}",
        f"CONNECTOR={TEXT};XACTONLY",
        "MULTICAST=234.1.1.1:80",
    ],
)
def test_one_read_only_element_makes_the_whole_name_illegal(element: str) -> None:
    """FN-10 and X-6: case 75 at the level of names."""
    assert len(parse_format_name(element)) == 1
    for text in (rf"DIRECT=OS:b\q,{element}", rf"{element},DIRECT=OS:b\q"):
        with pytest.raises(IllegalFormatName, match="one of several elements") as caught:
            parse_format_name(text)
        assert f"at position {text.index(element)}" in caught.value.text


# ---- path names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r".\private$\orders", direct(".", "orders", private=True)),
        (r"private$\orders", direct(".", "orders", private=True)),
        ("PRIVATE$/orders", direct(".", "orders", private=True)),
        (r"BETA\private$\orders", direct("BETA", "orders", private=True)),
        (r"BETA\orders", direct("BETA", "orders")),
        ("orders", direct(".", "orders")),
        (r"private$\orders;retry", direct(".", "orders", private=True, subqueue="retry")),
        (r"private$\orders;journal",
         direct(".", "orders", private=True, suffix=Suffix.JOURNAL)),
        (r"BETA\system$;deadxact", direct("BETA", suffix=Suffix.DEADXACT)),
        ("SYSTEM$;DEADLETTER", direct(".", suffix=Suffix.DEADLETTER)),
        (r"private$\a=b", direct(".", "a=b", private=True)),
        ("./private$/DIRECT=OS:x", direct(".", "DIRECT=OS:x", private=True)),
    ],
)  # fmt: skip
def test_path_names_become_direct_names(text: str, meant: FormatName) -> None:
    name = parse_path_name(text)
    assert without_text(name) == meant
    assert name.text == text
    assert parse_any(text) == (name,)
    assert without_text(parse_format_name(str(name))[0]) == meant


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("", 0, "name of a queue is missing"),
        ("private$", 8, "missing after private$"),
        ("private$\\", 9, "name of a queue is missing"),
        (r"BETA\private$\a\b", 15, "not allowed"),
        (r"\private$\q", 0, "computer name"),
        (r"private$\a,private$\b", 10, "names one queue"),
        (r" private$\q", 0, "computer name"),
        ("system$;retry", 8, "is expected"),
        (r"system$;\system$;JOURNAL", 8, "is expected"),
        (r"system$\q", 0, "missing before system$"),
        ("q\u00e4", 1, "is not allowed in a name"),
        ("x" * (FORMAT_NAME_CHARS_MAX + 1), FORMAT_NAME_CHARS_MAX, "too many"),
    ],
)
def test_faults_of_path_names(text: str, at: int, said: str) -> None:
    for parse in (parse_path_name, parse_any):
        with pytest.raises(IllegalPathName) as caught:
            parse(text)
        sentence = caught.value.text.split("\n")[0]
        assert said in sentence
        assert sentence.endswith(f", at position {at}")
        assert caught.value.hresult == 0xC00E0014


def test_a_misspelt_prefix_is_taken_for_a_format_name() -> None:
    with pytest.raises(IllegalFormatName, match="begins with one of DIRECT="):
        parse_any(r"DIRCT=OS:beta\q")


# ---- use ------------------------------------------------------------------------------------

SEND_ONLY = (Kind.DL, Kind.MULTICAST)


@pytest.mark.parametrize(("text", "name"), FORMS, ids=[text for text, _ in FORMS])
def test_what_each_form_may_be_used_for(text: str, name: FormatName) -> None:
    """The table of FN-18, columns send and receive."""
    sendable = (
        name.suffix is Suffix.NONE
        and not name.subqueue
        and name.kind not in (Kind.MACHINE, Kind.CONNECTOR)
    )
    receivable = name.kind not in SEND_ONLY and not name.protocol.startswith("HTTP")
    for check, allowed in ((may_send, sendable), (may_receive, receivable)):
        if allowed:
            check(name)
        else:
            with pytest.raises(UnsupportedFormatName) as caught:
                check(name)
            assert caught.value.hresult == 0xC00E0020
            assert text.split(";")[0] in caught.value.text


def test_read_only_queues() -> None:
    assert [text for text, name in FORMS if name.is_read_only] == [
        text for text, _ in FORMS if text.endswith((";JOURNAL", ";DEADLETTER", ";DEADXACT"))
    ]


def test_only_direct_names_have_a_direct_text() -> None:
    for text, name in FORMS:
        assert name.direct == (text.removeprefix("DIRECT=") if text.startswith("DIR") else "")


def test_how_a_manager_finds_its_own_queues() -> None:
    assert queue_key(True, "Orders") == "private$\\orders"
    assert queue_key(False, "Orders") == "orders"
