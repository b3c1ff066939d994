"""The form of a job, drawn from JSON Schemas."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.evaluation.choice.automatic import AutomaticOptions
from service.jobs.spec_schemas import JobLimits
from service.storage.dataset_states import DatasetState
from service.ui.api import WRONG_STATE, Api, Refused, segment
from service.ui.views.fields import SPECIFICATION, Field, fields_of
from service.ui.views.words import PLAIN

#: Parameters that are shown at once, in the order in which the algorithm declares them.
_N_COMMON: Final = 4
#: The entry ``auto`` in the list of algorithms.
_AUTO: Final = {
    "name": "auto",
    "title": "compare all that suit the data, and combine the best",
    "summary": "All algorithms that suit the dataset are compared on rows left out for checking, "
    "within a time budget, and the best one is trained.",
    "params": AutomaticOptions.model_json_schema(),
}
#: Weights of classes, tasks that are not trained, equal rows, and the limits of a job.
_LIMITS: Final = {
    "properties": {
        "class_weight": SPECIFICATION["properties"]["class_weight"],
        "new_tasks": SPECIFICATION["properties"]["new_tasks"],
        "ties": SPECIFICATION["properties"]["ties"],
        **JobLimits.model_json_schema()["properties"],
    }
}
#: Optional parts of a specification, with their titles.
_GROUPS: Final = {
    "search": "Search for the best parameters",
    "evaluate": "Evaluate on rows left out for checking",
    "compare": "Compare with learning each group alone, and with other baselines",
    "calibration": "Calibrate probabilities and intervals",
    "preparation": "Prepare rows in another way",
    "adapt": "Adapt a trained model",
}
#: Groups that are rarely used, and so are folded.
_RARE: Final = ("preparation", "adapt")
#: Groups for the automatic choice, which always compares and evaluates.
_OF_AUTO: Final = ("calibration", "preparation")
#: Parameters of the automatic choice that are shown at once.
_COMMON_OF_AUTO: Final = ("budget_s", "metric", "single", "curve")


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
    datasets
        Datasets to choose from, as id and name.
    algorithms
        Algorithms as name and title, in titled groups: suitable for the dataset, and not.
    suggested
        Algorithm that is selected in the list.
    groups, rare
        Optional parts of the specification; the rare ones are folded.
    """

    dataset: str
    algorithm: Mapping[str, Any] | None
    datasets: Sequence[tuple[str, str]]
    algorithms: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    suggested: str
    common: Sequence[Field]
    folded: Sequence[Field]
    groups: Sequence[Group]
    rare: Sequence[Group]
    limits: Sequence[Field]
    model: str
    seed: str
    sentence: str


async def job_form(api: Api, *, dataset: str, algorithm: str, like: str) -> JobForm:
    """Return the form of a new job on a dataset, or with the specification of an earlier job.

    Parameters
    ----------
    dataset, algorithm
        Id and name to select; empty for the values of the earlier job.
    like
        Id of an earlier job whose specification fills the form; empty for none.
    """
    spec = await _spec_of(api, like) if like else {}
    dataset = dataset or spec.get("dataset_id", "")
    algorithm = algorithm or spec.get("algorithm", "")
    catalogue = [_AUTO, *(await api.get("/v1/algorithms", page_size=200))["items"]]
    chosen = await _algorithm(api, algorithm) if algorithm else None
    sentence = (
        "Choose the data and an algorithm. 'auto' compares all that suit the data, and combines "
        "the best."
    )
    if like:
        sentence = f"The values are copied from {like}."
    elif chosen is not None:
        sentence = PLAIN.said(chosen["summary"])
    searched = (spec.get("search") or {}).get("space", {})
    schema = {"properties": {}} if chosen is None else chosen["params"]
    fields = fields_of(schema, "/params", spec.get("params", {}), searched=searched)
    is_auto = algorithm == _AUTO["name"]
    is_common = [
        field.is_required or (field.name in _COMMON_OF_AUTO if is_auto else i < _N_COMMON)
        for i, field in enumerate(fields)
    ]
    groups = [_group(name, spec) for name in _GROUPS if _is_offered(name, chosen, spec)]
    algorithms = await _algorithms(api, dataset, catalogue)
    datasets = await _datasets(api, dataset)
    return JobForm(
        dataset=dataset,
        algorithm=chosen if dataset else None,
        datasets=datasets,
        algorithms=algorithms,
        suggested=algorithm or algorithms[0][1][0][0],
        common=[field for field, common in zip(fields, is_common, strict=True) if common],
        folded=[field for field, common in zip(fields, is_common, strict=True) if not common],
        groups=[group for group in groups if group.name not in _RARE],
        rare=[group for group in groups if group.name in _RARE],
        limits=fields_of(_LIMITS, "", spec),
        model=spec.get("model") or model_name(dict(datasets).get(dataset, "")),
        seed=str(spec.get("seed", 0)),
        sentence=sentence,
    )


