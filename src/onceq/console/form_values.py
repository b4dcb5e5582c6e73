"""What a request has given: values by name, checked as they are taken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl

from onceq.console.guard import FIELD_CHARS_MAX, FIELDS_MAX
from onceq.errors import InvalidParameter
from onceq.model.identity import read_number

FLAGS = {"": False, "0": False, "no": False, "false": False, "1": True, "yes": True, "on": True,
         "true": True}  # fmt: skip
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class FormValues:
    """The values of one request, as texts."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take them; raises InvalidParameter if there are too many, or one is too long."""
        if len(values) > FIELDS_MAX:
            raise InvalidParameter(f"a request has at most {FIELDS_MAX} values")
        for name, value in values.items():
            if len(value) > FIELD_CHARS_MAX:
                raise InvalidParameter(
                    f"{name[:40]} has {len(value)} characters; {FIELD_CHARS_MAX} are the most"
                )
            if not (name + value).isprintable():
                raise InvalidParameter(f"{name[:40]!r} has characters that cannot be printed")
        self.values = dict(values)

    @classmethod
    def of_query(cls, text: str) -> FormValues:
        """From the query of an address, or a form; raises InvalidParameter."""
        try:
            pairs = parse_qsl(
                text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=FIELDS_MAX,
                errors="strict",
            )  # fmt: skip
        except ValueError as error:
            raise InvalidParameter(f"this is no form and no query: {error}") from None
        return cls(dict(pairs))

    @classmethod
    def of_json(cls, value: object) -> FormValues:
        """From a JSON object of texts, whole numbers and truth values; raises InvalidParameter."""
        if not isinstance(value, dict):
            raise InvalidParameter("the body of a request is a JSON object")
        found: dict[str, str] = {}
        for name, one in value.items():
            if isinstance(one, bool):
                found[name] = "yes" if one else "no"
            elif isinstance(one, (str, int)):
                found[name] = str(one)
            else:
                raise InvalidParameter(
                    f"{name[:40]} is a text, a whole number, true or false; not {one!r:.40}"
                )
        return cls(found)

    def only(self, names: Collection[str]) -> None:
        """Raises InvalidParameter if there is a value of another name."""
        for name in self.values:
            if name not in names:
                raise InvalidParameter(
                    f"there is no {name[:40]!r} here; there are {', '.join(sorted(names))}"
                )

    def text(self, name: str, *, needed: bool = False) -> str:
        """A text, "" if it was not given; raises InvalidParameter if it is needed."""
        found = self.values.get(name, "").strip()
        if needed and not found:
            raise InvalidParameter(f"{name} is missing")
        return found

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number; raises InvalidParameter."""
        text = self.text(name)
        if not text:
            return default
        found = read_number(text)
        if found is None:
            raise InvalidParameter(f"{name} is a whole number, and not {text[:40]!r}")
        if not least <= found <= most:
            raise InvalidParameter(f"{name} is a number from {least} to {most}, and not {found}")
        return found

    def flag(self, name: str) -> bool:
        """Yes or no; raises InvalidParameter."""
        text = self.text(name).casefold()
        if text not in FLAGS:
            raise InvalidParameter(f"{name} is yes or no, and not {text[:40]!r}")
        return FLAGS[text]

    def seconds(self, name: str) -> int:
        """Seconds of an age such as 90, 30s, 5m, 2h or 1d, 0 if it was not given; raises
        InvalidParameter."""
        text = self.text(name)
        unit = UNITS.get(text[-1:], 0)
        if not text:
            return 0
        number = read_number(text[:-1] if unit else text, 10**9 - 1)
        if number is None:
            raise InvalidParameter(f"{name} is an age such as 30s, 5m, 2h or 1d, not {text[:40]!r}")
        return number * (unit or 1)
