"""Tables of the report of a model: scores, compared methods, gains, candidates of a search."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.evaluation.comparison.no_verdict import NO_VERDICT, describe_no_verdict
from algorithms.evaluation.scores.metrics import AVERAGES, score_name
from service.ui import formats, tables
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.choices import leaderboard
from sibling.plots import metric_words

_VERDICTS: Final = {
    "helps": "Learning the tasks together helps.",
    "hurts": "Learning the tasks together hurts.",
    "equal": "Learning the tasks together makes no relevant difference.",
    "unclear": "Whether learning the tasks together helps cannot be told.",
}
_NO_VERDICT: Final = "no verdict"
_ROLES: Final = {
    "candidate": "the algorithm of the job",
    "multi_task": "tasks together",
    "single_task": "each task alone",
    "pooled": "all tasks pooled",
    "trivial": "same prediction for every row",
    "per_task": "together or alone, by task",
}
_MAX_ROWS: Final = 200

_Scores = Mapping[str, float | None]


def verdict_of(study: Mapping[str, Any] | None) -> str:
    """Return whether learning together helps, by a comparison or an automatic choice."""
    if study is None:
        return ""
    # the verdict alone is in comparisons of the first versions
    pair = study.get("together_or_apart") or study.get("sharing") or study
    if pair["verdict"] == NO_VERDICT:
        return describe_no_verdict(pair["reason"])
    certainty = pair.get("certainty")
    if certainty is not None:
        return f"Learning the tasks together {certainty} helps."
    return _VERDICTS.get(pair["verdict"], "")


def held_out_sentence(report: Mapping[str, Any]) -> str:
    """Return a sentence on the score of a model on held-out rows, or on how to get one."""
    comparison, choice, evaluation = (
        report.get(name) for name in ("comparison", "choice", "evaluation")
    )
    if comparison is not None:
        value = formats.number(comparison["methods"][0]["value"], 3)
        return f"On held-out rows its {score_name(comparison)} is {value}."
    if choice is not None:
        estimate = choice["estimate"]
        value = formats.number(estimate["value"], 3)
        interval = formats.interval(estimate) or formats.NONE
        return f"Expected on new rows: {score_name(choice)} {value} ({interval})."
    if evaluation is None or not evaluation["mean"]:
        return "It was not scored on held-out rows: the job has neither 'evaluate' nor 'compare'."
    metric, value = next(iter(evaluation["mean"].items()))
    interval = formats.interval(evaluation.get("interval", {}).get(metric))
    around = f" ({interval})" if interval else ""
    words = f"{metric_words(metric, evaluation.get('unit'))} ({AVERAGES['tasks']})"
    return f"On held-out rows its {words} is {formats.number(value, 3)}{around}."


def means(model: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> Table:
    """Return both averages of the scores, with intervals for held-out rows."""
    rows = []
    if evaluation is not None:
        intervals, unit = evaluation.get("interval", {}), evaluation.get("unit")
        rows = [
            _mean_row(
                f"{metric_words(name, unit)} on held-out rows",
                (value, evaluation["over_rows"].get(name)),
                intervals.get(name),
            )
            for name, value in evaluation["mean"].items()
        ]
        left_out = evaluation.get("left_out_tasks") or {"mean": {}}
        rows += [
            _mean_row(
                f"{metric_words(name, unit)} on left-out tasks",
                (value, left_out["over_rows"].get(name)),
                None,
            )
            for name, value in left_out["mean"].items()
        ]
    rows += [
        _mean_row(f"{metric_words(name)} on training rows", (mean(by_task), None), None)
        for name, by_task in model["metrics"].items()
    ]
    columns = ("Score", "Mean over tasks", "95 % interval", "Over all rows")
    return Table("Scores", columns, rows, "The algorithm has no score.")


def _mean_row(
    name: str, averages: tuple[float | None, float | None], interval: Mapping[str, Any] | None
) -> TableRow:
    over_tasks, over_rows = (tables.number(value) for value in averages)
    text = formats.interval(interval) or formats.NONE
    return TableRow(
        f"mean-{name}", [tables.text(name), over_tasks, tables.quantity(text), over_rows]
    )


def scores(model: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> Table:
    """Return the scores of each task on held-out rows, if it has any, and on training rows."""
    by_metric: dict[str, _Scores] = {}
    if evaluation is not None:
        by_metric = {
            f"{metric_words(name, evaluation.get('unit'))} (held out)": by_task
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
    more = len(model["tasks"]) > _MAX_ROWS
    title = f"Scores by task, the first {_MAX_ROWS}" if more else "Scores by task"
    return Table(title, ("Task", *by_metric), rows)


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
    return Table(f"Recall in {formats.count(classes['n_rows'], 'held-out row')}", columns, rows)


def methods(report: Mapping[str, Any]) -> Table | None:
    """Return the methods of a comparison or an automatic choice on the same held-out rows."""
    if report.get("comparison") is not None:
        return _compared(report["comparison"])
    return None if report.get("choice") is None else leaderboard(report["choice"])


def _compared(comparison: Mapping[str, Any]) -> Table:
    compared = comparison["methods"]
    # metrics of the algorithm of the job, without the metric of the first column
    shown = comparison["metric"] if comparison["average"] == "tasks" else None
    candidate_means = compared[0]["mean"]
    metrics = [
        name for name in candidate_means if candidate_means[name] is not None and name != shown
    ]
    columns = [tables.numbers([method["value"] for method in compared])]
    columns += [
        tables.numbers([method["mean"].get(name) for method in compared]) for name in metrics
    ]
    rows = [
        TableRow(f"method-{i}", [_method_cell(method), *(column[i] for column in columns)])
        for i, method in enumerate(compared)
    ]
    unit = comparison.get("unit")
    others = (f"{metric_words(metric, unit)} ({AVERAGES['tasks']})" for metric in metrics)
    titles = (score_name(comparison), *others)
    return Table(_title(comparison), ("Method", *titles), rows)


def _title(study: Mapping[str, Any]) -> str:
    better = "larger" if study["larger_is_better"] else "smaller"
    return f"Methods on the same held-out rows: {score_name(study)}, {better} is better"


def _method_cell(method: Mapping[str, Any]) -> Cell:
    role = method["role"]
    note = _ROLES.get(role, role.replace("_", " "))
    return tables.text(f"{method['algorithm']} {method['variant']}".strip(), note=note)


def gains(study: Mapping[str, Any]) -> Table | None:
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
    columns = ("Task", "Learning together", "Gain", interval_title, "p (corrected)")
    return Table("Gain of learning together, by task", columns, rows)


def _intervals(results: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return the cells of a column of intervals, with equally many decimals."""
    lows, highs = ([result[end] for result in results] for end in ("low", "high"))
    texts = formats.column([*lows, *highs], 3)
    return [
        tables.quantity(formats.NONE if low == formats.NONE else f"{low} to {high}")
        for low, high in zip(texts[: len(results)], texts[len(results) :], strict=True)
    ]


def candidates(search: Mapping[str, Any]) -> Table:
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
    words = metric_words(search["metric"], search.get("unit"))
    columns = ("Parameters", f"{words} ({AVERAGES['tasks']})", "Splits", "Failed")
    return Table(f"Candidates of the {search['method']} search, the best first", columns, rows)


def mean(by_task: _Scores) -> float | None:
    """Return the mean of the known scores."""
    finite: Sequence[float] = [value for value in by_task.values() if value is not None]
    return sum(finite) / len(finite) if finite else None
