"""The registry of all algorithms, and their model files.

No other module lists algorithms. Those of other installed packages are found by their entry points.
"""

import inspect
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

import algorithms.interface.packages  # noqa: F401 - first, since it says what to install
from algorithms.interface.algorithm import Algorithm, load_extensions
from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import InvalidArtifact, InvalidData, UnusedWeights
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.lazy_mapping import LazyMapping
from algorithms.interface.model import Model
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS
from algorithms.interface.stored_fields import json_ready
from algorithms.wrappers.by_parts.model import load_parts
from algorithms.wrappers.calibration.model import CALIBRATION, load_calibration
from algorithms.wrappers.per_task import ALONE, load_alone
from algorithms.wrappers.preparation.learning import PREPARATION, Preparation
from algorithms.wrappers.preparation.model import PreparedModel
from algorithms.wrappers.stored import outside

_FORMAT: Final = "sibling-model/1"
#: Module and class of each algorithm by its name, in the form of entry points.
_OWN: Final = {
    "rmt-pca": "algorithms.rmtpca:RMTPCA",
    "pca": "algorithms.baselines.pca:TaskPCA",
    "common-pca": "algorithms.baselines.pca:CommonPCA",
    "mtda": "algorithms.mtda:MTDA",
    "fmtl": "algorithms.fmtl:FMTL",
    "kernel-tasks": "algorithms.baselines.kernels:TaskMachines",
    "kernel-scaled": "algorithms.baselines.kernels:ScaledMachines",
    "kernel-mean": "algorithms.baselines.kernels:MeanMachines",
    "kernel-graph": "algorithms.baselines.kernels:GraphMachines",
    "mtrl": "algorithms.baselines.kernels:MTRL",
    "okl": "algorithms.baselines.kernels:OKL",
    "convex-okl": "algorithms.baselines.kernels:ConvexOKL",
    "lda-rt": "algorithms.baselines.discriminants:RatioTraceLDA",
    "lda-tr": "algorithms.baselines.discriminants:TraceRatioLDA",
    "lda-null": "algorithms.baselines.discriminants:NullSpaceLDA",
    "aggregate": "algorithms.baselines.aggregate:Aggregate",
    "pca-classifier": "algorithms.baselines.discriminants:PCAClassifier",
    "tlvm": "algorithms.tlvm:TLVM",
    "gp-lvm": "algorithms.baselines.gplvm:GPLVM",
    "transfer-pca": "algorithms.baselines.transfer_pca:TransferPCA",
    "ppca": "algorithms.baselines.transfer_pca:PPCA",
    "mtfl": "algorithms.mtfl:MTFL",
    "ridge": "algorithms.baselines.linear:Ridge",
    "kernel-ridge": "algorithms.baselines.linear:KernelRidge",
    "mean-regularised": "algorithms.baselines.linear:MeanRegularised",
    "shared-lasso": "algorithms.baselines.linear:SharedLasso",
    "logistic-regression": "algorithms.baselines.linear:LogisticRegression",
    "cmtl": "algorithms.baselines.cmtl:CMTL",
    "gmtl": "algorithms.baselines.gmtl:GMTL",
    "gp": "algorithms.gp:GP",
    "ensemble": "algorithms.ensemble:Ensemble",
    "mixed-model": "algorithms.baselines.mixed_model:MixedModel",
    "boosted-trees": "algorithms.baselines.boosted_trees:BoostedTrees",
    "nearest-neighbours": "algorithms.baselines.neighbours:Neighbours",
    "constant": "algorithms.baselines.constant:Constant",
}
#: Algorithms of other installed packages.
EXTENSIONS: Final = load_extensions(taken=_OWN)


def _load(name: str) -> Algorithm[Any, Any]:
    if name in EXTENSIONS:
        return EXTENSIONS[name].algorithm
    module, _, class_name = _OWN[name].partition(":")
    algorithm: Algorithm[Any, Any] = getattr(import_module(module), class_name)()
    return algorithm


