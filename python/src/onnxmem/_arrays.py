"""Numbers for the library: lists, arrays of Python and arrays of numpy."""

from __future__ import annotations

import array
import ctypes
import operator
from collections.abc import Sequence
from typing import Any, Protocol, Union


class Array(Protocol):
    """An array of numpy, or of another library, of integers."""

    def __len__(self) -> int: ...

    def tolist(self) -> Any: ...


#: Integers, one for each buffer, node or tensor.
Ints = Union[Sequence[int], Array]
#: Lists of integers, one for each node or tensor: as lists, or as two arrays, where each list
#: begins, with the end of the last, and the elements of all.
Lists = Union[Sequence[Sequence[int]], tuple[Array, Array]]

_CODES = {"q": (8, ctypes.c_int64), "i": (4, ctypes.c_int32), "B": (1, ctypes.c_uint8)}


class Numbers:
    """Arrays of C for one call, and what keeps them alive."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def take(self, values: Ints | None, code: str = "q", count: int | None = None, name: str = "") -> Any:
        """Return a pointer to values, without a copy where their memory is as C expects it.

        code is that of module array. None gives NULL. count is the number that is expected.
        """
        if values is None:
            return None
        if count is not None and len(values) != count:
            raise ValueError(f"{name}: expected {count} values, found {len(values)}")
        size, kind = _CODES[code]
        described = getattr(values, "__array_interface__", None)
        pointer = ctypes.POINTER(kind)
        if described is not None and described["typestr"] == f"{'|' if size == 1 else '<'}{'u' if code == 'B' else 'i'}{size}" and described["strides"] is None and len(described["shape"]) == 1:
            self._kept.append(values)
            return ctypes.cast(described["data"][0], pointer)
        if not isinstance(values, (list, tuple, array.array, range)) and hasattr(values, "tolist"):
            values = values.tolist()
        plain: Any = values
        try:
            held = plain if isinstance(plain, array.array) and plain.typecode == code else array.array(code, plain)
        except (TypeError, OverflowError) as e:
            raise type(e)(f"{name or 'values'}: expected integers of {8 * size} bits: {e}") from e
        self._kept.append(held)
        return ctypes.cast(held.buffer_info()[0], pointer)

    def lists(self, values: Lists | None, count: int, name: str) -> tuple[Any, Any]:
        """Return pointers to where lists begin, and to their elements."""
        if values is None:
            return None, None
        flat, each_list = _forms(values)
        if flat is not None:
            begin, end = self.take(flat[0], "q", count + 1, name), len(flat[1])
            if begin[0] != 0 or begin[count] != end:  # the library cannot know how long the second is
                raise ValueError(f"{name}: expected lists that begin at 0 and end at {end}, the number of their elements, found {begin[0]} and {begin[count]}")
            return begin, self.take(flat[1], "i", name=name)
        if len(each_list) != count:
            raise ValueError(f"{name}: expected {count} lists, found {len(each_list)}")
        places, items = array.array("q", [0]), array.array("i")
        for each in each_list:
            items.extend(each)
            places.append(len(items))
        return self.take(places), self.take(items, "i")


def _forms(values: Any) -> tuple[tuple[Array, Array] | None, Sequence[Sequence[int]]]:
    """Return lists in the form that they have: two arrays, or None and the lists."""
    if isinstance(values, tuple) and len(values) == 2 and hasattr(values[0], "tolist"):
        return values, ()
    return None, values


def number(name: str, value: Any, low: int, high: int = (1 << 63) - 1) -> int:
    """Return one integer, of Python or of numpy, of low to high; ctypes takes any modulo 2**64."""
    found = operator.index(value)
    if not low <= found <= high:
        raise ValueError(f"{name}: expected {low} to {high}, found {found}")
    return found


def single(value: Any) -> bool:
    """Report whether a value is one number, no list or array."""
    return not hasattr(value, "__len__") and hasattr(value, "__index__")


def listed(values: Any) -> list[Any]:
    """Return values as a list of Python's integers."""
    return [operator.index(v) for v in (values.tolist() if hasattr(values, "tolist") else values)]


def nested(values: Lists | None, count: int) -> list[list[int]]:
    """Return lists as lists of lists."""
    if values is None:
        return [[] for _ in range(count)]
    flat, each_list = _forms(values)
    if flat is not None:
        begin, items = listed(flat[0]), listed(flat[1])
        return [items[begin[i] : begin[i + 1]] for i in range(count)]
    return [listed(each) for each in each_list]


def like(example: Any, values: array.array[int]) -> Sequence[int]:
    """Return values as the caller has its own: as a list, or as an array of numpy."""
    if hasattr(example, "__array_interface__"):
        import numpy  # type: ignore[import-not-found, unused-ignore]

        found: Any = numpy.frombuffer(values, dtype=numpy.int64 if values.itemsize == 8 else numpy.int32)
        return found  # type: ignore[no-any-return]
    return values.tolist()


def zeros(code: str, count: int) -> array.array[int]:
    """Return an array of zeros."""
    return array.array(code, bytes(_CODES[code][0] * count))


def place(values: array.array[int]) -> Any:
    """Return a pointer to an array that the library writes."""
    return ctypes.cast(values.buffer_info()[0], ctypes.POINTER(_CODES[values.typecode][1]))
