"""Names of models, datasets and algorithms in arguments: parsing, suggestions, completion."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sibling import Client, RemoteModel, ServiceError, ServiceUnreachable
from sibling.client.client import DEFAULT_URL

#: Time for the service to answer when the shell completes a name.
_COMPLETION_TIMEOUT_S: Final = 2

Url = Annotated[
    str, typer.Option("--url", envvar="SIBLING_URL", help="URL of the service.", metavar="URL")
]


def _completion(names: Callable[[Client], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a function that completes names of the service; it never fails."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        url = ctx.params.get("url") or os.environ.get("SIBLING_URL", DEFAULT_URL)
        try:
            with Client(url, timeout_s=_COMPLETION_TIMEOUT_S) as client:
                return [name for name in names(client) if name.startswith(incomplete)]
        except (ServiceError, ServiceUnreachable):
            return []

    return complete


def _names(items: Iterable[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


_COMPLETE_MODEL: Final = _completion(lambda client: _names(client.models))
_COMPLETE_JOB: Final = _completion(lambda client: [job["id"] for job in client.jobs])
_COMPLETE_DATASET: Final = _completion(
    lambda client: [text for item in client.datasets for text in (item["id"], item["name"])]
)
COMPLETE_ALGORITHM: Final = _completion(lambda client: _names(client.algorithms))

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
    name, _, version = model.partition("/")
    if version and not version.isdecimal():
        raise typer.BadParameter(f"expected NAME or NAME/VERSION, got '{model}'")
    return name, int(version) if version else None


def find_model(client: Client, reference: str) -> RemoteModel:
    """Return the model of NAME, NAME@ALIAS or NAME/VERSION.

    Raises
    ------
    ServiceError
        There is none; the message suggests a similar name.
    """
    name, version = split_version(reference)
    with suggesting_model(client, name):
        return client.model(name, version)


@contextmanager
def suggesting_model(client: Client, reference: str) -> Iterator[None]:
    """Add a similar name to an error of the block that there is no such model."""
    try:
        yield
    except ServiceError as error:
        if error.code != "not-found":
            raise
        name, _, alias = reference.partition("@")
        known = _names(client.models)
        if alias and name in known:
            known = [f"{name}@{existing}" for existing in client.aliases(name)]
        raise _not_found(error.detail, reference, known) from None


def find_dataset(client: Client, reference: str) -> str:
    """Return the id of a dataset, given its id or its name.

    Raises
    ------
    ServiceError
        No dataset has this name; the message suggests a similar one.
    ValueError
        Several datasets have this name.
    """
    if reference.startswith("ds_"):
        return reference
    datasets = list(client.datasets)
    ids = [item["id"] for item in datasets if item["name"] == reference]
    if len(ids) == 1:
        return str(ids[0])
    if ids:
        raise ValueError(
            f"several datasets have the name '{reference}'; use one of the ids {', '.join(ids)}"
        )
    raise _not_found(f"there is no dataset '{reference}'", reference, _names(datasets))


def is_dataset(data: str) -> bool:
    """Return whether an argument is the id or name of a dataset, not a file."""
    return data.startswith("ds_") or not (Path(data).suffix or Path(data).exists())


def _not_found(detail: str, name: str, known: Iterable[str]) -> ServiceError:
    similar = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean '{similar[0]}'?" if similar else ""
    return ServiceError(404, "not-found", detail + hint, [])
