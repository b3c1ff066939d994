"""Which contenders suit tasks, and why others do not."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from algorithms.ensemble.contenders import Algo, Contender, contenders_for, contenders_of
from algorithms.evaluation.comparison.no_verdict import TRIVIAL
from algorithms.interface.errors import AlgorithmError
from algorithms.interface.tasks import TaskSummary
from algorithms.splits.requirements import fitting_candidates
from algorithms.splits.splits import Splits
from algorithms.wrappers.by_parts.algorithm import groups_of_columns

#: Contenders, and why others are left out.
Found = tuple[list[Contender], list[dict[str, str]]]


def find_contenders(
    tasks: Sequence[TaskSummary],
    algorithms: Mapping[str, Algo],
    names: Sequence[str] | None,
    *,
    extensions: Iterable[Algo],
    splits: Splits | None = None,
) -> Found:
    """Return the contenders of a choice that suit tasks, and others with the reason.

    By default, they are those of the race. If tasks have different columns, or only constants suit
    them, all algorithms are tried.

    Parameters
    ----------
    names
        Names of algorithms; None for the default.
    extensions
        Algorithms of other packages, which are tried, too.
    splits
        Splits in which they are to be scored, which must leave them enough rows; None: unknown.
    """

    def of(some: Iterable[Algo]) -> Found:
        return _divide(chain(*(_own(one, tasks) for one in some)), tasks, splits)

    if names is not None:
        return of(algorithms[name] for name in names)
    race = contenders_for(tasks)
    suitable, left_out = _divide(race, tasks, splits)
    known = {one.algorithm.name for one in race}
    own = [one for one in extensions if not one.is_combined]
    if len(groups_of_columns(tasks)) > 1 or all(one.algorithm.name == TRIVIAL for one in suitable):
        own = [one for name, one in algorithms.items() if name not in known and not one.is_combined]
    more, others = of(own)
    return suitable + more, left_out + others


def _own(algorithm: Algo, tasks: Sequence[TaskSummary]) -> list[Contender]:
    """Return the contenders of an algorithm; one for the reason, if it cannot predict."""
    if "predict" in algorithm.methods_for(tasks[0].target):
        return contenders_of(algorithm, tasks)
    return [Contender(algorithm, "", {})]


def _divide(
    contenders: Iterable[Contender],
    tasks: Sequence[TaskSummary],
    splits: Splits | None,
) -> Found:
    suitable, left_out = [], []
    for one in contenders:
        reason = _why_not(one, tasks, splits)
        if reason is None:
            suitable.append(one)
        else:
            left_out.append({**one.names(), "reason": reason})
    return suitable, left_out


def _why_not(one: Contender, tasks: Sequence[TaskSummary], splits: Splits | None) -> str | None:
    """Return why a contender does not suit tasks; None if it does."""
    if "predict" not in one.algorithm.methods_for(tasks[0].target):
        return "the models make no predictions of the targets that could be scored"
    if splits is not None:
        fitting, reason = fitting_candidates(one.algorithm, [one.values], tasks, splits)
        return None if fitting else reason
    try:
        one.algorithm.check(tasks, one.params)
    except AlgorithmError as error:
        return error.message
    return None
