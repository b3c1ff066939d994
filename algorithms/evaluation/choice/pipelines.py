"""Contenders with their results, and choices among them by inner scores.

A choice is a pipeline like any contender: in every outer split it takes the contender with the best
inner score there, and has the outer score of that one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from algorithms.evaluation.scores.metrics import Metric
from algorithms.evaluation.selection.nested import SplitResult
from algorithms.evaluation.selection.validation import Scores, concatenate_scores
from algorithms.interface.algorithm import Role

#: Role of a contender: the role of its method, or 'per_task' if tasks have different methods.
EntryRole = Role | Literal["per_task"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender with its results.

    Parameters
    ----------
    results
        One for each outer split, in order.
    final
        The result of the selection with all rows.
    may_be_chosen
        Whether it may be chosen, and not only compared.
    """

    algorithm: str
    role: EntryRole
    variant: str
    results: Sequence[SplitResult]
    final: SplitResult
    may_be_chosen: bool = True

    def label(self) -> dict[str, str]:
        """Return the keys that identify the contender in a report."""
        return {"algorithm": self.algorithm, "role": self.role, "variant": self.variant}

    @property
    def scores(self) -> Scores:
        """Outer scores in every split."""
        return concatenate_scores([result["outer"] for result in self.results if result["outer"]])


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A choice among some contenders, made in every split by inner scores.

    Parameters
    ----------
    chosen
        Position of the chosen contender in each split.
    final
        Position of the contender that is chosen with all rows.
    """

    chosen: tuple[int, ...]
    final: int
    scores: Scores


def choose(
    entries: Sequence[Entry],
    roles: Sequence[EntryRole],
    metric: Metric,
    *,
    is_compared: bool = True,
) -> Pipeline | None:
    """Return the choice among the contenders of some roles; None if there are none.

    Of equal contenders the first is chosen.

    Parameters
    ----------
    is_compared
        Whether the choice is only compared with others, so that it may be any contender.
    """
    members = [
        i
        for i, entry in enumerate(entries)
        if entry.role in roles and (is_compared or entry.may_be_chosen)
    ]
    if not members:
        return None
    sign = -1.0 if metric.larger_is_better else 1.0

    def best(results: Mapping[int, SplitResult]) -> int:
        inner = {i: result["inner"] for i, result in results.items()}
        losses = {i: math.inf if s is None else sign * s for i, s in inner.items()}
        return min(members, key=lambda i: losses[i])

    n_splits = len(entries[members[0]].results)
    chosen = tuple(best({i: entries[i].results[f] for i in members}) for f in range(n_splits))
    final = best({i: entries[i].final for i in members})
    return Pipeline(chosen, final, scores_of(entries, chosen))


def scores_of(entries: Sequence[Entry], chosen: Sequence[int]) -> Scores:
    """Return the outer scores of the contender that is chosen in each split."""
    pieces = [entries[i].results[f]["outer"] for f, i in enumerate(chosen)]
    return concatenate_scores([piece for piece in pieces if piece is not None])
