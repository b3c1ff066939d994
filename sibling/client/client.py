"""The class Client: datasets, jobs and models of a service."""

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling.client.errors import ServiceError
from sibling.client.http import Http, path
from sibling.client.job import InferenceJob, TrainingJob
from sibling.client.model import RemoteModel
from sibling.client.resumable import MIN_BYTES, OnProgress, upload_resumably
from sibling.frames import (
    is_frame,
    is_raw,
    join_tables,
    read_labels,
    read_rows,
    table_bytes,
    to_arrow,
)

DEFAULT_URL: Final = "http://127.0.0.1:8000"
_ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
#: Media types of files by the end of their name.
MEDIA_TYPES: Final = {
    ".csv": "text/csv",
    ".npz": "application/x-npz",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".mat": "application/x-matlab-data",
    ".ndjson": "application/x-ndjson",
    ".safetensors": "application/vnd.safetensors",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".parquet": "application/vnd.apache.parquet",
    ".feather": "application/vnd.apache.arrow.file",
    ".arrow": "application/vnd.apache.arrow.file",
    ".arrows": _ARROW_STREAM,
    ".tsv": "text/csv",
    ".csv.gz": "text/csv",
    ".csv.zst": "text/csv",
}
_CHUNK_BYTES: Final = 1024 * 1024
_UPLOAD_WAIT_S: Final = 0.5
#: Maximum number of items that the service returns at once.
_MAX_PAGE_SIZE: Final = 200


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of the service."""

    id: str
    name: str
    tasks: tuple[str, ...]
    info: dict[str, Any]


class Client:
    """Client of a Sibling service.

    Parameters
    ----------
    base_url
        URL of the service. Default: the environment variable ``SIBLING_URL``, or
        ``http://127.0.0.1:8000``.
    api_key
        API key, if the service requires one. Default: the environment variable
        ``SIBLING_API_KEY``.
    timeout_s
        Timeout of one request.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")  # doctest: +SKIP
    >>> dataset = client.upload({"a": Xa, "b": Xb}, name="pair")  # doctest: +SKIP
    >>> model = client.train(dataset, "rmt-pca", k=2).wait()  # doctest: +SKIP
    >>> model.transform(X, task="a")  # doctest: +SKIP
    """

    def __init__(
        self, base_url: str | None = None, *, api_key: str | None = None, timeout_s: float = 60
    ) -> None:
        url = base_url or os.environ.get("SIBLING_URL", DEFAULT_URL)
        key = api_key or os.environ.get("SIBLING_API_KEY")
        self._http = Http(url, api_key=key, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def health(self) -> dict[str, Any]:
        """Return the readiness of the service.

        Raises
        ------
        ServiceError
            The service is not ready; the error has the reason.
        """
        body: dict[str, Any] = self._http.send("GET", "/v2/health/ready", retry=False).json()
        return body

    def algorithms(self) -> list[dict[str, Any]]:
        """Return the algorithms with the JSON Schema of their parameters."""
        return list(self._http.pages("/v1/algorithms"))

    def algorithm(self, name: str) -> dict[str, Any]:
        """Return one algorithm with the JSON Schema of its parameters."""
        found: dict[str, Any] = self._http.send("GET", path("v1", "algorithms", name)).json()
        return found

    def upload(
        self,
        data: Mapping[str, ArrayLike] | str | Path | Any,
        targets: Mapping[str, ArrayLike] | None = None,
        *,
        groups: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        on_progress: OnProgress | None = None,
        on_parsed: OnProgress | None = None,
        **options: str | Sequence[str],
    ) -> Dataset:
        """Upload a dataset and return it when the service has validated it.

        A large file is sent in parts. If the upload is interrupted, a later call resumes it.

        Parameters
        ----------
        data
            ``{task: (n_samples, n_features)}`` arrays or data frames, one data frame of all tasks,
            or the path of a file, in a format by the end of its name. Data frames of pandas,
            polars or Arrow keep their column names: columns are matched by name between tasks,
            and between the dataset and rows for inference. Their columns may have text, dates,
            booleans and missing values.
        targets
            ``{task: (n_samples,)}`` numbers or labels; only with arrays and data frames.
        groups
            ``{task: (n_samples,)}`` numbers or labels; only with arrays and data frames. Rows of
            the same group (a patient, a session), in any task, are held out together.
        name
            Name of the dataset. Default: the name of the file, or ``arrays``.
        on_progress
            Called with the number of bytes of a file that have been sent, and of all.
        on_parsed
            Called with the number of bytes that the service has parsed, and of all, from time to
            time while it parses a large file of CSV or Arrow.
        options
            Options for a table: ``task_column="school"``, ``target_column="score"``,
            ``group_column="patient"``, ``column_kind=["zip:category"]``; and for CSV
            ``delimiter=";"``, ``decimal=","``, ``encoding="latin-1"``, ``missing_marker=["-999"]``.

        Raises
        ------
        ServiceError
            The service has rejected the dataset (``invalid-dataset``).
        """
        if isinstance(data, str | Path):
            source = Path(data)
            file_name = source.name.lower()
            media_type = next(
                (t for end, t in MEDIA_TYPES.items() if file_name.endswith(end)), None
            )
            if media_type is None:
                known = ", ".join(MEDIA_TYPES)
                raise ValueError(f"expected a file with one of {known}, got '{source.name}'")
            query = {"name": name or source.stem, **options}
            return self._upload_file(
                source, media_type, query, on_progress or _ignore, on_parsed or _ignore
            )
        if is_frame(data):
            query = {"name": name or "table", **options}
            return self._upload(
                _read(_stream(to_arrow(data, of="the table"))), _ARROW_STREAM, query
            )
        if not isinstance(data, Mapping):
            raise TypeError(
                "expected a mapping {task: rows}, a data frame or a path, got "
                f"{type(data).__name__}"
            )
        if any(map(is_raw, data.values())):
            table, roles = join_tables(data, targets or {}, groups or {})
            query = {"name": name or "tables", **roles, **options}
            return self._upload(_read(_stream(table)), _ARROW_STREAM, query)
        body = _pack(data, targets or {}, groups or {})
        query = {"name": name or "arrays", **options}
        return self._upload(_read(body), "application/x-npz", query)

    def combine(
        self,
        *sources: Dataset | str | Mapping[str, Any],
        name: str,
    ) -> Dataset:
        """Make a dataset of others, without another upload, and return it when it is ready.

        Rows of tasks with the same name are put together in the order of the sources, so a dataset
        grows by an upload of the new rows: ``combine(old, client.upload(new), name="march")``.

        Parameters
        ----------
        sources
            Datasets or their ids; or selections, such as ``{"dataset_id": id, "tasks": ["a"],
            "columns": ["age", "sex"], "rows": {"start": 0, "stop": 100}}``.
        name
            Name of the new dataset.

        Raises
        ------
        ServiceError
            A source does not exist, or the datasets do not fit together (``invalid-dataset``).
        """
        selections = [
            dict(source)
            if isinstance(source, Mapping)
            else {"dataset_id": source.id if isinstance(source, Dataset) else source}
            for source in sources
        ]
        body = {"name": name, "sources": selections}
        headers = {"Idempotency-Key": uuid4().hex}
        response = self._http.send("POST", "/v1/datasets:combine", json=body, headers=headers)
        return self._ready(response.json())

    def datasets(self) -> list[dict[str, Any]]:
        """Return the datasets, newest first."""
        return list(self._http.pages("/v1/datasets"))

    def dataset_info(self, dataset_id: str) -> dict[str, Any]:
        """Return the state of a dataset, which need not be ready, and issues and warnings."""
        info: dict[str, Any] = self._http.send("GET", path("v1", "datasets", dataset_id)).json()
        return info

    def dataset(self, dataset_id: str) -> Dataset:
        """Return one dataset, which is ready."""
        info = self.dataset_info(dataset_id)
        manifest = self._http.send("GET", path("v1", "datasets", dataset_id, "manifest")).json()
        tasks = tuple(task["name"] for task in manifest["tasks"])
        return Dataset(info["id"], info["name"], tasks, info)

    def preview(
        self, dataset: Dataset | str, tasks: Sequence[str] = (), *, n_rows: int = 5
    ) -> dict[str, Any]:
        """Return first rows, columns and targets of tasks, and what can be trained.

        Parameters
        ----------
        tasks
            Names of tasks. Default: the first ones.
        """
        dataset_id = dataset.id if isinstance(dataset, Dataset) else dataset
        url = path("v1", "datasets", dataset_id, "preview")
        query = {"task": list(tasks), "rows": n_rows}
        body: dict[str, Any] = self._http.send("GET", url, params=query).json()
        return body

    def delete_dataset(self, dataset_id: str) -> None:
        """Delete a dataset that no job and no model uses."""
        self._http.send("DELETE", path("v1", "datasets", dataset_id))

    def train(
        self,
        dataset: Dataset | str,
        algorithm: str,
        *,
        model: str | None = None,
        seed: int = 0,
        limits: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        compare: bool | Mapping[str, Any] = False,
        evaluate: bool | Mapping[str, Any] = False,
        preparation: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> TrainingJob:
        """Submit a job that trains a model, and return the job.

        Parameters
        ----------
        model
            Name of the model. Default: the name of the algorithm.
        limits
            ``priority``, ``timeout_s``, ``memory_mb``, ``max_attempts``, ``threads``.
        search
            Parameter values to try by cross-validation: ``{"space": {"k": [1, 2, 3]}, "n_folds":
            5}``, or
            ``{"space": {"C": {"low": 0.01, "high": 100.0, "scale": "log"}}, "method": "random"}``.
        compare
            Compare the algorithm with methods that train each task separately and with others that
            train all tasks together. The report of the model says whether learning together
            helps, and which method is best. Options: ``{"splits": {...}, "metric": ...,
            "min_effect": 0.01}``.
        evaluate
            Evaluate the algorithm on held-out rows. Options: ``{"splits": {...}}``.
        preparation
            How raw rows are prepared, such as ``{"scale": "robust", "impute": "mean"}``. Default:
            a dataset with missing values, text or dates is prepared, and numbers are not.
        params
            Parameters of the algorithm.
        """
        return self.submit(
            dataset,
            algorithm,
            params,
            model=model,
            seed=seed,
            limits=limits,
            search=search,
            compare=compare,
            evaluate=evaluate,
            preparation=preparation,
        )

    def adapt(
        self, model: RemoteModel, dataset: Dataset | str, *, name: str | None = None
    ) -> TrainingJob:
        """Submit a job that adds the tasks of a dataset to a model, and return the job.

        Shared parameters of the model stay fixed. The result is a new version of the model,
        or a new model called ``name``. Concurrent jobs each extend the given version only, so
        none includes the tasks of the others.
        """
        return self._queue(
            {
                "dataset_id": dataset.id if isinstance(dataset, Dataset) else dataset,
                "algorithm": model.info["algorithm"],
                "model": name or model.name,
                "adapt": {"model": model.name, "version": model.version},
            }
        )

    def submit(
        self,
        dataset: Dataset | str,
        algorithm: str,
        params: Mapping[str, Any],
        *,
        model: str | None = None,
        seed: int = 0,
        limits: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        compare: bool | Mapping[str, Any] = False,
        evaluate: bool | Mapping[str, Any] = False,
        preparation: Mapping[str, Any] | None = None,
    ) -> TrainingJob:
        """Submit a training job. Unlike with :meth:`train`, parameters may have any name."""
        spec: dict[str, Any] = {
            "dataset_id": dataset.id if isinstance(dataset, Dataset) else dataset,
            "algorithm": algorithm,
            "model": model or algorithm,
            "seed": seed,
            "params": dict(params),
            "compare": compare if isinstance(compare, bool) else dict(compare),
            "evaluate": evaluate if isinstance(evaluate, bool) else dict(evaluate),
            **(limits or {}),
        }
        if search is not None:
            spec["search"] = dict(search)
        if preparation is not None:
            spec["preparation"] = dict(preparation)
        return self._queue(spec)

    def infer(
        self,
        model: RemoteModel | str,
        method: str,
        dataset: Dataset | str,
        *,
        tasks: Mapping[str, str] | None = None,
        makes_dataset: bool = True,
        name: str | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> InferenceJob:
        """Submit a job that applies a method of a model to a dataset, and return the job.

        Parameters
        ----------
        model
            A version, NAME for the latest version, or NAME@ALIAS.
        tasks
            ``{task of the dataset: task of the model}``. Default: all tasks of the dataset, with
            tasks of the model of the same name.
        makes_dataset
            Whether to store numeric outputs as a dataset too.
        name
            Name of that dataset.
        limits
            Limits of the job, as for :meth:`train`.
        """
        spec = {
            "model": model if isinstance(model, str) else model.name,
            "version": None if isinstance(model, str) else model.version,
            "method": method,
            "dataset_id": dataset.id if isinstance(dataset, Dataset) else dataset,
            "tasks": None if tasks is None else dict(tasks),
            "makes_dataset": makes_dataset,
            "dataset_name": name,
            **(limits or {}),
        }
        return InferenceJob(self._http, self._post("/v1/jobs:infer", spec))

    def _queue(self, spec: dict[str, Any]) -> TrainingJob:
        return TrainingJob(self._http, self._post("/v1/jobs", spec))

    def _post(self, address: str, spec: dict[str, Any]) -> dict[str, Any]:
        # the key makes retries safe: the job is created once
        headers = {"Idempotency-Key": uuid4().hex, "Content-Type": "application/json"}
        body = json.dumps(spec, default=_to_json)
        job: dict[str, Any] = self._http.send("POST", address, content=body, headers=headers).json()
        return job

    def retrain(
        self,
        model: RemoteModel | str,
        dataset: Dataset | str | None = None,
        *,
        name: str | None = None,
        seed: int | None = None,
    ) -> TrainingJob:
        """Repeat the job that trained a model, with the same specification, and return the job.

        Parameters
        ----------
        model
            The model, or a name or ``NAME@ALIAS``.
        dataset
            Another dataset, such as one that has grown. Default: that of the model.
        name
            Name of another model. Default: the result is the next version of the model.
        seed
            Another random seed. Default: that of the model.
        """
        found = self.model(model) if isinstance(model, str) else model
        given = {
            "dataset_id": dataset.id if isinstance(dataset, Dataset) else dataset,
            "model": name,
            "seed": seed,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        address = path("v1", "jobs", found.info["lineage"]["job_id"]) + ":repeat"
        return TrainingJob(self._http, self._post(address, changes))

    def job(self, job_id: str) -> TrainingJob:
        """Return a training job."""
        return TrainingJob(self._http, self._http.send("GET", path("v1", "jobs", job_id)).json())

    def inference(self, job_id: str) -> InferenceJob:
        """Return a batch inference job."""
        job = self._http.send("GET", path("v1", "jobs", job_id)).json()
        return InferenceJob(self._http, job)

    def delete_job(self, job_id: str) -> None:
        """Delete a job that has ended, with its child jobs, events and outputs.

        Raises
        ------
        ServiceError
            The job has not ended (``wrong-state``), or it is a child job or has made a model
            version that still exists (``in-use``).
        """
        self._http.send("DELETE", path("v1", "jobs", job_id))

    def jobs(self, *, state: str | None = None, parent: str | None = None) -> list[dict[str, Any]]:
        """Return the jobs, newest first.

        Parameters
        ----------
        state
            Return only jobs in this state, such as ``running``.
        parent
            Return the child jobs of this job instead.
        """
        given = {"state": state, "parent": parent}
        query = {name: value for name, value in given.items() if value is not None}
        return list(self._http.pages("/v1/jobs", page_size=_MAX_PAGE_SIZE, **query))

    def models(self) -> list[dict[str, Any]]:
        """Return the latest version of every model, in the order of their names."""
        return list(self._http.pages("/v1/models"))

    def versions(self, name: str) -> list[dict[str, Any]]:
        """Return the versions of a model, newest first."""
        return list(self._http.pages(path("v1", "models", name, "versions")))

    def model(self, name: str, version: int | None = None) -> RemoteModel:
        """Return a version of a model: by number, by alias (NAME@ALIAS), or the latest."""
        suffix = () if version is None else ("versions", version)
        found = self._http.send("GET", path("v1", "models", name, *suffix)).json()
        return RemoteModel(self._http, found)

    def aliases(self, name: str) -> dict[str, int]:
        """Return the aliases of a model and their versions."""
        listed = self._http.pages(path("v1", "models", name, "aliases"))
        return {item["alias"]: item["version"] for item in listed}

    def delete_alias(self, name: str, alias: str) -> None:
        """Delete an alias of a model, but not the version that it points at."""
        self._http.send("DELETE", path("v1", "models", name, "aliases", alias))

    def audit(
        self,
        *,
        owner: str | None = None,
        key_id: str | None = None,
        operation: str | None = None,
        object: str | None = None,  # noqa: A002 - name of the field
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield audit events, newest first: requests and commands that changed something.

        Parameters
        ----------
        owner, key_id, operation, object
            Return only events with this value. An object is the path of a resource, such as
            ``/v1/jobs/job_1``.
        since, until
            Return only events of this time and later, and before this time; with time zone.

        Raises
        ------
        ServiceError
            The API key has neither the scope ``audit:read`` nor ``admin``.
        """
        given = {"owner": owner, "key_id": key_id, "operation": operation, "object": object}
        times = {"since": since, "until": until}
        given |= {name: None if t is None else t.isoformat() for name, t in times.items()}
        query = {name: value for name, value in given.items() if value is not None}
        return self._http.pages("/v1/audit", page_size=_MAX_PAGE_SIZE, **query)

    def _upload_file(
        self,
        source: Path,
        media_type: str,
        query: Mapping[str, str | Sequence[str]],
        on_progress: OnProgress,
        on_parsed: OnProgress,
    ) -> Dataset:
        with source.open("rb") as file:
            size = source.stat().st_size
            if size < MIN_BYTES:
                chunks = _report(_read(file), size, on_progress)
                return self._upload(chunks, media_type, query, on_parsed)
            dataset_id = upload_resumably(self._http, file, media_type, query, on_progress)
        info = self._http.send("GET", path("v1", "datasets", dataset_id)).json()
        return self._ready(info, on_parsed)

    def _upload(
        self,
        chunks: Iterator[bytes],
        media_type: str,
        query: Mapping[str, str | Sequence[str]],
        on_parsed: OnProgress | None = None,
    ) -> Dataset:
        response = self._http.send(
            "POST",
            "/v1/datasets",
            retry=False,  # the stream can be sent only once
            params=query,
            content=chunks,
            headers={"Content-Type": media_type},
        )
        return self._ready(response.json(), on_parsed)

    def _ready(self, info: dict[str, Any], on_parsed: OnProgress | None = None) -> Dataset:
        """Return a dataset once it is ready."""
        while info["state"] in ("uploaded", "ingesting"):
            if on_parsed is not None and info.get("parsed_bytes") is not None:
                on_parsed(info["parsed_bytes"], info["size_bytes"])
            info = self._http.send(
                "GET", path("v1", "datasets", info["id"]), params={"wait": _UPLOAD_WAIT_S}
            ).json()
        if info["state"] == "rejected":
            errors = info["issues"]
            raise ServiceError(422, "invalid-dataset", errors[0]["detail"], errors)
        return self.dataset(info["id"])


