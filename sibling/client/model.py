"""A trained model in the service."""

import contextlib
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algorithms.interface.files import replaced_file
from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.interface.new_tasks import NewTasks, NewTasksWarning
from algorithms.interface.unknown_categories import UnknownCategoriesWarning
from sibling.charts import as_chart, load_altair
from sibling.client import display
from sibling.client.bodies import (
    arrow_body,
    as_json,
    npy_body,
    npz_body,
    records_body,
    row_ids_header,
)
from sibling.client.datasets import media_type_of
from sibling.client.errors import ServiceError, ServiceUnreachable
from sibling.client.files import parse_rows
from sibling.client.http import Http, path
from sibling.client.modes import Mode, Remote, remote_method
from sibling.frames import (
    TASK,
    has_tasks,
    is_raw,
    is_records,
    is_sparse,
    read_rows,
    rows_table,
    table_bytes,
)

_NPY: Final = "application/x-npy"
_NPZ: Final = "application/x-npz"
_ARROW: Final = "application/vnd.apache.arrow.stream"
#: Ids of rows among the options of a request; they are sent as a header.
_ROW_IDS: Final = "row_ids"
#: Headers of responses with the tasks that the model was not trained on, and with the values of
#: categories that no training row has, by column.
_NEW_TASKS: Final = "sibling-new-tasks"
_UNKNOWN: Final = "sibling-unknown-categories"

#: Media types of plots by the ends of file names.
_PLOT_TYPES: Final = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}

#: Number of plots that notebooks show of a model.
_MAX_PICTURES: Final = 2


