"""What other queue managers tell of the end of their trails is kept, within bounds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from onceq.core.inputs import SessionOpened, TellDoors
from onceq.core.state import audit_trail
from onceq.core.state.audit_trail import HEADS_MAX, TrailHead, TrailHeads
from onceq.core.state.setups import encode_rows
from onceq.model import requests
from onceq.model.identification import Identification, Proof
from onceq.model.identity import guid_text
from onceq.model.limits import NOTICE_EVERY_S
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.managers import TrailView
from tests.unit.core.alone import Core

PEER, DIGEST = b"p" * 16, b"d" * 32
COMES = SessionOpened(7, PEER, "10.0.0.1", 0, acts=5, digest=DIGEST)


def held(core: Core) -> list[tuple[int, str]]:
    found = core.ask(requests.Look("trail-end"))
    assert isinstance(found, TrailView)
    return [(one.number, one.digest) for one in found.heads]


def test_the_end_of_a_trail_is_kept_also_after_a_restart() -> None:
    core = Core()
    core.step(COMES)
    before = core.manager._step.position
    core.step(replace(COMES, session=8))
    assert core.manager._step.position == before, "the same one is worth no record"
    assert held(core) == [(5, DIGEST.hex())]
    assert list(core.again().state.heads) == list(core.manager.state.heads)


def test_with_an_identity_only_who_proves_its_own_is_a_witness() -> None:
    core = Core()
    core.step(TellDoors(identity=True))
    address = Identification(Proof.ADDRESS, Actor(ActorKind.ADDRESS, "10.0.0.1"))
    core.step(replace(COMES, who=address))
    core.step(replace(COMES, session=8, digest=b""))
    assert held(core) == []
    shown = Identification(Proof.CERTIFICATE, Actor(ActorKind.PEER, guid_text(PEER)), PEER)
    core.step(replace(COMES, session=9, who=shown))
    assert held(core) == [(5, DIGEST.hex())]


def test_some_are_kept_of_each_and_what_comes_quickly_pushes_out_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads = TrailHeads()
    for number in range(20):
        heads.note_head(PEER, TrailHead(number, DIGEST, number))
    assert [head.number for head in dict(heads)[PEER]] == [0, 19]
    for hour in range(1, 20):
        heads.note_head(PEER, TrailHead(100 + hour, DIGEST, 20 + hour * NOTICE_EVERY_S))
    assert len(dict(heads)[PEER]) == HEADS_MAX
    monkeypatch.setattr(audit_trail, "HEAD_PEERS_MAX", 2)
    for at, guid in enumerate((b"q" * 16, b"r" * 16)):
        heads.note_head(guid, TrailHead(1, DIGEST, 10 + at))
    assert [guid for guid, _ in heads] == [PEER, b"r" * 16]
    other = TrailHeads()
    other.load(json.loads(encode_rows(heads.dump())))
    assert list(other) == list(heads)
