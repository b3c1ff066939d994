"""Sentences on the test of an automatic choice whether functions of tasks point the same way."""

from collections.abc import Mapping
from typing import Any

from algorithms.evaluation.choice.alignment import MAX_ROWS, MIN_ROWS_OF_TASK


def describe_alignment(report: Mapping[str, Any]) -> list[str]:
    """Return the sentence on the test whether the functions of the tasks point the same way."""
    alignment = report["alignment"]
    if alignment is None:
        sentence = (
            "Whether the functions of the tasks point the same way was not tested; that needs two "
            "tasks with the same columns and targets that differ, rows that they do not share, and "
            "if these are sparse, few columns."
        )
        return [] if report.get("columns") is not None else [sentence]
    n_used, n_tasks = alignment["n_tasks"], len(report["tasks"])
    of_all = "" if n_used == n_tasks else f" of {n_tasks}"
    drawn = {"signs": "random signs of tasks", "rotations": "random rotations of their targets"}
    sentence = (
        f"The functions of {n_used}{of_all} tasks, each learned alone, point the same way "
        f"with p = {alignment['p_value']:.3g} ({drawn[alignment['null']]}; "
        f"{alignment['n_rows']} rows).{_why_fewer(report, n_tasks - n_used)}"
    )
    return [sentence]


def _why_fewer(report: Mapping[str, Any], n_others: int) -> str:
    """Return why tasks do not count in the test of functions, as a sentence."""
    if not n_others:
        return ""
    reasons = ["their targets do not differ"]
    if report.get("columns") is not None:
        reasons.append("they have other columns")
    if len(report["tasks"]) > MAX_ROWS // MIN_ROWS_OF_TASK:
        reasons.append(f"the test has its {MAX_ROWS:,} rows already")
    others = "one does" if n_others == 1 else f"{n_others} do"
    return f" The other {others} not count: {', or '.join(reasons)}."
