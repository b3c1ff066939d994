"""What a comparison says, in sentences: sharing helps, hurts, or cannot be told."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.evaluation.comparison import LEVEL

_APART: Final = "apart"
_ROLES: Final = {
    "apart": "each task learned alone",
    "pooled": "one model of all tasks",
    "other": "another way of learning together",
}


def conclude(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Give the verdict and the sentences of a comparison; where a rival wins, it comes first.

    *hurts*: some rival is better, at 5 % for all rivals together (Bonferroni). *helps*: better
    than every rival that learns each task alone, at 5 % each, and no rival is better. Otherwise
    it cannot be told from this much data.
    """
    rivals = comparison["overall"]
    sure = [rival for rival in rivals if _is_sure(rival, n_tests=len(rivals))]
    worse = [rival for rival in sure if rival["gain"] < 0]
    apart = [rival for rival in rivals if rival["role"] == _APART]
    is_better = bool(apart) and all(_is_sure(rival) and rival["gain"] > 0 for rival in apart)
    verdict = "hurts" if worse else "helps" if is_better else "unclear"
    sentences = [_head(comparison, verdict, worse)]
    ordered = sorted(rivals, key=lambda rival: (rival["gain"] is None, rival["gain"] or 0.0))
    sentences += [_against(comparison, rival) for rival in ordered]
    tasks = {task: _of_task(comparison, task) for task in comparison["by_task"]}
    return {
        "verdict": verdict,
        "sentences": sentences,
        "tasks": {task: {"verdict": v, "sentence": text} for task, (v, text) in tasks.items()},
    }


def _head(comparison: Mapping[str, Any], verdict: str, worse: Sequence[Mapping[str, Any]]) -> str:
    name = comparison["methods"][0]["algorithm"]
    if verdict == "hurts":
        best = min(worse, key=lambda rival: rival["gain"])
        return f"Use {best['rival']} ({_ROLES[best['role']]}): on this data it beats {name}."
    if verdict == "helps":
        return f"Sharing helps: {name} beats learning each task alone on this data."
    return f"Whether sharing by {name} helps cannot be told from this much data."


def _against(comparison: Mapping[str, Any], rival: Mapping[str, Any]) -> str:
    ours = comparison["methods"][0]
    theirs = next(
        method
        for method in comparison["methods"][1:]
        if (method["algorithm"], method["role"]) == (rival["rival"], rival["role"])
    )
    values = f"{_number(ours['value'])} against {_number(theirs['value'])}"
    over = " of all rows" if comparison["average"] == "rows" else ""
    subject = f"{comparison['title']}{over} {values} of {rival['rival']} ({_ROLES[rival['role']]})"
    if rival["gain"] is None:
        return f"{subject}: too few splits to tell how sure that is."
    side = "better" if rival["gain"] > 0 else "worse"
    sure = "" if _is_sure(rival) else ", which may be chance"
    interval = f"{_number(rival['low'])} to {_number(rival['high'])}"
    return (
        f"{subject}: {_number(abs(rival['gain']))} {side}, 95 % interval of the gain {interval}, "
        f"p = {_number(rival['p_value'])}{sure}."
    )


def _of_task(comparison: Mapping[str, Any], task: str) -> tuple[str, str]:
    """Give verdict and sentence of one task, against the rival that is closest or better."""
    against = [rival for rival in comparison["by_task"][task] if rival["role"] == _APART]
    known = [rival for rival in against if rival["gain"] is not None]
    if not known:
        return "unclear", f"{task}: too few held-out rows to tell."
    rival = min(known, key=lambda rival: rival["gain"])
    interval = f"{_number(rival['low'])} to {_number(rival['high'])}"
    found = f"gain {_number(rival['gain'])} ({interval}) over {rival['rival']}"
    if not _is_sure(rival, n_tests=len(known)):
        return "unclear", f"{task}: cannot be told; {found}."
    verdict = "helps" if rival["gain"] > 0 else "hurts"
    return verdict, f"{task}: sharing {verdict}; {found}."


def _is_sure(rival: Mapping[str, Any], *, n_tests: int = 1) -> bool:
    return rival["p_value"] is not None and rival["p_value"] * n_tests < LEVEL


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.3g}"
