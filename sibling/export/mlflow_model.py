"""Models as directories that MLflow loads and serves, by its kind ``python_function``.

A directory has the model file; MLflow calls :func:`_load_pyfunc` of this module.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

import sibling
from algorithms.interface.methods import DEFAULT_LEVEL, LEVEL_METHODS
from algorithms.interface.model import Model
from algorithms.registry import CLASS_NAMES, load_model
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.model import preparation_of
from sibling.charts import MissingPackage
from sibling.export import NotExportable

#: Types of MLflow by the kinds of columns.
_TYPES: Final = {
    "number": "double",
    "boolean": "boolean",
    "category": "string",
    "date": "datetime",
}
#: Values of the example by kind; a category has its first level.
_EXAMPLES: Final = {"number": 0.0, "boolean": False, "date": np.datetime64("2024-01-31", "ns")}
_MAX_EXAMPLES: Final = 5
#: Packages of the service that a model needs, with the versions that wrote it.
_REQUIRED: Final = ("numpy", "scipy", "scikit-learn", "pandas")


def write(artifact: Path, target: Path) -> Path:
    """Write the model in a file of the service or of an estimator as a directory of MLflow.

    Raises
    ------
    NotExportable
        Its tasks have different columns, which a signature cannot say.
    MissingPackage
        MLflow or pandas is not installed.
    FileExistsError
        The directory is there.
    """
    try:
        import pandas as pd
        from mlflow import pyfunc
    except ModuleNotFoundError as error:
        if error.name not in ("mlflow", "pandas"):
            raise
        raise MissingPackage("this needs MLflow; pip install 'sibling[mlflow]'") from None
    if target.exists():
        raise FileExistsError(f"{target} is already there; give a folder that is not")
    model = load_model(artifact)
    example = pd.DataFrame(_example(model))
    pyfunc.save_model(
        str(target),
        loader_module=__name__,
        data_path=str(artifact),
        pip_requirements=[
            f"sibling[mlflow]=={sibling.__version__}",
            *(f"{name}=={version(name)}" for name in _REQUIRED),
        ],
        signature=_signature(model, _Rows(artifact).predict(example)),
        input_example=example,
        metadata={"algorithm": model.algorithm, "methods": list(model.available_methods())},
    )
    return target


class _Rows:
    """What MLflow calls: the model in a file, with data frames as rows."""

    def __init__(self, artifact: Path) -> None:
        self._model = load_model(artifact)
        classes = {name: cls for cls, name in CLASS_NAMES.items()}
        self._estimator = getattr(sibling, classes[self._model.algorithm]).load(artifact)
        self._has_names = preparation_of(self._model) is not None

    def predict(self, frame: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the outputs of a method for rows with a task each.

        Parameters
        ----------
        params
            ``method``, ``new_tasks`` and, of intervals and sets, ``level``.
        """
        values = _defaults(self._model) | (params or {})
        method = values["method"]
        if method not in self._model.available_methods():
            known = ", ".join(self._model.available_methods())
            raise ValueError(f"the model has no method '{method}'; it has {known}")
        tasks = frame[self._model.task_column].astype(str).to_numpy()
        rows = frame.drop(columns=self._model.task_column)
        options = {"level": values["level"]} if method in LEVEL_METHODS else {}
        return getattr(self._estimator, method)(
            rows if self._has_names else rows.to_numpy(np.float64),
            tasks=tasks,
            new_tasks=values["new_tasks"],
            **options,
        )


def _load_pyfunc(path: str) -> _Rows:
    """Return the model in a directory; MLflow finds this function by its name."""
    return _Rows(Path(path))


def _columns(model: Model) -> tuple[Column, ...]:
    """Return the columns of all tasks, with names of their positions if they have none."""
    preparation = preparation_of(model)
    if preparation is None:
        widths = {model.width(_main_method(model), task=task) for task in model.tasks}
        each = {tuple(Column(f"x{j}") for j in range(width)) for width in widths}
    else:
        each = {preparation.of(task).columns for task in model.tasks}
    if len(each) > 1:
        raise NotExportable("the tasks differ in columns, which a signature of MLflow cannot say")
    return each.pop()


def _main_method(model: Model) -> str:
    return "predict" if "predict" in model.available_methods() else "transform"


def _defaults(model: Model) -> dict[str, Any]:
    """Return the parameters of a call with their defaults."""
    method, new_tasks = _main_method(model), model.new_tasks
    return {"method": method, "new_tasks": new_tasks, "level": DEFAULT_LEVEL}


def _example(model: Model) -> dict[str, list[Any]]:
    """Return a row of each of the first tasks, by column."""
    tasks = model.tasks[:_MAX_EXAMPLES]
    values = {
        column.name: column.levels[0] if column.kind == "category" else _EXAMPLES[column.kind]
        for column in _columns(model)
    }
    repeated = {name: [value] * len(tasks) for name, value in values.items()}
    return {model.task_column: list(tasks), **repeated}


def _signature(model: Model, outputs: Any) -> Any:
    """Return the signature: the task, the columns, and the parameters of a call."""
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    named = [(model.task_column, "string")]
    named += [(column.name, _TYPES[column.kind]) for column in _columns(model)]
    types = {"method": "string", "new_tasks": "string", "level": "double"}
    params = [ParamSpec(name, types[name], value) for name, value in _defaults(model).items()]
    return ModelSignature(
        inputs=Schema([ColSpec(type_, name) for name, type_ in named]),
        outputs=infer_signature(outputs).inputs,
        params=ParamSchema(params),
    )
