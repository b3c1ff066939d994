"""The way in for Python programs."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from service.client.errors import ServiceError
from service.client.frames import read_labels, read_rows
from service.client.http import Http, path
from service.client.job import InferenceHandle, JobHandle
from service.client.model import RemoteModel

DEFAULT_URL: Final = "http://127.0.0.1:8000"
_MEDIA_TYPES: Final = {".csv": "text/csv", ".npz": "application/x-npz"}
_CHUNK_BYTES: Final = 1024 * 1024
_UPLOAD_WAIT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset in the service."""

    id: str
    name: str
    tasks: tuple[str, ...]
    info: dict[str, Any]


class Client:
    """A Sibling service.

    Parameters
    ----------
    base_url
        Address of the service; ``SIBLING_URL`` from the environment, or this machine's port
        8000, by default.
    api_key
        Where the service asks for one; ``SIBLING_API_KEY`` from the environment by default.
    timeout_s
        Longest wait for one answer.

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
        """Return whether the service is ready, and why not."""
        body: dict[str, Any] = self._http.send("GET", "/v2/health/ready", again=False).json()
        return body

    def algorithms(self) -> list[dict[str, Any]]:
        """Return the algorithms with the JSON Schema of their parameters."""
        return list(self._http.pages("/v1/algorithms"))

    def upload(
        self,
        data: Mapping[str, ArrayLike] | str | Path,
        targets: Mapping[str, ArrayLike] | None = None,
        *,
        groups: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        **options: str,
    ) -> Dataset:
        """Return the dataset made of arrays or frames, one for each task, or of a file.

        Parameters
        ----------
        data
            ``{task: (n_samples, n_features)}``, or the path of a .csv or .npz file. Frames of
            pandas, polars or Arrow keep the names of their columns: tasks with the same names are
            brought into one order, and the model takes its rows by these names.
        targets
            ``{task: (n_samples,)}`` numbers or labels, with arrays and frames only; row by row.
        groups
            ``{task: (n_samples,)}`` numbers or labels, with arrays and frames only: rows of one
            group (a patient, a session), of whatever task, are held out together or not at all.
        options
            How to read a table: ``task_column="school"``, ``target_column="score"``,
            ``group_column="patient"``.
        """
        if isinstance(data, str | Path):
            source = Path(data)
            media_type = _MEDIA_TYPES.get(source.suffix.lower())
            if media_type is None:
                raise ValueError(f"'{source.name}' is none of {', '.join(_MEDIA_TYPES)}")
            query = {"name": name or source.stem, **options}
            with source.open("rb") as file:
                return self._upload(_read(file), media_type, query)
        if not isinstance(data, Mapping):
            raise TypeError(
                f"expected rows for each task, {{task: rows}}, or a path; got {type(data).__name__}"
            )
        body = _pack(data, targets or {}, groups or {})
        query = {"name": name or "arrays", **options}
        return self._upload(_read(body), "application/x-npz", query)

    def datasets(self) -> list[dict[str, Any]]:
        """Return the datasets, newest first."""
        return list(self._http.pages("/v1/datasets"))

    def dataset(self, dataset_id: str) -> Dataset:
        """Return one dataset."""
        info = self._http.send("GET", path("v1", "datasets", dataset_id)).json()
        manifest = self._http.send("GET", path("v1", "datasets", dataset_id, "manifest")).json()
        tasks = tuple(task["name"] for task in manifest["tasks"])
        return Dataset(info["id"], info["name"], tasks, info)

    def delete_dataset(self, dataset_id: str) -> None:
        """Delete a dataset that no job and no model needs."""
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
        **params: Any,
    ) -> JobHandle:
        """Return a handle of the job that trains an algorithm with these parameters.

        Parameters
        ----------
        model
            Name of the model; the algorithm's by default.
        limits
            ``priority``, ``timeout_s``, ``memory_mb``, ``max_attempts``, ``threads``.
        search
            Values to try by cross-validation: ``{"space": {"k": [1, 2, 3]}, "n_folds": 5}``; or
            ``{"space": {"C": {"low": 0.01, "high": 100.0, "scale": "log"}}, "method": "random"}``.
        compare
            Compare it with methods that learn each task alone, and others that learn them together;
            the model's report says whether learning together helps, and which method is best.
            ``{"splits": {...}, "metric": ..., "min_effect": 0.01}`` says how.
        evaluate
            Judge it by itself on held-out rows. ``{"splits": {...}}`` says how.
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
        )

    def adapt(
        self, model: RemoteModel, dataset: Dataset | str, *, name: str | None = None
    ) -> JobHandle:
        """Return a handle of the job that takes the tasks of a dataset into a model.

        What the model has learned is frozen; a new version is made, or a model of another name. Of
        several at once each goes on from the version given, and knows nothing of the others.
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
    ) -> JobHandle:
        """Return a handle of the job, as :meth:`train` does, with parameters of any name."""
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
    ) -> InferenceHandle:
        """Return a handle of the job that calls a method of a model over a whole dataset.

        Parameters
        ----------
        model
            A version, or a name: NAME for the latest, NAME@ALIAS.
        tasks
            Tasks of the dataset, each with the model's task that it is called as; every one by
            its own name by default.
        makes_dataset
            Make a dataset of the outputs, where they are numbers, called ``name``.
        limits
            As for :meth:`train`.
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
        return InferenceHandle(self._http, self._post("/v1/jobs:infer", spec))

    def _queue(self, spec: dict[str, Any]) -> JobHandle:
        return JobHandle(self._http, self._post("/v1/jobs", spec))

    def _post(self, address: str, spec: dict[str, Any]) -> dict[str, Any]:
        # the key makes it safe to send again: a job is created once
        headers = {"Idempotency-Key": uuid4().hex, "Content-Type": "application/json"}
        body = json.dumps(spec, default=_plain)
        job: dict[str, Any] = self._http.send("POST", address, content=body, headers=headers).json()
        return job

    def job(self, job_id: str) -> JobHandle:
        """Return a handle of a job that trains."""
        return JobHandle(self._http, self._http.send("GET", path("v1", "jobs", job_id)).json())

    def inference(self, job_id: str) -> InferenceHandle:
        """Return a handle of a job that calls a model over a dataset."""
        job = self._http.send("GET", path("v1", "jobs", job_id)).json()
        return InferenceHandle(self._http, job)

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs, newest first."""
        return list(self._http.pages("/v1/jobs"))

    def models(self) -> list[dict[str, Any]]:
        """Return the models by name, each by its latest version."""
        return list(self._http.pages("/v1/models"))

    def model(self, name: str, version: int | None = None) -> RemoteModel:
        """Return a model, by its latest version unless one is named: NAME@ALIAS, or by number."""
        suffix = () if version is None else ("versions", version)
        found = self._http.send("GET", path("v1", "models", name, *suffix)).json()
        return RemoteModel(self._http, found)

    def aliases(self, name: str) -> dict[str, int]:
        """Return the aliases of a model with the versions that they name."""
        listed = self._http.pages(path("v1", "models", name, "aliases"))
        return {item["alias"]: item["version"] for item in listed}

    def delete_alias(self, name: str, alias: str) -> None:
        """Delete an alias of a model; the version that it names stays."""
        self._http.send("DELETE", path("v1", "models", name, "aliases", alias))

    def _upload(
        self, chunks: Iterator[bytes], media_type: str, query: Mapping[str, str]
    ) -> Dataset:
        response = self._http.send(
            "POST",
            "/v1/datasets",
            again=False,  # the body is a stream, and is gone once sent
            params=query,
            content=chunks,
            headers={"Content-Type": media_type},
        )
        info = response.json()
        while info["state"] in ("uploaded", "ingesting"):
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
            raise ValueError(f"{what} name tasks that have no rows: {', '.join(unknown)}")
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
    np.savez(body, **arrays)  # type: ignore[arg-type]  # no array is named as an option is
    body.seek(0)
    return body


def _plain(value: Any) -> Any:
    """Return a number of numpy, or an array, as JSON has it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be a parameter: it is no JSON")


def _read(file: io.BufferedIOBase) -> Iterator[bytes]:
    while data := file.read(_CHUNK_BYTES):
        yield data
