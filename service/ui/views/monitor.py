"""The page of a monitor: how the model of an alias does now, group by group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.api_examples import ApiExample
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.bars import Chart, Value, bars_of
from service.ui.views.lists import FORBIDDEN
from service.ui.views.predict import target_name
from service.ui.views.words import GroupWords, capital
from sibling.client.datasets import MEDIA_TYPES

_MAX_SHOWN: Final = 12
_COLORS: Final = {True: "hurts", False: "same"}
_NO_RULE: Final = {"rows": None, "alarm_days": None, "cron": None, "promote": "test"}
#: What the marks and colours in the picture of errors are.
_LEGEND: Final = {
    "mark": "Promised when the model was trained: the error on rows left out for checking",
    "hurts": "An alarm, or an error far above the promised one",
}
#: Stability index above which a move is called large.
_LARGE: Final = 0.25


@dataclass(frozen=True, slots=True)
class MonitorView:
    """A monitor of an alias.

    Parameters
    ----------
    is_new
        Whether the alias is not set yet.
    target
        Name of the column with true values.
    monitor
        What it keeps; None if the alias is not watched.
    errors, columns
        Errors of groups beside those promised, and columns that have moved; None without any.
    tables
        The numbers behind the charts.
    renewal
        Its rule and what has come of it; None if the model is not renewed.
    types
        Media types of files with true values, by the ending of their names.
    """

    name: str
    alias: str
    is_new: bool
    words: GroupWords
    task_column: str
    target: str
    version: int
    path: str
    monitor: Mapping[str, Any] | None
    headline: str
    sentences: Sequence[str]
    facts: Sequence[str]
    errors: Chart | None
    columns: Chart | None
    tables: Sequence[Table]
    types: Mapping[str, str]
    renewal: Mapping[str, Any] | None
    renewal_path: str
    rule: Mapping[str, Any]
    renewal_facts: Sequence[str]
    request: ApiExample


async def monitor_view(api: Api, name: str, alias: str, version: int | None) -> MonitorView:
    """Return the view of the monitor of an alias.

    Parameters
    ----------
    version
        Version that gets the alias if it is not set yet.
    """
    path = f"/v1/models/{segment(name)}/aliases/{segment(alias)}/monitor"
    aliased = f"/v1/models/{segment(f'{name}@{alias}')}"
    found = await (api.get if version is None else api.find)(aliased)
    model = found or await api.get(f"/v1/models/{segment(name)}/versions/{version}")
    dataset = f"/v1/datasets/{segment(model['lineage']['dataset_id'])}/preview"
    preview = await api.find(dataset, refused=FORBIDDEN, tasks=1, rows=1) or {}
    monitor = await api.find(path)
    renewal_path = f"{path.removesuffix('monitor')}renewal"
    renewal = None if monitor is None else await api.find(renewal_path)
    words = GroupWords.of(model["task_column"])
    report = None if monitor is None else await api.get(f"{path}/report")
    python = f'monitor = client.monitor("{name}@{alias}")\nprint(monitor.report()["sentences"])'
    return MonitorView(
        name=name,
        alias=alias,
        is_new=found is None,
        words=words,
        task_column=model["task_column"],
        target=target_name(preview, "target"),
        version=model["version"],
        path=path,
        monitor=monitor,
        headline="Not watched yet" if report is None else _headline(report, words),
        sentences=[] if report is None else [words.said(text) for text in report["sentences"]],
        facts=[] if report is None else _facts(report, words),
        errors=None if report is None else _errors(report, words),
        columns=None if report is None else _columns(report, words),
        tables=[] if report is None else monitor_tables(report, words),
        types=MEDIA_TYPES,
        renewal=renewal,
        renewal_path=renewal_path,
        rule=_NO_RULE if renewal is None else renewal["rule"],
        renewal_facts=[] if renewal is None else _renewal_facts(renewal, words),
        request=ApiExample([path, f"{path}/report"], python),
    )


def _headline(report: Mapping[str, Any], words: GroupWords) -> str:
    changed = report["changed_tasks"]
    far = [s["task"] for s in _known_errors(report) if s["error"]["is_far_above"]]
    if report["verdict"] == "quiet" and far:
        named = [task for task in far if task is not None]
        where = _named(named, words) if named else f"all {words.many} together"
        return f"No alarm, but look at {where}"
    return {
        "nothing": "No row has been kept yet",
        "no-targets": "No alarm; errors are not known yet",
        "quiet": "Not clearly worse than promised",
        "columns": "Values have moved away from the training rows",
        "tasks": capital(
            f"{_named(changed, words)} {'does' if len(changed) == 1 else 'do'} worse than promised"
        ),
        "all": f"All {words.many} do worse than promised",
    }[report["verdict"]]


def _named(tasks: Sequence[str], words: GroupWords) -> str:
    """Return the name of one group, and the number of several or none."""
    return f"'{tasks[0]}'" if len(tasks) == 1 else words.counted(len(tasks))


def _facts(report: Mapping[str, Any], words: GroupWords) -> list[str]:
    overall, facts = report["overall"], []
    coverage = overall["coverage"]
    if coverage is not None:
        facts.append(
            f"{formats.share(coverage['share'])} of true values are in their intervals, which "
            f"should be {formats.share(coverage['level'])}."
        )
    if overall["estimated_error"] is not None:
        value = formats.number(overall["estimated_error"], 3)
        n = overall["n_rows"] - overall["n_targets"]
        facts.append(
            f"An estimate: where true values are not known yet ({formats.count(n, 'row')}), the "
            f"model itself expects an error of {value}."
        )
    for column, levels in report["unknown_categories"].items():
        texts = ", ".join(f"{text or '(not known)'} ({n})" for text, n in levels.items())
        facts.append(f"Values of {column} that the training rows do not have: {texts}.")
    if report["new_tasks"]:
        listed = ", ".join(report["new_tasks"][:_MAX_SHOWN])
        facts.append(f"{capital(words.many)} that the model was not trained on: {listed}.")
    if report["n_dropped"]:
        facts.append(f"{formats.count(report['n_dropped'], 'row')} could not be kept.")
    return facts


def _renewal_facts(renewal: Mapping[str, Any], words: GroupWords) -> list[str]:
    """Return sentences on what happened last, and on the trial."""
    trial, facts = renewal["trial"], [renewal["reason"]]
    if trial is None:
        n_new = formats.count(renewal["n_new_targets"], "true value")
        return [*facts, f"{n_new} since the last training."]
    if trial["n_days"]:
        gain = formats.share(abs(trial["gain"]))
        facts.append(
            f"On {formats.count(trial['n_rows'], 'row')} of {formats.count(trial['n_days'], 'day')}"
            f", its losses are {'smaller' if trial['gain'] >= 0 else 'larger'} by {gain} of a "
            f"usual loss of version {trial['champion']}."
        )
    else:
        facts.append("No day of the trial is weighed yet.")
    share = min(max(trial["evidence"], 0.0) / trial["needed"], 1.0)
    facts.append(f"Evidence that it is better: {formats.share(share)} of what promotes it.")
    if trial["worse_tasks"]:
        listed = ", ".join(trial["worse_tasks"][:_MAX_SHOWN])
        facts.append(f"It is worse in {words.many} such as {listed}: only you can promote it.")
    return facts


def _errors(report: Mapping[str, Any], words: GroupWords) -> Chart | None:
    """Return the error of all groups, then of those with alarms or far above their promise."""
    known = _known_errors(report)
    if not known:
        return None
    states = known[: _MAX_SHOWN + 1]
    values = []
    for state, (text, promised) in zip(states, _error_texts(states), strict=True):
        error = state["error"]
        values.append(
            Value(
                f"All {words.many}" if state["task"] is None else state["task"],
                formats.count(error["n_rows"], "row"),
                _COLORS[error["alarm_since"] is not None or error["is_far_above"]],
                error["value"],
                error["low"],
                error["high"],
                text,
                "" if error["promised"] is None else f"promised {promised}",
                error["promised"],
            )
        )
    left = len(known) - len(values)
    what = "Share of wrong predictions" if _is_rate(states) else "Typical error (RMSE)"
    more = f"{words.counted(left)} more in the table." if left > 0 else ""
    caption = (
        f"{what} on rows whose true value is known; lines show how far it may be off (95 %), and "
        "the dashed one is at 0"
    )
    return Chart(bars_of(values, shape="dot", legend=_LEGEND), caption, more)


def _known_errors(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [s for s in (report["overall"], *report["tasks"]) if s["error"] is not None]


def _error_texts(states: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Return errors and those promised, with equally many decimals; shares of wrong ones in %."""
    values = [state["error"][name] for name in ("value", "promised") for state in states]
    if _is_rate(states):
        texts = [formats.NONE if value is None else formats.share(value) for value in values]
    else:
        texts = formats.column(values, 3)
    return zip(texts[: len(states)], texts[len(states) :], strict=True)