#: All algorithms by name; each is imported when it is first used.
ALGORITHMS: Final = LazyMapping([*_OWN, *EXTENSIONS], _load)
#: Names of the algorithms by their classes' names. Those of other packages replace no other.
CLASS_NAMES: Final = {
    **{type(extension.algorithm).__name__: name for name, extension in EXTENSIONS.items()},
    **{value.rpartition(":")[2]: name for name, value in _OWN.items()},
}


def explain_weights(error: UnusedWeights) -> InvalidData:
    """Return the error with the algorithms that use weights."""
    names = ", ".join(name for name in sorted(ALGORITHMS) if ALGORITHMS[name].needs.weights)
    return InvalidData(
        f"{error.message}; use an algorithm that does ({names}), or leave out sample_weight, "
        "weight_column and class_weight",
        task=error.task,
    )


def paper_code(name: str) -> str | None:
    """Return ``paper.py`` of an algorithm's package, the algorithm as its paper states it."""
    path = Path(inspect.getfile(type(ALGORITHMS[name]))).with_name("paper.py")
    return path.read_text(encoding="utf-8") if path.is_file() else None


def preload() -> None:
    """Import all algorithms, and the kernels with numba, so that no request or job waits for it."""
    for name in ALGORITHMS:
        ALGORITHMS[name]
    import_module("algorithms.numerics.warm")


def save_model(model: Model, path: Path) -> None:
    """Write a model to a file for :func:`load_model`.

    Numbers in the header that are not finite are written as null.
    """
    header = {"format": _FORMAT, "algorithm": model.algorithm, "model": json_ready(model.header())}
    if model.task_column != DEFAULT_TASK_COLUMN:
        header["task_column"] = model.task_column
    if model.ignored_columns is not None:
        header["ignored_columns"] = sorted(model.ignored_columns)
    if model.new_tasks != DEFAULT_NEW_TASKS:
        header["new_tasks"] = model.new_tasks
    write_arrays(path, model.to_arrays(), header=header)


def load_model(path: Path) -> Model:
    """Return the model in a file.

    Raises
    ------
    InvalidArtifact
        The file is corrupt, has another format, or is a model of an unknown algorithm.
    """
    arrays, header = read_arrays(path)
    if header.get("format") != _FORMAT:
        raise InvalidArtifact(
            f"'{path.name}' has format {header.get('format')!r}, expected {_FORMAT!r}"
        )
    algorithm = ALGORITHMS.get(str(header.get("algorithm")))
    if algorithm is None:
        raise InvalidArtifact(
            f"'{path.name}' is a model of the unknown algorithm {header.get('algorithm')!r}; "
            f"install the package that has it, or train a new model. Known algorithms: "
            f"{', '.join(sorted(ALGORITHMS))}"
        )
    values = header.get("model", {})
    try:
        model = _make_model(algorithm, arrays, values)
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidArtifact(
            f"a part of the model in '{path.name}' is missing or corrupt: {error!r}"
        ) from error
    model = model.with_task_column(str(header.get("task_column", DEFAULT_TASK_COLUMN)))
    if "ignored_columns" in header:
        model = model.with_ignored_columns(frozenset(map(str, header["ignored_columns"])))
    return model.with_new_tasks(header.get("new_tasks", DEFAULT_NEW_TASKS))


def _make_model(
    algorithm: Algorithm[Any, Any], arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]
) -> Model:
    """Return the model in the arrays and the header of a file."""
    plain = outside(outside(arrays, PREPARATION), CALIBRATION)
    members = {"find": ALGORITHMS.__getitem__} if algorithm.is_combined else {}
    model = load_parts(
        outside(plain, ALONE), values, load=partial(algorithm.Model.from_arrays, **members)
    )
    model = load_alone(
        model, plain, values, load=lambda name, *own: ALGORITHMS[name].Model.from_arrays(*own)
    )
    if PREPARATION in values:
        preparation = Preparation.from_arrays(arrays, values[PREPARATION])
        model = PreparedModel(model, preparation)
    if CALIBRATION in values:
        load = partial(_make_model, algorithm)
        model = load_calibration(model, arrays, values[CALIBRATION], load=load)
    return model
