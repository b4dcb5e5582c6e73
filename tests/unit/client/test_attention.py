"""What an operator should look at: the same sentences on the command line and in the console."""

from __future__ import annotations

import pytest

from onceq.client.attention import Inspected, held_up, to_look_at
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.marks import DAY_S
from onceq.model.views.managers import StatusView
from onceq.model.views.view import MetricsView, Page

ENDS_S = 1_800_000_000


def seen(status: StatusView) -> Inspected:
    return Inspected(status, MetricsView(), Page(), Page(), Page(), Page(), ())


def told(status: StatusView, now_s: float) -> list[str]:
    return [*held_up(seen(status), now_s), *to_look_at(seen(status), now_s)]


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
    found = told(StatusView(tls=True, certificate_ends=ENDS_S), ENDS_S - before_s)
    assert len(found) == bool(says)
    assert "".join(found).startswith(says)


def test_what_is_wrong_with_a_certificate_is_told_in_its_own_words() -> None:
    view = StatusView(tls=True, certificate_ends=0, certificate_problem="it is not yet valid")
    (found,) = told(view, ENDS_S)
    assert "believes this one: it is not yet valid; 'onceq tls renew'" in found
    assert told(StatusView(), ENDS_S) == []
