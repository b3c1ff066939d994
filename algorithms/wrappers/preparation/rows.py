"""A preparation learned from training rows, and its application to raw rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import FLAT_RTOL
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.recipe import Recipe

#: Positions in the levels of a category for values that share a column: rare and unknown ones.
_OTHER: Final = -1
_MISSING: Final = -2


@dataclass(frozen=True, eq=False)
class RowPreparation:
    """A learned preparation of rows with the same raw columns.

    Attributes
    ----------
    fill, centre, scale : (n_columns,)
        A raw number x becomes (x - centre) / scale, where a missing one is ``fill``. Ordered
        categories are positions in their order; other categories ignore the three.
    has_indicator : (n_columns,)
        Whether a further column marks missing values; of a category, whether they have a level.
    kept
        For each category that has no order: positions of the levels that have a column of their
        own, then -1 if other values share one.
    ranks
        For each ordered category: rank of each level, -1 for levels that the order does not have.
    """

    columns: tuple[Column, ...]
    fill: Array
    centre: Array
    scale: Array
    has_indicator: NDArray[np.bool_]
    kept: Mapping[int, tuple[int, ...]]
    ranks: Mapping[int, tuple[int, ...]]

    @classmethod
    def learn(cls, X: Array, columns: Sequence[Column], recipe: Recipe) -> Self:
        """Return the preparation learned from raw rows.

        Parameters
        ----------
        X : (n_samples, n_columns)
            NaN is a missing value.

        Raises
        ------
        InvalidData
            A column in ``orders`` does not exist, or is not a category with these values.
        """
        ranks = {j: _ranks(c, recipe) for j, c in enumerate(columns) if c.name in recipe.orders}
        _check_orders(columns, recipe)
        kept = {
            j: _kept_levels(X[:, j], column, recipe)
            for j, column in enumerate(columns)
            if column.kind == "category" and j not in ranks
        }
        has_indicator = np.array([np.isnan(column).any() for column in X.T], dtype=np.bool_)
        if not recipe.indicators:  # a missing category still has to differ from the others
            has_indicator[[j for j in range(len(columns)) if j not in kept]] = False
        numbers = _as_numbers(X, kept, ranks)
        fill = _fill_values(numbers, recipe)
        filled = np.where(np.isnan(numbers), fill, numbers)
        centre, scale = _scales(filled, recipe)
        unscaled = [j for j, c in enumerate(columns) if c.kind == "boolean" or j in kept]
        centre[unscaled], scale[unscaled] = 0.0, 1.0
        return cls(tuple(columns), fill, centre, scale, has_indicator, kept, ranks)

    def relearn(self, X: Array, recipe: Recipe) -> Self:
        """Return the preparation with fill values and scales learned from other raw rows.

        A column without any value keeps its previous fill value and scale.
        """
        learned = RowPreparation.learn(X, self.columns, recipe)
        is_known = ~np.isnan(X).all(0)
        numbers = {
            name: np.where(is_known, getattr(learned, name), getattr(self, name))
            for name in ("fill", "centre", "scale")
        }
        return replace(self, **numbers)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the prepared columns, such as ``age``, ``age is missing`` and ``sex = F``."""
        names: list[str] = []
        for j, column in enumerate(self.columns):
            if j in self.kept:
                names += [
                    f"{column.name} " + ("is other" if k == _OTHER else f"= {column.levels[k]}")
                    for k in self.kept[j]
                ]
            else:
                names.append(column.name)
            if self.has_indicator[j]:
                names.append(f"{column.name} is missing")
        return tuple(names)

    @cached_property
    def sources(self) -> NDArray[np.intp]:
        """Position of the raw column of each prepared column, (len(names),)."""
        counts = [
            len(self.kept.get(j, (0,))) + int(self.has_indicator[j])
            for j in range(len(self.columns))
        ]
        return np.repeat(np.arange(len(self.columns)), counts)

    def check(self, X: Array, *, task: str) -> None:
        """Raise InvalidData if a value does not belong to its column."""
        for j, column in enumerate(self.columns):
            values = X[:, j]
            if column.kind == "boolean":
                is_bad = ~np.isnan(values) & (values != 0) & (values != 1)
                expected = "0 or 1"
            elif column.kind == "category":
                top = len(column.levels) - 1
                is_level = (values >= UNKNOWN_LEVEL) & (values <= top) & (np.rint(values) == values)
                is_bad = ~np.isnan(values) & ~is_level
                expected = f"the position of a level, -1 to {top}"
            else:
                is_bad, expected = np.isinf(values), "a finite number"
            if is_bad.any():
                row = int(np.flatnonzero(is_bad)[0])
                raise InvalidData(
                    f"task '{task}', row {row}, column '{column.name}' is {values[row]}; "
                    f"expected {expected}",
                    task=task,
                    row=row,
                    column=column.name,
                )

    def apply(self, X: Array) -> Array:
        """Return prepared rows.

        Parameters
        ----------
        X : (n_samples, n_columns)

        Returns
        -------
        (n_samples, len(names))
        """
        numbers = _as_numbers(X, self.kept, self.ranks)
        is_missing = np.isnan(numbers)
        numbers = (np.where(is_missing, self.fill, numbers) - self.centre) / self.scale
        if not self.kept and not self.has_indicator.any():
            return numbers
        prepared = np.empty((len(X), len(self.names)))
        at = 0
        for j in range(len(self.columns)):
            if j in self.kept:
                levels = np.array(self.kept[j], dtype=np.float64)
                codes = np.where(np.isin(X[:, j], levels), X[:, j], _OTHER)
                codes[np.isnan(X[:, j])] = _MISSING
                prepared[:, at : at + len(levels)] = codes[:, np.newaxis] == levels
                at += len(levels)
            else:
                prepared[:, at] = numbers[:, j]
                at += 1
            if self.has_indicator[j]:
                prepared[:, at] = np.isnan(X[:, j])
                at += 1
        return prepared

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned numbers by name."""
        return {
            "fill": self.fill,
            "centre": self.centre,
            "scale": self.scale,
            "has_indicator": self.has_indicator,
        }

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "kept": {str(j): list(levels) for j, levels in self.kept.items()},
            "ranks": {str(j): list(ranks) for j, ranks in self.ranks.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the preparation from the results of :meth:`to_arrays` and :meth:`header`."""
        return cls(
            tuple(Column.from_json(column) for column in header["columns"]),
            arrays["fill"],
            arrays["centre"],
            arrays["scale"],
            arrays["has_indicator"].astype(bool),
            {int(j): tuple(levels) for j, levels in header["kept"].items()},
            {int(j): tuple(ranks) for j, ranks in header["ranks"].items()},
        )


