"""The methods of a comparison or an automatic choice, grouped by how they learn."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.ui import formats, tables
from service.ui.tables import Table, TableRow
from service.ui.views.words import GroupWords, ScoreWords, kind_of_row, name_of


def leaderboards(study: Mapping[str, Any], words: GroupWords) -> tuple[Table, Table]:
    """Return the best method of each kind, and all methods by kind."""
    by_kind = ranked_by_kind(study)
    best = [rows[0] for rows in by_kind.values()]
    everything = [one for rows in by_kind.values() for one in rows]
    return (
        _table("The best method of each kind", study, best, words),
        _table(f"All {formats.count(len(everything), 'method')}", study, everything, words),
    )


def ranked_by_kind(study: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the methods of each kind, the best first."""
    methods = study.get("leaderboard") or study.get("methods", ())
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for one in sorted(methods, key=lambda one: _rank(study, one)):
        by_kind.setdefault(kind_of_row(one), []).append(one)
    return by_kind


def _rank(study: Mapping[str, Any], method: Mapping[str, Any]) -> tuple[bool, float]:
    value = method["value"]
    sign = -1.0 if study["larger_is_better"] else 1.0
    return value is None, sign * (value or 0.0)


def _table(
    caption: str, study: Mapping[str, Any], methods: Sequence[Mapping[str, Any]], words: GroupWords
) -> Table:
    score = ScoreWords.of(study, words)
    has_intervals = any(one.get("low") is not None for one in methods)
    has_weights = any(one.get("weight") for one in methods)
    unseen = [one.get("left_out_tasks") for one in methods]
    has_unseen = any(value is not None for value in unseen)
    rows = [
        TableRow(
            f"method-{i}",
            [
                tables.text(words.kind(kind_of_row(one))),
                tables.text(name_of(one), note=_note(one)),
                tables.quantity(score.text(one["value"])),
                *([tables.quantity(score.interval(one) or formats.NONE)] if has_intervals else []),
                *([tables.quantity(_weight(one.get("weight")))] if has_weights else []),
                *([tables.quantity(score.text(unseen[i]))] if has_unseen else []),
            ],
        )
        for i, one in enumerate(methods)
    ]
    columns = [
        *("Learns", "Method", score.short),
        *(["95 % interval"] if has_intervals else []),
        *(["Weight in the model"] if has_weights else []),
        *([f"{score.short} on left-out {words.many}"] if has_unseen else []),
    ]
    return Table(caption, columns, rows)


def _note(method: Mapping[str, Any]) -> str:
    return "the algorithm of the job" if method["role"] == "candidate" else ""


def _weight(weight: float | None) -> str:
    return formats.share(weight) if weight else formats.NONE
