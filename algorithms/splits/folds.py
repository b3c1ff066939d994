"""Distribute units of rows over folds, or draw a part of them, evenly for each task.

A unit is a set of rows that must stay together. Units with the same contents (the same number of
rows of each task) form a *stratum*, which is distributed in one step. Large units come first;
single rows come last and even out the folds. Each unit goes to the fold f with the smallest cost

    Σ_t v_t n_tf / N_t,   t over the tasks,

where the unit has v_t rows of task t, the fold already has n_tf, and there are N_t in all. This
greedy step increases Σ_tf n_tf² / N_t least. Each further unit of a stratum adds the same amount to
the cost of its fold, so a stratum of m units takes the m smallest entries of a table of costs.

Classes are not made even. The share of a class in the held-out rows would be that of the training
rows, which is better known than the share in new rows: with 12 rows per task, error rates were 12 %
too small on average. Random folds have no such bias. Only a class that would be lost from a
training part keeps a row in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.units import sole_units
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.row_hashes import mix

MinRows = int | Indices

#: The fold of a unit that is never held out.
NEVER: Final = -1


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The rows of all tasks, one task after another; each array is (n_rows,).

    Parameters
    ----------
    task
        Position of the row's task.
    cell
        Position of the row's class among the classes of all tasks. A task without classes counts
        as one class.
    unit
        Number of the row's unit. Rows of one unit are held out together.
    rank
        Place of the row in a random order of the rows of its task.
    """

    task: Indices
    cell: Indices
    unit: Indices
    rank: Indices

    @cached_property
    def by_unit(self) -> Indices:
        """Positions of the rows, sorted by unit, (n_rows,)."""
        return np.argsort(self.unit, kind="stable")

    @cached_property
    def sizes(self) -> Indices:
        """Number of rows of each unit, (n_units,)."""
        return np.bincount(self.unit)

    @cached_property
    def starts(self) -> Indices:
        """Position in :attr:`by_unit` of the first row of each unit, (n_units,)."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def lead(self) -> Indices:
        """First row of each unit, (n_units,)."""
        return self.by_unit[self.starts]

    @cached_property
    def totals(self) -> Indices:
        """Number of rows of each task, (n_tasks,)."""
        return np.bincount(self.task)

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """Whether each unit can be held out, (n_units,): its classes also occur in other units."""
        return ~sole_units(self.cell, self.unit)

    def members(self, unit: int) -> Indices:
        """Return the rows of a unit."""
        first = self.starts[unit]
        return self.by_unit[first : first + self.sizes[unit]]

    def contents(self, unit: int) -> tuple[Indices, Indices]:
        """Return the tasks of which a unit has rows, and the numbers of rows."""
        tasks, amounts = np.unique(self.task[self.members(unit)], return_counts=True)
        return tasks, amounts


def spread_folds(rows: SplitRows, *, n_folds: int, min_rows: MinRows = 1) -> Indices:
    """Return the fold of each row, (n_rows,); rows of :data:`NEVER` always train.

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
        if rows.sizes[units[0]] > 1:  # so that the largest units of tasks go to different folds
            columns = np.append(columns, len(totals) - 1)
            amounts = np.append(amounts, rows.sizes[units[0]])
        weights = amounts / totals[columns]
        cost, step = load[:, columns] @ weights, float(amounts @ weights)
        folds[units] = _cheapest_folds(cost, step, len(units))
        counts = np.bincount(folds[units], minlength=n_folds)
        load[:, columns] += counts[:, np.newaxis] * amounts
    return _with_training_rows(rows, folds, min_rows=min_rows)[rows.unit]


def draw_part(rows: SplitRows, *, size: float, min_rows: MinRows = 1) -> NDArray[np.bool_]:
    """Return whether to hold out each row, (n_rows,): a part of every task.

    Every class of every task keeps a training row.

    Parameters
    ----------
    size
        Share of the rows to hold out.
    min_rows
        As in :func:`spread_folds`.
    """
    is_test = np.zeros(len(rows.sizes), dtype=bool)
    n_test = np.zeros(len(rows.totals))
    _draw_units_inplace(rows, is_test, n_test, size=size)
    for units in _single_rows(rows):
        task = rows.task[rows.lead[units[0]]]
        n_missing = max(round(size * int(rows.totals[task])) - int(n_test[task]), 0)
        is_test[units[:n_missing]] = True
    folds = np.where(is_test, 0, NEVER)
    return np.equal(_with_training_rows(rows, folds, min_rows=min_rows), 0)[rows.unit]


