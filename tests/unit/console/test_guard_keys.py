"""A link opens one session once; sessions end; secrets are not mixed up."""

from __future__ import annotations

from onceq.console.guard import CODE_S, NOTICES_MAX, SESSION_S, SESSIONS_MAX, Keys


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_a_code_is_good_once() -> None:
    keys = Keys(Clock())
    code = keys.new_code()
    cookie = keys.sign_in(code)
    assert cookie
    assert keys.session(cookie) is not None
    assert keys.sign_in(code) is None
    assert keys.sign_in("another") is None


def test_a_code_is_good_for_an_hour() -> None:
    clock = Clock()
    keys = Keys(clock)
    code = keys.new_code()
    clock.at = CODE_S + 1
    assert keys.sign_in(code) is None


def test_the_token_opens_sessions_and_is_no_cookie() -> None:
    keys = Keys(Clock(), "the-token")
    assert keys.is_token("the-token")
    assert not keys.is_token("the-token ")
    assert keys.sign_in("the-token")
    assert keys.session("the-token") is None
    assert Keys(Clock()).token != Keys(Clock()).token


def test_a_session_ends() -> None:
    clock = Clock()
    keys = Keys(clock, "t")
    cookie = keys.sign_in("t")
    assert cookie
    keys.sign_out(cookie)
    assert keys.session(cookie) is None
    later = keys.sign_in("t")
    assert later
    clock.at = SESSION_S + 1
    assert keys.session(later) is None


def test_the_one_that_was_silent_longest_goes_first() -> None:
    keys = Keys(Clock(), "t")
    first, second = keys.sign_in("t"), keys.sign_in("t")
    assert first
    assert second
    for _ in range(SESSIONS_MAX - 1):
        assert keys.session(first)
        keys.sign_in("t")
    assert keys.session(first)
    assert keys.session(second) is None


def test_notices_are_told_once_and_do_not_grow() -> None:
    keys = Keys(Clock(), "t")
    session = keys.session(keys.sign_in("t") or "")
    assert session is not None
    for number in range(NOTICES_MAX + 5):
        session.tell(str(number))
    told = session.take_notices()
    assert (len(told), told[-1]) == (NOTICES_MAX, str(NOTICES_MAX + 4))
    assert session.take_notices() == []
    assert session.has_sent(session.form_token)
    assert not session.has_sent("ä")
