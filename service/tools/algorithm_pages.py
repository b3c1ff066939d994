"""Pages of the algorithms, one for each family: shared parameters once, then each algorithm."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from algorithms.interface.algorithm import Algorithm as AnyAlgorithm
from algorithms.registry import ALGORITHMS, paper_code
from service.catalogue.families import FAMILIES, family_of
from service.catalogue.schemas import Algorithm

Algo = AnyAlgorithm[Any, Any]
Fields = Mapping[str, Mapping[str, Any]]

_TARGETS: Final = {
    "none": "none needed",
    "numbers": "numbers",
    "classes": "classes",
    "any": "numbers or classes",
}
_ROLES: Final = {"multi_task": "together", "single_task": "each task alone", "pooled": "pooled"}
#: Titles of parameters of loops, which come last in a table.
_OF_LOOPS: Final = {"Folds", "Iterations", "Tolerance", "Duality gap"}
_BOUNDS: Final = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}


def algorithm_pages() -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the name and the lines of each page, the index first."""
    families = _by_family()
    yield "index", _index(families)
    for title, algorithms in families.items():
        yield _anchor(title), _family(title, algorithms)


def _index(families: Mapping[str, Sequence[Algo]]) -> Iterator[str]:
    yield from ("# Algorithms", "")
    yield "[Which method when](../../choose.md) helps to choose. See also"
    yield "[how methods are evaluated](../../explanation/evaluation.md),"
    yield "[benchmarks](../../benchmarks/index.md) and"
    yield "[notes on the papers](../../explanation/papers.md)."
    yield from _overview(families)
    yield "Parameters that are set most often come first in every table; parameters of loops and"
    yield "grids of a selection come last. Parameters that a family shares are listed once:"
    yield ""
    yield from (f"- [{title}]({_anchor(title)}.md)" for title in families)
    yield from ("", "```{toctree}", ":hidden:", "", *map(_anchor, families), "```")


def _by_family() -> dict[str, list[Algo]]:
    """Return the algorithms of every family, sorted by name."""
    families: dict[str, list[Algo]] = {title: [] for title in FAMILIES.values()}
    for _, algorithm in sorted(ALGORITHMS.items()):
        families[family_of(algorithm)].append(algorithm)
    return families


def _overview(families: Mapping[str, Sequence[Algo]]) -> Iterator[str]:
    yield from (
        "",
        "| Algorithm | Learns | Targets | In one sentence |",
        "| --- | --- | --- | --- |",
    )
    pages = {algo.name: _anchor(title) for title, algos in families.items() for algo in algos}
    for name, algorithm in sorted(ALGORITHMS.items()):
        described = Algorithm.describe(algorithm)
        forms = described.params["properties"].get("form", {}).get("enum", ())
        learns = "by `form`" if {"task", "pooled"} <= set(forms) else _ROLES[algorithm.role]
        sentence = described.summary.split(". ")[0].removesuffix(".")
        target = _TARGETS[described.needs.target]
        link = f"[`{name}`]({pages[name]}.md#{_anchor(_title(algorithm))})"
        yield f"| {link} | {learns} | {target} | {_cell(sentence)} |"
    yield ""


def _family(title: str, algorithms: Sequence[Algo]) -> Iterator[str]:
    yield from (f"# {title}", "", "[All algorithms](index.md)", "")
    shared = _shared([Algorithm.describe(a).params["properties"] for a in algorithms])
    if shared:
        yield from (f"## Parameters of all {title[0].lower()}{title[1:]}", "")
        yield from _parameters(shared, _ranks(algorithms[0]))
    for algorithm in algorithms:
        yield from _section(algorithm, shared, title)


def _shared(schemas: Sequence[Fields]) -> Fields:
    """Return the parameters that are the same in every algorithm of a family."""
    first, *others = schemas
    return {
        name: field
        for name, field in first.items()
        if others and all(other.get(name) == field for other in others)
    }


def _section(algorithm: Algo, shared: Fields, family: str) -> Iterator[str]:
    described = Algorithm.describe(algorithm)
    needs = described.needs
    yield from (f"## {_title(algorithm)}", "", described.summary, "")
    features = "the same columns in every task" if needs.same_features else "any columns"
    rows = "rows, also sparse ones" if needs.sparse else "rows"
    rows += ", with weights" if needs.weights else ""
    rows += " or covariance matrices" if needs.covariances else ""
    minimum = f"at least {needs.min_tasks} task(s) of at least {needs.min_samples} row(s) each"
    yield f"- Needs: {rows}; {features}; targets: {_TARGETS[needs.target]}; {minimum}."
    methods = ", ".join(f"`{method}`" for method in described.methods)
    yield f"- Methods of its models: {methods}."
    yield f"- Can add tasks: {'yes' if algorithm.supports_adaptation() else 'no'}."
    yield from (f"- Reference: {described.reference}", "")
    properties = {n: f for n, f in described.params["properties"].items() if n not in shared}
    yield from _parameters(properties, _ranks(algorithm))
    if shared:
        link = f"parameters-of-all-{_anchor(family)}"
        yield from (f"And the [parameters of all {family[0].lower()}{family[1:]}](#{link}).", "")
    mathematics = inspect.getdoc(inspect.getmodule(type(algorithm))) or ""
    yield from ("<details><summary>The mathematics</summary>", "", "```text")
    yield from (mathematics, "```", "", "</details>", "")
    if code := paper_code(algorithm.name):
        yield from ("<details><summary>The algorithm as the paper states it</summary>", "", "```py")
        yield from (code.rstrip(), "```", "", "</details>", "")


def _title(algorithm: Algo) -> str:
    return f"{algorithm.title} (`{algorithm.name}`)"


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _ranks(algorithm: Algo) -> Mapping[str, int]:
    """Return the rank of each parameter: 0 if it comes first in a table, 2 if it comes last."""
    params = algorithm.Params
    chosen = {*params.GRIDS, *params.ALTERNATIVES}
    ranks = {}
    for name, field in params.model_fields.items():
        is_last = name in params.GRIDS.values() or field.title in _OF_LOOPS
        ranks[name] = 0 if field.is_required() or name in chosen else 2 if is_last else 1
    return ranks


def _parameters(fields: Fields, ranks: Mapping[str, int]) -> Iterator[str]:
    if not fields:
        yield from ("It has no parameters of its own.", "")
        return
    yield "| Parameter | Default | Allowed | Meaning |"
    yield "| --- | --- | --- | --- |"
    for name in sorted(fields, key=lambda name: ranks[name]):
        field = fields[name]
        default = f"`{_json(field['default'])}`" if "default" in field else "required"
        meaning = f"**{field['title']}.** {field['description']}"
        cells = (default, _allowed(field), meaning)
        yield f"| `{name}` | " + " | ".join(map(_cell, cells)) + " |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _allowed(field: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, (_type(field), _bounds(field))))


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field or "const" in field:
        return " or ".join(f"`{_json(value)}`" for value in field.get("enum", [field.get("const")]))
    if "anyOf" in field:
        return " or ".join(_type(part) for part in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "any"))


def _bounds(field: Mapping[str, Any]) -> str:
    bounds = [text.format(_json(field[key])) for key, text in _BOUNDS.items() if key in field]
    parts = [_bounds(part) for part in (*field.get("anyOf", ()), field.get("items", {})) if part]
    return ", ".join([*bounds, *(part for part in parts if part)])


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
