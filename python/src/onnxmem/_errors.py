"""What can go wrong."""

from __future__ import annotations

import os

from ._record import Record


class Variable:
    """An environment variable that names a file, from the folder in which this module was imported."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._given = os.environ.get(name)
        self._place = os.path.abspath(self._given) if self._given and os.path.dirname(self._given) else self._given

    def value(self) -> str | None:
        """Return the file; None if none is named."""
        now = os.environ.get(self.name)
        return (self._place if now == self._given else now) or None


#: What libonnxmem returns where its command has no status: ONNXMEM_FORKED and ONNXMEM_ENDED.
FORKED, ENDED = 4, 6


class Error(Exception):
    """The command did not do what was asked.

    The text of the exception is the command's own: which file, which node or tensor,
    what was expected and what was found.
    """

    #: Exit status of the command: 1 the work failed, 2 the arguments were wrong, 3 the
    #: input was refused; another one if the command was ended from outside. Of libonnxmem
    #: the same, and those of its own (onnxmem.h).
    status: int
    #: The file at fault, as it was named; "standard input" for a model in memory.
    file: str | None
    #: The node at fault: its name and operator, else its index.
    node: str | None
    #: The name of the tensor at fault.
    tensor: str | None
    #: The offset of the fault in the file.
    byte: int | None
    #: What the command printed before it failed, such as how far a limit was missed.
    result: Record | None

    def __init__(
        self,
        message: str,
        status: int,
        place: Record | None = None,
        result: Record | None = None,
    ) -> None:
        super().__init__(message)
        place = place if place is not None else Record()
        known = result if result is not None else Record()
        self.status = status
        self.file = place.get("file")
        self.node = place.get("node", known.get("node"))
        self.tensor = place.get("tensor")
        self.byte = place.get("byte")
        self.result = result


class Failed(Error):
    """The input is sound, but the work failed, such as a limit that cannot be met."""


class Ended(Failed):
    """A time limit or a cancellation ended a call of libonnxmem before there was an answer."""


class UsageError(Error):
    """The arguments are wrong, whatever the files contain."""


class Refused(Error):
    """The input was refused: it is not there, damaged, or contradicts itself."""


class NotInstalled(FileNotFoundError):
    """The native command is not where the package was installed."""


def error_of(status: int) -> type[Error]:
    """Return the class of errors for a status of the command or of libonnxmem."""
    return {2: UsageError, 3: Refused, ENDED: Ended}.get(status, Failed)
