"""Sentences that explain an automatic choice."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.evaluation.choice.alignment_verdict import describe_alignment
from algorithms.evaluation.choice.curve_verdict import describe_curve
from algorithms.evaluation.comparison.no_verdict import (
    NO_METHOD,
    NO_VERDICT,
    ONE_TASK,
    choice_by_rule,
    describe_without_value,
)
from algorithms.evaluation.scores.gains import LEVEL
from algorithms.evaluation.scores.metrics import (
    METRICS,
    describe_few_rows_of,
    describe_metric,
    score_name,
)
from algorithms.evaluation.selection.failures import describe_left_out
from algorithms.interface.lists import list_names
from algorithms.splits.tied_rows import about_equal

_ROLES: Final = {
    "single_task": "each task alone",
    "pooled": "all tasks pooled",
    "multi_task": "tasks together",
    "per_task": "each task together or alone",
}
#: Maximum number of tasks that a sentence names.
_MAX_NAMES: Final = 10
#: Weights of all members add up to at least this, but for rounding errors.
_WHOLE: Final = 1 - 1e-9
#: Largest ratio of an interval's half width to a gain for which the rows needed are extrapolated.
_MAX_RATIO: Final = 10.0


def name_of(method: Mapping[str, Any], *, n_tasks: int = 2) -> str:
    """Return the name of a contender for readers; with one task, how it learns tasks is no part."""
    variant = method.get("variant")  # not in old reports
    role = _ROLES[method["role"]] if n_tasks > 1 else None
    words = ", ".join(filter(None, (role, variant)))
    return f"{method['algorithm']} ({words})" if words else str(method["algorithm"])


def summarize_choice(
    report: Mapping[str, Any],
    *,
    unsuitable: Sequence[Mapping[str, str]],
    dropped: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return a report of :func:`~algorithms.evaluation.choice.automatic.report_choice` in words.

    Parameters
    ----------
    unsuitable
        Methods that do not suit the tasks, each with its ``reason``.
    dropped
        Methods that failed, or that the budget did not allow.
    """
    report = choice_by_rule(report)
    sentences = [
        *_describe_estimate(report),
        *describe_metric(report),
        *describe_without_value(report),
        *_describe_columns(report),
        *_describe_sharing(report),
        *_describe_pooling(report),
        *describe_curve(
            report["curve"],
            n_tasks=len(report["tasks"]),
            may_help=report["together_or_apart"]["verdict"] == "helps" or _is_former(report),
        ),
        *_describe_tasks(report),
        *_describe_new_tasks(report),
        *describe_few_rows_of(report),
        *about_equal(report.get("rows")),
        *_describe_left_out(
            _distinguished(unsuitable, report["leaderboard"]),
            dropped,
            n_tasks=len(report["tasks"]),
        ),
    ]
    return {**report, "sentences": sentences}


