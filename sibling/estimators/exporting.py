"""Estimators in the formats of other programs."""

from importlib import import_module
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol


class _Saved(Protocol):
    def save(self, path: str | PathLike[str]) -> None: ...


class Exports:
    """Methods of estimators that write the trained model for MLflow and ONNX."""

    def to_mlflow(self: _Saved, target: str | PathLike[str]) -> Path:
        """Write the trained model as a directory that MLflow loads and serves.

        Raises
        ------
        ImportError
            MLflow is not installed.
        sibling.export.NotExportable
            The tasks of the model have different columns.
        """
        return _export(self, "mlflow_model", target)

    def to_onnx(self: _Saved, target: str | PathLike[str]) -> Path:
        """Write the trained model as an ONNX graph with the inputs ``task`` and ``rows``.

        Raises
        ------
        ImportError
            The package onnx is not installed.
        sibling.export.NotExportable
            No graph gives the same outputs; the message says why.
        """
        return _export(self, "onnx_model", target)


def _export(estimator: _Saved, module: str, target: str | PathLike[str]) -> Path:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        estimator.save(file)
        written: Path = import_module(f"sibling.export.{module}").write(file, Path(target))
        return written
