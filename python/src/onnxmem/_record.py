"""JSON objects whose keys are attributes, too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


class Record(dict[str, Any]):
    """A dict from JSON: ``r["peak_bytes"]`` and ``r.peak_bytes`` are the same.

    A key that is also the name of a method of dict, such as ``values``, is only
    reached in brackets.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no {name!r}: expected one of {', '.join(self)}") from None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(k for k in self if k.isidentifier())]


class Result(Record):
    """What a command printed, and what it warned of.

    The warnings are no key, so a result is equal to the object that was printed.
    """

    def __init__(self, values: dict[str, Any], warnings: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.__dict__["warnings"] = list(warnings)

    #: Lines that the command printed on standard error.
    warnings: list[str]


def decode(text: str | bytes) -> Any:
    """Return the value of a JSON text, its objects as records."""
    return json.loads(text, object_hook=Record)