class RemoteModel(Remote[Mode]):
    """A version of a model in the service, with the methods of a local model.

    Methods accept arrays, with columns in the order of the training data, or data frames (pandas,
    polars, Arrow), whose columns are matched by name to the training data, or the path of a file,
    such as the one that the model was trained on. Linear models accept matrices of
    ``scipy.sparse``, too. ``task`` is the task of all rows; leave it out if a
    data frame or records have the task of each row, in a column with the name that it had in the
    training table (:attr:`task_column`) or in a column ``task``. If that task differs from
    ``task``, the service refuses the rows. Named levels of the index of a data frame are columns,
    too; levels that the model does not have are left out.

    With ``new_tasks="common"``, what the tasks have in common answers for tasks that the model was
    not trained on, and a :class:`sibling.NewTasksWarning` names these; with ``"refuse"``, they are
    an error. Default: as the model was trained.

    Attributes
    ----------
    info
        The model as returned by the service: tasks, metrics, lineage.
    """

    def __init__(self, http: Http, info: dict[str, Any]) -> None:
        super().__init__(http)
        self.info = info
        self._path = path("v1", "models", info["name"], "versions", info["version"])
        #: The report, once it has been fetched; it never changes.
        self._report: dict[str, Any] | None = None
        #: The first plots as SVG by their sentence, once they have been fetched.
        self._pictures: dict[str, bytes] = {}
        self._v2 = path("v2", "models", info["name"], "versions", info["version"])

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r}, version={self.version})"

    def _repr_html_(self) -> str:
        if not self._http.is_async:
            missing = [self._fetch_report] if self._report is None else []
            for fetch in (*missing, self._fetch_pictures):
                with contextlib.suppress(ServiceError, ServiceUnreachable):
                    self._http.run(fetch())
        return display.model_html(self.info, self._report, self._pictures)

    @property
    def name(self) -> str:
        """Name of the model."""
        return str(self.info["name"])

    @property
    def version(self) -> int:
        """Number of the version."""
        return int(self.info["version"])

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(self.info["tasks"])

    @property
    def task_column(self) -> str:
        """Column in which data frames and records have the task of each row."""
        return str(self.info.get("task_column", TASK))

    @property
    def metrics(self) -> dict[str, dict[str, float | None]]:
        """Scores on the training rows, ``{metric: {task: value}}``; None if not finite."""
        metrics: dict[str, dict[str, float | None]] = self.info["metrics"]
        return metrics

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the class labels of a task, in the order of the columns of :meth:`distances`."""
        if task not in self.tasks:
            raise ValueError(f"model '{self.name}' has no task '{task}'; see model.tasks")
        return tuple(self.info["classes"].get(task, ()))

    @remote_method
    async def transform(
        self, X: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return the projections (n_samples, k) of rows (n_samples, n_features)."""
        return await self._call("transform", X, task, new_tasks=new_tasks)

    @remote_method
    async def inverse_transform(
        self, Z: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return the rows (n_samples, n_features) for projections (n_samples, k)."""
        return await self._call("inverse_transform", Z, task, new_tasks=new_tasks)

    @remote_method
    async def reconstruct(
        self, X: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return rows reconstructed from their projections, without missing values."""
        return await self._call("reconstruct", X, task, new_tasks=new_tasks)

    @remote_method
    async def variance(
        self, X: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return the predictive variance (n_samples,) of each row, given its projection."""
        return await self._call("variance", X, task, new_tasks=new_tasks)

    @remote_method
    async def predict(
        self,
        X: ArrayLike,
        *,
        task: str | None = None,
        new_tasks: NewTasks | None = None,
        row_ids: str | Sequence[str | int] | None = None,
    ) -> NDArray[Any]:
        """Return the predicted labels or numbers (n_samples,) of rows (n_samples, n_features).

        Rows are an array, a data frame, or records such as ``[{"age": 61, "sex": "F"}]``.

        Parameters
        ----------
        row_ids
            Ids by which monitors keep the rows, one for each; or one text for all, which is
            followed by ``-0``, ``-1`` and so on. Default: those in a column ``row_id``, or else the
            service makes them.
        """
        return await self._call("predict", X, task, new_tasks=new_tasks, row_ids=row_ids)

    @remote_method
    async def predictions(
        self,
        rows: str | Path,
        target: str | Path,
        *,
        level: float = DEFAULT_LEVEL,
        new_tasks: NewTasks | None = None,
    ) -> Path:
        """Write the rows of a file with their predictions to another file.

        A calibrated model adds the ends of intervals, or the probability of the predicted class.
        Remarks name unknown categories, and tasks that the model was not trained on.

        Parameters
        ----------
        rows
            A file with a table, in a format of uploads, with a column for the task of each row. A
            column ``row_id`` gives the ids by which monitors keep the rows.
        target
            A file whose name ends in ``.csv`` or ``.xlsx``.
        """
        accepted, source = media_type_of(Path(target)), Path(rows)
        response = await self._http.send(
            "POST",
            f"{self._path}/predictions",
            params={"level": level, **({} if new_tasks is None else {"new_tasks": new_tasks})},
            content=source.read_bytes(),
            headers={"Content-Type": media_type_of(source), "Accept": accepted},
        )
        with replaced_file(Path(target)) as partial:
            partial.write_bytes(response.content)
        return Path(target)

    @remote_method
    async def distances(
        self, X: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return distances (n_samples, n_classes) of rows (n_samples, n_features) to each class."""
        return await self._call("distances", X, task, new_tasks=new_tasks)

    @remote_method
    async def decision_function(
        self, X: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return the values behind the predictions, (n_samples,) or one column per class."""
        return await self._call("decision_function", X, task, new_tasks=new_tasks)

    @remote_method
    async def predict_proba(
        self, X: ArrayLike, *, task: str | None = None, new_tasks: NewTasks | None = None
    ) -> NDArray[Any]:
        """Return the probability of each class, (n_samples, n_classes), of a calibrated model."""
        return await self._call("predict_proba", X, task, new_tasks=new_tasks)

    @remote_method
    async def predict_interval(
        self,
        X: ArrayLike,
        *,
        task: str | None = None,
        level: float = DEFAULT_LEVEL,
        new_tasks: NewTasks | None = None,
    ) -> NDArray[Any]:
        """Return the ends (n_samples, 2) of intervals with the targets, of a calibrated model."""
        return await self._call("predict_interval", X, task, level, new_tasks)

    @remote_method
    async def predict_set(
        self,
        X: ArrayLike,
        *,
        task: str | None = None,
        level: float = DEFAULT_LEVEL,
        new_tasks: NewTasks | None = None,
    ) -> NDArray[Any]:
        """Return 1 for each class in the set of a row, (n_samples, n_classes), else 0."""
        return await self._call("predict_set", X, task, level, new_tasks)

    @remote_method
    async def history(self) -> dict[str, Any]:
        """Return the history of the fit: objective and other quantities per iteration."""
        history: dict[str, Any] = await self._http.get(f"{self._path}/history")
        return history

    @remote_method
    async def report(self) -> dict[str, Any]:
        """Return the report of search, comparison, evaluation, choice and calibration.

        Raises
        ------
        ServiceError
            The model was trained without any of them (``no-report``).
        """
        return await self._fetch_report()

    @remote_method
    async def relations(self) -> dict[str, Any]:
        """Return the relations between tasks: names, strengths and a summary in words."""
        relations: dict[str, Any] = await self._http.get(f"{self._path}/relations")
        return relations

    @remote_method
    async def importance(self) -> dict[str, Any]:
        """Return the importance of the columns, the largest first: for each task, and shared.

        Raises
        ------
        ServiceError
            The model has none (``no-importance``).
        """
        importance: dict[str, Any] = await self._http.get(f"{self._path}/importance")
        return importance

    @remote_method
    async def plots(self) -> list[dict[str, Any]]:
        """Return names, titles and findings of the model's plots, most informative first."""
        return [plot async for plot in self._http.pages(f"{self._path}/plots")]

    @remote_method
    async def plot(self, name: str, *, theme: str = "light") -> Any:
        """Return a plot as a chart of altair, which notebooks show.

        Parameters
        ----------
        name
            Name of a plot, such as ``"relations"``; see :meth:`plots`.
        theme
            ``"light"`` or ``"dark"``, like the page that it is for.

        Raises
        ------
        MissingPackage
            altair is not installed.
        ServiceError
            There is no such plot of the model (``no-plot``).
        """
        load_altair()
        return as_chart(await self._http.get(f"{self._path}{path('plots', name)}", theme=theme))

    @remote_method
    async def save_plot(
        self, name: str, target: str | PathLike[str], *, theme: str = "light"
    ) -> Path:
        """Write a plot to a file: an image, or for ``.json`` its Vega-Lite specification.

        Raises
        ------
        ValueError
            The name of the file does not end in ``.svg``, ``.png`` or ``.json``.
        """
        target = Path(target)
        media_type = _PLOT_TYPES.get(target.suffix.lower())
        if media_type is None:
            endings = ", ".join(_PLOT_TYPES)
            raise ValueError(f"expected a file that ends in one of {endings}, got '{target}'")
        image = await self._fetch_plot(name, media_type, theme)
        with replaced_file(target) as partial:
            partial.write_bytes(image)
        return target

    @remote_method
    async def save_report(self, target: str | Path) -> Path:
        """Write the report to read: one HTML file with answer, plots, methods, data and sources.

        Browsers print it as PDF. :meth:`report` has the numbers for programs.
        """
        return await self._http.download(f"{self._path}/report.html", target)

    @remote_method
    async def download(self, target: str | Path) -> Path:
        """Write the model to a file for ``algorithms.registry.load_model``."""
        return await self._http.download(f"{self._path}/artifact", target)

    @remote_method
    async def to_mlflow(self, target: str | Path) -> Path:
        """Write the model as a directory that MLflow loads and serves without the service.

        Raises
        ------
        ImportError
            MLflow or the algorithms are not installed.
        sibling.export.NotExportable
            The tasks of the model have different columns.
        """
        return await self._export("mlflow_model", target)

    @remote_method
    async def to_onnx(self, target: str | Path) -> Path:
        """Write the model as an ONNX graph with the inputs ``task`` and ``rows``.

        Raises
        ------
        ImportError
            The package onnx or the algorithms are not installed.
        sibling.export.NotExportable
            No graph gives the same outputs; the message says why.
        """
        return await self._export("onnx_model", target)

    @remote_method
    async def set_alias(self, alias: str) -> None:
        """Point an alias, such as ``production``, at this version.

        Raises
        ------
        ServiceError
            Another client has changed the alias at the same time (``precondition-failed``).
        """
        address = path("v1", "models", self.name, "aliases", alias)
        try:
            current = (await self._http.send("GET", address)).headers["etag"]
        except ServiceError as error:
            if error.code != "not-found":
                raise
            condition = {"If-None-Match": "*"}
        else:
            condition = {"If-Match": current}
        # without retries: if a lost response was a success, the condition no longer holds
        await self._http.send(
            "PUT",
            address,
            retry=False,
            json={"version": self.version},
            headers=condition,
        )

    @remote_method
    async def delete(self) -> None:
        """Delete this version."""
        await self._http.send("DELETE", self._path)

    @remote_method
    async def call(
        self,
        method: str,
        body: bytes,
        media_type: str,
        *,
        task: str | None,
        level: float | None = None,
        new_tasks: NewTasks | None = None,
    ) -> NDArray[Any]:
        """Return the outputs of a method for rows in a given media type, such as text/csv.

        Parameters
        ----------
        task
            The task of all rows; None if the rows, or the body, have it.
        level
            Level of intervals and sets; None: the default.
        new_tasks
            What to do about tasks that the model was not trained on; None: as the model says.
        """
        query = {"task": task, "level": level, "new_tasks": new_tasks}
        return await self._send(method, body, media_type, query)

    @remote_method
    async def signature(self) -> dict[str, Any]:
        """Return the inputs and outputs of the model under ``/v2``: names, types and shapes."""
        signature: dict[str, Any] = await self._http.get(self._v2)
        return signature

    @remote_method
    async def statistics(self) -> dict[str, Any]:
        """Return numbers and durations of the requests to this version since the start."""
        statistics: dict[str, Any] = await self._http.get(f"{self._v2}/stats")
        return statistics

    async def _export(self, module: str, target: str | Path) -> Path:
        """Write the model by a module of :mod:`sibling.export`."""
        import_module("algorithms.interface.packages")
        with TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            await self._http.download(f"{self._path}/artifact", file)
            written: Path = import_module(f"sibling.export.{module}").write(file, Path(target))
            return written

    async def _fetch_plot(self, name: str, media_type: str, theme: str) -> bytes:
        response = await self._http.send(
            "GET",
            f"{self._path}{path('plots', name)}",
            params={"theme": theme},
            headers={"Accept": media_type},
        )
        return response.content

    async def _fetch_pictures(self) -> None:
        if not self._pictures:
            page = await self._http.get(f"{self._path}/plots", page_size=_MAX_PICTURES)
            self._pictures = {
                plot["sentence"]: await self._fetch_plot(plot["name"], "image/svg+xml", "light")
                for plot in page["items"]
            }

    async def _fetch_report(self) -> dict[str, Any]:
        report: dict[str, Any] = await self._http.get(f"{self._path}/report")
        self._report = report
        return report

    async def _send(
        self, method: str, body: bytes, media_type: str, query: Mapping[str, Any]
    ) -> NDArray[Any]:
        response = await self._http.send(
            "POST",
            f"{self._path}/{method.replace('_', '-')}",
            params={n: value for n, value in query.items() if value is not None and n != _ROW_IDS},
            content=body,
            headers={
                **row_ids_header(query.get(_ROW_IDS)),
                "Content-Type": media_type,
                "Accept": _NPY,
            },
        )
        new_tasks = response.headers.get(_NEW_TASKS)
        if new_tasks is not None:
            warnings.warn(_warning_of(new_tasks), stacklevel=2)
        unknown = response.headers.get(_UNKNOWN)
        if unknown is not None:
            warnings.warn(UnknownCategoriesWarning.of(json.loads(unknown)), stacklevel=2)
        outputs: NDArray[Any] = np.load(io.BytesIO(response.content), allow_pickle=False)
        return outputs

    async def _call(
        self,
        method: str,
        data: ArrayLike,
        task: str | None,
        level: float | None = None,
        new_tasks: NewTasks | None = None,
        *,
        row_ids: str | Sequence[str | int] | None = None,
    ) -> NDArray[Any]:
        if task is not None and not isinstance(task, str):
            raise TypeError(
                f"expected the name of one task as task, got {type(task).__name__}; for rows of "
                f"several tasks, leave task out and send a data frame with a column "
                f"'{self.task_column}'"
            )
        query = {"task": task, "level": level, "new_tasks": new_tasks, _ROW_IDS: row_ids}
        if isinstance(data, str | PathLike):
            file = Path(data)
            parsed = parse_rows(file.read_bytes(), f"'{file.name}'")
            if isinstance(parsed, tuple):
                return await self._send(method, *parsed, query)
            data = parsed
        columns = tuple(dict.fromkeys((self.task_column, TASK)))
        if is_records(data):
            body = json.dumps(records_body(data, task), default=as_json).encode()
            return await self._send(method, body, "application/json", {**query, "task": None})
        if is_raw(data) or has_tasks(data, columns):
            table = table_bytes(rows_table(data, of=method))
            return await self._send(method, table, _ARROW, query)
        if is_sparse(data):
            return await self._send(method, npz_body(data), _NPZ, query)
        rows = read_rows(data, of=method)
        if rows.names is not None:
            body, media_type = arrow_body(rows.array, rows.names), _ARROW
        else:
            body, media_type = npy_body(rows.array), _NPY
        return await self._send(method, body, media_type, query)


def _warning_of(header: str) -> NewTasksWarning:
    """Return the note on the tasks in a header, whose names are percent-encoded."""
    *names, last = header.split(",")
    if last.startswith("+"):
        return NewTasksWarning([*map(unquote, names)], int(last[1:]))
    return NewTasksWarning([unquote(name) for name in (*names, last)])
