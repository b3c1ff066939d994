"""Rounds of child jobs of an automatic choice, within its budget of processor time.

In the first round every contender scores one outer split, which shows its cost, within an equal
share of the budget. Slower contenders are tried again with a larger share, if the others leave much
of the budget. The last round of the choice scores the other splits, and selects with all rows,
for the contenders that the budget allows. The rest of the budget is for the learning curve, if the
job has one: the splits again, with a part of their training rows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.comparison.no_verdict import APART
from algorithms.evaluation.scores.predictions import predictions_per_split
from algorithms.evaluation.selection.nested import SplitResult
from algorithms.splits.subsamples import N_PARTS
from service.jobs.studies.child_jobs import MAX_CHILD_JOBS, ChildJob, Plan

#: Marks the child jobs of an automatic choice; also the name of the algorithm of such a job.
AUTOMATIC: Final = "auto"
#: Rounds of child jobs.
FIRST, LAST, CURVE = range(3)
#: Numbers of parts of the training rows on the learning curve, except all parts.
_CURVE_PARTS: Final = range(1, N_PARTS)
#: A contender is tried again if its share grows by at least this factor.
_MIN_RAISE: Final = 1.5

Result = Mapping[str, Any]


def count_child_jobs(plan: Plan) -> int:
    """Return the number of child jobs if every contender is tried once and admitted."""
    n_contenders = len(plan["contenders"])
    n_curve = len(_curve_indices(plan, n_contenders)) * len(_CURVE_PARTS)
    per_contender = 1 + len(_later_indices(plan, n_contenders))
    return n_contenders * (per_contender + (n_curve if _has_curve(plan) else 0))


def child_jobs_of_round(plan: Plan, results: Sequence[Result]) -> list[ChildJob]:
    """Return the child jobs of the round after those with results; none after the last one."""
    if not results:
        limit_s = plan["options"]["budget_s"] / len(plan["contenders"])
        return [
            _child_job(plan, which, [0], in_round=FIRST, limit_s=limit_s)
            for which in range(len(plan["contenders"]))
        ]
    done = {result["plan"]["round"] for result in results}
    if LAST in done:
        is_next = _has_curve(plan) and CURVE not in done
        return _curve_child_jobs(plan, results) if is_next else []
    if not any(result["plan"].get("is_retry") for result in results):
        again, limit_s = _tried_again(plan, results)
        if again:
            return [
                _child_job(plan, which, [0], in_round=FIRST, limit_s=limit_s, is_retry=True)
                for which in again
            ]
    admitted, _ = admit(plan, results)
    return [
        _child_job(plan, which, indices, in_round=LAST, limit_s=None)
        for which in admitted
        for indices in _later_indices(plan, len(admitted))
    ]


def admit(plan: Plan, results: Sequence[Result]) -> tuple[list[int], list[dict[str, str]]]:
    """Return the contenders of the last round, the cheapest first, and the contenders left out.

    Each other split, and the selection with all rows, is expected to take as long as the first
    split. The cheapest contender, and the cheapest that may be chosen, are always admitted.
    """
    seconds, spent_s = _seconds(results)
    n_left = options_of(plan).splits.count()
    budget_s = plan["options"]["budget_s"]
    admitted: list[int] = []
    omitted: list[dict[str, str]] = []
    for which in sorted(seconds, key=lambda which: (seconds[which], which)):
        needed_s = n_left * seconds[which]
        is_first = _may_be_chosen(plan, which) and not any(
            _may_be_chosen(plan, other) for other in admitted
        )
        if not is_first and admitted and spent_s + needed_s > budget_s:
            omitted.append(left_out(plan["contenders"][which], _too_slow(needed_s, budget_s)))
        else:
            admitted.append(which)
            spent_s += needed_s
    return admitted, omitted


def admit_to_curve(plan: Plan, results: Sequence[Result]) -> tuple[list[int], list[dict[str, str]]]:
    """Return the contenders of the learning curve, and the contenders over the budget.

    The cheapest are admitted first, in turn from both sides, since a curve needs both. If the
    cheapest of a side is too slow, no contender is admitted.
    """
    failed = failures(results)
    budget_s = plan["options"]["budget_s"]
    before = [result for result in results if result["plan"]["round"] != CURVE]
    spent_s = sum(result.get("spent_s") or 0.0 for result in before)
    spent_s += sum(split["seconds"] for result in before for split in result["splits"] or ())
    # a part of the rows takes about as large a part of the time
    share = sum(_CURVE_PARTS) / N_PARTS
    needed_s = {
        which: share * sum(split["seconds"] for split in scored_splits(results, which))
        for which in admit(plan, results)[0]
        if which not in failed
    }
    admitted: list[int] = []
    omitted: list[dict[str, str]] = []
    for which in _in_turn(plan, needed_s):
        if spent_s + needed_s[which] > budget_s:
            reason = f"learning curve: {_too_slow(needed_s[which], budget_s)}"
            omitted.append(left_out(plan["contenders"][which], reason))
        else:
            admitted.append(which)
            spent_s += needed_s[which]
    is_apart = {_is_apart(plan, which) for which in admitted}
    return (admitted if len(is_apart) == 2 else []), omitted


def scored_splits(
    results: Sequence[Result], which: int, *, n_parts: int = N_PARTS
) -> list[SplitResult]:
    """Return the results of a contender in the outer splits, in order.

    Parameters
    ----------
    n_parts
        Number of parts of the training rows.
    """
    scored: list[SplitResult] = [
        split
        for result in results
        if result["plan"]["contender"] == which
        and result["plan"].get("n_parts", N_PARTS) == n_parts
        for split in result["splits"] or ()
        if split["index"] is not None
    ]
    return sorted(scored, key=lambda split: split["index"] or 0)


def failures(results: Sequence[Result]) -> dict[int, str]:
    """Return the reason of the first failure of each contender that failed in the choice.

    A first try does not count if there was another one.
    """
    again = {result["plan"]["contender"] for result in results if result["plan"].get("is_retry")}
    failed: dict[int, str] = {}
    for result in results:
        plan = result["plan"]
        is_repeated = plan["round"] == FIRST and not plan.get("is_retry")
        is_repeated &= plan["contender"] in again
        if result["failed"] is not None and plan["round"] != CURVE and not is_repeated:
            failed.setdefault(plan["contender"], result["failed"])
    return failed


def left_out(contender: Mapping[str, Any], reason: str) -> dict[str, str]:
    """Return the entry of a report for a contender that is not compared."""
    return {
        **{name: contender[name] for name in ("algorithm", "role", "variant")},
        "reason": reason,
    }


def options_of(plan: Plan) -> AutomaticOptions:
    """Return the options of a plan."""
    return AutomaticOptions.model_validate(plan["options"], strict=False)


def _has_curve(plan: Plan) -> bool:
    """Return whether methods are scored with fewer rows: not if there could be no verdict."""
    return options_of(plan).curve and plan.get("no_curve") is None


def _curve_child_jobs(plan: Plan, results: Sequence[Result]) -> list[ChildJob]:
    admitted, _ = admit_to_curve(plan, results)
    return [
        _child_job(plan, which, indices, in_round=CURVE, limit_s=None, n_parts=n_parts)
        for which in admitted
        for n_parts in _CURVE_PARTS
        for indices in _curve_indices(plan, len(admitted))
    ]


def _later_indices(plan: Plan, n_contenders: int) -> list[list[int | None]]:
    """Return the splits of each child job of the last round; None stands for all rows."""
    return _batches([*range(1, options_of(plan).splits.count()), None], n_contenders)


def _curve_indices(plan: Plan, n_contenders: int) -> list[list[int | None]]:
    """Return the splits of each child job of the learning curve, for one number of parts."""
    indices = list(range(options_of(plan).splits.count()))
    return _batches([*indices], n_contenders * len(_CURVE_PARTS))


def _batches(indices: list[int | None], n_times: int) -> list[list[int | None]]:
    size = math.ceil(len(indices) * n_times / MAX_CHILD_JOBS)
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _child_job(
    plan: Plan,
    which: int,
    indices: Sequence[int | None],
    *,
    in_round: int,
    limit_s: float | None,
    is_retry: bool = False,
    n_parts: int = N_PARTS,
) -> ChildJob:
    contender, options = plan["contenders"][which], plan["options"]
    inner = {
        "of": AUTOMATIC,
        "may_fail": True,
        "round": in_round,
        "is_retry": is_retry,
        "n_parts": n_parts,
        "contender": which,
        "candidates": contender["candidates"],
        "splits": options["splits"],
        "indices": list(indices),
        "metric": plan["metric"],
        "average": options["average"],
        "n_inner_folds": options["n_inner_folds"],
        "min_rows": plan["min_rows"],
        "limit_s": limit_s,
        "leaves_tasks_out": contender.get("leaves_tasks_out", False),
        "n_predictions": 0 if in_round == CURVE else predictions_per_split(options_of(plan).splits),
    }
    return ChildJob(contender["algorithm"], contender["candidates"][0], inner)


def _tried_again(plan: Plan, results: Sequence[Result]) -> tuple[list[int], float]:
    """Return the contenders to try again, and the limit in seconds for their first split.

    The first of the slow contenders share the budget that the others leave, for all their splits:
    as many as get a limit larger than before by :data:`_MIN_RAISE`.
    """
    seconds, spent_s = _seconds(results)
    slow = [result["plan"]["contender"] for result in results if result.get("spent_s") is not None]
    n_left, budget_s = options_of(plan).splits.count(), plan["options"]["budget_s"]
    rest_s = budget_s - spent_s - n_left * sum(seconds.values())
    before_s = budget_s / len(plan["contenders"])
    n_again = min(len(slow), int(rest_s / ((1 + n_left) * _MIN_RAISE * before_s)))
    if n_again <= 0:
        return [], 0.0
    return slow[:n_again], rest_s / ((1 + n_left) * n_again)


def _seconds(results: Sequence[Result]) -> tuple[dict[int, float], float]:
    """Return the time of the first split of each contender, and the time of the first rounds."""
    first = [result for result in results if result["plan"]["round"] == FIRST]
    seconds = {
        result["plan"]["contender"]: result["splits"][0]["seconds"]
        for result in first
        if result["splits"] is not None
    }
    lost_s = sum(result.get("spent_s") or 0.0 for result in first)
    return seconds, sum(seconds.values()) + lost_s


def _in_turn(plan: Plan, seconds: Mapping[int, float]) -> list[int]:
    """Return contenders in turn from both sides of the verdict, the cheapest of each first."""
    cheap = sorted(seconds, key=lambda which: (seconds[which], which))
    place = {
        which: place
        for is_apart in (False, True)
        for place, which in enumerate(
            other for other in cheap if _is_apart(plan, other) == is_apart
        )
    }
    return sorted(cheap, key=lambda which: (place[which], _is_apart(plan, which)))


def _may_be_chosen(plan: Plan, which: int) -> bool:
    return bool(plan["contenders"][which].get("may_be_chosen", True))


def _is_apart(plan: Plan, which: int) -> bool:
    return plan["contenders"][which]["role"] in APART


def _too_slow(needed_s: float, budget_s: float) -> str:
    return (
        f"about {needed_s:.3g} s more would be needed, which the budget of {budget_s:.3g} s does "
        "not allow; raise budget_s"
    )
