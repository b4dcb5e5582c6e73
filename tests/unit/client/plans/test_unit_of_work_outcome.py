"""What became of commits."""

from __future__ import annotations

import pytest

from onceq.client.link import Session
from onceq.client.plans.unit_of_work import outcome
from onceq.errors import InvalidParameter
from tests.unit.client.script import Script


@pytest.mark.parametrize("text", ["", "x", "00-1", "0" * 32 + "-0", "0" * 32 + "-" + "9" * 30,
                                  "0" * 32 + "-²", "z" * 32 + "-1"])  # fmt: skip
def test_what_is_no_transaction_identifier(script: Script, session: Session, text: str) -> None:
    with pytest.raises(InvalidParameter):
        script.run(outcome(session, text))
