"""Units of rows spread over folds, or drawn for a part, as evenly as their sizes allow.

Units with the same contents (as many rows of each class of each task) form a *stratum*, which is
dealt at once. Large units come first, single rows last and fill what is uneven. Each unit goes to
the fold f of least

    Σ_c v_c n_cf / N_c,   c over the classes of the tasks and over the tasks,

v_c its rows in c, n_cf those that the fold has already and N_c all of them: the step that lets
Σ_cf n_cf² / N_c grow least. A further unit of the same stratum costs the same amount more in
whatever fold, so that a stratum of m units takes the m least of an arithmetic table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.units import sole_units
from algorithms.numerics.row_hashes import mix

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
MinRows = int | Indices

#: The fold of a unit that is never held out.
NEVER: Final = -1


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of all tasks, one task after another, (n_rows,) each.

    Parameters
    ----------
    task
        Position of the task.
    cell
        Position of the class of the task among those of all tasks; a task without classes has
        one.
    unit
        Rows of one unit are held out together.
    rank
        Place of the row in a random order of the rows of its task.
    """

    task: Indices
    cell: Indices
    unit: Indices
    rank: Indices

    @cached_property
    def by_unit(self) -> Indices:
        """The rows, those of a unit together, (n_rows,)."""
        return np.argsort(self.unit, kind="stable")

    @cached_property
    def sizes(self) -> Indices:
        """Number of rows of each unit, (n_units,)."""
        return np.bincount(self.unit)

    @cached_property
    def starts(self) -> Indices:
        """Where the rows of each unit begin in :attr:`by_unit`, (n_units,)."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def lead(self) -> Indices:
        """First row of each unit, (n_units,)."""
        return self.by_unit[self.starts]

    @cached_property
    def n_cells(self) -> int:
        """Number of classes of all tasks."""
        return int(self.cell.max()) + 1

    @cached_property
    def totals(self) -> Indices:
        """Number of rows of each class of each task, then of each task."""
        return np.concatenate([np.bincount(self.cell), np.bincount(self.task)])

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """Whether a unit can be held out: every class of a task has another, (n_units,)."""
        return ~sole_units(self.cell, self.unit)

    def members(self, unit: int) -> Indices:
        """Return the rows of a unit."""
        first = self.starts[unit]
        return self.by_unit[first : first + self.sizes[unit]]

    def contents(self, unit: int) -> tuple[Indices, Indices]:
        """Return the positions in :attr:`totals` that a unit has rows in, and how many."""
        rows = self.members(unit)
        both = np.concatenate([self.cell[rows], self.n_cells + self.task[rows]])
        columns, amounts = np.unique(both, return_counts=True)
        return columns, amounts


def spread_folds(rows: Rows, *, n_folds: int, min_rows: MinRows = 1) -> Indices:
    """Return the fold of each row, (n_rows,); :data:`NEVER` is never held out.

    Every class of every task keeps a row in every training part.

    Parameters
    ----------
    min_rows : number, or (n_tasks,)
        Rows of a task that every training part keeps.
    """
    folds = np.full(len(rows.sizes), NEVER, dtype=np.intp)
    totals = np.append(rows.totals, len(rows.unit))
    load = np.zeros((n_folds, len(totals)))
    for units in [*_strata(rows, is_random=False), *_single_rows(rows)]:
        columns, amounts = rows.contents(units[0])
        if rows.sizes[units[0]] > 1:  # the tasks' largest units go to different folds
            columns = np.append(columns, len(totals) - 1)
            amounts = np.append(amounts, rows.sizes[units[0]])
        weights = amounts / totals[columns]
        cost, step = load[:, columns] @ weights, float(amounts @ weights)
        folds[units] = _cheapest(cost, step, len(units))
        counts = np.bincount(folds[units], minlength=n_folds)
        load[:, columns] += counts[:, np.newaxis] * amounts
    return _with_training_rows(rows, folds, min_rows=min_rows)[rows.unit]


def draw_part(rows: Rows, *, size: float, min_rows: MinRows = 1) -> NDArray[np.bool_]:
    """Return which rows to hold out, (n_rows,): a part of every class of every task.

    Parameters
    ----------
    min_rows
        As in :func:`spread_folds`.
    """
    is_held = np.zeros(len(rows.sizes), dtype=bool)
    held = np.zeros(len(rows.totals))
    _draw_units(rows, is_held, held, size=size)
    for units in _single_rows(rows):
        columns, _ = rows.contents(units[0])
        cell = columns[0]
        n_wanted = max(round(size * int(rows.totals[cell])) - int(held[cell]), 0)
        is_held[units[:n_wanted]] = True
    folds = np.where(is_held, 0, NEVER)
    return np.equal(_with_training_rows(rows, folds, min_rows=min_rows), 0)[rows.unit]


def _cheapest(cost: Array, step: float, n_units: int) -> Indices:
    """Return the fold of each of some units: the least of ``cost + j step``, j units before it."""
    n_levels = int(min(np.ceil(n_units / len(cost)) + np.ptp(cost) // step + 1, n_units))
    table = cost + step * np.arange(n_levels)[:, np.newaxis]
    chosen = np.argsort(table, axis=None, kind="stable")[:n_units]
    return chosen % len(cost)


def _single_rows(rows: Rows) -> Iterator[Indices]:
    """Return the units of one row that can be held out, those of a class at a time."""
    units = np.flatnonzero((rows.sizes == 1) & rows.is_free)
    cell, rank = rows.cell[rows.lead[units]], rows.rank[rows.lead[units]]
    return _parts(units[np.lexsort((rank, cell))], np.sort(cell))


def _strata(rows: Rows, *, is_random: bool) -> Iterator[Indices]:
    """Return the units of several rows that can be held out, a stratum at a time.

    Strata come in random order, but those of larger units (by powers of 2) first: repeats differ,
    and what is small evens out what is large.

    Parameters
    ----------
    is_random
        Whether the sizes of the units do not count.
    """
    units = np.flatnonzero((rows.sizes > 1) & rows.is_free)
    if not units.size:
        return iter(())
    rank = rows.rank[rows.lead[units]]
    contents = np.add.reduceat(mix(rows.cell[rows.by_unit].astype(np.uint64)), rows.starts)[units]
    _, stratum = np.unique(contents, return_inverse=True)
    first = np.full(int(stratum.max()) + 1, len(rows.unit))
    np.minimum.at(first, stratum, rank)
    bits = np.zeros(len(units)) if is_random else np.frexp(rows.sizes[units])[1]
    order = np.lexsort((rank, stratum, first[stratum], -bits))
    return _parts(units[order], stratum[order])


def _parts(units: Indices, keys: Indices) -> Iterator[Indices]:
    """Return units with the same key together; equal keys are neighbours."""
    ends = np.flatnonzero(np.diff(keys)) + 1
    return iter(np.split(units, ends)) if units.size else iter(())


def _draw_units(rows: Rows, is_held: NDArray[np.bool_], held: Array, *, size: float) -> None:
    """Hold out a part of the units of several rows, in place; add their rows to ``held``.

    Along a random order a unit is held out where its tasks then have no more than their part of
    the rows so far. Where units of several of its rows leave a task without, the first that brings
    it nearer to its part is held out.
    """
    n_cells = rows.n_cells
    seen = np.zeros(len(rows.totals))
    waiting = []
    for units in _strata(rows, is_random=True):
        columns, amounts = rows.contents(units[0])
        is_task = columns >= n_cells
        tasks, own = columns[is_task], float(amounts[is_task].sum())
        for unit in units:
            seen[columns] += amounts
            if held[tasks].sum() + own <= size * seen[tasks].sum():
                is_held[unit] = True
                held[columns] += amounts
            else:
                waiting.append((unit, columns, amounts, tasks))
    for unit, columns, amounts, tasks in waiting:
        wanted = size * rows.totals[tasks] - held[tasks]
        in_task = amounts[columns >= n_cells]
        has_single = seen[tasks] < rows.totals[tasks]
        is_nearer = (in_task > 1).any() and (in_task < 2 * wanted).all()
        if is_nearer and (held[tasks] == 0).any() and not has_single.any():
            is_held[unit] = True
            held[columns] += amounts


def _with_training_rows(rows: Rows, folds: Indices, *, min_rows: MinRows) -> Indices:
    """Return the folds (n_units,) with units taken out of them that must train.

    Small units are taken first, of equal ones the last of the random order.
    """
    folds = folds.copy()
    for key, n_kept in ((rows.cell, np.ones(1)), (rows.task, np.atleast_1d(min_rows))):
        n_folds = int(folds.max()) + 1
        is_held = folds[rows.unit] != NEVER
        pairs = key[is_held] * n_folds + folds[rows.unit[is_held]]
        n_held, total = np.bincount(pairs), np.bincount(key)
        kept = np.broadcast_to(n_kept, total.shape)
        most = np.repeat(np.maximum(total - kept, 0), n_folds)[: len(n_held)]
        for pair in np.flatnonzero(n_held > most):
            where, fold = divmod(int(pair), n_folds)
            _release_inplace(rows, folds, key == where, fold=fold, n_kept=int(kept[where]))
    return folds


def _release_inplace(
    rows: Rows, folds: Indices, is_own: NDArray[np.bool_], *, fold: int, n_kept: int
) -> None:
    """Take units out of a fold until ``n_kept`` of the own rows train; in place."""
    own = rows.unit[is_own]
    n_train = np.count_nonzero(folds[own] != fold)
    units, amounts = np.unique(own[folds[own] == fold], return_counts=True)
    for which in np.lexsort((-rows.rank[rows.lead[units]], rows.sizes[units])):
        if n_train >= n_kept:
            return
        folds[units[which]] = NEVER
        n_train += amounts[which]
