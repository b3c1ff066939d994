"""A comparison in sentences."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from algorithms.evaluation.gains import LEVEL

_ROLES: Final = {
    "candidate": "the candidate",
    "single_task": "each task learned alone",
    "pooled": "one model of the rows of all tasks",
    "multi_task": "another way of learning together",
    "trivial": "the same prediction for every row of a task",
}


def summarize_comparison(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on learning together, the sentences, and those on each task."""
    sentences = [
        *_sharing(comparison),
        *_best(comparison),
        *_candidate(comparison),
        *(_against(comparison, baseline) for baseline in _worst_first(comparison["overall"])),
        _count_tasks(comparison),
    ]
    return {
        "verdict": comparison["sharing"]["verdict"],
        "sentences": sentences,
        "tasks": {
            name: {**found, "sentence": f"{name}: {_of_task(found)}"}
            for name, found in comparison["tasks"].items()
        },
    }


def _sharing(comparison: Mapping[str, Any]) -> list[str]:
    found = comparison["sharing"]
    if found["together"] is None:
        reason = "too few splits, or no method that learns each task alone"
        return [f"Whether learning together helps cannot be told: {reason}."]
    together, apart = _name(found["together"]), _name(found["apart"])
    heads = {
        "helps": f"Learning together helps on this data: {together} is better than every "
        "method that learns each task alone.",
        "hurts": f"Learning together hurts on this data: {apart} is better than every method "
        "that learns the tasks together.",
        "equal": "Learning together makes no difference worth naming on this data "
        f"(less than {comparison['min_effect']:.3g} of the value of {apart}).",
        "unclear": "Whether learning together helps cannot be told from this much data.",
    }
    detail = (
        f"{_values(comparison, found)}: {_difference(found)}; p = {_number(found['p_value'])} for "
        "being better than all of the others, corrected for the number of methods."
    )
    return [heads[found["verdict"]], detail]


def _best(comparison: Mapping[str, Any]) -> list[str]:
    best = comparison["best"]
    if best is None:
        return []
    tied = ", ".join(map(_name, best["tied"]))
    rest = f"not shown to be worse: {tied}" if tied else "every other method is shown to be worse"
    sentences = [f"Best on the held-out rows is {_name(best)}; {rest}."]
    if any(method["role"] == "trivial" for method in (best, *best["tied"])):
        sentences.append(
            "No method is shown to be better than the same prediction for every row of a task: "
            "perhaps nothing can be learned from these columns, or from so few rows."
        )
    return sentences


def _candidate(comparison: Mapping[str, Any]) -> list[str]:
    """Return what holds of the candidate, where it is not what the verdict is about."""
    found, sharing = comparison["candidate"], comparison["sharing"]
    name = comparison["methods"][0]["algorithm"]
    if found["together"] is None or found["together"] == sharing["together"]:
        return []
    sentences = {
        "helps": f"{name} itself is better than every method that learns each task alone.",
        "hurts": f"{name} itself is worse than {_name(found['apart'])}.",
        "equal": f"{name} itself makes no difference worth naming to {_name(found['apart'])}.",
        "unclear": f"Whether {name} itself is better than learning each task alone cannot be told.",
    }
    return [sentences[found["verdict"]]]


def _against(comparison: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    label = {**baseline, "algorithm": baseline["baseline"]}
    pair = {"together": comparison["methods"][0], "apart": label}
    subject = _values(comparison, pair)
    if baseline["gain"] is None:
        return f"{subject}: too few splits to tell how sure that is."
    is_told = baseline["p_adjusted"] < LEVEL or baseline["gain"] == 0
    chance = "" if is_told else "; may be chance"
    corrected = f"{_number(baseline['p_adjusted'])} corrected for the number of baselines"
    return f"{subject}: {_gain(baseline)}, {corrected}{chance}."


def _count_tasks(comparison: Mapping[str, Any]) -> str:
    counts = Counter(found["verdict"] for found in comparison["tasks"].values())
    told = ", ".join(f"{name} {counts[name]}" for name in ("helps", "hurts", "equal", "unclear"))
    return (
        f"By task: {told} (Benjamini-Hochberg over {len(comparison['tasks'])} tasks, "
        f"at {LEVEL:.0%} false ones)."
    )


def _of_task(found: Mapping[str, Any]) -> str:
    if found["together"] is None:
        return "too few held-out rows to tell."
    verdicts = {
        "helps": "learning together helps",
        "hurts": "learning together hurts",
        "equal": "no difference worth naming",
        "unclear": "cannot be told",
    }
    pair = f"{_name(found['together'])} against {_name(found['apart'])}"
    corrected = f"{_number(found['p_adjusted'])} corrected for the number of tasks"
    return f"{verdicts[found['verdict']]}; {pair}: {_gain(found)}, {corrected}."


def _worst_first(gains: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(gains, key=lambda entry: (entry["gain"] is None, entry["gain"] or 0.0))


def _values(comparison: Mapping[str, Any], pair: Mapping[str, Any]) -> str:
    """Return the metric of two methods, in words."""
    value = {_name(method): method["value"] for method in comparison["methods"]}
    ours, theirs = (
        f"{_number(value[_name(one)])} of {_name(one)}" for one in (pair["together"], pair["apart"])
    )
    over = " of all rows" if comparison["average"] == "rows" else ""
    return f"{comparison['title']}{over} {ours} against {theirs}"


def _gain(found: Mapping[str, Any]) -> str:
    return f"{_difference(found)}, p = {_number(found['p_value'])}"


def _difference(found: Mapping[str, Any]) -> str:
    interval = f"{_number(found['low'])} to {_number(found['high'])}"
    side = "equal" if found["gain"] == 0 else "better" if found["gain"] > 0 else "worse"
    size = "" if found["gain"] == 0 else f"{_number(abs(found['gain']))} "
    return f"{size}{side}, 95 % interval of the gain {interval}"


def _name(method: Mapping[str, Any]) -> str:
    if method["role"] == "candidate":
        return str(method["algorithm"])
    variant = f", {method['variant']}" if method["variant"] else ""
    return f"{method['algorithm']} ({_ROLES[method['role']]}{variant})"


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.3g}"
