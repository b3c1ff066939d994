"""Which equal rows are held out together, because one says what the target of another is.

Equal rows may be the same sample, in several tasks or twice in one; or they are equal by chance, as
many are in tables of a few categories. Held out together they must be in the first case, and in
the second that would leave few sets of rows, whose training parts lack whole kinds of rows. By
default ('auto') rows are the same sample

- if equal rows lie across tasks much more often than within them: a *design* whose rows come again
  in every task. With W equal pairs of rows within tasks and B across, of N_w and N_b pairs,
  P(Binomial(W + B, N_w/(N_w + N_b)) ≤ W) < .001 and B/N_b > 1.5 W/N_w. Pairs are not independent,
  so that the test alone would call a column that every task has in equal parts a design. Tasks
  that share one array, such as several targets of a table, have a design, too;
- or if chance would hardly make a row of the same values: N Π_j f_j < .01, with the frequency f_j
  of the row's value in column j among N rows: those of the task for pairs in it, or of all tasks
  with as many columns. These are *copies*. In tables of one or two columns copies look like chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from algorithms.interface.tasks import Task
from algorithms.interface.ties import Ties
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.sparse_rows import as_canonical, concatenate_rows, is_sparse

#: Largest probability of so few equal pairs within tasks, by which they are of a design.
MAX_DESIGN_P: Final = 0.001
#: How many times as often equal pairs of a design lie across tasks as within, at least.
MIN_DESIGN_RATIO: Final = 1.5
#: Rows of which fewer are expected by chance are copies.
MAX_BY_CHANCE: Final = 0.01


@dataclass(frozen=True, slots=True)
class TiedRows:
    """How many rows have an equal one, and how many of them are held out together.

    Parameters
    ----------
    n_rows, n_equal
        Rows of all tasks, and those that are equal to another.
    n_design, n_copies
        Rows that are held out together with an equal one, by the reason under 'auto'.
    has_levels
        Whether none are under 'auto', since they are equal by the level of their only column.
    """

    ties: Ties
    n_rows: int
    n_equal: int
    n_design: int = 0
    n_copies: int = 0
    has_levels: bool = False

    def describe(self) -> str | None:
        """Return what was done about equal rows, and why, in a sentence; None without any."""
        if not self.n_equal:
            return None
        equal = f"{self.n_equal:,} of {self.n_rows:,} rows are equal to another"
        if self.has_levels:
            why = "they have the same level of the only column, and are taken for different samples"
            return f"{equal}: {why}. Set 'ties' if that is wrong."
        if self.ties != "auto":
            how = "all" if self.ties == "values" else "none"
            return f"{equal}; {how} of them are held out together, as 'ties' says."
        reasons = [
            f"{n:,} are held out together with it, since {why}"
            for n, why in (
                (self.n_design, "the same rows come again in several tasks"),
                (self.n_copies, "chance would hardly make such rows twice"),
            )
            if n
        ]
        n_left = self.n_equal - self.n_design - self.n_copies
        if n_left:
            one, many = "is taken for a different sample", "are taken for different samples"
            taken = one if n_left == 1 else many
            reasons.append(f"{n_left:,} {taken} that chance made equal")
        return f"{equal}: {'; '.join(reasons)}. Set 'ties' if that is wrong."


def tie_equal(tasks: Sequence[Task], content: Indices, ties: Ties) -> tuple[Indices, TiedRows]:
    """Return a number for each row, equal for rows that are the same sample, and what was found.

    Parameters
    ----------
    content : (n,)
        Equal for rows of equal values, one task after another.
    """
    n = len(content)
    sizes = np.bincount(content)
    is_equal = sizes[content] > 1
    n_equal = int(is_equal.sum())
    if ties == "values" or not n_equal:
        return content, TiedRows(ties, n, n_equal)
    unit = np.arange(n, dtype=np.intp)
    if ties == "none":
        return unit, TiedRows(ties, n, n_equal)
    owner = np.repeat(np.arange(len(tasks)), [task.n_samples for task in tasks])
    widths = np.array([task.n_features for task in tasks])
    n_design = n_copies = 0
    for width in np.unique(widths):
        alike = np.flatnonzero(widths[owner] == width)
        codes = np.unique(content[alike], return_inverse=True)[1].astype(np.intp)
        same = [task for task, own in zip(tasks, widths, strict=True) if own == width]
        of = np.unique(owner[alike], return_inverse=True)[1].astype(np.intp)
        if len({id(task.X) for task in same}) < len(same) or _is_design(codes, of):
            tied = codes
            n_design += int(is_equal[alike].sum())
        else:
            tied = _copies(same, codes, of)
            n_copies += int((np.bincount(tied)[tied] > 1).sum())
        _, first, number = np.unique(tied, return_index=True, return_inverse=True)
        unit[alike] = alike[first[number]]
    numbers = np.unique(unit, return_inverse=True)[1].astype(np.intp)
    return numbers, TiedRows(ties, n, n_equal, n_design, n_copies)


def _is_design(content: Indices, owner: Indices) -> bool:
    """Return whether equal rows lie across tasks much more often than within them."""
    key = content * (int(owner.max()) + 1) + owner
    within = _pairs(np.unique(key, return_counts=True)[1])
    across = _pairs(np.bincount(content)) - within
    n_within = _pairs(np.bincount(owner))
    n_across = _pairs(np.array([len(owner)])) - n_within
    if across * n_within <= MIN_DESIGN_RATIO * within * n_across:
        return False
    share = n_within / (n_within + n_across)
    p = betainc(across, within + 1.0, 1.0 - share)  # the binomial distribution function
    return bool(p < MAX_DESIGN_P)


def _pairs(sizes: NDArray[np.integer[Any]]) -> float:
    n = sizes.astype(np.float64)
    return float((n * (n - 1.0)).sum() / 2.0)


def _copies(tasks: Sequence[Task], content: Indices, owner: Indices) -> Indices:
    """Return a number for each row, equal for equal rows that chance would hardly make."""
    n_contents, key = int(content.max()) + 1, content * (int(owner.max()) + 1) + owner
    of_pair = np.unique(key, return_inverse=True)[1].astype(np.intp)
    n_tasks = np.bincount(content[np.unique(of_pair, return_index=True)[1]], minlength=n_contents)
    candidates = np.flatnonzero(np.bincount(content)[content] > 1)
    expected, expected_within = _expected(tasks, candidates, owner)
    everywhere = (expected < MAX_BY_CHANCE) & (n_tasks[content[candidates]] > 1)
    in_task = expected_within < MAX_BY_CHANCE
    tied = np.arange(len(content), dtype=np.intp) + n_contents + len(content)
    tied[candidates[in_task]] = n_contents + of_pair[candidates[in_task]]
    tied[candidates[everywhere]] = content[candidates[everywhere]]
    return np.unique(tied, return_inverse=True)[1].astype(np.intp)


def _expected(tasks: Sequence[Task], rows: Indices, owner: Indices) -> tuple[Array, Array]:
    """Return how many rows with the values of some rows chance would make: in all, in the task."""
    sizes = np.bincount(owner)
    logarithm = np.full(len(rows), np.log(len(owner)))
    within = np.log(sizes[owner[rows]]).astype(np.float64)
    limit = np.log(MAX_BY_CHANCE)
    for everywhere, in_task in _log_frequencies(tasks, rows, owner):
        logarithm += everywhere
        within += in_task
        if (logarithm < limit).all() and (within < limit).all():
            break
    return np.exp(logarithm), np.exp(within)


def _log_frequencies(
    tasks: Sequence[Task], rows: Indices, owner: Indices
) -> Iterator[tuple[Array, Array]]:
    """Yield the logarithms of frequencies of the values of rows, in all tasks and in the own."""
    n, sizes = len(owner), np.bincount(owner)
    if not any(is_sparse(task.X) for task in tasks):
        X = np.concatenate([task.X.reshape(task.n_samples, -1) for task in tasks])
        for column in X.T:
            code = np.unique(column, return_inverse=True)[1]
            own = np.unique(code * len(sizes) + owner, return_inverse=True)[1]
            shares = np.bincount(own)[own[rows]] / sizes[owner[rows]]
            yield np.log(np.bincount(code)[code[rows]] / n), np.log(shares)
        return
    X = concatenate_rows([as_canonical(task.X) for task in tasks])
    by_task = _sparse_logarithms(X, owner, sizes)
    yield _sparse_logarithms(X, np.zeros_like(owner), np.array([n]))[rows], by_task[rows]


def _sparse_logarithms(X: Any, part: Indices, sizes: Indices) -> Array:
    """Return Σ_j log f_j of each row, with frequencies among the rows of its part; 0 is a value."""
    row = np.repeat(np.arange(len(part)), np.diff(X.indptr))
    place = part[row].astype(np.int64) * X.shape[1] + X.indices  # a column of a part
    columns, column = np.unique(place, return_inverse=True)
    value = np.unique(np.stack([place.astype(np.float64), X.data]), axis=1, return_inverse=True)[1]
    size = sizes[columns // X.shape[1]]
    n_stored = np.bincount(column)
    with np.errstate(divide="ignore"):
        of_zero = np.log1p(-n_stored / size)
    of_zero = np.where(n_stored < size, of_zero, 0.0)
    base = np.bincount(columns // X.shape[1], of_zero, minlength=len(sizes))
    of_value = np.log(np.bincount(value)[value] / size[column])
    changes = np.bincount(row, of_value - of_zero[column], minlength=len(part))
    return np.asarray(base[part] + changes)
