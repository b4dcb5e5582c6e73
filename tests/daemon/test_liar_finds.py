"""The liars of ``make liar`` find what they are for: each kind a mistake that believes its lies.

The mistakes are those of ``tests/planted``, and the queue managers are real ones that have them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import liar
from liar_account import LocalAccount
from liar_backup import BackupWriter
from liar_door import PLANTED
from liar_honest import STRAY
from liar_member import Member
from liar_pages import WebPages
from liar_plain import PlainHost
from liar_rogue import Rogue
from liar_tenant import Tenant
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
