"""Tables of the report of a model: scores, compared methods, gains, candidates of a search."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.evaluation.comparison.no_verdict import NO_VERDICT
from algorithms.evaluation.scores.metrics import AVERAGES
from service.ui import formats, tables
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.words import GroupWords, capital
from sibling.plots import metric_words

_NO_VERDICT: Final = "no verdict"
_MAX_ROWS: Final = 200

_Scores = Mapping[str, float | None]


def held_out_sentence(evaluation: Mapping[str, Any] | None) -> str:
    """Return a sentence on the score of a model on held-out rows, or on how to get one."""
    if evaluation is None or not evaluation["mean"]:
        return (
            "It was not checked on rows that were left out: the job has neither 'evaluate' nor "
            "'compare'."
        )
    metric, value = next(iter(evaluation["mean"].items()))
    interval = formats.interval(evaluation.get("interval", {}).get(metric))
    around = f" (95 % interval {interval})" if interval else ""
    words = f"{metric_words(metric, evaluation.get('unit'))} ({AVERAGES['tasks']})"
    return f"On held-out rows its {words} is {formats.number(value, 3)}{around}."


def means(
    model: Mapping[str, Any], evaluation: Mapping[str, Any] | None, words: GroupWords
) -> Table | None:
    """Return both averages of the scores, with intervals for held-out rows."""
    rows = []
    if evaluation is not None:
        intervals, unit = evaluation.get("interval", {}), evaluation.get("unit")
        rows = [
            _mean_row(
                f"{metric_words(name, unit)} on rows left out for checking",
                (value, evaluation["over_rows"].get(name)),
                intervals.get(name),
            )
            for name, value in evaluation["mean"].items()
        ]
        left_out = evaluation.get("left_out_tasks") or {"mean": {}}
        rows += [
            _mean_row(
                f"{metric_words(name, unit)} on {words.many} left out for checking",
                (value, left_out["over_rows"].get(name)),
                None,
            )
            for name, value in left_out["mean"].items()
        ]
    rows += [
        _mean_row(f"{metric_words(name)} on training rows", (mean(by_task), None), None)
        for name, by_task in model["metrics"].items()
    ]
    columns = ("Score", f"Mean over {words.many}", "95 % interval", "Over all rows")
    return Table("Scores", columns, rows) if rows else None


def _mean_row(
    name: str, averages: tuple[float | None, float | None], interval: Mapping[str, Any] | None
) -> TableRow:
    over_tasks, over_rows = (tables.number(value) for value in averages)
    text = formats.interval(interval) or formats.NONE
    return TableRow(
        f"mean-{name}", [tables.text(name), over_tasks, tables.quantity(text), over_rows]
    )


def scores(
    model: Mapping[str, Any], evaluation: Mapping[str, Any] | None, words: GroupWords
) -> Table | None:
    """Return the scores of each task on held-out rows, if it has any, and on training rows."""
    by_metric: dict[str, _Scores] = {}
    if evaluation is not None:
        by_metric = {
            f"{metric_words(name, evaluation.get('unit'))} (rows left out for checking)": by_task
            for name, by_task in evaluation["by_task"].items()
        }
    by_metric |= {
        f"{metric_words(name)} (training)": by_task for name, by_task in model["metrics"].items()
    }
    tasks = model["tasks"][:_MAX_ROWS]
    columns = [
        tables.numbers([by_task.get(task) for task in tasks]) for by_task in by_metric.values()
    ]
    rows = [
        TableRow(f"score-{task}", [tables.text(task), *(column[i] for column in columns)])
        for i, task in enumerate(tasks)
    ]
    if not by_metric:
        return None
    title = f"Scores by {words.one}"
    title += f", the first {_MAX_ROWS}" if len(model["tasks"]) > _MAX_ROWS else ""
    return Table(title, (capital(words.one), *by_metric), rows)


def recall(classes: Mapping[str, Any] | None) -> Table | None:
    """Return the recall of each class on held-out rows, the rarest first."""
    if classes is None:
        return None
    entries = classes["by_class"]
    values = tables.numbers([entry["recall"] for entry in entries.values()])
    rows = [
        TableRow(
            f"recall-{label}",
            [
                tables.text(label),
                value,
                tables.number(entry["n_rows"]),
                tables.number(entry["n_answered"]),
            ],
        )
        for (label, entry), value in zip(entries.items(), values, strict=True)
    ]
    columns = ("Class", "Recall", "Rows of the class", "Rows predicted as it")
    n_rows = formats.count(classes["n_rows"], "row")
    return Table(f"Recall in {n_rows} left out for checking", columns, rows)


def gains(study: Mapping[str, Any], words: GroupWords) -> Table | None:
    """Return the gain of learning together in each task; None if it was not compared."""
    tasks: Mapping[str, Mapping[str, Any]] = study["tasks"]
    if all(result["verdict"] == NO_VERDICT for result in tasks.values()):
        return None
    values = tables.numbers([result["gain"] for result in tasks.values()])
    rows = [
        TableRow(
            f"gain-{task}",
            [
                tables.text(task),
                tables.text(_NO_VERDICT if result["verdict"] == NO_VERDICT else result["verdict"]),
                value,
                interval,
                tables.quantity(formats.number(result["p_adjusted"], 2)),
            ],
        )
        for (task, result), value, interval in zip(
            tasks.items(), values, _intervals(list(tasks.values())), strict=True
        )
    ]
    confidence = study.get("task_confidence") or 0.95
    interval_title = f"{100 * confidence:.0f} % interval"
    title = capital(words.one)
    columns = (title, "Learning together", "Gain", interval_title, "p (corrected)")
    return Table(f"Gain of learning together, by {words.one}", columns, rows)


def _intervals(results: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return the cells of a column of intervals, with equally many decimals."""
    lows, highs = ([result[end] for result in results] for end in ("low", "high"))
    texts = formats.column([*lows, *highs], 3)
    return [
        tables.quantity(formats.NONE if low == formats.NONE else f"{low} to {high}")
        for low, high in zip(texts[: len(results)], texts[len(results) :], strict=True)
    ]


def candidates(search: Mapping[str, Any], words: GroupWords) -> Table:
    """Return the candidates of a search, the best first."""
    sign = -1 if search["larger_is_better"] else 1
    numbered = list(enumerate(search["candidates"]))

    def rank(item: tuple[int, Mapping[str, Any]]) -> tuple[bool, float]:
        value = item[1]["mean"].get(search["metric"])
        return value is None, sign * (value or 0.0)

    ranked = sorted(numbered, key=rank)[:_MAX_ROWS]
    values = tables.numbers([c["mean"].get(search["metric"]) for _, c in ranked])
    rows = [
        TableRow(
            f"candidate-{i}",
            [
                tables.text(candidate["params"], note="chosen" if i == search["best"] else ""),
                value,
                tables.number(candidate["n_splits"]),
                tables.text(candidate["failed"]),
            ],
        )
        for (i, candidate), value in zip(ranked, values, strict=True)
    ]
    metric = metric_words(search["metric"], search.get("unit"))
    columns = ("Parameters", f"{metric} (mean over {words.many})", "Splits", "Failed")
    return Table(f"Candidates of the {search['method']} search, the best first", columns, rows)


def mean(by_task: _Scores) -> float | None:
    """Return the mean of the known scores."""
    finite: Sequence[float] = [value for value in by_task.values() if value is not None]
    return sum(finite) / len(finite) if finite else None
