"""The form of a job, drawn from JSON Schemas."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from algorithms.evaluation.automatic import AutomaticOptions
from service.jobs.schemas import JobLimits, JobSpec
from service.ui.api import Api, Refused, segment
from service.ui.views.algorithms import allowed

#: Parameters that are shown at once, in the order in which the algorithm declares them.
_N_COMMON: Final = 4
#: What ``auto`` is in the list of algorithms.
_AUTO: Final = {
    "name": "auto",
    "title": "compare all that suit the data, and train the best",
    "summary": "All algorithms that suit the dataset are compared on held-out rows within a time "
    "budget, and the best one is trained.",
    "params": AutomaticOptions.model_json_schema(),
}
_SPEC: Final = JobSpec.model_json_schema()
#: Optional parts of a specification, with their titles.
_GROUPS: Final = {
    "search": "Search",
    "evaluate": "Evaluate",
    "compare": "Compare",
    "preparation": "Prepare rows in another way",
    "adapt": "Adapt a trained model",
}
#: Groups that are beside the usual ones, and so are folded.
_RARE: Final = ("preparation", "adapt")
_WRONG_STATE: Final = 409


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Parameters
    ----------
    path
        JSON pointer of the value in the request.
    kind
        number, integer, boolean, choice, text or json.
    value, default
        Its text, and that of the default; empty for none.
    can_search
        Whether a search can try several values.
    search
        The values that a search tries.
    """

    path: str
    name: str
    title: str
    description: str
    allowed: str
    kind: str
    value: str
    default: str
    options: Sequence[str]
    low: float | None
    high: float | None
    is_required: bool
    can_search: bool
    search: str


@dataclass(frozen=True, slots=True)
class Group:
    """An optional part of a specification, such as a search.

    Parameters
    ----------
    is_on
        Whether the job has it.
    """

    name: str
    title: str
    description: str
    is_on: bool
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class JobForm:
    """The form of a new job.

    Parameters
    ----------
    algorithm
        The chosen algorithm; None until one is chosen, with its dataset.
    datasets, algorithms
        What can be chosen, as value and title.
    groups, rare
        Optional parts of the specification; the rare ones are folded.
    """

    dataset: str
    algorithm: Mapping[str, Any] | None
    datasets: Sequence[tuple[str, str]]
    algorithms: Sequence[tuple[str, str]]
    common: Sequence[Field]
    folded: Sequence[Field]
    groups: Sequence[Group]
    rare: Sequence[Group]
    limits: Sequence[Field]
    model: str
    seed: str
    sentence: str


async def job_form(api: Api, *, dataset: str, algorithm: str, like: str) -> JobForm:
    """Return the form of a new job on a dataset, or with the specification of an earlier job."""
    spec = await _spec_of(api, like) if like else {}
    dataset = dataset or spec.get("dataset_id", "")
    algorithm = algorithm or spec.get("algorithm", "")
    found = [_AUTO, *(await api.get("/v1/algorithms", page_size=200))["items"]]
    chosen = await _algorithm(api, algorithm) if algorithm else None
    sentence = "Choose what to train, and on which data."
    if like:
        sentence = f"The values are those of {like}."
    elif chosen is not None:
        sentence = chosen["summary"]
    searched = (spec.get("search") or {}).get("space", {})
    schema = {"properties": {}} if chosen is None else chosen["params"]
    fields = fields_of(schema, "/params", spec.get("params", {}), searched=searched)
    is_common = [field.is_required or i < _N_COMMON for i, field in enumerate(fields)]
    groups = [_group(name, spec) for name in _GROUPS]
    return JobForm(
        dataset=dataset,
        algorithm=chosen if dataset else None,
        datasets=await _datasets(api, dataset),
        algorithms=[(a["name"], f"{a['name']}: {a['title']}") for a in found],
        common=[field for field, common in zip(fields, is_common, strict=True) if common],
        folded=[field for field, common in zip(fields, is_common, strict=True) if not common],
        groups=[group for group in groups if group.name not in _RARE],
        rare=[group for group in groups if group.name in _RARE],
        limits=fields_of(JobLimits.model_json_schema(), "", spec),
        model=spec.get("model", ""),
        seed=str(spec.get("seed", 0)),
        sentence=sentence,
    )


