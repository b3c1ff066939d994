"""Sentences that explain the result of a comparison."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from algorithms.evaluation.comparison.no_verdict import (
    NO_VERDICT,
    comparison_by_rule,
    describe_no_verdict,
    describe_without_value,
)
from algorithms.evaluation.scores.gains import LEVEL
from algorithms.evaluation.scores.metrics import describe_few_rows_of, describe_metric, score_name

_ROLES: Final = {
    "candidate": "the candidate",
    "single_task": "each task learned alone",
    "pooled": "one model for the rows of all tasks",
    "multi_task": "another multi-task method",
    "trivial": "the same prediction for every row of a task",
}


def summarize_comparison(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison with the verdict on learning together, and all sentences."""
    comparison = comparison_by_rule(comparison)
    sentences = [
        *_describe_verdict(comparison),
        *describe_metric(comparison),
        *_describe_best(comparison),
        *_describe_candidate(comparison),
        *(_describe_gain(comparison, other) for other in _worst_first(comparison["overall"])),
        *describe_without_value(comparison),
        *_count_tasks(comparison),
        *describe_few_rows_of(comparison),
    ]
    return {
        **comparison,
        "verdict": comparison["sharing"]["verdict"],
        "sentences": sentences,
        "tasks": {
            name: {**result, "sentence": f"{name}: {_describe_task(result)}"}
            for name, result in comparison["tasks"].items()
        },
    }


def update_comparison(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the comparison of a stored report as the present rule for verdicts has it."""
    ruled = comparison_by_rule(stored)
    return stored if ruled == stored else summarize_comparison(ruled)


def _describe_verdict(comparison: Mapping[str, Any]) -> list[str]:
    result = comparison["sharing"]
    if result["verdict"] == NO_VERDICT:
        return [describe_no_verdict(result["reason"])]
    together, apart = _name(result["together"]), _name(result["apart"])
    verdicts = {
        "helps": f"Learning together helps on this data: {together} is better than every "
        "method that learns each task alone.",
        "hurts": f"Learning together hurts on this data: {apart} is better than every method "
        "that learns the tasks together.",
        "equal": "Learning together makes no relevant difference on this data "
        f"(less than {comparison['min_effect']:.3g} of the value of {apart}).",
        "unclear": "It is unclear whether learning together helps: there is not enough data.",
    }
    detail = (
        f"{_values(comparison, result)}: {_difference(result)}; p = {_number(result['p_value'])} "
        "in the two-sided test of methods that learn together against methods that learn each task "
        "alone, corrected for their number."
    )
    return [verdicts[result["verdict"]], detail]


def _describe_best(comparison: Mapping[str, Any]) -> list[str]:
    best = comparison["best"]
    if best is None:
        return []
    tied = ", ".join(map(_name, best["tied"]))
    others = f"not shown to be worse: {tied}" if tied else "every other method is shown to be worse"
    sentences = [f"The best method on the held-out rows is {_name(best)}; {others}."]
    if any(method["role"] == "trivial" for method in (best, *best["tied"])):
        sentences.append(
            "No method is shown to be better than the same prediction for every row of a task: "
            "these columns may not predict the target, or there are too few rows."
        )
    return sentences


def _describe_candidate(comparison: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the candidate, unless the verdict is already about it."""
    result, sharing = comparison["candidate"], comparison["sharing"]
    name = comparison["methods"][0]["algorithm"]
    if result["verdict"] == NO_VERDICT or result["together"] == sharing["together"]:
        return []
    sentences = {
        "helps": f"{name} itself is better than every method that learns each task alone.",
        "hurts": f"{name} itself is worse than {_name(result['apart'])}.",
        "equal": f"{name} itself is not relevantly different from {_name(result['apart'])}.",
        "unclear": f"It is unclear whether {name} itself is better than learning each task alone.",
    }
    return [sentences[result["verdict"]]]


def _describe_gain(comparison: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    label = {**baseline, "algorithm": baseline["baseline"]}
    pair = {"together": comparison["methods"][0], "apart": label}
    subject = _values(comparison, pair)
    if baseline["gain"] is None:
        return f"{subject}: too few splits to estimate the uncertainty."
    p_value = baseline["p_adjusted"]
    if p_value is None:  # a report of the first versions
        return f"{subject}: {_gain(baseline)}."
    chance = "" if p_value < LEVEL or baseline["gain"] == 0 else "; may be chance"
    corrected = f"{_number(p_value)} corrected for the number of baselines"
    return f"{subject}: {_gain(baseline)}, {corrected}{chance}."


def _count_tasks(comparison: Mapping[str, Any]) -> list[str]:
    counts = Counter(result["verdict"] for result in comparison["tasks"].values())
    n_none = counts[NO_VERDICT]
    n_tested = counts.total() - n_none
    if not n_tested:
        return []
    parts = [f"{name} {counts[name]}" for name in ("helps", "hurts", "equal", "unclear")]
    parts += [f"no verdict {n_none}"] if n_none else []
    tested = f"Benjamini-Hochberg over {n_tested} tasks, false discovery rate {LEVEL:.0%}"
    return [f"By task: {', '.join(parts)} ({tested})."]


def _describe_task(result: Mapping[str, Any]) -> str:
    if result["verdict"] == NO_VERDICT:
        return f"no verdict; {result['reason']}."
    verdicts = {
        "helps": "learning together helps",
        "hurts": "learning together hurts",
        "equal": "no relevant difference",
        "unclear": "unclear",
    }
    pair = f"{_name(result['together'])} against {_name(result['apart'])}"
    corrected = f"{_number(result['p_adjusted'])} corrected for the number of tasks"
    return f"{verdicts[result['verdict']]}; {pair}: {_gain(result)}, {corrected}."


def _worst_first(gains: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(gains, key=lambda entry: (entry["gain"] is None, entry["gain"] or 0.0))


def _values(comparison: Mapping[str, Any], pair: Mapping[str, Any]) -> str:
    """Return the metric's values of two methods as a phrase."""
    value = {_name(method): method["value"] for method in comparison["methods"]}
    ours, theirs = (
        f"{_number(value[_name(side)])} of {_name(side)}"
        for side in (pair["together"], pair["apart"])
    )
    return f"{score_name(comparison)} {ours} against {theirs}"


def _gain(result: Mapping[str, Any]) -> str:
    return f"{_difference(result)}, p = {_number(result['p_value'])}"


def _difference(result: Mapping[str, Any]) -> str:
    interval = f"{_number(result['low'])} to {_number(result['high'])}"
    side = "equal" if result["gain"] == 0 else "better" if result["gain"] > 0 else "worse"
    size = "" if result["gain"] == 0 else f"{_number(abs(result['gain']))} "
    return f"{size}{side}, 95 % confidence interval of the gain {interval}"


def _name(method: Mapping[str, Any]) -> str:
    if method["role"] == "candidate":
        return str(method["algorithm"])
    variant = f", {method['variant']}" if method["variant"] else ""
    return f"{method['algorithm']} ({_ROLES[method['role']]}{variant})"


def _number(value: float | None) -> str:
    return "no value" if value is None else f"{value:.3g}"