def model_name(text: str) -> str:
    """Return a name in the letters that names of models have; empty if nothing is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).lstrip("._-").rstrip("-")[:100]


async def _spec_of(api: Api, job_id: str) -> dict[str, Any]:
    """Return the specification of a job, or its known part for a job of an earlier version."""
    path = f"/v1/jobs/{segment(job_id)}"
    try:
        return await api.get(f"{path}/spec")
    except Refused as error:
        if error.problem["status"] != WRONG_STATE:
            raise
    job = await api.get(path)
    return {name: job[name] for name in ("dataset_id", "algorithm", "params", "model", "seed")}


def _is_offered(name: str, algorithm: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> bool:
    """Return whether an algorithm can have an optional part, or the earlier job has it."""
    if algorithm is None or spec.get(name):
        return True
    if algorithm is _AUTO:
        return name in _OF_AUTO
    return name != "compare" or bool(algorithm["baselines"])


async def _algorithm(api: Api, name: str) -> Mapping[str, Any]:
    return _AUTO if name == _AUTO["name"] else await api.get(f"/v1/algorithms/{segment(name)}")


async def _algorithms(
    api: Api, dataset: str, catalogue: Sequence[Mapping[str, Any]]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the algorithms as name and title, suitable algorithms first."""
    names = {a["name"]: f"{a['name']}: {a['title']}" for a in catalogue}
    preview = None
    if dataset:
        path = f"/v1/datasets/{segment(dataset)}/preview"
        preview = await api.find(path, tasks=1, rows=1, refused=WRONG_STATE)
    if preview is None:
        return [("Algorithms", list(names.items()))]
    fits = {a["algorithm"] for a in preview["algorithms"] if a["can_train"]}
    if any(task["target"] is not None for task in preview["tasks"]):
        fits.add(_AUTO["name"])
    groups = {
        "Suit the dataset": [pair for pair in names.items() if pair[0] in fits],
        "Do not suit the dataset": [pair for pair in names.items() if pair[0] not in fits],
    }
    return [(title, pairs) for title, pairs in groups.items() if pairs]


async def _datasets(api: Api, chosen: str) -> list[tuple[str, str]]:
    """Return the newest datasets that are ready, and the chosen one, as id and name."""
    ready = (await api.get("/v1/datasets", state=DatasetState.READY, page_size=200))["items"]
    datasets = [(d["id"], d["name"]) for d in ready]
    if chosen and chosen not in dict(datasets):
        datasets.append((chosen, (await api.get(f"/v1/datasets/{segment(chosen)}"))["name"]))
    return datasets


def _group(name: str, spec: Mapping[str, Any]) -> Group:
    """Return an optional part of a specification, with the values of a job that has it."""
    declared = SPECIFICATION["properties"][name]
    (reference,) = (part["$ref"] for part in declared["anyOf"] if "$ref" in part)
    schema = SPECIFICATION["$defs"][reference.rpartition("/")[2]]
    values = spec.get(name)
    return Group(
        name=name,
        title=_GROUPS[name],
        description=PLAIN.said(declared["description"]),
        is_on=values not in (None, False),
        fields=[
            field
            for field in fields_of(schema, f"/{name}", values if isinstance(values, dict) else {})
            if field.path != "/search/space"  # has a field for each parameter
        ],
    )