def update_choice(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice of a stored report as the present rule for verdicts has it."""
    ruled = choice_by_rule(stored)
    if ruled == stored:
        return stored
    # a report does not tell unsuitable methods from dropped ones
    return summarize_choice(ruled, unsuitable=(), dropped=stored["left_out"])


def _describe_estimate(report: Mapping[str, Any]) -> list[str]:
    estimate, title = report["estimate"], score_name(report)
    best = name_of(report["leaderboard"][0], n_tasks=len(report["tasks"]))
    best_value = report["leaderboard"][0]["value"]
    chosen = (
        f"Chosen: {_describe_chosen(report)}, by the rows that {report['n_splits']} splits hold "
        "out; the model is trained on all rows."
    )
    expected = (
        f"Expected on new rows: {title} {_number(estimate['value'])}{_interval(estimate)}. This is "
        f"the score of the whole choice, made anew in each of {report['n_splits']} splits without "
        "the held-out rows."
    )
    optimistic = (
        f"The first row of the leaderboard, {best} with {_number(best_value)}, is the "
        f"best of {len(report['leaderboard'])}, so that value is optimistic"
        f"{_describe_best(report['choice_or_best'])}."
    )
    several = [optimistic, *_describe_order(report)] if len(report["leaderboard"]) > 1 else []
    return [chosen, expected, *several]


def _describe_order(report: Mapping[str, Any]) -> list[str]:
    """Return why the leaderboard has another order than the losses by which methods are weighted.

    Nothing if its first method has the smallest loss.
    """
    rows = report["leaderboard"]
    losses = [math.inf if row.get("loss") is None else row["loss"] for row in rows]
    best = losses.index(min(losses))  # the first one in reports of earlier versions
    if best == 0:
        return []
    has_classes = METRICS[report["metric"]].target == "classes"
    loss = "log loss of probabilities" if has_classes else "logarithm of the squared error"
    sentence = (
        f"Methods are weighted by the mean over tasks of the {loss}, which is the smallest for "
        f"{name_of(rows[best])}; the leaderboard has the order of {score_name(report)}."
    )
    return [sentence]


def _describe_chosen(report: Mapping[str, Any]) -> str:
    """Return the method of the model, or the methods of a weighted mean, the heaviest first."""
    weighted = [row for row in report["leaderboard"] if row.get("weight")]  # not in old reports
    n_tasks = len(report["tasks"])
    if not weighted or report["chosen"]["algorithm"] == weighted[0]["algorithm"]:
        return name_of(report["chosen"], n_tasks=n_tasks)
    heaviest = sorted(weighted, key=lambda row: -row["weight"])
    shares = [f"{name_of(row, n_tasks=n_tasks)} {row['weight']:.0%}" for row in heaviest]
    return f"a weighted mean of {_listed(shares)}"


def _describe_best(pair: Mapping[str, Any] | None) -> str:
    """Return whether the choice is worse than the first row of the leaderboard, as a clause."""
    if pair is None or pair["verdict"] == NO_VERDICT or pair["gain"] == 0:
        return ""
    verdict = "is significantly worse" if pair["verdict"] == "hurts" else "is not shown to be worse"
    return f"; even so, the choice {verdict} (p = {_number(pair['p_value'])})"


def _describe_columns(report: Mapping[str, Any]) -> list[str]:
    """Return the sentence on different columns, if it is why a side has no method."""
    sentence = report.get("columns")  # not in old reports
    return [] if sentence is None else [sentence]


def _describe_pooling(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence on multi-task and pooled methods, unless there is just one task."""
    pair = report["multi_task_or_pooled"]
    if pair["reason"] == ONE_TASK:
        return []
    names = ("learning tasks by a multi-task method", "one model for the rows of all tasks")
    return _describe_pair(report, pair, names)


def _describe_sharing(report: Mapping[str, Any]) -> list[str]:
    """Return the verdict on learning together: its level, and the size of the gain."""
    pair = report["together_or_apart"]
    names = ("learning tasks together or pooled", "learning each task alone")
    if pair["verdict"] == NO_VERDICT or _is_former(report):
        return _describe_pair(report, pair, names)
    first, second = names
    certainty = f"{pair['certainty']} " if pair.get("certainty") else ""
    found = "" if pair["gain"] > 0 else "; no gain was found"
    verdicts = {
        "helps": f"{_capital(first)} {certainty}helps: better than {second}"
        f"{_of_unknown_size(pair)}",
        "equal": f"{_capital(first)} makes no relevant difference compared with {second}",
        "unclear": f"It cannot be told from these rows whether {first} is better than {second}"
        f"{found}{_what_would_settle(report)}",
    }
    values = f"{_gain_of(report, pair)}, both sides are chosen without the held-out rows"
    return [f"{verdicts[pair['verdict']]} ({values}).", *describe_alignment(report)]


def _of_unknown_size(pair: Mapping[str, Any]) -> str:
    """Return that a gain may have any size, as a clause, if its interval has 0 in it."""
    if pair["low"] * pair["high"] > 0:
        return ""
    return ", by the test of their functions; the interval of the gain has 0 in it"


def _is_former(report: Mapping[str, Any]) -> bool:
    """Return whether a report is of a version that judged by held-out scores alone."""
    return report.get("task_confidence") is None


def _what_would_settle(report: Mapping[str, Any]) -> str:
    """Return how many more rows would settle whether there is a gain, as a clause."""
    pair, more = report["together_or_apart"], _more_by_curve(report)
    if more is not None:
        return f"; about {more} more rows per task would settle it"
    reach = (pair["high"] - pair["low"]) / 2
    return _rows_needed(pair["gain"], reach) if 0 < pair["gain"] < reach else ""


def _describe_pair(
    report: Mapping[str, Any], pair: Mapping[str, Any], names: tuple[str, str]
) -> list[str]:
    first, second = names
    if pair["verdict"] == NO_VERDICT:
        if pair["reason"] == NO_METHOD and report.get("columns") is not None:
            return []  # which has been said
        return [f"There is no verdict on {first} against {second}: {pair['reason']}."]
    reach = (pair["high"] - pair["low"]) / 2
    verdicts = {
        "helps": f"{_capital(first)} helps: better than {second}",
        "hurts": f"{_capital(first)} hurts: worse than {second}",
        "equal": f"{_capital(first)} makes no relevant difference compared with {second}",
        "unclear": f"It is unclear from these rows whether {first} is better than {second}; "
        f"a difference below about {_number(reach)} is not visible with so few"
        f"{_rows_needed(pair['gain'], reach)}",
    }
    values = f"{_gain_of(report, pair)}, p = {_number(pair['p_value'])}"
    sides = "both sides are chosen without the held-out rows"
    return [f"{verdicts[pair['verdict']]} ({values}; {sides})."]


def _gain_of(report: Mapping[str, Any], pair: Mapping[str, Any]) -> str:
    """Return both scores of a pair and the gain with its interval as a phrase."""
    share = f" ({pair['gain'] / abs(pair['second_value']):.0%})" if pair["second_value"] else ""
    return (
        f"{score_name(report)} {_number(pair['first_value'])} against "
        f"{_number(pair['second_value'])}, gain {_number(pair['gain'])}{share}{_interval(pair)}"
    )


def _describe_tasks(report: Mapping[str, Any]) -> list[str]:
    tasks = report["tasks"]
    n_tested = sum(task["verdict"] != NO_VERDICT for task in tasks.values())
    if not n_tested:
        return []
    sentences = []
    for verdict, verb in (("helps", "gain from"), ("hurts", "lose by")):
        names = [name for name, task in tasks.items() if task["verdict"] == verdict]
        if names:
            listed = f"{verb} learning together: {_listed(names)}."
            sentences.append(f"{len(names)} of {len(tasks)} tasks {listed}")
    none = "No single task is shown to gain or lose by learning together."
    if not _is_former(report):
        none += " Gains of tasks are drawn to their mean; losses need 40 rows."
    corrected = f"Benjamini-Hochberg over {n_tested} tasks, false discovery rate {LEVEL:.0%}"
    return [f"{' '.join(sentences) or none} ({corrected}.)"]


def _describe_new_tasks(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the methods that answer for tasks without rows, if not all do."""
    answer = report.get("new_tasks")  # not in old reports
    if answer is None or not answer["members"] or answer["weight"] > _WHOLE:
        return []
    names = _listed([name_of(method) for method in answer["members"]])
    sentence = (
        f"Tasks that were not trained are answered by what {names} learned of all tasks together, "
        f"which has {answer['weight']:.0%} of the weight; the other methods are left out there."
    )
    return [sentence]


def more_rows(report: Mapping[str, Any]) -> int | None:
    """Return how many more rows per task would show a gain that is not shown; None if unknown.

    By the learning curve, or if the gain stayed the same.
    """
    pair, by_curve = report["together_or_apart"], _more_by_curve(report)
    if pair["verdict"] != "unclear" or by_curve is not None:
        return by_curve
    factor = _rows_factor(pair["gain"], (pair["high"] - pair["low"]) / 2)
    if factor is None or factor <= 1:
        return None
    return math.ceil((factor - 1) * float(report["rows"]["n_rows"]) / len(report["tasks"]))


def _more_by_curve(report: Mapping[str, Any]) -> int | None:
    """Return how many more rows per task would show a gain by the learning curve, if known."""
    curve = report.get("curve") or {}
    needed: float | None = curve.get("rows_needed")
    return None if needed is None else math.ceil(needed - curve["points"][-1]["rows"])


def _rows_factor(gain: float, reach: float) -> float | None:
    """Return how many times as many rows show a gain, if errors fall with the root of the rows."""
    return None if gain <= 0 or reach / gain > _MAX_RATIO else (reach / gain) ** 2


def _rows_needed(gain: float, reach: float) -> str:
    """Return how many more rows would show a gain, as a clause."""
    factor = _rows_factor(gain, reach)
    if factor is None:
        return ""
    return f"; if the gain stayed the same, about {factor:.2g} times as many rows would show it"


def _distinguished(
    unsuitable: Sequence[Mapping[str, str]], leaderboard: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, str]]:
    """Return methods that do not suit, with their form if another one was compared."""
    compared = {row["algorithm"] for row in leaderboard}
    return [
        {**one, "algorithm": name_of(one)} if one["algorithm"] in compared else one
        for one in unsuitable
    ]


def _describe_left_out(
    unsuitable: Sequence[Mapping[str, str]],
    dropped: Sequence[Mapping[str, str]],
    *,
    n_tasks: int = 2,
) -> list[str]:
    names_of: dict[str, dict[str, None]] = {}
    for method in dropped:
        names_of.setdefault(method["reason"], {})[name_of(method, n_tasks=n_tasks)] = None
    sentences = [
        f"Not compared: {', '.join(names)}: {reason}." for reason, names in names_of.items()
    ]
    if unsuitable:
        reasons = describe_left_out(unsuitable, max_names=len(unsuitable))
        sentences.append(f"Not suited to these tasks and targets: {reasons}.")
    return sentences


def _listed(names: Sequence[str]) -> str:
    return list_names(names, _MAX_NAMES, has_quotes=False)


def _interval(entry: Mapping[str, Any]) -> str:
    if entry["low"] is None:
        return ""
    return f", 95 % confidence interval {_number(entry['low'])} to {_number(entry['high'])}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _number(value: float | None) -> str:
    return "no value" if value is None else f"{value:.3g}"
