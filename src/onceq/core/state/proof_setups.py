"""Setup records about others: what a queue manager or an address has proven, and the ends of their
trails; and of acts that were done again. See ``setups.py``."""

from __future__ import annotations

from onceq.core.state.setups import Setup, _setup


@_setup("act-again")
class ActRepeated(Setup):
    """An act that is kept was done again, and changed nothing."""

    number: int
    at_s: int


@_setup("trail-head")
class HeadTold(Setup):
    """Another queue manager has told the end of its trail: number and digest of its last act."""

    source: bytes
    number: int
    digest: bytes
    at_s: int


@_setup("proven")
class PeerProven(Setup):
    """A queue manager has shown its certificate: it is believed with one alone from now on."""

    guid: bytes


@_setup("address-bound")
class AddressBound(Setup):
    """An address that is believed without proof is that queue manager; NO_GUID: none yet."""

    address: str
    guid: bytes


@_setup("made-by")
class MakerKnown(Setup):
    """Who has made a queue, a subqueue or an outgoing queue (``core/state/makers.py``)."""

    number: int
    who: str
