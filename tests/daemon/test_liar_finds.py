"""The liars of ``make liar`` find what they are for: each kind a mistake that believes its lies.

The mistakes are those of ``tests/planted``, and the queue managers are real ones that have them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.torture.liar import liar
from proof.torture.liar.account import LocalAccount
from proof.torture.liar.backup import BackupWriter
from proof.torture.liar.door import PLANTED
from proof.torture.liar.honest import STRAY
from proof.torture.liar.member import Member
from proof.torture.liar.pages import WebPages
from proof.torture.liar.plain import PlainHost
from proof.torture.liar.rogue import Rogue
from proof.torture.liar.tenant import Tenant
from tests.planted.planted import all_planted

pytestmark = pytest.mark.slow

Found = tuple[type[Rogue], str, bool, str]
FINDS: list[Found] = [
    (Member, "any-member-under-any-name", True, "messages for EPSILON"),
    (PlainHost, "proven-once-believed-plainly", True, f"believes that {STRAY} is"),
    (LocalAccount, "who-shows-nothing-is-this-computer", False, "account:games at "),
    (Tenant, "an-owner-lets-strangers-in", False, "let strangers in"),
    (WebPages, "web-pages-post", False, "it was taken"),
    (BackupWriter, "backup-unsigned-is-taken", True, "it was put back"),
]
"""Who finds which mistake, whether the honest have identities, and what is said of it."""


@pytest.mark.search("doors", few=2)
@pytest.mark.parametrize(("kind", "name", "tls", "said"), FINDS)
def test_it_finds_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Rogue], name: str, tls: bool,
    said: str,
) -> None:  # fmt: skip
    if kind is BackupWriter:
        all_planted()[name].plant(monkeypatch)  # who puts a backup back is this process
    else:
        monkeypatch.setenv(PLANTED, name)
    outcome = liar.run(
        seconds=1, seed=3, folder=tmp_path / "run", pin=False, tls=tls, only=[kind],
        look_s_max=1e9,
    )  # fmt: skip
    if outcome.tallies[0].absent:
        pytest.skip(outcome.tallies[0].absent)
    assert outcome.tallies[0].tried
    found = [one for one in outcome.violations if said in one]
    assert found, outcome.violations