def _pack(
    data: Mapping[str, ArrayLike],
    targets: Mapping[str, ArrayLike],
    groups: Mapping[str, ArrayLike],
) -> io.BytesIO:
    for what, given in (("targets", targets), ("groups", groups)):
        unknown = sorted(given.keys() - data.keys())
        if unknown:
            raise ValueError(
                f"expected {what} only for tasks with rows, got {what} for: {', '.join(unknown)}"
            )
    arrays: dict[str, NDArray[Any]] = {}
    for task, X in data.items():
        rows = read_rows(X, of=f"task '{task}'")
        arrays[f"{task}/X"] = rows.array
        if rows.names is not None:
            arrays[f"{task}/feature_names"] = np.array(rows.names)
    for task, y in targets.items():
        arrays[f"{task}/y"] = read_labels(y, data[task], of=f"targets of task '{task}'")
    for task, own in groups.items():
        arrays[f"{task}/groups"] = read_labels(own, data[task], of=f"groups of task '{task}'")
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]  # no array has the name of an option
    body.seek(0)
    return body


def _to_json(value: Any) -> Any:
    """Return a numpy number or array as numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"expected a parameter that JSON can represent, got {value!r}")


def _stream(table: Any) -> io.BytesIO:
    return io.BytesIO(table_bytes(table))


def _read(file: io.BufferedIOBase) -> Iterator[bytes]:
    while data := file.read(_CHUNK_BYTES):
        yield data


def _ignore(_done: int, _total: int) -> None:
    """Report no progress."""


def _report(chunks: Iterator[bytes], size: int, on_progress: OnProgress) -> Iterator[bytes]:
    n_sent = 0
    for chunk in chunks:
        yield chunk
        n_sent += len(chunk)
        on_progress(n_sent, size)
