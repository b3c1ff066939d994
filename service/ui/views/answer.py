"""The answer of a model's report: does learning together help, by how much, and for whom."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.evaluation.choice.automatic_verdict import more_rows
from algorithms.evaluation.comparison.no_verdict import NO_VERDICT, ONE_TASK
from algorithms.interface.races import RACE
from service.ui import formats
from service.ui.views.bars import Bars, Chart, Value, bars_of
from service.ui.views.choices import ranked_by_kind
from service.ui.views.evidence import (
    beside_one_model,
    beyond_interval,
    gain_of,
    gain_texts,
    is_size_known,
    pair_of,
)
from service.ui.views.importance import measure_of
from service.ui.views.words import (
    AUC_SCALE,
    KINDS,
    GroupWords,
    ScoreWords,
    capital,
    kind_of_row,
    name_of,
)

#: Groups that are all shown, and at each end otherwise.
_MAX_GROUPS: Final = 30
_N_ENDS: Final = 10
#: Share of the rows whose predictions are at most so far off, and fewest rows for it.
_LEVEL: Final = 0.9
_MIN_ROWS: Final = 20
#: Numbers between these have two digits, the last of which may be 0.
_MIN_DECIMAL: Final = 0.001
_MAX_DECIMAL: Final = 10.0


@dataclass(frozen=True, slots=True)
class Subject:
    """What a model is about: its groups, and the name of what it predicts."""

    n_groups: int
    words: GroupWords
    target: str

    @property
    def predictions(self) -> str:
        """Predictions of the target."""
        return f"predictions of {self.target}" if self.target else "predictions"

    @property
    def together(self) -> str:
        """Learning all groups together."""
        return f"learning the {self.words.counted(self.n_groups)} together"


def target_of(dataset: Mapping[str, Any] | None) -> str:
    """Return the name of what is predicted; empty if it has none."""
    names = [] if dataset is None else dataset["options"].get("target_column") or []
    return names[0] if len(names) == 1 and names != ["target"] else ""


def study_of(report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the comparison or the automatic choice of a report; None without one."""
    study: Mapping[str, Any] | None = report.get("comparison") or report.get("choice")
    return study


def headline(study: Mapping[str, Any], subject: Subject) -> str:
    """Return the verdict on learning together, never surer than its test."""
    pair = pair_of(study)
    verdict = pair["verdict"]
    if verdict == NO_VERDICT:
        if pair["reason"] == ONE_TASK:
            return f"There is one {subject.words.one}, so that nothing can be learned together"
        return f"There is no verdict on {subject.together}: {subject.words.said(pair['reason'])}"
    if verdict == "equal":
        return f"{capital(subject.together)} makes no relevant difference"
    if verdict == "unclear":
        return f"Whether {subject.together} helps cannot be told"
    return _change(study, subject)


def _change(study: Mapping[str, Any], subject: Subject) -> str:
    """Return by how much learning together helps, or hurts, and how sure that is."""
    pair, score = pair_of(study), ScoreWords.of(study, subject.words)
    certainty = f"{pair['certainty']} " if pair.get("certainty") else ""
    verdict, values = pair["verdict"], _values(study)
    if values is None:
        return f"{capital(subject.together)} {certainty}{verdict}"
    if not is_size_known(study):
        return f"{capital(subject.together)} {certainty}{verdict}; by how much is not clear"
    first, second = values
    verb = "raises" if first > second else "lowers"
    if score.metric == "rmse" and second:
        change = f", by about {abs(second - first) / abs(second):.0%}".replace("%", "\u202f%")
        return f"{capital(subject.together)} {certainty}{verb} the {score.plain}{change}"
    before, after = score.texts([second, first])
    change = f"from {before} to {after}"
    return f"{capital(subject.together)} {certainty}{verb} the {score.plain} {change}"


def lead(study: Mapping[str, Any], subject: Subject) -> str:
    """Return the scores of learning together and alone, the gain, and what would settle it."""
    pair, score = pair_of(study), ScoreWords.of(study, subject.words)
    values = _values(study)
    if pair["verdict"] == NO_VERDICT or values is None:
        value = score.text((study.get("estimate") or study["methods"][0])["value"])
        return f"{_off(score, subject, value)}."
    first, second = score.texts(values)
    alone = f"when each {subject.words.one} is learned alone"
    sentence = f"{_off(score, subject, first)}, and {_short(score, second)} {alone}."
    sentence += f" The gain is {gain_of(pair, score)}.{beyond_interval(study, subject.words)}"
    sentence += beside_one_model(study, subject.words)
    more = more_rows(study) if "together_or_apart" in study and "rows" in study else None
    if pair["verdict"] == "unclear" and more is not None:
        rows = formats.count(more, "more row")
        sentence += f" About {rows} per {subject.words.one} would settle it, by the gain so far."
    return sentence