def _check_orders(columns: Sequence[Column], recipe: Recipe) -> None:
    by_name = {column.name: column for column in columns}
    for name in recipe.orders:
        if name not in by_name or by_name[name].kind != "category":
            what = "is not a category" if name in by_name else "does not exist"
            raise InvalidData(f"column '{name}' in 'orders' {what}", column=name)


def _ranks(column: Column, recipe: Recipe) -> tuple[int, ...]:
    """Return the rank of each level of an ordered category."""
    order = recipe.orders[column.name]
    missing = [level for level in column.levels if level not in order]
    if missing:
        raise InvalidData(
            f"the order of column '{column.name}' lacks its value '{missing[0]}'",
            column=column.name,
        )
    return tuple(order.index(level) for level in column.levels)


def _kept_levels(codes: Array, column: Column, recipe: Recipe) -> tuple[int, ...]:
    """Return the levels with a column of their own, and -1 if there are other levels."""
    present = codes[~np.isnan(codes)]
    counts = np.bincount(present[present >= 0].astype(np.intp), minlength=len(column.levels))
    kept = np.flatnonzero(counts >= recipe.min_count).tolist()
    has_other = len(present) > counts[kept].sum()
    return (*kept, _OTHER) if has_other or not kept else tuple(kept)


def _as_numbers(
    X: Array, kept: Mapping[int, tuple[int, ...]], ranks: Mapping[int, tuple[int, ...]]
) -> Array:
    """Return raw rows with ranks for ordered categories, and 0 for other categories."""
    if not kept and not ranks:
        return X
    numbers = X.copy()
    numbers[:, list(kept)] = 0.0
    for j, of_level in ranks.items():
        table = np.array([*of_level, np.nan])  # an unknown level, at -1, is a missing value
        codes = np.where(np.isnan(X[:, j]), UNKNOWN_LEVEL, X[:, j]).astype(np.intp)
        numbers[:, j] = table[codes]
    return numbers


def _fill_values(numbers: Array, recipe: Recipe) -> Array:
    """Return the value for missing numbers of each column; 0 if no value is known.

    Columns that are complete in training have one too: a later row may have a gap.
    """
    if recipe.impute == "constant":
        return np.full(numbers.shape[1], recipe.fill_value)
    present = [column[~np.isnan(column)] for column in numbers.T]
    return np.array([_FILLS[recipe.impute](values) if values.size else 0.0 for values in present])


def _mean(values: Array) -> float:
    return float((values / len(values)).sum())  # does not overflow


def _most_frequent(values: Array) -> float:
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()])


_FILLS: Final = {
    "mean": _mean,
    "median": lambda values: float(np.median(values)),
    "most-frequent": _most_frequent,
}


def _scales(filled: Array, recipe: Recipe) -> tuple[Array, Array]:
    """Return centre and scale of each column; the scale of a constant column is 1."""
    d = filled.shape[1]
    if recipe.scale == "none":
        return np.zeros(d), np.ones(d)
    if recipe.scale == "robust":
        low, centre, high = np.percentile(filled, [25, 50, 75], axis=0)
        scale = high - low
    else:
        centre = (filled / len(filled)).sum(0)
        deviations = filled - centre
        size = np.abs(deviations).max(0)
        size[size == 0] = 1.0
        # scaled before squaring, so that large values do not overflow
        scale = size * np.sqrt(((deviations / size) ** 2).mean(0))
    if recipe.scale == "centre":
        scale = np.ones(d)
    low, high = filled.min(0), filled.max(0)
    # of which the rounded mean is another number, and the distance to it no scale
    is_constant = high / 2 - low / 2 <= FLAT_RTOL * np.maximum(high, -low)
    centre[is_constant] = filled[0, is_constant]
    scale[is_constant | (scale == 0)] = 1.0
    return centre, scale
