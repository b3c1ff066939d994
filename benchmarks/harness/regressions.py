"""Numbers that are more than a fifth worse than in the run before."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.harness.results import Cell, Run, Table

MAX_CHANGE: Final = 0.2


@dataclass(frozen=True)
class Regression:
    """A number that became worse."""

    row: str
    column: str
    before: float
    now: float

    def __str__(self) -> str:
        """Return a sentence."""
        factor = self.now / self.before if self.before else float("inf")
        numbers = f"{self.before:.3g} before, {self.now:.3g} now, {factor:.2f} times"
        return f"{self.row}: {self.column} {numbers}"


def regressions(runs: tuple[Run, ...]) -> list[Regression]:
    """Return what became worse between the last two runs on the same kind of machine."""
    if len(runs) < 2:
        return []
    now, before = runs[:2]
    if _kind(now) is None or _kind(now) != _kind(before):
        return []
    old = dict(_numbers(before))
    found = []
    for key, (value, sign) in _numbers(now):
        if key in old:
            was = old[key][0]
            if sign * (value - was) > MAX_CHANGE * abs(was):
                _, row, column = key
                found.append(Regression(row, column, was, value))
    return found


def _kind(run: Run) -> tuple[str, int] | None:
    """Return the kind of machine; None if unknown."""
    return None if run.machine is None else (run.machine.processor, run.machine.n_cores)


def _numbers(run: Run) -> Iterator[tuple[tuple[str, str, str], tuple[float, int]]]:
    """Yield caption, row and column of each number to compare, with its value and 1 or -1."""
    for table in run.tables:
        for row in table.rows:
            label = _label(row)
            for column, cell in zip(table.columns, row, strict=True):
                sign = _sign(table, column)
                if sign and isinstance(cell, int | float):
                    yield (table.caption, label, column), (float(cell), sign)


def _label(row: tuple[Cell, ...]) -> str:
    return ", ".join(cell for cell in row if isinstance(cell, str))


def _sign(table: Table, column: str) -> int:
    """Return 1 if a larger number is worse, -1 if it is better, 0 if neither."""
    return (column in table.lower_is_better) - (column in table.higher_is_better)
