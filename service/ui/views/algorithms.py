"""The list of algorithms, and an algorithm with its parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.registry import paper_code
from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Table, TableRow
from service.ui.views.words import PLAIN

_TARGETS: Final = {
    "none": "no targets",
    "numbers": "numbers as targets",
    "classes": "classes as targets",
    "any": "numbers or classes as targets",
}


@dataclass(frozen=True, slots=True)
class AlgorithmView:
    """An algorithm, and code as the paper states it, or None."""

    algorithm: Mapping[str, Any]
    needs: Sequence[str]
    params: Table
    paper: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm that is the first choice for a question."""

    question: str
    title: str
    href: str
    summary: str


@dataclass(frozen=True, slots=True)
class AlgorithmsView:
    """All algorithms: first choices by question, and the others by family.

    Parameters
    ----------
    first, others
        First choices for tables with numbers or classes to predict, and for other data.
    """

    n_algorithms: int
    first: Sequence[Choice]
    others: Sequence[Choice]
    families: Sequence[Table]


_AUTOMATIC: Final = Choice(
    "I do not know which: what is best for my data?",
    "Find the best model",
    "/jobs/new?algorithm=auto",
    "Compares all that suit the data on rows left out for checking, and combines the best.",
)


async def algorithms_view(api: Api) -> AlgorithmsView:
    """Return the view of all algorithms."""
    items = (await api.get("/v1/algorithms", page_size=200))["items"]
    choices = {
        is_common: [_choice(a) for a in items if a["question"] and _is_common(a) == is_common]
        for is_common in (True, False)
    }
    families: dict[str, list[TableRow]] = {}
    for a in sorted(items, key=lambda a: str(a["title"])):
        families.setdefault(a["family"], []).append(_row(a))
    columns = ("Algorithm", "Needs", "What it learns, and when to use it")
    return AlgorithmsView(
        len(items),
        [_AUTOMATIC, *choices[True]],
        choices[False],
        [Table(family, columns, rows) for family, rows in sorted(families.items())],
    )


def _is_common(algorithm: Mapping[str, Any]) -> bool:
    return bool(algorithm["needs"]["target"] == "any")


def _choice(algorithm: Mapping[str, Any]) -> Choice:
    href = f"/algorithms/{segment(algorithm['name'])}"
    return Choice(algorithm["question"], algorithm["title"], href, PLAIN.said(algorithm["summary"]))


def _row(a: Mapping[str, Any]) -> TableRow:
    return TableRow(
        a["name"],
        [
            tables.text(a["title"], f"/algorithms/{segment(a['name'])}", note=a["name"]),
            tables.text(_TARGETS[a["needs"]["target"]]),
            tables.text(PLAIN.said(a["summary"])),
        ],
    )


async def algorithm_view(api: Api, name: str) -> AlgorithmView:
    """Return the view of an algorithm."""
    algorithm = await api.get(f"/v1/algorithms/{segment(name)}")
    fields = algorithm["params"]["properties"]
    rows = [
        TableRow(
            f"param-{key}",
            [
                tables.text(PLAIN.said(field["title"]), note=key),
                tables.text(field.get("default", "required")),
                tables.text(allowed(field)),
                tables.text(PLAIN.said(field["description"])),
            ],
        )
        for key, field in fields.items()
    ]
    columns = ("Parameter", "Default", "Allowed", "Meaning")
    table = Table("Parameters", columns, rows)
    algorithm = {**algorithm, "summary": PLAIN.said(algorithm["summary"])}
    return AlgorithmView(
        algorithm, _needs(algorithm["needs"]), table, paper_code(algorithm["name"])
    )


def _needs(needs: Mapping[str, Any]) -> list[str]:
    phrases = [
        _TARGETS[needs["target"]],
        f"at least {formats.count(needs['min_tasks'], 'group')}",
        f"at least {formats.count(needs['min_samples'], 'row')} in each group",
    ]
    if needs["same_features"]:
        phrases.append("the same columns in every group")
    if needs["covariances"]:
        phrases.append("rows, or covariance matrices")
    if needs["weights"]:
        phrases.append("rows may have weights")
    if needs["sparse"]:
        phrases.append("rows may be sparse")
    return phrases


def allowed(field: Mapping[str, Any]) -> str:
    """Return the values that a field of a JSON Schema allows, in words."""
    for part in field.get("anyOf", ()):
        if part.get("type") != "null":
            return allowed(part)
    if "enum" in field:
        return ", ".join(formats.plain(value) for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {allowed(field.get('items', {})).replace('number', 'numbers', 1)}"
    low, high = field.get("minimum"), field.get("maximum")
    low = field.get("exclusiveMinimum") if low is None else low
    kind = {"number": "number", "integer": "integer", "boolean": "yes or no"}.get(
        str(field.get("type")), str(field.get("type", "any value"))
    )
    if low is not None and high is not None:
        return f"{kind} from {formats.number(low)} to {formats.number(high)}"
    if low is not None:
        return f"{kind} from {formats.number(low)}"
    return kind
