"""What ``onceq qm status`` says that an operator should look at."""

from __future__ import annotations

import pytest

from onceq.cli.status import doors_troubles, since
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.time import DAY_S
from onceq.model.views.managers import StatusView

ENDS_S = 1_800_000_000


@pytest.mark.parametrize(
    ("before_s", "says"),
    [
        (CERTIFICATE_WARN_DAYS * DAY_S, ""),
        (CERTIFICATE_WARN_DAYS * DAY_S - 1, "the certificate ends in 29 days: 'onceq tls renew'"),
        (DAY_S, "the certificate ends in 1 day: 'onceq tls renew'"),
        (1, "the certificate ends in 0 days: 'onceq tls renew'"),
        (0, "no other queue manager believes this one: its certificate has expired"),
        (-DAY_S, "no other queue manager believes this one: its certificate has expired"),
    ],
)
def test_the_end_of_a_certificate_is_told_30_days_ahead(before_s: int, says: str) -> None:
    """By the clock of whoever asks: it ends while the queue manager runs, without a word of it."""
    view = StatusView(tls=True, certificate_ends=ENDS_S)
    found = doors_troubles(view, ENDS_S - before_s)
    assert len(found) == bool(says)
    assert "".join(found).startswith(says)


def test_what_is_wrong_with_a_certificate_is_told_in_its_own_words() -> None:
    view = StatusView(tls=True, certificate_ends=0, certificate_problem="it is not yet valid")
    (found,) = doors_troubles(view, ENDS_S)
    assert "believes this one: it is not yet valid; 'onceq tls renew'" in found
    assert doors_troubles(StatusView(), ENDS_S) == []


def test_since_when_it_runs_is_a_time_and_how_long_that_is() -> None:
    assert since(ENDS_S - 90_000, ENDS_S + 0.5).endswith(" (25 h)")
    assert since(ENDS_S, ENDS_S - 5).endswith("(0 s)")  # the clocks differ
