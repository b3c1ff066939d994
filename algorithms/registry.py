"""The registry of all algorithms, and their model files.

No other module lists algorithms. Those of other installed packages are found by their entry points.
"""

from pathlib import Path
from typing import Any, Final

from algorithms.aggregate import Aggregate
from algorithms.baselines import CommonPCA, TaskPCA
from algorithms.constant import Constant
from algorithms.discriminants import NullSpaceLDA, PCAClassifier, RatioTraceLDA, TraceRatioLDA
from algorithms.fmtl import FMTL
from algorithms.gplvm import GPLVM
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.extensions import load_extensions
from algorithms.interface.json_values import json_ready
from algorithms.interface.model import Model
from algorithms.kernel_baselines import (
    MTRL,
    OKL,
    ConvexOKL,
    MeanMachines,
    ScaledMachines,
    TaskMachines,
)
from algorithms.linear_baselines import (
    KernelRidge,
    LogisticRegression,
    MeanRegularised,
    Ridge,
    SharedLasso,
)
from algorithms.mtda import MTDA
from algorithms.mtfl import MTFL
from algorithms.preparation.learning import Preparation, without_preparation
from algorithms.preparation.model import PreparedModel
from algorithms.rmtpca import RMTPCA
from algorithms.tlvm import TLVM
from algorithms.transfer_pca import PPCA, TransferPCA

_OWN: Final[dict[str, Algorithm[Any, Any]]] = {
    algorithm.name: algorithm
    for algorithm in (
        RMTPCA(),
        TaskPCA(),
        CommonPCA(),
        MTDA(),
        FMTL(),
        TaskMachines(),
        ScaledMachines(),
        MeanMachines(),
        MTRL(),
        OKL(),
        ConvexOKL(),
        RatioTraceLDA(),
        TraceRatioLDA(),
        NullSpaceLDA(),
        Aggregate(),
        PCAClassifier(),
        TLVM(),
        GPLVM(),
        TransferPCA(),
        PPCA(),
        MTFL(),
        Ridge(),
        KernelRidge(),
        MeanRegularised(),
        SharedLasso(),
        LogisticRegression(),
        Constant(),
    )
}
#: Algorithms of other installed packages.
EXTENSIONS: Final = load_extensions(taken=_OWN)
ALGORITHMS: Final[dict[str, Algorithm[Any, Any]]] = {
    **_OWN,
    **{name: extension.algorithm for name, extension in EXTENSIONS.items()},
}

_FORMAT = "sibling-model/1"


def save_model(model: Model, path: Path) -> None:
    """Write a model to a file for :func:`load_model`.

    Numbers in the header that are not finite are written as null.
    """
    header = {"format": _FORMAT, "algorithm": model.algorithm, "model": json_ready(model.header())}
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
        model: Model = algorithm.Model.from_arrays(without_preparation(arrays), values)
        if "preparation" in values:
            preparation = Preparation.from_arrays(arrays, values["preparation"])
            model = PreparedModel(model, preparation)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArtifact(
            f"a part of the model in '{path.name}' is missing or corrupt: {error!r}"
        ) from error
    return model
