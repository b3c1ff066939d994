"""Datasets of the service: upload, combination and previews."""

import io
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import ArrayLike

from sibling.client import display
from sibling.client.bodies import tasks_body
from sibling.client.errors import ServiceError, json_of
from sibling.client.http import path
from sibling.client.modes import Collection, Listing, Mode, Remote, remote_method
from sibling.client.progress import OnProgress, upload_bar
from sibling.client.resumable import MIN_BYTES, TUS, upload_resumably
from sibling.frames import is_frame, is_raw, join_tables, table_bytes, to_arrow, with_index

_ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
_CSV: Final = "text/csv"
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
    ".tab": "text/csv",
    ".txt": "text/csv",
    ".dat": "text/csv",
    ".csv.gz": "text/csv",
    ".csv.zst": "text/csv",
}
_OTHER_FILES: Final = (
    "read other files with pandas, such as pd.read_stata or pd.read_excel, and upload the data "
    "frame, or save them as CSV or .xlsx in the program that wrote them"
)
_CHUNK_BYTES: Final = 1024 * 1024
_UPLOAD_WAIT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of the service."""

    id: str
    name: str
    tasks: tuple[str, ...]
    info: dict[str, Any]

    def _repr_html_(self) -> str:
        return display.dataset_html(self.info, self.tasks)


class DatasetMethods(Remote[Mode]):
    """Methods of the client for datasets."""

    @remote_method
    async def upload(
        self,
        /,
        data: Mapping[str, ArrayLike] | str | Path | Any,
        targets: Mapping[str, ArrayLike] | None = None,
        *,
        groups: Mapping[str, ArrayLike] | None = None,
        sample_weight: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        progress: bool = False,
        on_progress: OnProgress | None = None,
        on_parsed: OnProgress | None = None,
        **options: str | Sequence[str],
    ) -> Dataset:
        """Upload a dataset and return it when the service has validated it.

        A large file is sent in parts. If the upload is interrupted, a later call resumes it.

        Parameters
        ----------
        data
            ``{task: (n_samples, n_features)}`` arrays, matrices of ``scipy.sparse`` (which stay
            sparse, and which linear methods take) or data frames, one data frame of all tasks, or
            the path of a file, in a format by the end of its name. Data frames of pandas, polars
            or Arrow keep their column names: columns are matched by name between tasks, and
            between the dataset and rows for inference. Their columns may have text, dates,
            booleans and missing values. In one data frame of all tasks, the named levels of the
            index are columns, too; in a data frame for each task, the index is left out.
        targets
            ``{task: (n_samples,)}`` numbers or labels; only with arrays and data frames.
        groups
            ``{task: (n_samples,)}`` numbers or labels; only with arrays and data frames. Rows of
            the same group (a patient, a session), in any task, are held out together.
        sample_weight
            ``{task: (n_samples,)}`` numbers of at least 0; only with arrays and data frames. How
            much each row counts within its task in fits and metrics.
        name
            Name of the dataset. Default: the name of the file, or ``arrays``.
        progress
            Whether to show a progress bar on a terminal or in a notebook.
        on_progress
            Called with the number of bytes sent so far, and the total number of bytes.
        on_parsed
            Called with the number of bytes that the service has parsed, and the total number, from
            time to time while it parses a large file of CSV or Arrow.
        options
            Options for a table: ``task_column="school"``, ``target_column="score"``,
            ``group_column="patient"``, ``weight_column="count"``,
            ``column_kind=["zip:category"]``; for numbers in text ``decimal=","``,
            ``thousands="."``; for CSV ``delimiter=";"``, ``encoding="latin-1"``,
            ``missing_marker=["-999"]``; for Excel ``sheet="2025"``; and for files of arrays
            ``variables=["features:X", "grades:y"]``.

        Raises
        ------
        ServiceError
            The service has rejected the dataset (``invalid-dataset``).
        """
        calls = on_progress or _ignore, on_parsed or _ignore
        with upload_bar(*calls) if progress else nullcontext(calls) as (show_sent, show_parsed):
            return await self._upload_data(
                data,
                targets=targets or {},
                extras={"groups": groups or {}, "sample_weight": sample_weight or {}},
                name=name,
                options=options,
                on_progress=show_sent,
                on_parsed=show_parsed,
            )

    @remote_method
    async def inspect(
        self, /, data: str | Path | Any, **options: str | Sequence[str]
    ) -> dict[str, Any]:
        """Return the columns and first rows of a table before it is uploaded; store nothing.

        The result has the columns that may say which task a row belongs to, the best first, and a
        proposal for the target.

        Parameters
        ----------
        data
            The path of a file, or one data frame of all tasks, as of :meth:`upload`.
        options
            Options of :meth:`upload`.
        """
        if is_frame(data):
            body = table_bytes(to_arrow(with_index(data), of="the table"))
            media_type = _ARROW_STREAM
        else:
            body, media_type = Path(data).read_bytes(), media_type_of(Path(data))
        headers = {"Content-Type": media_type}
        response = await self._http.send(
            "POST", "/v1/datasets:inspect", params=options, content=body, headers=headers
        )
        found: dict[str, Any] = response.json()
        return found

    @remote_method
    async def combine(
        self,
        *sources: Dataset | str | Mapping[str, Any],
        name: str,
    ) -> Dataset:
        """Make a dataset of other datasets, without an upload, and return it when it is ready.

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
            dict(source) if isinstance(source, Mapping) else {"dataset_id": dataset_id_of(source)}
            for source in sources
        ]
        body = {"name": name, "sources": selections}
        return await self._ready(await self._http.create("/v1/datasets:combine", body))

    @property
    def datasets(self) -> Collection[Mode, "Dataset"]:
        """The datasets, newest first; indexed by id."""
        return Collection(self._http, "/v1/datasets", self._dataset)

    @property
    def uploads(self) -> Listing[Mode]:
        """Uploads of large files that have begun; an interrupted one is resumed by a repetition."""
        return Listing(self._http, lambda: self._http.pages("/v1/uploads"))

    @remote_method
    async def delete_upload(self, upload_id: str) -> None:
        """Delete an upload that is not to be resumed."""
        await self._http.send("DELETE", path("v1", "uploads", upload_id), headers=TUS)

    @remote_method
    async def dataset(self, dataset_id: str) -> "Dataset":
        """Return one dataset, which is ready."""
        return await self._dataset(dataset_id)

    @remote_method
    async def dataset_info(self, dataset_id: str) -> dict[str, Any]:
        """Return the state of a dataset, which need not be ready, and issues and warnings."""
        info: dict[str, Any] = await self._http.get(path("v1", "datasets", dataset_id))
        return info

    @remote_method
    async def manifest(self, dataset: "Dataset | str") -> dict[str, Any]:
        """Return the tasks of a dataset with their columns, targets and summaries."""
        return await self._manifest(dataset_id_of(dataset))

    @remote_method
    async def preview(
        self,
        dataset: Dataset | str,
        tasks: Sequence[str] = (),
        *,
        n_rows: int = 5,
        first_row: int = 0,
    ) -> dict[str, Any]:
        """Return rows, columns and targets of tasks, and the algorithms that can be trained.

        Parameters
        ----------
        tasks
            Names of tasks. Default: the first tasks.
        n_rows, first_row
            Number of rows of each task, and the number of the first of them, from 0.
        """
        url = path("v1", "datasets", dataset_id_of(dataset), "preview")
        query = {"task": list(tasks), "rows": n_rows, "first_row": first_row}
        body: dict[str, Any] = await self._http.get(url, **query)
        return body

    @remote_method
    async def download_dataset(
        self, dataset: Dataset | str, target: str | Path, tasks: Sequence[str] = ()
    ) -> Path:
        """Write the rows of tasks with the same columns to a file.

        The columns have the names of the upload: an upload of the file with the same options gives
        the same tasks.

        Parameters
        ----------
        target
            A file whose name ends in ``.csv``, or in ``.arrows`` for a stream of Arrow record
            batches, which keeps the types of columns.
        tasks
            Names of tasks. Default: all.
        """
        media_type = MEDIA_TYPES.get(Path(target).suffix.lower())
        if media_type not in (_CSV, _ARROW_STREAM):
            raise ValueError(f"expected a file .csv or .arrows, got '{Path(target).name}'")
        url = path("v1", "datasets", dataset_id_of(dataset), "table")
        headers, params = {"Accept": media_type}, {"task": list(tasks)}
        return await self._http.download(url, target, headers=headers, params=params)

    @remote_method
    async def delete_dataset(self, dataset_id: str) -> None:
        """Delete a dataset that no job and no model uses."""
        await self._http.send("DELETE", path("v1", "datasets", dataset_id))

    async def _upload_data(
        self,
        data: Any,
        *,
        targets: Mapping[str, ArrayLike],
        extras: Mapping[str, Mapping[str, ArrayLike]],
        name: str | None,
        options: Mapping[str, str | Sequence[str]],
        on_progress: OnProgress,
        on_parsed: OnProgress,
    ) -> Dataset:
        if isinstance(data, str | Path):
            source = Path(data)
            query = {"name": name or source.stem, **options}
            return await self._upload_file(
                source, media_type_of(source), query, on_progress, on_parsed
            )
        if is_frame(data):
            query = {"name": name or "table", **options}
            table = to_arrow(with_index(data), of="the table")
            chunks = _chunks_of(_stream(table), on_progress)
            return await self._upload(chunks, _ARROW_STREAM, query, on_parsed)
        if not isinstance(data, Mapping):
            raise TypeError(
                "expected a mapping {task: rows}, a data frame or a path, got "
                f"{type(data).__name__}"
            )
        data, targets = _by_name(data), _by_name(targets)
        extras = {what: _by_name(by_task) for what, by_task in extras.items()}
        if any(map(is_raw, data.values())):
            table, roles = join_tables(data, targets, **extras)
            query = {"name": name or "tables", **roles, **options}
            chunks = _chunks_of(_stream(table), on_progress)
            return await self._upload(chunks, _ARROW_STREAM, query, on_parsed)
        chunks = _chunks_of(tasks_body(data, targets, extras), on_progress)
        query = {"name": name or "arrays", **options}
        return await self._upload(chunks, "application/x-npz", query, on_parsed)

    async def _upload_file(
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
                return await self._upload(chunks, media_type, query, on_parsed)
            dataset_id = await upload_resumably(self._http, file, media_type, query, on_progress)
        info = await self._http.get(path("v1", "datasets", dataset_id))
        return await self._ready(info, on_parsed)

    async def _upload(
        self,
        chunks: Iterator[bytes],
        media_type: str,
        query: Mapping[str, str | Sequence[str]],
        on_parsed: OnProgress,
    ) -> Dataset:
        response = await self._http.send(
            "POST",
            "/v1/datasets",
            retry=False,  # the stream can be sent only once
            params=query,
            content=chunks,
            headers={"Content-Type": media_type},
        )
        return await self._ready(json_of(response), on_parsed)

    async def _ready(self, info: dict[str, Any], on_parsed: OnProgress | None = None) -> Dataset:
        """Return a dataset once it is ready; warn if the service lacks space to read it."""
        is_waiting = False
        while not _is_final(info):
            if info["issues"] and not is_waiting:
                is_waiting = True
                warnings.warn(info["issues"][0]["detail"], stacklevel=2)
            if on_parsed is not None and info.get("parsed_bytes") is not None:
                on_parsed(info["parsed_bytes"], info["size_bytes"])
            url = path("v1", "datasets", info["id"])
            info = await self._http.get_final(url, _UPLOAD_WAIT_S, is_final=_is_final)
        if info["state"] == "rejected":
            errors = info["issues"]
            raise ServiceError(422, "invalid-dataset", errors[0]["detail"], errors)
        return await self._dataset(info["id"])

    async def _dataset(self, dataset_id: str) -> "Dataset":
        info = await self._http.get(path("v1", "datasets", dataset_id))
        manifest = await self._manifest(dataset_id)
        tasks = tuple(task["name"] for task in manifest["tasks"])
        return Dataset(info["id"], info["name"], tasks, info)

    async def _manifest(self, dataset_id: str) -> dict[str, Any]:
        url = path("v1", "datasets", dataset_id, "manifest")
        manifest: dict[str, Any] = await self._http.get(url)
        return manifest


def media_type_of(source: Path) -> str:
    """Return the media type of a file by its name."""
    file_name = source.name.lower()
    media_type = next((t for end, t in MEDIA_TYPES.items() if file_name.endswith(end)), None)
    if media_type is None:
        endings = ", ".join(MEDIA_TYPES)
        detail = f"expected a file with one of {endings}, got '{source.name}'"
        raise ValueError(f"{detail}; {_OTHER_FILES}")
    return media_type


def _is_final(info: dict[str, Any]) -> bool:
    return info["state"] not in ("uploaded", "ingesting")


def dataset_id_of(dataset: Dataset | str) -> str:
    """Return the id of a dataset, given the dataset or its id."""
    return dataset.id if isinstance(dataset, Dataset) else dataset


def _by_name(by_task: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping by task whose names are text.

    Raises
    ------
    ValueError
        Two names are the same text, such as 1 and "1".
    """
    named = {str(task): value for task, value in by_task.items()}
    if len(named) < len(by_task):
        name = next(name for name, n in Counter(map(str, by_task)).items() if n > 1)
        raise ValueError(f"two tasks have the name '{name}'; rename one of them")
    return named


def _stream(table: Any) -> io.BytesIO:
    return io.BytesIO(table_bytes(table))


def _read(file: io.BufferedIOBase) -> Iterator[bytes]:
    while data := file.read(_CHUNK_BYTES):
        yield data


def _ignore(_done: int, _total: int) -> None:
    """Report no progress."""


def _chunks_of(body: io.BytesIO, on_progress: OnProgress) -> Iterator[bytes]:
    return _report(_read(body), body.getbuffer().nbytes, on_progress)


def _report(chunks: Iterator[bytes], size: int, on_progress: OnProgress) -> Iterator[bytes]:
    n_sent = 0
    for chunk in chunks:
        yield chunk
        n_sent += len(chunk)
        on_progress(n_sent, size)
