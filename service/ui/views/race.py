"""An automatic choice while it runs: the best of each kind so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.ui import formats
from service.ui.views.bars import Bars, Value, bars_of
from service.ui.views.words import KINDS, GroupWords, ScoreWords, name_of

#: Said once the reader has asked to keep the best so far.
_ENDING: Final = "It ends with the methods that are scored so far."


@dataclass(frozen=True, slots=True)
class RaceView:
    """The estimates so far; there is no verdict before the end."""

    title: str
    sentence: str
    caption: str
    bars: Bars


def race_view(job: Mapping[str, Any], dataset: Mapping[str, Any] | None) -> RaceView | None:
    """Return the race of a job that runs; None before its first score, and for other jobs."""
    race = (job["progress"] or {}).get("race")
    if race is None or job["is_final"]:
        return None
    options = (dataset or {"options": {}})["options"]
    targets = options.get("target_column") or []
    words = GroupWords.of(options.get("task_column"))
    score = ScoreWords.of(race, words, target=targets[0] if len(targets) == 1 else None)
    best = {one["kind"]: one for one in race["best"]}
    kinds = [kind for kind in KINDS if kind in best]
    values = score.texts([best[kind]["value"] for kind in kinds])
    texts = dict(zip(kinds, values, strict=True))
    return RaceView(
        title=_title(score, texts),
        sentence=_ENDING if job["is_finishing"] else _sentence(race),
        caption=score.caption,
        bars=bars_of([_value(best[kind], text, words) for kind, text in texts.items()]),
    )


def _title(score: ScoreWords, texts: Mapping[str, str]) -> str:
    ends = {"multi_task": "together", "pooled": "by one model for all", "single_task": "alone"}
    parts = [f"{text} {ends[kind]}" for kind, text in texts.items() if kind in ends]
    unit = f" of {score.unit}" if score.unit else ""
    return f"So far, {score.plain}{unit}: {', '.join(parts)}" if parts else "So far: averages only"


def _sentence(race: Mapping[str, Any]) -> str:
    left_out = race["n_left_out"]
    out = f" {formats.count(left_out, 'method')} failed or took too long." if left_out else ""
    return (
        f"{race['n_scored']} of {race['n_methods']} methods are scored.{out} "
        "These are estimates; the verdict comes once all are done."
    )


def _value(one: Mapping[str, Any], text: str, words: GroupWords) -> Value:
    kind = one["kind"]
    return Value(words.kind(kind), name_of(one), kind, one["value"], None, None, text)