def _is_rate(states: Sequence[Mapping[str, Any]]) -> bool:
    return any(state["error"]["metric"] == "error_rate" for state in states)


def _columns(report: Mapping[str, Any], words: GroupWords) -> Chart | None:
    columns = report["columns"][:_MAX_SHOWN]
    if not columns:
        return None
    columns.sort(key=lambda one: (one["alarm_since"] is None, -one["stability_index"]))
    texts = formats.aligned([column["stability_index"] for column in columns], 2)
    values = [
        Value(
            column["column"],
            f"all {words.many}" if column["task"] is None else column["task"],
            _COLORS[column["alarm_since"] is not None],
            column["stability_index"],
            None,
            None,
            text,
            "has moved" if column["alarm_since"] is not None else "",
        )
        for column, text in zip(columns, texts, strict=True)
    ]
    caption = (
        f"How far columns have moved (population stability index; above {_LARGE} is large). With "
        "few rows, it is large by chance; a column with an alarm says that it has moved"
    )
    return Chart(bars_of(values), caption)


def monitor_tables(report: Mapping[str, Any], words: GroupWords) -> list[Table]:
    """Return the errors by group and the columns."""
    known = [state for state in report["tasks"] if state["error"] is not None]
    errors = dict(zip((state["task"] for state in known), _error_texts(known), strict=True))
    found = [
        Table(
            f"Errors by {words.one}",
            (capital(words.one), "Rows", "True values", "Error", "95 % interval", "Alarm since"),
            [
                TableRow(f"task-{state['task']}", _error_cells(state, errors))
                for state in report["tasks"]
            ],
        ),
        Table(
            "Columns",
            ("Column", capital(words.one), "Training rows", "Rows now", "Stability", "Alarm since"),
            [
                TableRow(f"{column['task']}-{column['column']}", _column_cells(column, words))
                for column in report["columns"]
            ],
        ),
    ]
    return [table for table in found if table.rows]


