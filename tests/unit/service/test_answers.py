"""Room for answers: asked for before they are built, shared, and given back when they are read."""

from __future__ import annotations

from collections import deque

import pytest

from onceq.model import limits
from onceq.model.limits import (
    ANSWERS_BYTES_MAX,
    ANSWERS_TURN_BYTES,
    CLIENT_ANSWERS_BYTES_MAX,
    CLIENT_STALLED_S_MAX,
    PACKET_BYTES_MAX,
    RECEIVE_BYTES_MAX,
)
from onceq.service.answers import SECOND, Answers

MANY = 64


class Application:
    """Asks for messages as long as it is answered, and reads as it is told to."""

    def __init__(self, answers: Answers, wants: int = RECEIVE_BYTES_MAX) -> None:
        self.answers = answers
        self.todo: deque[int] = deque(range(1, MANY + 1))
        self.granted: dict[int, int] = {}
        self.wants = wants
        self.unread_bytes = 0
        self.why = ""

    def go_on(self) -> None:
        while self.todo:
            granted = self.answers.ask(self, self.todo[0], self.wants)
            if not granted:
                return
            self.granted[self.todo.popleft()] = granted

    def cut(self, reason: str) -> None:
        self.why = reason
        self.answers.gone(self)

    def be_answered(self, now_us: int = 0, size: int = 0) -> int:
        """Everything that was granted is built, as large as it may be; how much that is."""
        total = 0
        for request, granted in self.granted.items():
            made = size or granted
            self.unread_bytes += made
            self.answers.built(self, request, made, now_us)
            total += made
        self.granted.clear()
        return total


def turn(answers: Answers, *applications: Application, now_us: int = 0) -> int:
    """One pump, which answers everything; how many bytes it has built."""
    answers.begin()
    built = sum(one.be_answered(now_us) for one in applications)
    answers.end()
    return built


def test_those_who_do_not_read_hold_no_more_than_the_limit_and_leave_room() -> None:
    answers = Answers()
    crowd = [Application(answers) for _ in range(6)]
    for one in crowd:
        one.go_on()
    for _ in range(10):
        assert turn(answers, *crowd) <= ANSWERS_TURN_BYTES + RECEIVE_BYTES_MAX + sum(
            [PACKET_BYTES_MAX] * 64
        )
        assert answers.held_bytes <= ANSWERS_BYTES_MAX
        assert all(one.unread_bytes <= CLIENT_ANSWERS_BYTES_MAX for one in crowd)
    assert sum(one.unread_bytes for one in crowd) == answers.held_bytes


def test_one_application_that_does_not_read_leaves_room_for_one_that_does() -> None:
    answers = Answers()
    slow, quick = Application(answers), Application(answers)
    slow.go_on()
    turn(answers, slow)
    turn(answers, slow)
    quick.go_on()
    done = 0
    for _ in range(400):
        done += turn(answers, quick) > 0
        quick.unread_bytes = 0
        answers.check_reading(0)
        if not quick.todo:
            break
    assert not quick.todo, "it was answered to its end"
    turn(answers, quick)
    quick.unread_bytes = 0
    answers.check_reading(0)
    assert len(slow.todo) > MANY // 2
    assert answers.held_bytes == slow.unread_bytes


def test_what_was_asked_for_and_waits_for_a_message_holds_nothing() -> None:
    answers = Answers()
    readers = [Application(answers, PACKET_BYTES_MAX) for _ in range(20)]
    for one in readers:
        one.go_on()
    for _ in range(200):
        answers.begin()
        answers.end()
    assert answers.held_bytes == 0
    assert all(not one.todo for one in readers)


def test_a_peek_that_has_waited_is_put_off_while_there_is_no_room() -> None:
    answers = Answers()
    reader = Application(answers)
    assert answers.takes(reader, 1, PACKET_BYTES_MAX)
    assert not answers.takes(reader, 1, CLIENT_ANSWERS_BYTES_MAX + 1)
    crowd = [Application(answers) for _ in range(40)]
    for one in crowd:
        one.go_on()
    for _ in range(100):
        turn(answers, *crowd)
    assert not answers.takes(reader, 1, PACKET_BYTES_MAX)
    answers.stand(reader)
    for one in crowd:
        one.todo.clear()
        one.unread_bytes = 0
    answers.check_reading(0)
    assert len(reader.todo) < MANY, "it went on as soon as others had read"


def test_who_comes_first_is_served_first() -> None:
    answers = Answers()
    hog = [Application(answers) for _ in range(40)]
    for one in hog:
        one.go_on()
    for _ in range(100):
        turn(answers, *hog)
    for one in hog:
        one.todo.clear()
    line = [Application(answers, PACKET_BYTES_MAX) for _ in range(3)]
    for one in line:
        one.todo = deque([1])
        one.go_on()
    assert [len(one.granted) for one in line] == [0, 0, 0]
    hog[0].unread_bytes -= PACKET_BYTES_MAX
    answers.check_reading(0)
    assert [len(one.granted) for one in line] == [1, 0, 0]
    hog[0].unread_bytes = 0
    answers.check_reading(0)
    assert [len(one.granted) for one in line] == [1, 1, 1]


def test_who_reads_nothing_is_cut_when_others_wait_long_enough() -> None:
    answers = Answers()
    crowd = [Application(answers) for _ in range(40)]
    for one in crowd:
        one.go_on()
    for _ in range(100):
        turn(answers, *crowd, now_us=7)
    for one in crowd:
        one.todo.clear()
    late = Application(answers, PACKET_BYTES_MAX)
    late.go_on()
    crowd[0].unread_bytes -= 1
    answers.check_reading(SECOND)
    end = 7 + CLIENT_STALLED_S_MAX * SECOND
    answers.check_reading(end - 1)
    assert not any(one.why for one in crowd)
    answers.check_reading(end)
    assert [bool(one.why) for one in crowd] == [number == 1 for number in range(40)]
    assert str(CLIENT_STALLED_S_MAX) in crowd[1].why
    assert late.granted, "there is room now"


def test_nobody_is_cut_who_keeps_nobody_waiting() -> None:
    answers = Answers()
    slow = Application(answers)
    slow.go_on()
    turn(answers, slow)
    answers.check_reading(10 * CLIENT_STALLED_S_MAX * SECOND)
    assert not slow.why


def test_somebody_is_asked_to_look_while_anybody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    answers = Answers()
    answers.later = asked.append
    slow = Application(answers)
    slow.go_on()
    assert len(asked) == 1
    answers.check_reading(0)
    assert len(asked) == 2, "and again, as long as anybody waits"
    slow.todo.clear()
    answers.gone(slow)
    answers.check_reading(0)
    assert len(asked) == 2


def test_the_limits_fit_together() -> None:
    assert PACKET_BYTES_MAX < RECEIVE_BYTES_MAX <= CLIENT_ANSWERS_BYTES_MAX < ANSWERS_BYTES_MAX
    assert limits.ANSWERS_TURN_BYTES <= ANSWERS_BYTES_MAX
