"""Errors that the fast parser of JSON hides: repeated keys, and integers beyond 64 bits.

It returns the last value of a repeated key, and rounds such integers. A search of the text detects
both; only then the slow parser of Python finds their places.
"""

import json
import re
from collections import Counter
from itertools import count
from typing import Any, Final, NoReturn

import orjson

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from service.datasets.issues import ValidationIssues, reject

_LONG_INTEGER: Final = re.compile(rb":\s*-?[0-9]{19}[0-9]*\s*[,}]")
#: Start of the escaped colon.
_ESCAPED: Final = rb"\u003"
_NOT_A_NUMBER: Final = re.compile(r"-?(?:nan|inf)", re.IGNORECASE)


def reject_invalid(error: orjson.JSONDecodeError, what: str) -> NoReturn:
    """Raise Rejected for text that is not JSON.

    Parameters
    ----------
    what
        Name of the text in the message, such as "the file".
    """
    advice = ""
    if _NOT_A_NUMBER.match(error.doc[error.pos : error.pos + 4]):
        advice = "; NaN is written as null, and infinite numbers are not supported"
    reject("corrupt-file", f"{what} is not valid JSON: {error}{advice}")


def check_strictly(text: bytes, document: Any, *, first_row: int = 0) -> None:
    """Raise Rejected if keys are repeated, or integers are inexact as 64-bit floats.

    Parameters
    ----------
    document
        The parsed text: records, which have numbers and texts, or a list or object of records.
    first_row
        Row of the first record.
    """
    try:
        n_colons = orjson.dumps(document).count(b":")
    except orjson.JSONEncodeError:
        return  # nested too deeply for records, which is found later
    # the parsed document has fewer colons than the text if a key is repeated
    has_all_keys = text.count(b":") == n_colons and _ESCAPED not in text
    if has_all_keys and not _LONG_INTEGER.search(text):
        return
    issues = ValidationIssues()
    rows = count(first_row)

    def check(pairs: list[tuple[str, Any]]) -> None:
        if any(isinstance(value, list) for _, value in pairs):
            _check_tasks(pairs, issues)
        else:
            _check_record(pairs, next(rows), issues)

    json.loads(text, object_pairs_hook=check)
    issues.check()


def _check_tasks(pairs: list[tuple[str, Any]], issues: ValidationIssues) -> None:
    for name, n_times in Counter(name for name, _ in pairs).items():
        if n_times > 1:
            detail = f"task '{name}' appears {n_times} times; put its records into one list"
            issues.add("duplicate-task", detail, task=name)


def _check_record(pairs: list[tuple[str, Any]], row: int, issues: ValidationIssues) -> None:
    for name, n_times in Counter(name for name, _ in pairs).items():
        if n_times > 1:
            detail = f"row {row}: the key '{name}' appears {n_times} times; keep one of them"
            issues.add("duplicate-column", detail, row=row, column=name)
    for name, value in pairs:
        if type(value) is int and abs(value) > MAX_EXACT_INTEGER:
            detail = f"row {row}, column '{name}' is {value}, above 2**53; ignore columns of ids"
            issues.add("inexact-integer", detail, row=row, column=name)
