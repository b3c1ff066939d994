"""HTML of datasets, jobs and models for notebooks. All text is escaped."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from algorithms.interface.durations import describe_duration

#: Maximum number of tasks that are listed.
_MAX_TASKS: Final = 20


def dataset_html(info: Mapping[str, Any], tasks: Iterable[str]) -> str:
    """Return a dataset as HTML."""
    fields = {
        "id": info["id"],
        "state": info["state"],
        "tasks": _shorten(list(tasks)),
        "rows": info["n_samples"],
        "columns": info["n_features"],
    }
    return _panel(f"Dataset {info['name']}", fields, info["warnings"])


def job_html(info: Mapping[str, Any]) -> str:
    """Return a job as HTML, with a bar of its progress."""
    fields = {
        "state": info["state"],
        "algorithm": info["algorithm"],
        "model": info["model"],
        "version": info["version"],
        "dataset": info["dataset_id"],
        "expected": None if info["is_final"] else expected_time(info),
    }
    bar = ""
    if info["progress"] is not None and not info["is_final"]:
        bar = f'<progress value="{float(info["progress"]["fraction"])}"></progress>'
    notes = list(info["warnings"])
    if info["error"] is not None:
        notes.insert(0, f"{info['error']['code']}: {info['error']['detail']}")
    return _panel(f"Job {info['id']}", fields, notes, extra=bar)


def expected_time(info: Mapping[str, Any]) -> str | None:
    """Return the expected duration of a job, such as "about 4 min"; None if it is unknown."""
    # services of earlier versions do not estimate it
    expected_s = info.get("expected_s")
    return None if expected_s is None else f"about {describe_duration(expected_s)}"


def model_html(
    info: Mapping[str, Any], report: Mapping[str, Any] | None, pictures: Mapping[str, bytes]
) -> str:
    """Return a model as HTML, with its scores, the sentences of its comparison and plots.

    Parameters
    ----------
    pictures
        Plots as SVG, by their sentence.
    """
    fields = {
        "algorithm": info["algorithm"],
        "aliases": ", ".join(info["aliases"]),
        "tasks": _shorten(info["tasks"]),
        "methods": ", ".join(info["methods"]),
    }
    comparison = None if report is None else report.get("choice") or report["comparison"]
    verdict = "" if comparison is None else _paragraphs(comparison["sentences"])
    plots = "".join(_picture(svg, sentence) for sentence, svg in pictures.items())
    title = f"Model {info['name']}, version {info['version']}"
    return _panel(title, fields, info["warnings"], extra=verdict + _scores(info["metrics"]) + plots)


def _panel(title: str, fields: Mapping[str, Any], notes: Iterable[str], *, extra: str = "") -> str:
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in fields.items()
        if value not in (None, "")
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table>{extra}{_paragraphs(notes)}</div>"


def _scores(metrics: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return the scores on the training rows, by task and metric."""
    if not metrics:
        return ""
    tasks = list(next(iter(metrics.values())))
    head = "".join(f"<th>{escape(metric)}</th>" for metric in metrics)
    lines = [
        f"<tr><td>{escape(task)}</td>"
        + "".join(f"<td>{_number(scores.get(task))}</td>" for scores in metrics.values())
        + "</tr>"
        for task in tasks[:_MAX_TASKS]
    ]
    if len(tasks) > _MAX_TASKS:
        lines.append(f"<tr><td>and {len(tasks) - _MAX_TASKS} more</td></tr>")
    return f"<table><tr><th>training scores</th>{head}</tr>{''.join(lines)}</table>"


def _picture(svg: bytes, sentence: str) -> str:
    """Return a plot as an image, in which no script can run."""
    address = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
    return f'<p><img src="{address}" alt="{escape(sentence)}"></p>'


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _shorten(names: list[str]) -> str:
    more = len(names) - _MAX_TASKS
    return ", ".join(names[:_MAX_TASKS]) + (f" and {more} more" if more > 0 else "")
