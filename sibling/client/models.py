"""Models of the service: versions and aliases."""

from collections.abc import Sequence
from typing import Any

from sibling.charts import as_chart, load_altair
from sibling.client.http import path
from sibling.client.model import RemoteModel
from sibling.client.modes import Collection, Listing, Mode, Remote, remote_method


def split_version(reference: str) -> tuple[str, int | None]:
    """Return the name and version in NAME or NAME/VERSION.

    Raises
    ------
    ValueError
        The reference has another form.
    """
    name, slash, version = reference.partition("/")
    if not name or (slash and not (version.isascii() and version.isdecimal())):
        raise ValueError(f"expected NAME, NAME@ALIAS or NAME/VERSION, got '{reference}'")
    return name, int(version) if slash else None


class ModelMethods(Remote[Mode]):
    """Methods of the client for models."""

    @property
    def models(self) -> Collection[Mode, RemoteModel[Mode]]:
        """The latest version of every model; indexed by reference, such as ``"pupils/2"``."""
        return Collection(self._http, "/v1/models", self._model)

    def versions(self, name: str) -> Listing[Mode]:
        """Return the versions of a model, newest first."""
        return Listing(self._http, lambda: self._http.pages(path("v1", "models", name, "versions")))

    @remote_method
    async def model(self, name: str, version: int | None = None) -> RemoteModel[Mode]:
        """Return a version of a model: by number (or NAME/VERSION), by NAME@ALIAS, or the latest.

        Raises
        ------
        ServiceError
            There is no such model (``not-found``).
        ValueError
            No model can have this name.
        """
        return await self._model(name, version)

    @remote_method
    async def aliases(self, name: str) -> dict[str, int]:
        """Return the aliases of a model and their versions."""
        items = self._http.pages(path("v1", "models", name, "aliases"))
        return {item["alias"]: item["version"] async for item in items}

    @remote_method
    async def delete_alias(self, name: str, alias: str) -> None:
        """Delete an alias of a model, but not the version that it points at."""
        await self._http.send("DELETE", path("v1", "models", name, "aliases", alias))

    @remote_method
    async def compared_plots(self, models: Sequence[str]) -> list[dict[str, Any]]:
        """Return names, titles and findings of plots of at least two models on common axes.

        Parameters
        ----------
        models
            ``NAME``, ``NAME/VERSION`` or ``NAME@ALIAS`` of each.
        """
        plots = self._http.pages("/v1/models:plots", model=list(models))
        return [plot async for plot in plots]

    @remote_method
    async def compared_plot(self, name: str, models: Sequence[str], *, theme: str = "light") -> Any:
        """Return a plot of several models on common axes as a chart of altair.

        Parameters
        ----------
        name
            Name of a plot, such as ``"scores"``; see :meth:`compared_plots`.
        models
            ``NAME``, ``NAME/VERSION`` or ``NAME@ALIAS`` of each.
        theme
            ``"light"`` or ``"dark"``, like the page that it is for.

        Raises
        ------
        MissingPackage
            altair is not installed.
        ServiceError
            Fewer than two of the models have this plot (``no-plot``).
        """
        load_altair()
        url = f"/v1/models:plots{path(name)}"
        return as_chart(await self._http.get(url, model=list(models), theme=theme))

    async def _model(self, name: str, version: int | None = None) -> RemoteModel[Mode]:
        if version is None:
            name, version = split_version(name)
        suffix = () if version is None else ("versions", version)
        info: dict[str, Any] = await self._http.get(path("v1", "models", name, *suffix))
        return RemoteModel(self._http, info)
