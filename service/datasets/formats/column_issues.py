"""Problems with columns as issues of an upload, with advice."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.datasets.issues import Rejected, ValidationIssue

_ADVICE: Final = {
    "invalid-label": "ignore_column={name} leaves the column out",
    "not-finite": "leave the cell empty if it is unknown",
    "inexact-integer": "ignore columns of ids, or declare column_kind={name}:category",
    "unsupported-dtype": "convert it, or declare ignore_column={name}",
}


def rejected(error: InvalidColumn, advice: Mapping[str, str] = MappingProxyType({})) -> Rejected:
    """Return the issues of a column.

    Parameters
    ----------
    advice
        Advice by problem code, where it differs from the default.
    """
    issues = []
    for problem in error.problems:
        default = {**_ADVICE, **advice}.get(problem.code, "").format(name=problem.column)
        remedy = problem.advice or default
        detail = f"{problem.detail}; {remedy}" if remedy else problem.detail
        issues.append(ValidationIssue(problem.code, detail, row=problem.row, column=problem.column))
    return Rejected(*issues)
