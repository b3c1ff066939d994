"""Vega-Lite specifications as charts of altair, which is imported when it is needed."""

from collections.abc import Mapping
from typing import Any, Final, Literal

Theme = Literal["light", "dark"]

#: Classes of charts by the property that only they have.
_KINDS: Final = {
    "layer": "LayerChart",
    "vconcat": "VConcatChart",
    "concat": "ConcatChart",
    "facet": "FacetChart",
}


class MissingPackage(ImportError):
    """Raised where a package that draws plots is not installed."""


def load_altair() -> Any:
    """Return the module altair.

    Raises
    ------
    MissingPackage
        It is not installed.
    """
    try:
        import altair as alt
    except ModuleNotFoundError as error:
        if error.name != "altair":
            raise
        raise MissingPackage("plots need altair; pip install 'sibling[plots]'") from None
    return alt


def as_chart(spec: Mapping[str, Any]) -> Any:
    """Return a specification as a chart, which notebooks show.

    Raises
    ------
    MissingPackage
        altair is not installed.
    """
    alt = load_altair()
    kind = next((kind for key, kind in _KINDS.items() if key in spec), "Chart")
    return getattr(alt, kind).from_dict(dict(spec), validate=False)
