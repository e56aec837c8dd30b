"""What a run of these tests covers, and what it found."""

from pathlib import Path

from .table import Rounded, Row, table
from .table import rounded as table_of_rounded

#: The tests of the subset: about a minute of processor time.
SUBSET = {
    "test_networks.TestKernels.test_transformers_gpt2",
    "test_networks.TestInductor.test_transformers_clip",
    "test_steps.TestSteps.test_autocast_inside",
    "test_steps.TestSteps.test_buffers_that_are_written",
    "test_steps.TestSteps.test_random_numbers",
    "test_steps.TestSteps.test_views_as_results",
    "test_steps.TestFallbacks.test_an_impossible_limit",
    "test_steps.TestFallbacks.test_no_command",
}

subset = False
#: Where the table of peaks is written, if anywhere.
file: Path | None = None
_rows: list[Row] = []
_rounded: list[Rounded] = []


def found(row: Row) -> None:
    """Add a line to the table, which is written at once: a whole run takes long."""
    _rows.append(row)
    _write()


def rounded(row: Rounded) -> None:
    """Add a line to the table of what Inductor compiled."""
    _rounded.append(row)
    _write()


def begin() -> None:
    """Forget what was found, and write nothing: the process that started this one does."""
    global file
    file = None
    _rows.clear()
    _rounded.clear()


def take() -> tuple[list[Row], list[Rounded]]:
    """Return what was found."""
    return _rows, _rounded


def add(found: tuple[list[Row], list[Rounded]]) -> None:
    """Take over what another process found."""
    _rows.extend(found[0])
    _rounded.extend(found[1])
    _write()


def _write() -> None:
    if file is not None:
        file.write_text("\n".join(([table(_rows)] if _rows else []) + ([table_of_rounded(_rounded)] if _rounded else [])), encoding="utf-8")


def limits() -> tuple[str, ...]:
    """Return the limits that each network is planned for."""
    return ("60%",) if subset else ("80%", "60%", "40%")
