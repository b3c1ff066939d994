"""An automatic choice while it runs: the best of each kind so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.ui import formats
from service.ui.views import answer
from service.ui.views.bars import Bars, Value, bars_of
from service.ui.views.words import KINDS, GroupWords, ScoreWords, name_of

#: Said once the reader has asked to keep the best so far.
_ENDING: Final = "It ends with the methods that are scored so far."


@dataclass(frozen=True, slots=True)
class RaceView:
    """The estimates so far, without a verdict; at the end the answer.

    Parameters
    ----------
    heading
        What the bars show.
    """

    title: str
    sentence: str
    heading: str
    caption: str
    bars: Bars


def race_view(job: Mapping[str, Any], words: GroupWords, target: str) -> RaceView | None:
    """Return the race of a job; None before its first score, and for other jobs."""
    if job["is_final"]:
        return _answer(job["result"] or {}, words, target)
    race = (job["progress"] or {}).get("race")
    if race is None:
        return None
    score = ScoreWords.of(race, words, target=target)
    best = {one["kind"]: one for one in race["best"]}
    kinds = [kind for kind in KINDS if kind in best]
    values = score.texts([best[kind]["value"] for kind in kinds])
    texts = dict(zip(kinds, values, strict=True))
    return RaceView(
        title=_title(score, texts),
        sentence=_ENDING if job["is_finishing"] else _sentence(race),
        heading="Best so far",
        caption=score.caption,
        bars=bars_of([_value(best[kind], text, words) for kind, text in texts.items()]),
    )


def _answer(result: Mapping[str, Any], words: GroupWords, target: str) -> RaceView | None:
    """Return what the page of the model begins with; None for a result that is no choice."""
    chart = answer.kinds(result, words) if "leaderboard" in result else None
    if chart is None:
        return None
    subject = answer.Subject(len(result["tasks"]), words, target)
    return RaceView(
        title=answer.headline(result, subject),
        sentence=answer.lead(result, subject),
        heading="Does learning together help?",
        caption=chart.caption,
        bars=chart.bars,
    )


def _title(score: ScoreWords, texts: Mapping[str, str]) -> str:
    ends = {"multi_task": "together", "pooled": "by one model for all", "single_task": "alone"}
    parts = [f"{text} {ends[kind]}" for kind, text in texts.items() if kind in ends]
    unit = f" of {score.unit}" if score.unit else ""
    return f"So far, {score.plain}{unit}: {', '.join(parts)}" if parts else "So far: averages only"


def _sentence(race: Mapping[str, Any]) -> str:
    left_out = race["n_left_out"]
    out = f" {formats.count(left_out, 'method')} failed or took too long." if left_out else ""
    are = "is" if race["n_scored"] == 1 else "are"
    return (
        f"{race['n_scored']} of {race['n_methods']} methods {are} scored.{out} "
        "These are estimates; the verdict comes once all are done."
    )


def _value(one: Mapping[str, Any], text: str, words: GroupWords) -> Value:
    kind = one["kind"]
    return Value(words.kind(kind), name_of(one), kind, one["value"], None, None, text)