def _error_cells(state: Mapping[str, Any], errors: Mapping[str, tuple[str, ...]]) -> list[Cell]:
    error = state["error"]
    cells = [
        tables.text(state["task"], note="new" if state["is_new"] else ""),
        tables.number(state["n_rows"]),
        tables.number(state["n_targets"]),
    ]
    if error is None:
        return [*cells, *(Cell(formats.NONE) for _ in range(3))]
    value, promised = errors[state["task"]]
    ends = [formats.share(error[end]) for end in ("low", "high")] if _is_rate([state]) else []
    return [
        *cells,
        Cell(value, "number", note="" if error["promised"] is None else f"promised {promised}"),
        tables.text(" to ".join(ends) or formats.interval(error)),
        tables.time(error["alarm_since"]),
    ]


def _column_cells(column: Mapping[str, Any], words: GroupWords) -> list[Cell]:
    pictures = [
        Cell(formats.NONE)
        if column[when] is None
        else tables.bars(column[when], _in_words(column["bins"], column[when]))
        for when in ("before", "now")
    ]
    return [
        tables.text(column["column"]),
        tables.text(f"all {words.many}" if column["task"] is None else column["task"]),
        *pictures,
        Cell(formats.aligned([column["stability_index"]], 2)[0], "number"),
        tables.time(column["alarm_since"]),
    ]


def _in_words(bins: Sequence[str], shares: Sequence[float]) -> str:
    parts = [f"{name}: {formats.share(s)}" for name, s in zip(bins, shares, strict=True) if s]
    return "; ".join(parts)
