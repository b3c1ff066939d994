"""The page that predicts the rows of a file, or a row that is typed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.ui import formats
from service.ui.api import Api, segment
from service.ui.api_examples import ApiExample
from service.ui.views.dataset_rows import value_cell
from service.ui.views.lists import FORBIDDEN
from service.ui.views.words import GroupWords
from sibling.client.datasets import MEDIA_TYPES

#: Levels to choose from, in percent.
LEVELS: Final = (80, 90, 95)
#: Rows that are shown; all are in the downloads.
N_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class RowField:
    """A field of the form for one row.

    Parameters
    ----------
    kind
        number, date, or choice.
    options
        Values of a choice.
    hint
        The range in the training data, in words.
    """

    name: str
    kind: str
    options: Sequence[str]
    hint: str


@dataclass(frozen=True, slots=True)
class PredictView:
    """A model to predict with.

    Parameters
    ----------
    fields
        Fields for one row; none if the columns of the training data are not known.
    adding
        Query that uploads rows of a new group; empty if the dataset is not known.
    watched
        What monitors keep of the rows, by the alias they watch.
    levels
        Levels of intervals or sets, in percent; none if the model has neither.
    """

    model: Mapping[str, Any]
    words: GroupWords
    path: str
    target: str
    fields: Sequence[RowField]
    levels: Sequence[int]
    types: Mapping[str, str]
    n_shown: int
    adding: str
    watched: Mapping[str, str]
    request: ApiExample


async def predict_view(api: Api, name: str, version: int) -> PredictView:
    """Return the view of a version to predict with."""
    path = f"/v1/models/{segment(name)}/versions/{version}"
    model = await api.get(path)
    dataset = f"/v1/datasets/{segment(model['lineage']['dataset_id'])}"
    preview = await api.find(f"{dataset}/preview", refused=FORBIDDEN, tasks=1, rows=1) or {}
    has_level = {"predict_interval", "predict_set"} & set(model["methods"])
    example = ApiExample(
        [f"{path}/predictions"],
        f"model = client.model({name!r}, {version})\n"
        'model.predictions("rows.csv", "predictions.csv")',
        file="rows.csv",
    )
    return PredictView(
        model=model,
        words=GroupWords.of(model["task_column"]),
        path=path,
        target=target_name(preview, "prediction"),
        fields=[_field(column) for column in preview.get("columns", [])],
        levels=LEVELS if has_level else (),
        types=MEDIA_TYPES,
        n_shown=N_SHOWN,
        adding=_adding(await api.find(dataset, refused=FORBIDDEN)),
        watched=await _watched(api, model),
        request=example,
    )


async def _watched(api: Api, model: Mapping[str, Any]) -> dict[str, str]:
    """Return what monitors keep of the rows, by the alias of the version that they watch."""
    path = f"/v1/models/{segment(model['name'])}/aliases"
    kept = {}
    for alias in model["aliases"]:
        monitor = await api.find(f"{path}/{segment(alias)}/monitor", refused=FORBIDDEN)
        if monitor is not None and monitor["share"] > 0:
            some = f"{formats.share(monitor['share'])} of the rows"
            kept[alias] = some if monitor["share"] < 1 else "the rows"
    return kept


def target_name(preview: Mapping[str, Any], default: str) -> str:
    """Return the name of the target in the preview of a dataset."""
    return str((preview.get("target") or {"name": default})["name"])


def _adding(dataset: Mapping[str, Any] | None) -> str:
    """Return the query by which rows of a new group are read as those of a dataset were."""
    options = {} if dataset is None else dataset["options"]
    names = ("task_column", "target_column", "column_kind", "missing_marker")
    return urlencode({name: options[name] for name in names if options.get(name)}, doseq=True)


def _field(column: Mapping[str, Any]) -> RowField:
    kind = column["kind"]
    if kind == "category":
        return RowField(column["name"], "choice", column["values"], "")
    if kind == "boolean":
        return RowField(column["name"], "choice", ("true", "false"), "")
    low, high = (value_cell(column[name]).text for name in ("min", "max"))
    hint = "" if low == formats.NONE else f"{low} to {high} in the training data"
    return RowField(column["name"], kind, (), hint)
