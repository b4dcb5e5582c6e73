"""Headers of messages' own, many of them: made and refused as those of single messages are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onceq.errors import IllegalPropertySize, IllegalPropertyValue, LabelTooLong, OnceqError
from onceq.model.limits import EXTENSION_BYTES_MAX, LABEL_CHARS_MAX
from onceq.model.run import Run
from onceq.packet import address as at
from onceq.packet.encode import BLOCK_MESSAGES
from onceq.packet.own import check_own, own_headers

COUNT = 2 * BLOCK_MESSAGES + 7
LATE = 2 * BLOCK_MESSAGES + 3
"""A message of the last block."""
HEADER = at.PROPERTIES_HEADER
DICE = random.Random(7)

FORMS: dict[str, dict[str, Sequence[Any]]] = {
    "one size": {"label": [f"row {i:06}" for i in range(COUNT)], "app_specific": range(COUNT)},
    "several sizes": {"label": [f"row {i}" for i in range(COUNT)]},
    "any size": {"label": ["x" * DICE.randrange(LABEL_CHARS_MAX) for _ in range(COUNT)]},
    "some without": {"label": ["" if i % 3 else "there" for i in range(COUNT)]},
    "none with": {"label": [""] * COUNT, "body_type": [8] * COUNT},
    "beyond the basic plane": {"label": ["\U0001f6b2 ü"[i % 3 :] + "z" for i in range(COUNT)]},
    "extensions of one size": {
        "label": ["a"] * COUNT, "extension": [i.to_bytes(3, "big") for i in range(COUNT)],
    },
    "extensions only": {"extension": [bytes([i % 256]) * 9 for i in range(COUNT)]},
    "large extensions": {"extension": [bytes([i % 256]) * 700 for i in range(COUNT)]},
    "extensions of any size": {
        "extension": [b"e" * DICE.randrange(600) for _ in range(COUNT)], "label": ["l"] * COUNT,
    },
    "one size in all": {
        "label": ["x" * (i % 5) + "y" for i in range(COUNT)],
        "extension": [b"e" * (8 - 2 * (i % 5)) for i in range(COUNT)],
    },
    "correlations": {
        "correlation_id": [i.to_bytes(20, "big") for i in range(COUNT)],
        "app_specific": [0xFFFF_FFFF - i for i in range(COUNT)],
    },
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_many_headers_are_as_single_ones(form: str) -> None:
    values = FORMS[form]
    together = own_headers(COUNT, values)
    apart = [own_headers(1, {n: column[i : i + 1] for n, column in values.items()})
             for i in range(COUNT)]  # fmt: skip
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]
    check_own(together)


def test_no_headers() -> None:
    none = own_headers(0, {"label": []})
    assert (bytes(none.data), len(none)) == (b"", 0)
    check_own(none)


def test_a_label_that_is_refused_when_headers_are_made() -> None:
    labels = ["x"] * COUNT
    with pytest.raises(LabelTooLong):
        own_headers(COUNT, {"label": [*labels[:LATE], "x" * (LABEL_CHARS_MAX + 1)]})
    with pytest.raises(IllegalPropertyValue, match="NUL"):
        own_headers(COUNT, {"label": [*labels[:LATE], "a\0b"]})


def _set(place: int, raw: bytes) -> Callable[[bytes], bytes]:
    return lambda header: header[:place] + raw + header[place + len(raw) :]


LONG = "y" * (LABEL_CHARS_MAX + 1)
BATCHS = "belongs to the batch"
SUM = "do not add up"
HALF = "half a surrogate pair"
NUL = "does not end at its only NUL"
MISTAKES: dict[str, tuple[Callable[[bytes], bytes], type[OnceqError], str]] = {
    "acknowledgments": (_set(0, b"\1"), IllegalPropertyValue, BATCHS),
    "class": (_set(at.PROP_CLASS + 1, b"\1"), IllegalPropertyValue, BATCHS),
    "size of the body": (_set(at.OFF_BODY_SIZE + 3, b"\1"), IllegalPropertyValue, BATCHS),
    "cipher": (_set(at.OFF_EXTENSION_SIZE - 1, b"\1"), IllegalPropertyValue, BATCHS),
    "label said to be shorter": (_set(at.PROP_LABEL_CHARS, b"\2"), IllegalPropertyValue, SUM),
    "label said to be longer": (_set(at.PROP_LABEL_CHARS, b"\xfa"), IllegalPropertyValue, SUM),
    "no label said": (_set(at.PROP_LABEL_CHARS, b"\0"), IllegalPropertyValue, SUM),
    "extension said": (_set(at.OFF_EXTENSION_SIZE + 3, b"\1"), IllegalPropertyValue, SUM),
    "high half": (_set(HEADER + 2, b"\x00\xd8"), IllegalPropertyValue, HALF),
    "low half": (_set(HEADER, b"\x00\xdc"), IllegalPropertyValue, HALF),
    "no terminator": (lambda h: h[:-2] + b"x\0", IllegalPropertyValue, NUL),
    "early terminator": (_set(HEADER, b"\0\0"), IllegalPropertyValue, NUL),
    "cut off": (lambda h: h[: HEADER - 1], IllegalPropertyValue, "55 bytes"),
    "shorter by one": (lambda h: h[:-1], IllegalPropertyValue, SUM),
    "large extension": (
        lambda h: (
            _set(at.OFF_EXTENSION_SIZE, at.U32.pack(EXTENSION_BYTES_MAX + 1))(h)
            + bytes(EXTENSION_BYTES_MAX + 1)
        ),
        IllegalPropertySize,
        "an extension has at most",
    ),
    "long label": (
        lambda h: (
            _set(at.PROP_LABEL_CHARS, bytes([len(LONG) + 1]))(h[:HEADER])
            + f"{LONG}\0".encode("utf-16-le")
        ),
        LabelTooLong,
        "the label has 250 characters",
    ),
}


@pytest.mark.parametrize("label", ["as long", "of any length"])
@pytest.mark.parametrize("where", [0, 1, BLOCK_MESSAGES - 1, LATE])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_header_that_cannot_be_is_named(label: str, where: int, mistake: str) -> None:
    change, error, text = MISTAKES[mistake]
    labels = ["four" if label == "as long" or i == where else "x" * (i % 9) for i in range(COUNT)]
    headers = list(map(bytes, own_headers(COUNT, {"label": labels})))
    headers[where] = change(headers[where])
    with pytest.raises(error, match=f"message {where} of the batch: .*{text}"):
        check_own(Run.of(headers))


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name != "large extension"])
def test_all_headers_are_wrong_in_the_same_way(mistake: str) -> None:
    change, error, text = MISTAKES[mistake]
    headers = map(bytes, own_headers(COUNT, {"label": ["four"] * COUNT}))
    with pytest.raises(error, match=f"message 0 of the batch: .*{text}"):
        check_own(Run.of([change(header) for header in headers]))
