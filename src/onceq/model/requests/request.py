"""What all requests have in common, and how their values are checked."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final, TypeVar

from onceq.errors import InvalidParameter
from onceq.model.limits import FAILURE_CHARS_MAX
from onceq.model.record import MutableRecord
from onceq.model.rights import Right

WORDS_MAX: Final = 200
"""Characters of a wrong value that an error repeats."""

COUNT: Final = int | None
"""The type of an answer that is how many, a number or a place, or only that it is done."""
KINDS: Final[dict[int, type[Request]]] = {}
"""Every request, by its code."""
E = TypeVar("E", bound=Enum)


class Needs(Enum):
    """What is needed for a request where it is not one right at one place; the values are what the
    documentation says."""

    NOTHING = "nothing"
    NAME = "a name"
    STATE = "by what it is about"
    """The rule is in ``TABLE`` of ``core/rights.py``."""


class Request(MutableRecord, kw_only=True):
    """One thing that an application asks, answered once. A class says all of its request: what
    crosses a connection (``wire/app/frames.py``), the check, the rights that it needs, and the type
    of the answer.

    Attributes:
        code: Number of the request in frames. No two have the same, and none changes.
        needs: A right over the whole queue manager, or one at the queue that the request names
            (``queue`` or ``name``), or else what ``Needs`` says. A class without it is for
            administrators: it is closed until somebody thinks about it.
        answer: Type of the answer.
        quiet: It may be asked with number 0 of a frame.
        owner: The application, as the service numbers it: one for each connection (or embedded
            user), never used again while the process runs.
        request: Number that the answer repeats; 0 asks for no answer.
    """

    code: ClassVar[int]
    needs: ClassVar[Right | Needs] = Right.ADMINISTER
    answer: ClassVar[object] = COUNT
    quiet: ClassVar[bool] = False
    owner: int = 0
    request: int = 0

    def __init_subclass__(cls) -> None:
        """Enter a class with a code into KINDS."""
        if "code" in vars(cls):
            assert KINDS.setdefault(cls.code, cls) is cls, "two requests have one code"

    def answer_type(self) -> object:
        """The type of the answer to this one."""
        return self.answer

    def check(self) -> None:
        """Refuse values that no rule has an answer for; the others take their own types.

        Raises:
            OnceqError: The request is wrong in itself; nothing of it has happened.
        """


def list_given(kind: type[Request]) -> tuple[str, ...]:
    """The names of what an application says in a request; the rest is the service's."""
    # Structs match by position what they take by position.
    return kind.__match_args__


def choice(kind: type[E], value: object) -> E:
    """One of the values of an enumeration; raises InvalidParameter."""
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None


def check_lookups(*lookups: int) -> None:
    """Raises InvalidParameter if one of them is no lookup identifier."""
    for lookup in lookups:
        if not 0 <= lookup < 1 << 64:
            raise InvalidParameter(f"{lookup} is not a lookup identifier")


def check_failure(why: str) -> None:
    """Raises InvalidParameter if this cannot be kept with a message."""
    if len(why) > FAILURE_CHARS_MAX or not is_text(why):
        raise InvalidParameter(
            f"what is said of a failure is a text of at most {FAILURE_CHARS_MAX} characters"
        )


def kept_failure(why: str) -> str:
    """What is kept of what a receiver says, which may be anything."""
    return why[:FAILURE_CHARS_MAX].encode("utf-8", "replace").decode()


def is_text(value: str) -> bool:
    """Whether a text can be encoded: halves of surrogate pairs cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(value: object) -> str:
    """A value from outside, to be repeated in an error."""
    text = repr(value)
    return text if len(text) <= WORDS_MAX else text[:WORDS_MAX] + "..."
