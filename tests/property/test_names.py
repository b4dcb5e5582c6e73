"""Names that are built by the grammar come back from their text, and compare as they should."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import IllegalFormatName
from onceq.model.limits import (
    COMPUTER_NAME_CHARS_MAX,
    QUEUE_NAME_CHARS_MAX,
    SUBQUEUE_NAME_CHARS_MAX,
)
from onceq.model.names import (
    RESERVED,
    FormatName,
    Kind,
    Suffix,
    parse_any,
    parse_format_name,
    parse_path_name,
)

VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
QUEUE_CHARS = "".join(char for char in VISIBLE if char not in '\\/;+,"')
HOST_CHARS = "".join(char for char in VISIBLE if char not in "\\/,")
READ_ONLY = (Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT)

guids = st.binary(min_size=16, max_size=16)
queues = st.text(QUEUE_CHARS, min_size=1, max_size=QUEUE_NAME_CHARS_MAX)
subqueues = st.text(QUEUE_CHARS, min_size=1, max_size=SUBQUEUE_NAME_CHARS_MAX).filter(
    lambda name: name.upper() != "JOURNAL"
)
ports = st.integers(1, 65_535)
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


@st.composite
def hosts(draw: st.DrawFn, protocol: str) -> str:
    if protocol == "TCP":
        return draw(addresses)
    if protocol == "OS":
        text = st.text(HOST_CHARS, min_size=1, max_size=COMPUTER_NAME_CHARS_MAX)
        return draw(text.filter(lambda name: name.lower().split(";")[0] not in RESERVED))
    host = draw(
        st.one_of(
            st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=250),
            st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
        )
    )
    return draw(st.sampled_from([host, f"{host}:{draw(ports)}"]))


@st.composite
def direct_names(draw: st.DrawFn) -> FormatName:
    protocol = draw(st.sampled_from(("OS", "TCP", "HTTP", "HTTPS")))
    host = draw(hosts(protocol))
    if draw(st.booleans()) and draw(st.booleans()):
        suffix = draw(st.sampled_from(READ_ONLY))
        return FormatName(Kind.DIRECT, protocol=protocol, host=host, suffix=suffix)
    private = draw(st.booleans())
    queue = draw(queues.filter(lambda name: private or name.lower() not in RESERVED))
    suffix, subqueue = draw(
        st.one_of(
            st.sampled_from([(Suffix.NONE, ""), (Suffix.JOURNAL, "")]),
            subqueues.map(lambda name: (Suffix.NONE, name)),
        )
    )
    return FormatName(
        Kind.DIRECT, protocol=protocol, host=host, queue=queue, private=private, suffix=suffix,
        subqueue=subqueue,
    )  # fmt: skip


def form(kind: Kind, *suffixes: Suffix) -> st.SearchStrategy[FormatName]:
    return st.builds(FormatName, st.just(kind), guid=guids, suffix=st.sampled_from(suffixes))


names = st.one_of(
    direct_names(),
    form(Kind.PUBLIC, Suffix.NONE, Suffix.JOURNAL),
    form(Kind.MACHINE, *READ_ONLY),
    form(Kind.CONNECTOR, Suffix.NONE, Suffix.XACTONLY),
    st.builds(
        FormatName,
        st.just(Kind.PRIVATE),
        guid=guids,
        number=st.integers(0, 0xFFFF_FFFF),
        suffix=st.sampled_from((Suffix.NONE, Suffix.JOURNAL)),
    ),
    st.builds(
        FormatName,
        st.just(Kind.DL),
        guid=guids,
        domain=st.text(VISIBLE.replace(",", ""), max_size=255),
    ),
    st.builds(
        FormatName,
        st.just(Kind.MULTICAST),
        host=st.ip_addresses(v=4, network="224.0.0.0/4").map(str),
        number=ports,
    ),
)


def alone(name: FormatName) -> bool:
    """Whether it is refused as one of several elements; written anew here, from FN-18."""
    return (
        name.suffix is not Suffix.NONE
        or bool(name.subqueue)
        or name.kind in (Kind.MACHINE, Kind.CONNECTOR, Kind.MULTICAST)
    )


def meaning(name: FormatName) -> tuple[object, ...]:
    """Everything but the text as it was given."""
    return (
        name.kind, name.guid, name.number, name.protocol, name.host, name.queue, name.private,
        name.suffix, name.subqueue, name.domain,
    )  # fmt: skip


def other_case(data: st.DataObject, text: str) -> str:
    flips = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    return "".join(
        char.swapcase() if flip else char for char, flip in zip(text, flips, strict=True)
    )


@given(names)
def test_a_name_comes_back_from_its_text(name: FormatName) -> None:
    (back,) = parse_format_name(str(name))
    assert meaning(back) == meaning(name)
    assert str(back) == str(name) == back.text
    assert parse_any(str(name)) == (back,)


@given(st.data())
def test_names_that_differ_in_case_only_are_the_same(data: st.DataObject) -> None:
    name = data.draw(names)
    text = other_case(data, str(name))
    (back,) = parse_format_name(text)
    assert back.key() == name.key()
    assert back.text == text


@given(names, names)
def test_equal_keys_mean_the_same_queue(left: FormatName, right: FormatName) -> None:
    def folded(name: FormatName) -> tuple[object, ...]:
        return tuple(field.lower() if isinstance(field, str) else field for field in meaning(name))

    assert (left.key() == right.key()) == (folded(left) == folded(right))


@given(names, st.text(" ", max_size=3), st.text(" ", max_size=3))
def test_spaces_around_an_element_do_not_count(name: FormatName, before: str, after: str) -> None:
    (back,) = parse_format_name(f"{before}{name}{after}")
    assert meaning(back) == meaning(name)


@given(st.lists(names, min_size=2, max_size=6))
def test_a_list_is_its_elements_or_refused_as_a_whole(elements: list[FormatName]) -> None:
    text = ",".join(map(str, elements))
    at = 0
    for element in elements:
        if alone(element):
            break
        at += len(str(element)) + 1
    else:
        assert list(map(meaning, parse_format_name(text))) == list(map(meaning, elements))
        return
    with pytest.raises(IllegalFormatName) as caught:
        parse_format_name(text)
    assert f", at position {at}\n" in caught.value.text


@given(direct_names().filter(lambda name: name.protocol == "OS"))
def test_the_path_of_a_queue_leads_to_its_direct_name(name: FormatName) -> None:
    path = name.direct.removeprefix("OS:")
    assert meaning(parse_path_name(path)) == meaning(name)
    assert meaning(parse_path_name(path.replace("\\", "/"))) == meaning(name)
