"""Names of queues as they stand in packets: which are legal where, and their format names."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import MalformedPacket
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.packet.address import DIRECT, ON_ADMIN, Address, name_of, response_name
from onceq.packet.decode import headers, tx_offset
from onceq.packet.encode import encode_run, template
from tests.unit.packet.samples import GUID, NAMES, SOURCE

OWN = "03020100-0504-0706-0809-0a0b0c0d0e0f"
OTHER = "6d6d6d6d-6d6d-6d6d-6d6d-6d6d6d6d6d6d"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address(0), ""),
        (Address(2, number=4), f"PRIVATE={OWN}\\00000004"),
        (Address(3, number=0x1F), f"PRIVATE={OTHER}\\0000001f"),
        (Address(5, SOURCE), f"PUBLIC={OWN}"),
        (Address(6, b"m" * 16, 1), f"PRIVATE={OTHER}\\00000001"),
        (Address(7, direct="TCP:10.0.0.1\\q"), "DIRECT=TCP:10.0.0.1\\q"),
    ],
)
def test_names_in_packets_are_format_names(address: Address, text: str) -> None:
    assert name_of(address, source=SOURCE, manager=b"m" * 16) == text
    same = response_name(Address(1), address, source=SOURCE, manager=b"m" * 16)
    assert same == text


@pytest.mark.parametrize(
    ("admin", "text"),
    [
        (Address(2, number=1), f"PRIVATE={OWN}\\00000008"),
        (Address(3, number=1), f"PRIVATE={OTHER}\\00000008"),
        (Address(6, b"m" * 16, 1), f"PRIVATE={OTHER}\\00000008"),
        (Address(5, SOURCE), ""),
        (Address(7, direct="OS:A\\q"), ""),
    ],
)
def test_response_queue_on_the_host_of_the_admin_queue(admin: Address, text: str) -> None:
    response = Address(ON_ADMIN, number=8)
    assert response_name(response, admin, source=SOURCE, manager=b"m" * 16) == text


LEGAL = {"destination": {0, 3, 5, 7}, "admin": {0, 2, 3, 5, 6, 7}, "response": set(range(8))}


@pytest.mark.parametrize("kind", range(8))
@pytest.mark.parametrize("which", LEGAL)
def test_types_of_names(which: str, kind: int) -> None:
    """The table of MS-MQMQ 2.2.19.2: who may have which type."""
    direct = "OS:B\\q" if kind == DIRECT else ""
    guid = b"g" * 16 if kind in (5, 6) else bytes(16)
    number = 77 if kind in (2, 3, 4, 6) else 0
    plain = Address(DIRECT, direct="OS:C\\c")
    address = Address(kind, guid, number, direct)
    addresses: dict[str, Any] = {name: address if name == which else plain for name in LEGAL}
    made = template(
        source=SOURCE, properties=Properties(), sent_time=1, transactional=True,
        **addresses,
    )  # fmt: skip
    data = bytes(encode_run(made, Run.of([b"b"]), first_message=1).data)
    if kind not in LEGAL[which]:
        with pytest.raises(MalformedPacket, match="not legal"):
            headers(data)
        return
    assert getattr(headers(data).user, which) == address
    assert tx_offset(data) == headers(data).offsets[0]


def test_names_are_printed_as_format_names() -> None:
    assert [str(element) for element in NAMES.destination] == [
        "DIRECT=OS:A\\q",
        f"PRIVATE={GUID}\\00000007",
        f"DL={GUID}",
        "DIRECT=TCP:10.0.0.1\\private$\\qq",
    ]