async def _spec_of(api: Api, job_id: str) -> dict[str, Any]:
    """Return the specification of a job; of one of an earlier version, what is known of it."""
    path = f"/v1/jobs/{segment(job_id)}"
    try:
        return await api.get(f"{path}/spec")
    except Refused as error:
        if error.problem["status"] != _WRONG_STATE:
            raise
    job = await api.get(path)
    return {name: job[name] for name in ("dataset_id", "algorithm", "params", "model", "seed")}


async def _algorithm(api: Api, name: str) -> Mapping[str, Any]:
    return _AUTO if name == _AUTO["name"] else await api.get(f"/v1/algorithms/{segment(name)}")


async def _datasets(api: Api, chosen: str) -> list[tuple[str, str]]:
    """Return the newest datasets that are ready, and the chosen one, as id and name."""
    ready = (await api.get("/v1/datasets", state="ready", page_size=200))["items"]
    datasets = [(d["id"], d["name"]) for d in ready]
    if chosen and chosen not in dict(datasets):
        datasets.append((chosen, (await api.get(f"/v1/datasets/{segment(chosen)}"))["name"]))
    return datasets


def _group(name: str, spec: Mapping[str, Any]) -> Group:
    """Return an optional part of a specification, with the values of a job that has it."""
    declared = _SPEC["properties"][name]
    (reference,) = (part["$ref"] for part in declared["anyOf"] if "$ref" in part)
    schema = _SPEC["$defs"][reference.rpartition("/")[2]]
    values = spec.get(name)
    return Group(
        name=name,
        title=_GROUPS[name],
        description=declared["description"],
        is_on=values not in (None, False),
        fields=[
            field
            for field in fields_of(schema, f"/{name}", values if isinstance(values, dict) else {})
            if field.path != "/search/space"  # has a field for each parameter
        ],
    )


def fields_of(
    schema: Mapping[str, Any],
    prefix: str,
    values: Mapping[str, Any],
    *,
    searched: Mapping[str, Any] | None = None,
) -> list[Field]:
    """Return the fields of the properties of a schema, and of the objects in it.

    Parameters
    ----------
    values
        Given values; others have their defaults.
    searched
        Values that a search tries, by property.
    """
    known = {**_SPEC["$defs"], **schema.get("$defs", {})}
    return [
        _searched(field, searched[field.name]) if searched and field.name in searched else field
        for field in _fields(schema, prefix, values, known)
    ]


def _fields(
    schema: Mapping[str, Any], prefix: str, values: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, declared in schema["properties"].items():
        path = f"{prefix}/{name}"
        inner = known.get(declared.get("$ref", "").rpartition("/")[2], {})
        if "properties" in inner:
            yield from _fields(inner, path, values.get(name) or {}, known)
        else:
            yield _field(path, name, declared, values, is_required=name in required)


def _field(
    path: str,
    name: str,
    declared: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    is_required: bool,
) -> Field:
    parts = [part for part in declared.get("anyOf", ()) if part.get("type") != "null"]
    kind_of = parts[0] if len(parts) == 1 else declared
    kind = _kind(kind_of, is_union=len(parts) > 1)
    options = [_text(value, "text") for value in kind_of.get("enum", ())]
    if kind == "choice" and parts:
        options.insert(0, "")
    default = declared.get("default")
    return Field(
        path=path,
        name=name,
        title=_title(name, declared),
        description=declared.get("description", ""),
        allowed=allowed(declared),
        kind=kind,
        value=_text(values.get(name, default), kind),
        default=_text(default, kind),
        options=options,
        low=kind_of.get("minimum"),
        high=kind_of.get("maximum"),
        is_required=is_required,
        can_search=kind in {"number", "integer", "boolean", "choice"},
        search="",
    )


def _searched(field: Field, space: Any) -> Field:
    """Return a field with the values that a search tries: a list, or an object with a range."""
    is_list = isinstance(space, list)
    text = ", ".join(_text(v, field.kind) for v in space) if is_list else json.dumps(space)
    return replace(field, search=text)


def _title(name: str, declared: Mapping[str, Any]) -> str:
    """Return the title of a property; one that pydantic made of its name reads as a sentence."""
    title = str(declared.get("title", name))
    is_made = title.lower() == name.replace("_", " ").lower()
    return name.replace("_", " ").capitalize() if is_made else title


def _kind(schema: Mapping[str, Any], *, is_union: bool) -> str:
    if is_union:
        return "json"
    if "enum" in schema:
        return "choice"
    kinds = {"number": "number", "integer": "integer", "boolean": "boolean", "string": "text"}
    return kinds.get(str(schema.get("type")), "json")


def _text(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind in {"choice", "text"} and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
