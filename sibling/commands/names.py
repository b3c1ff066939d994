"""Names of models, datasets and algorithms in arguments: parsing, suggestions, completion."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from algorithms.interface.new_tasks import NewTasks
from sibling import Client, RemoteModel, ServiceError, ServiceUnreachable
from sibling.client import models
from sibling.client.environment import DEFAULT_URL

#: Time for the service to answer when the shell completes a name.
_COMPLETION_TIMEOUT_S: Final = 2
#: Maximum number of versions in a message.
_MAX_LISTED: Final = 10
#: Maximum number of ids that are compared with a mistyped one, and how similar it must be: random
#: ids share half of their letters.
_MAX_IDS: Final = 1000
_ID_SIMILARITY: Final = 0.85

Url = Annotated[
    str, typer.Option("--url", envvar="SIBLING_URL", help="URL of the service.", metavar="URL")
]


NewTasksOption = Annotated[
    NewTasks | None,
    typer.Option(
        help="What to do about tasks that the model was not trained on: refuse them, or answer by "
        "what its tasks have in common. Default: as it was trained."
    ),
]


def _completion(
    names: Callable[[Client, typer.Context], Iterable[str]],
) -> Callable[..., list[str]]:
    """Return a function that completes names of the service; it never fails."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        url = ctx.params.get("url") or os.environ.get("SIBLING_URL", DEFAULT_URL)
        try:
            with Client(url, timeout_s=_COMPLETION_TIMEOUT_S) as client:
                return [name for name in names(client, ctx) if name.startswith(incomplete)]
        except (ServiceError, ServiceUnreachable, ValueError):
            return []

    return complete


def _names(items: Iterable[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


_COMPLETE_MODEL: Final = _completion(lambda client, _: _names(client.models))
_COMPLETE_JOB: Final = _completion(lambda client, _: [job["id"] for job in client.jobs])
_COMPLETE_DATASET: Final = _completion(
    lambda client, _: [text for item in client.datasets for text in (item["id"], item["name"])]
)
COMPLETE_ALGORITHM: Final = _completion(lambda client, _: _names(client.algorithms))
#: Completes the plots of the argument ``model``.
COMPLETE_PLOT: Final = _completion(
    lambda client, ctx: _names(client.model(ctx.params["model"]).plots())
)

Model = Annotated[
    str,
    typer.Argument(help="Model name, NAME@ALIAS, or NAME/VERSION.", autocompletion=_COMPLETE_MODEL),
]
ModelName = Annotated[str, typer.Argument(help="Name of a model.", autocompletion=_COMPLETE_MODEL)]
Job = Annotated[str, typer.Argument(help="Id of a job.", autocompletion=_COMPLETE_JOB)]
Dataset = Annotated[
    str, typer.Argument(help="Id or name of a dataset.", autocompletion=_COMPLETE_DATASET)
]
Data = Annotated[
    str,
    typer.Argument(help="A file (CSV, Parquet, .npz, ...), or the id or name of a dataset."),
]


def split_version(model: str) -> tuple[str, int | None]:
    """Return the name and version in NAME or NAME/VERSION."""
    try:
        return models.split_version(model)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def find_model(client: Client, reference: str) -> RemoteModel:
    """Return the model of NAME, NAME@ALIAS or NAME/VERSION.

    Raises
    ------
    ServiceError
        The model does not exist; the message suggests a similar name, or lists the versions.
    """
    name, version = split_version(reference)
    with suggesting_model(client, reference):
        return client.model(name, version)


@contextmanager
def suggesting_model(client: Client, reference: str) -> Iterator[None]:
    """Add a hint to a not-found error of the block: a similar name or alias, or the versions."""
    with _explaining(lambda: _hint_of_model(client, reference)):
        yield


@contextmanager
def suggesting_id(items: Iterable[dict[str, Any]], reference: str) -> Iterator[None]:
    """Add a similar id of a job or dataset to a not-found error of the block."""
    with _explaining(lambda: _similar(reference, _ids(items), similarity=_ID_SIMILARITY)):
        yield


def find_dataset(client: Client, reference: str) -> str:
    """Return the id of a dataset, given its id or its name.

    Raises
    ------
    ServiceError
        No dataset has this name; the message suggests a similar name.
    ValueError
        Several datasets have this name.
    """
    if reference.startswith("ds_"):
        _check_dataset(client, reference)
        return reference
    matches = client.datasets(text=reference)
    ids = [item["id"] for item in matches if item["name"] == reference]
    if len(ids) == 1:
        return str(ids[0])
    if ids:
        raise ValueError(
            f"several datasets have the name '{reference}'; use one of the ids {', '.join(ids)}"
        )
    hint = _similar(reference, _names(client.datasets))
    raise ServiceError(404, "not-found", f"there is no dataset '{reference}'{hint}", [])


def is_dataset(data: str) -> bool:
    """Return whether an argument is the id or name of a dataset, not a file."""
    return data.startswith("ds_") or not (Path(data).suffix or Path(data).exists())


@contextmanager
def _explaining(find_hint: Callable[[], str]) -> Iterator[None]:
    """Add a hint to a not-found error of the block."""
    try:
        yield
    except ServiceError as error:
        if error.code != "not-found":
            raise
        try:
            hint = find_hint()
        except ServiceError:  # such as a missing scope
            hint = ""
        if not hint:
            raise
        raise ServiceError(404, "not-found", error.detail + hint, []) from None


def _check_dataset(client: Client, dataset_id: str) -> None:
    """Raise ServiceError if there is no such dataset; the message suggests a similar id."""
    try:
        with suggesting_id(client.datasets, dataset_id):
            client.dataset_info(dataset_id)
    except ServiceError as error:
        if error.code == "not-found":
            raise  # other problems, such as a missing scope, may not matter to the command


def _hint_of_model(client: Client, reference: str) -> str:
    full_name, version = split_version(reference)
    name, _, alias = full_name.partition("@")
    models = _names(client.models)
    if name not in models:
        return _similar(full_name, [f"{model}@{alias}" for model in models] if alias else models)
    if alias:
        return _similar(full_name, [f"{name}@{existing}" for existing in client.aliases(name)])
    versions = [item["version"] for item in client.versions(name)]
    if version is None or version in versions:
        return ""  # something else is missing
    listed = ", ".join(map(str, versions[:_MAX_LISTED]))
    more = f" and {len(versions) - _MAX_LISTED} older ones" if len(versions) > _MAX_LISTED else ""
    return f"; it has the version{'s' * (len(versions) > 1)} {listed}{more}"


def _ids(items: Iterable[dict[str, Any]]) -> list[str]:
    return [item["id"] for item in islice(items, _MAX_IDS)]


def _similar(name: str, names: Iterable[str], *, similarity: float = 0.6) -> str:
    similar = get_close_matches(name, list(names), n=1, cutoff=similarity)
    return f"; did you mean '{similar[0]}'?" if similar else ""
