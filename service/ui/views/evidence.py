"""What stands behind the verdict on learning together: its gain, and one model for all groups."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.ui import formats
from service.ui.views.words import GroupWords, ScoreWords, capital, kind_of_row

_LABEL: Final = ("algorithm", "role", "variant")


def pair_of(study: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the verdict on learning together; comparisons of the first versions have it alone."""
    pair: Mapping[str, Any] = study.get("together_or_apart") or study.get("sharing") or study
    return pair


def is_size_known(study: Mapping[str, Any]) -> bool:
    """Return whether the interval of the gain is on one side of 0, if there is one."""
    low, high = (pair_of(study).get(end) for end in ("low", "high"))
    return low is None or high is None or low * high > 0


def beyond_interval(study: Mapping[str, Any], words: GroupWords) -> str:
    """Return what the certainty of a verdict is of, if the interval of its gain has 0 in it.

    The certainty is then that of the test of the alignment, which sees more than held-out scores.
    """
    certainty, alignment = pair_of(study).get("certainty"), study.get("alignment")
    if not certainty or alignment is None or is_size_known(study):
        return ""
    p_value = formats.number(alignment["p_value"], 2)
    return (
        " This interval has 0 in it, so that the size of the gain is not clear. "
        f"“{capital(certainty)}” is of another test, whether what the {words.many} show, each "
        f"learned alone, points the same way (p = {p_value})."
    )


def gain_of(pair: Mapping[str, Any], score: ScoreWords) -> str:
    """Return the gain of a pair with its interval."""
    scale, unit = (100.0, " percentage points") if score.metric == "error_rate" else (1.0, "")
    known = [pair[name] for name in ("gain", "low", "high") if pair[name] is not None]
    gain, *ends = gain_texts([scale * value for value in known], score)
    around = f" ({' to '.join(ends)} with 95 % confidence)" if ends else ""
    return f"{gain}{unit}{around}"


def gain_texts(values: Sequence[float], score: ScoreWords) -> list[str]:
    """Return gains with equally many decimals, two digits of the largest."""
    if score.metric == "error_rate":
        return formats.aligned(values, 1)
    largest = max(map(abs, values)) or 1.0
    return formats.aligned(values, max(0, 1 - math.floor(math.log10(largest))))


def beside_one_model(study: Mapping[str, Any], words: GroupWords) -> str:
    """Return what one model for all groups does, if learning together is not shown to be better.

    Empty if learning together is not shown to help, or if one model for all is shown to be worse.
    """
    if pair_of(study)["verdict"] != "helps":
        return ""
    score, name = ScoreWords.of(study, words), f"One model for all {words.many}"
    if "methods" in study:
        return _among_methods(study, score, name)
    pair = study.get("together_or_pooled") or {"verdict": "none"}
    verdicts = {
        "equal": "does practically as well",
        "unclear": "may be as good",
        "hurts": "is better",
    }
    if pair["verdict"] not in verdicts:
        return ""
    does = f"{_with_score(name, score, pair['second_value'])} {verdicts[pair['verdict']]}"
    if pair["verdict"] == "equal":  # the digits of such a gain mean nothing
        return f" {does}."
    return f" {does}: the gain over it is {gain_of(pair, score)}."


def _among_methods(comparison: Mapping[str, Any], score: ScoreWords, name: str) -> str:
    """Return whether a comparison shows that one model for all is worse than the best method."""
    together, best = pair_of(comparison).get("together"), comparison.get("best")
    if together is not None and kind_of_row(together) == "pooled":
        return f" That is by {name[:1].lower()}{name[1:]}."
    labels = [] if best is None else [[one[key] for key in _LABEL] for one in (best, *best["tied"])]
    pooled = [
        one["value"]
        for one in comparison["methods"]
        if kind_of_row(one) == "pooled"
        and one["value"] is not None
        and [one[key] for key in _LABEL] in labels
    ]
    if not pooled:
        return ""
    value = max(pooled) if comparison["larger_is_better"] else min(pooled)
    return f" {_with_score(name, score, value)} is not shown to be worse than the best method."


def _with_score(name: str, score: ScoreWords, value: float) -> str:
    text = score.text(value)
    words = {"error_rate": f"wrong in {text}", "rmse": f"typically off by {text}"}
    return f"{name}, {words.get(score.metric, f'at {text}')},"
