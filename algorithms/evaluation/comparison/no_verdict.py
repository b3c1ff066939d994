"""The rule for reports without a verdict.

There is no verdict on learning together if there is only one task. There is no verdict on two sides
of methods if a side has no method, or only constant predictions, or if fewer than two splits have
scores of both sides: then nothing was compared, however small a p value may be. There is none if
a user has ended the race early, who has seen its scores: verdicts at a time that they choose would
be wrong too often. A result without a verdict has a reason instead, and no numbers.

The rule takes reports as they are stored, so it also applies to reports of earlier versions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.interface.tasks import describe_tasks

#: Roles of the methods on both sides of the verdict.
TOGETHER: Final = ("multi_task", "pooled")
APART: Final = ("single_task",)
#: The verdict if there is none.
NO_VERDICT: Final = "none"
#: Name of the algorithm that predicts the same for every row of a task.
TRIVIAL: Final = "constant"
#: Reasons.
ONE_TASK: Final = "there is only one task, which has no others to learn from"
NO_METHOD: Final = "a side has no method"
ONLY_CONSTANTS: Final = "a side has only constant predictions"
FEW_SCORES: Final = "there are fewer than two splits with scores of both sides"
ENDED_EARLY: Final = "the race was ended before all methods were scored"
#: Why a method is left out of a race that its user has ended.
ENDED: Final = "the race was ended before it was scored"

#: Members of a comparison of two families of methods, besides its verdict.
FAMILY_KEYS: Final = (
    *("together", "apart", "gain", "low", "high", "p_value", "p_adjusted", "margin"),
)
#: Members of a comparison of two choices, besides its verdict.
PAIR_KEYS: Final = (
    *("first", "second", "first_value", "second_value"),
    *("gain", "low", "high", "p_value", "margin"),
)


def no_curve(reason: str) -> dict[str, Any]:
    """Return the report if there is no curve."""
    return {"reason": reason, "points": [], "methods": []}


def why_no_verdict(*sides: Sequence[str], n_tasks: int | None = None) -> str | None:
    """Return why there is no verdict on sides of methods, given their algorithms; None if there is.

    Parameters
    ----------
    n_tasks
        Number of tasks, if the verdict is on learning together.
    """
    if n_tasks == 1:
        return ONE_TASK
    if not all(sides):
        return NO_METHOD
    if any(set(side) == {TRIVIAL} for side in sides):
        return ONLY_CONSTANTS
    return None


def describe_no_verdict(reason: str) -> str:
    """Return a sentence on the missing verdict on learning together."""
    return f"There is no verdict on learning together: {reason}."


def describe_without_value(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the tasks for which the metric of a report has no value, if any."""
    missing: list[str] = report.get("without_value") or []  # old reports do not tell
    if not missing:
        return []
    sentence = (
        f"{report['title']} has no value for {describe_tasks(missing, len(report['tasks']))}, left "
        "out of its means: no split holds out rows from which it can be computed (two "
        "classes for AUC, different numbers for R²)."
    )
    return [sentence]


def comparison_by_rule(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report of :mod:`algorithms.evaluation.comparison.comparison` by the rule."""
    tasks, sharing = comparison["tasks"], comparison["sharing"]
    apart = _algorithms(comparison["methods"], APART)
    together = _algorithms(comparison["methods"], ("candidate", *TOGETHER))
    reason = why_no_verdict(together, apart, n_tasks=len(tasks))
    if sharing is None and reason is None:  # an early version stored the verdict alone
        return dict(comparison)
    return {
        **comparison,
        "sharing": _by_rule(sharing, reason, FAMILY_KEYS),
        "candidate": _by_rule(comparison["candidate"], reason, FAMILY_KEYS),
        "tasks": {name: _by_rule(verdict, reason, FAMILY_KEYS) for name, verdict in tasks.items()},
    }


def choice_by_rule(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report of an automatic choice that follows the rule."""
    tasks, rows, curve = choice["tasks"], choice["leaderboard"], choice.get("curve")
    roles = (TOGETHER, APART, ("multi_task",), ("pooled",), (*TOGETHER, *APART))
    together, apart, multi_task, pooled, everything = (_algorithms(rows, group) for group in roles)
    is_ended = any(method.get("reason") == ENDED for method in choice.get("left_out", ()))
    ended = ENDED_EARLY if is_ended else None
    on_sharing = why_no_verdict(together, apart, n_tasks=len(tasks)) or ended
    on_pooling = why_no_verdict(multi_task, pooled, n_tasks=len(tasks)) or ended
    on_common = why_no_verdict(together, pooled, n_tasks=len(tasks)) or ended
    common = choice.get("together_or_pooled")  # not in old reports
    with_best, per_task = choice.get("choice_or_best"), choice.get("per_task")
    best = everything
    if with_best is not None and with_best["second"] and with_best["second"]["role"] != "per_task":
        best = [with_best["second"]["algorithm"]]
    on_choice = why_no_verdict(everything, best) or ended
    return {
        **choice,
        "choice_or_best": with_best and _by_rule(with_best, on_choice, PAIR_KEYS),
        "together_or_apart": _by_rule(choice["together_or_apart"], on_sharing, PAIR_KEYS),
        "together_or_pooled": common and _by_rule(common, on_common, PAIR_KEYS),
        "multi_task_or_pooled": _by_rule(choice["multi_task_or_pooled"], on_pooling, PAIR_KEYS),
        "tasks": {name: _by_rule(verdict, on_sharing, ()) for name, verdict in tasks.items()},
        "per_task": per_task and _by_rule(per_task, on_sharing, ()),
        "curve": curve and _curve_by_rule(curve, n_tasks=len(tasks)),
    }


def _by_rule(
    verdict: Mapping[str, Any] | None, reason: str | None, keys: Sequence[str]
) -> dict[str, Any]:
    """Return a verdict with its numbers, or the reason instead of them.

    Parameters
    ----------
    keys
        Members of a result that is None, besides its verdict.
    """
    verdict = dict.fromkeys(keys) if verdict is None else verdict
    if reason is None and verdict["gain"] is None:
        reason = verdict.get("reason") or FEW_SCORES
    if reason is None:
        return {**verdict, "reason": None}
    # names of tasks and sentences stay
    kept = {k: value if isinstance(value, list | str) else None for k, value in verdict.items()}
    without = {"certainty": None} if "certainty" in kept else {}
    return {**kept, **without, "verdict": NO_VERDICT, "reason": reason}


def _curve_by_rule(curve: Mapping[str, Any], *, n_tasks: int) -> dict[str, Any]:
    """Return a learning curve; none if the methods that the budget allowed give no verdict."""
    sides = [_algorithms(curve["methods"], roles) for roles in (TOGETHER, APART)]
    reason = why_no_verdict(*sides, n_tasks=n_tasks)
    if reason is None or curve["reason"] is not None:
        return dict(curve)
    kept = {name: curve[name] for name in ("methods", "left_out")}
    return {**dict.fromkeys(curve), **no_curve(reason), **kept}


def _algorithms(methods: Sequence[Mapping[str, Any]], roles: Sequence[str]) -> list[str]:
    return [method["algorithm"] for method in methods if method["role"] in roles]
