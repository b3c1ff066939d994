"""What a comparison says, in sentences: sharing helps, hurts, or cannot be told."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.evaluation.comparison import LEVEL

_SINGLE_TASK: Final = "single_task"
_ROLES: Final = {
    "single_task": "each task learned alone",
    "pooled": "one model of all tasks",
    "multi_task": "another way of learning together",
}


def conclude(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Give the verdict and the sentences of a comparison; where a baseline wins, it comes first.

    *hurts*: some baseline is better, at 5 % for all baselines together (Bonferroni). *helps*:
    better than every baseline that learns each task alone, at 5 % each, and no baseline is better.
    Otherwise it cannot be told from this much data.
    """
    baselines = comparison["overall"]
    sure = [baseline for baseline in baselines if _is_sure(baseline, n_tests=len(baselines))]
    worse = [baseline for baseline in sure if baseline["gain"] < 0]
    apart = [baseline for baseline in baselines if baseline["role"] == _SINGLE_TASK]
    is_better = bool(apart) and all(
        _is_sure(baseline) and baseline["gain"] > 0 for baseline in apart
    )
    verdict = "hurts" if worse else "helps" if is_better else "unclear"
    sentences = [_head(comparison, verdict, worse)]
    ordered = sorted(
        baselines, key=lambda baseline: (baseline["gain"] is None, baseline["gain"] or 0.0)
    )
    sentences += [_against(comparison, baseline) for baseline in ordered]
    tasks = {task: _of_task(comparison, task) for task in comparison["by_task"]}
    return {
        "verdict": verdict,
        "sentences": sentences,
        "tasks": {task: {"verdict": v, "sentence": text} for task, (v, text) in tasks.items()},
    }


def _head(comparison: Mapping[str, Any], verdict: str, worse: Sequence[Mapping[str, Any]]) -> str:
    name = comparison["methods"][0]["algorithm"]
    if verdict == "hurts":
        best = min(worse, key=lambda baseline: baseline["gain"])
        return f"Use {best['baseline']} ({_ROLES[best['role']]}): on this data it beats {name}."
    if verdict == "helps":
        return f"Sharing helps: {name} beats learning each task alone on this data."
    return f"Whether sharing by {name} helps cannot be told from this much data."


def _against(comparison: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    ours = comparison["methods"][0]
    theirs = next(
        method
        for method in comparison["methods"][1:]
        if (method["algorithm"], method["role"]) == (baseline["baseline"], baseline["role"])
    )
    values = f"{_number(ours['value'])} against {_number(theirs['value'])}"
    over = " of all rows" if comparison["average"] == "rows" else ""
    method = f"{baseline['baseline']} ({_ROLES[baseline['role']]})"
    subject = f"{comparison['title']}{over} {values} of {method}"
    if baseline["gain"] is None:
        return f"{subject}: too few splits to tell how sure that is."
    side = "better" if baseline["gain"] > 0 else "worse"
    sure = "" if _is_sure(baseline) else ", which may be chance"
    interval = f"{_number(baseline['low'])} to {_number(baseline['high'])}"
    return (
        f"{subject}: {_number(abs(baseline['gain']))} {side}, 95 % interval of the gain "
        f"{interval}, p = {_number(baseline['p_value'])}{sure}."
    )


def _of_task(comparison: Mapping[str, Any], task: str) -> tuple[str, str]:
    """Give verdict and sentence of one task, against the baseline that is closest or better."""
    against = [
        baseline for baseline in comparison["by_task"][task] if baseline["role"] == _SINGLE_TASK
    ]
    known = [baseline for baseline in against if baseline["gain"] is not None]
    if not known:
        return "unclear", f"{task}: too few held-out rows to tell."
    baseline = min(known, key=lambda baseline: baseline["gain"])
    interval = f"{_number(baseline['low'])} to {_number(baseline['high'])}"
    found = f"gain {_number(baseline['gain'])} ({interval}) over {baseline['baseline']}"
    if not _is_sure(baseline, n_tests=len(known)):
        return "unclear", f"{task}: cannot be told; {found}."
    verdict = "helps" if baseline["gain"] > 0 else "hurts"
    return verdict, f"{task}: sharing {verdict}; {found}."


def _is_sure(baseline: Mapping[str, Any], *, n_tests: int = 1) -> bool:
    return baseline["p_value"] is not None and baseline["p_value"] * n_tests < LEVEL


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.3g}"