def _off(score: ScoreWords, subject: Subject, value: str) -> str:
    """Return how far predictions are off, as a sentence without its end."""
    if score.metric == "error_rate":
        return f"{value} of the {subject.predictions} are wrong"
    if score.metric == "rmse":
        return f"{capital(subject.predictions)} are typically off by {value}"
    scale = f" ({AUC_SCALE})" if score.metric == "auc" else ""
    return f"The {score.title} of {subject.predictions} is {value}{scale}"


def _short(score: ScoreWords, value: str) -> str:
    return {"error_rate": f"{value} are", "rmse": f"by {value}"}.get(score.metric, f"it is {value}")


def _values(study: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the scores of learning together and alone; None if one is unknown."""
    pair = pair_of(study)
    if "first_value" in pair:
        first, second = pair["first_value"], pair["second_value"]
    else:
        first, second = (_value_of(study, pair.get(side)) for side in ("together", "apart"))
    return None if first is None or second is None else (first, second)


def _value_of(comparison: Mapping[str, Any], label: Mapping[str, Any] | None) -> float | None:
    """Return the score of a method of a comparison."""
    keys = ("algorithm", "role", "variant")
    return next(
        (
            one["value"]
            for one in comparison["methods"]
            if label is not None and all(one[key] == label[key] for key in keys)
        ),
        None,
    )


def kinds(study: Mapping[str, Any], words: GroupWords) -> Chart | None:
    """Return the score of each kind of methods, as the verdict compares them."""
    score = ScoreWords.of(study, words)
    found = [one for one in study.get("kinds") or _kinds_of(study) if one["value"] is not None]
    if not found:
        return None
    ranked = ranked_by_kind(study)
    values = [
        Value(
            words.kind(one["kind"]),
            _detail(one, ranked.get(one["kind"], ())),
            one["kind"],
            one["value"],
            one.get("low"),
            one.get("high"),
            text,
            score.interval(one),
        )
        for one, text in zip(found, score.texts([one["value"] for one in found]), strict=True)
    ]
    caption = score.caption
    if any(one.low is not None for one in values):
        caption += "; lines show how far each may be off (95 %)"
    return Chart(bars_of(values), caption)


def _detail(one: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> str:
    """Return the method of a kind; of a mixture, the best method in it."""
    is_mixture = one["algorithm"] == RACE and ranked
    return f"best: {name_of(ranked[0])}" if is_mixture else name_of(one)


def _kinds_of(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a method of each kind of a comparison: the compared ones, and the best of others.

    A choice of an earlier version has both sides of its verdict.
    """
    if "methods" not in comparison:
        pair, sides = comparison["together_or_apart"], (("first", KINDS[0]), ("second", KINDS[2]))
        return [
            {**pair[side], "value": pair[f"{side}_value"], "kind": kind}
            for side, kind in sides
            if pair is not None and pair[side] is not None
        ]
    methods = comparison["methods"]
    sharing = comparison.get("sharing") or {}
    sign = -1.0 if comparison["larger_is_better"] else 1.0
    found = []
    for kind, side in zip(KINDS, ("together", None, "apart", None), strict=True):
        label = sharing.get(side) if side else None
        of_kind = [one for one in methods if kind_of_row(one) == kind and one["value"] is not None]
        best = min(of_kind, key=lambda one: sign * float(one["value"]), default=None)
        chosen = best if label is None else {**label, "value": _value_of(comparison, label)}
        if chosen is not None:
            found.append({**chosen, "kind": kind})
    return found


def who_gains(study: Mapping[str, Any], words: GroupWords) -> Chart | None:
    """Return the gain of each group with its interval, the largest first; None if unknown."""
    score = ScoreWords.of(study, words)
    known = {
        name: one
        for name, one in study["tasks"].items()
        if one["verdict"] != NO_VERDICT and None not in (one["gain"], one["low"], one["high"])
    }
    if not known:
        return None
    scale = 100.0 if score.metric == "error_rate" else 1.0
    unit = f" in {score.unit}" if score.unit else f" in {score.title}"
    unit = " in percentage points" if scale > 1 else unit
    ranked = sorted(known.items(), key=lambda item: -item[1]["gain"])
    texts = gain_texts([scale * one["gain"] for _, one in ranked], score)
    values = [
        Value(
            name,
            "",
            one["verdict"],
            scale * one["gain"],
            scale * one["low"],
            scale * one["high"],
            text,
        )
        for (name, one), text in zip(ranked, texts, strict=True)
    ]
    level = 100 * (study.get("task_confidence") or 0.95)
    caption = (
        f"Gain{unit} over learning the {words.one} alone; lines show how far it may be off "
        f"({level:.0f} %). Right of the middle line, learning together is better."
    )
    chart = bars_of(values, shape="dot")
    if len(values) <= _MAX_GROUPS:
        return Chart(chart, caption)
    first, last = (
        Bars(part, chart.zero, "dot") for part in (chart.bars[:_N_ENDS], chart.bars[-_N_ENDS:])
    )
    between = f"{words.counted(len(values) - 2 * _N_ENDS)} between"
    return Chart(first, caption, between, last)


def count_gains(study: Mapping[str, Any], words: GroupWords) -> tuple[str, str] | None:
    """Return how many groups gain, and for how many that is shown; None if unknown."""
    known = [one for one in study["tasks"].values() if one["gain"] is not None]
    if not known:
        return None
    gaining = sum(one["gain"] > 0 for one in known)
    clear = [sum(one["verdict"] == v for one in known) for v in ("helps", "hurts")]
    have = "has" if gaining == 1 else "have"
    unknown = len(study["tasks"]) - len(known)
    untold = f" (that of {unknown} more is not known)" if unknown else ""
    gains, losses = (f"clear for {formats.number(n)}" if n else "not clear for any" for n in clear)
    neither = "neither a gain nor a loss is clear for any"
    each = f"a gain is {gains}, and a loss is {losses}" if any(clear) else neither
    return (
        f"{gaining} of {len(known)}",
        f"{words.many} {have} an estimated gain{untold}. Looked at one by one, {each}",
    )


def how_far_off(
    predictions: Mapping[str, Any] | None, evaluation: Mapping[str, Any] | None, target: str
) -> tuple[str, str] | None:
    """Return how far predictions for rows left out for checking are off; None if unknown."""
    tasks = (predictions or {"tasks": {}})["tasks"].values()
    pairs = [
        (true, predicted)
        for task in tasks
        for true, predicted in zip(task["true"], task["predicted"], strict=True)
    ]
    if len(pairs) < _MIN_ROWS:
        return None
    if all(isinstance(value, float) for pair in pairs for value in pair):
        errors = sorted(abs(true - predicted) for true, predicted in pairs)
        reach = errors[math.ceil(_LEVEL * len(errors)) - 1]
        coverage = (evaluation or {"mean": {}})["mean"].get("coverage")
        checked = "" if coverage is None else f"; its 90 % intervals held for {coverage:.0%}"
        rows = formats.count(len(errors), "row")
        what = f" of {target}" if target else ""
        note = f"is how far off predictions{what} are at most, for 90 % of {rows} left out for "
        note += f"checking{checked}"
        text = f"{reach:#.2g}" if _MIN_DECIMAL <= reach < _MAX_DECIMAL else formats.number(reach, 2)
        return f"± {text}", note
    return _found(pairs)


def _found(pairs: Sequence[tuple[Any, Any]]) -> tuple[str, str] | None:
    """Return how many rows of the rarest class are found; None for one class.

    Not the share of right predictions: it is over rows, and would stand beside a mean over groups.
    """
    counts = Counter(true for true, _ in pairs).most_common()
    if len(counts) == 1:
        return None
    rare, n_rare = counts[-1]
    found = sum(true == predicted == rare for true, predicted in pairs)
    n_false = sum(true != predicted == rare for true, predicted in pairs)
    others = f"{formats.count(n_false, 'other')} {'is' if n_false == 1 else 'are'} taken for it"
    rows = formats.count(len(pairs), "row")
    note = f"rows with “{rare}” are found, among {rows} left out for checking; {others}"
    return f"{found} of {n_rare}", note


def measures(
    study: Mapping[str, Any] | None, importance: Mapping[str, Any] | None, words: GroupWords
) -> list[str]:
    """Return what the numbers of the answer are, in the terms of statistics."""
    found = []
    if study is not None:
        score, level = ScoreWords.of(study, words), study.get("task_confidence")
        found.append(f"Scores: {score.exact}, on rows left out for checking; 95 % intervals.")
        if level is not None:
            drawn = f"drawn to the mean of all {words.many} (shrunken estimates)"
            found.append(f"Gains by {words.one}: {drawn}; {100 * level:.0f} % intervals.")
    if importance is not None:
        found.append(f"What matters: {measure_of(importance)}, mean over {words.many}.")
    return found


def tiles_of(
    report: Mapping[str, Any], subject: Subject, fit_s: float
) -> Sequence[tuple[str, str]]:
    """Return the numbers beside the chart of kinds."""
    study = study_of(report)
    found = [
        how_far_off(report.get("predictions"), report.get("evaluation"), subject.target),
        None if study is None else count_gains(study, subject.words),
        (formats.duration(fit_s), "to compare and train" if report.get("choice") else "to train"),
    ]
    return [tile for tile in found if tile is not None]