def _cheapest_folds(cost: Array, step: float, n_units: int) -> Indices:
    """Return the cheapest fold for each of ``n_units`` units; each unit adds ``step`` to a cost."""
    n_levels = int(min(np.ceil(n_units / len(cost)) + np.ptp(cost) // step + 1, n_units))
    table = cost + step * np.arange(n_levels)[:, np.newaxis]
    chosen = np.argsort(table, axis=None, kind="stable")[:n_units]
    return chosen % len(cost)


def _single_rows(rows: SplitRows) -> Iterator[Indices]:
    """Yield the units with one row that can be held out, task by task."""
    units = np.flatnonzero((rows.sizes == 1) & rows.is_free)
    task, rank = rows.task[rows.lead[units]], rows.rank[rows.lead[units]]
    return _split_by_key(units[np.lexsort((rank, task))], np.sort(task))


def _strata(rows: SplitRows, *, is_random: bool) -> Iterator[Indices]:
    """Yield the units with more than one row that can be held out, stratum by stratum.

    Strata with larger units (by powers of 2) come first, so that small units even out large ones.
    Otherwise the order is random, so that repeats differ.

    Parameters
    ----------
    is_random
        Ignore the sizes of the units.
    """
    units = np.flatnonzero((rows.sizes > 1) & rows.is_free)
    if not units.size:
        return iter(())
    rank = rows.rank[rows.lead[units]]
    contents = np.add.reduceat(mix(rows.task[rows.by_unit].astype(np.uint64)), rows.starts)[units]
    _, stratum = np.unique(contents, return_inverse=True)
    first = np.full(int(stratum.max()) + 1, len(rows.unit))
    np.minimum.at(first, stratum, rank)
    bits = np.zeros(len(units)) if is_random else np.frexp(rows.sizes[units])[1]
    order = np.lexsort((rank, stratum, first[stratum], -bits))
    return _split_by_key(units[order], stratum[order])


def _split_by_key(units: Indices, keys: Indices) -> Iterator[Indices]:
    """Yield the units of each key; equal keys must be adjacent."""
    ends = np.flatnonzero(np.diff(keys)) + 1
    return iter(np.split(units, ends)) if units.size else iter(())


def _draw_units_inplace(
    rows: SplitRows, is_test: NDArray[np.bool_], n_test: Array, *, size: float
) -> None:
    """Hold out some of the units that have more than one row; add their rows to ``n_test``.

    The units are visited in random order. A unit is held out if at most the share ``size`` of the
    visited rows of its tasks is then held out. If a task is left without a test row, a second pass
    holds out the first unit that brings the task nearer to its share.
    """
    n_visited = np.zeros(len(rows.totals))
    skipped = []
    for units in _strata(rows, is_random=True):
        tasks, amounts = rows.contents(units[0])
        for unit in units:
            n_visited[tasks] += amounts
            if n_test[tasks].sum() + amounts.sum() <= size * n_visited[tasks].sum():
                is_test[unit] = True
                n_test[tasks] += amounts
            else:
                skipped.append((unit, tasks, amounts))
    for unit, tasks, amounts in skipped:
        missing = size * rows.totals[tasks] - n_test[tasks]
        has_single = n_visited[tasks] < rows.totals[tasks]
        is_nearer = (amounts > 1).any() and (amounts < 2 * missing).all()
        if is_nearer and (n_test[tasks] == 0).any() and not has_single.any():
            is_test[unit] = True
            n_test[tasks] += amounts


def _with_training_rows(rows: SplitRows, folds: Indices, *, min_rows: MinRows) -> Indices:
    """Return the folds (n_units,) after units that must train are removed from them.

    Small units are removed first; of equal sizes, the last of the random order.
    """
    folds = folds.copy()
    for key, min_train in ((rows.cell, np.ones(1)), (rows.task, np.atleast_1d(min_rows))):
        n_folds = int(folds.max()) + 1
        is_test = folds[rows.unit] != NEVER
        pairs = key[is_test] * n_folds + folds[rows.unit[is_test]]
        n_test, total = np.bincount(pairs), np.bincount(key)
        required = np.broadcast_to(min_train, total.shape)
        max_test = np.repeat(np.maximum(total - required, 0), n_folds)[: len(n_test)]
        for pair in np.flatnonzero(n_test > max_test):
            where, fold = divmod(int(pair), n_folds)
            _shrink_fold_inplace(
                rows, folds, key == where, fold=fold, min_train=int(required[where])
            )
    return folds


def _shrink_fold_inplace(
    rows: SplitRows, folds: Indices, is_own: NDArray[np.bool_], *, fold: int, min_train: int
) -> None:
    """Remove units from a fold until at least ``min_train`` of the rows in ``is_own`` train."""
    row_units = rows.unit[is_own]
    n_train = np.count_nonzero(folds[row_units] != fold)
    units, amounts = np.unique(row_units[folds[row_units] == fold], return_counts=True)
    for which in np.lexsort((-rows.rank[rows.lead[units]], rows.sizes[units])):
        if n_train >= min_train:
            return
        folds[units[which]] = NEVER
        n_train += amounts[which]
