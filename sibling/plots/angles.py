"""Angles between the subspaces of the tasks."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sibling.plots.source import MAX_NAMES, Content, Plot, Source, kept, spread

#: Maximum number of components of all tasks together.
_MAX_COMPONENTS: Final = 1000


def describe(source: Source) -> Content | None:
    """Return the principal angles of each two subspaces with the same columns."""
    components = source.learned().get("components")
    if source.model is None or not isinstance(components, np.ndarray) or components.ndim != 3:
        return None
    T, k, _ = components.shape
    if len(source.model.tasks) != T or T < 2:
        return None
    chosen = spread(T, min(MAX_NAMES, max(_MAX_COMPONENTS // k, 2)))
    names = [source.model.tasks[t] for t in chosen]
    smallest, largest = principal_angles(components[chosen])
    cells = [
        {"row": a, "column": b, "largest": float(largest[i, j]), "smallest": float(smallest[i, j])}
        for i, a in enumerate(names)
        for j, b in enumerate(names)
    ]
    between = largest[np.triu_indices(len(names), 1)]
    ends = f"{between.min():.0f}°", f"{between.max():.0f}°"
    span = ends[0] if ends[0] == ends[1] else " to ".join(ends)
    sentence = (
        f"The largest angle between two tasks is {span}: "
        "0° for the same subspace, 90° if one has a direction that the other lacks."
    )
    return Content({"cells": cells}, sentence, kept(len(names), T, "tasks"), {"names": names})


def principal_angles(components: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the smallest and largest principal angle of each two subspaces, in degrees, (T, T).

    Parameters
    ----------
    components : (T, k, d)
        Directions as rows, orthonormal or not.
    """
    T = len(components)
    bases = np.linalg.qr(np.swapaxes(components, 1, 2)).Q
    angles = np.zeros((2, T, T))
    for t in range(T):
        if t + 1 == T:
            break
        cosines = np.linalg.svd(bases[t].T @ bases[t + 1 :], compute_uv=False)
        ends = np.degrees(np.arccos(np.clip(cosines[:, [0, -1]], 0.0, 1.0)))
        angles[:, t, t + 1 :] = angles[:, t + 1 :, t] = ends.T
    return angles[0], angles[1]


def draw(content: Content) -> Any:
    """Return a heat map of the largest angles."""
    import altair as alt

    names: list[str] = content.options["names"]
    side = len(names) * max(min(480 // len(names), 40), 6)
    scale = alt.Scale(domain=[0, 90], scheme="viridis")
    return (
        alt.Chart(alt.NamedData("cells"))
        .mark_rect()
        .encode(
            x=alt.X("column:N", sort=names, title=None, axis=alt.Axis(labelAngle=-90)),
            y=alt.Y("row:N", sort=names, title=None),
            color=alt.Color("largest:Q", scale=scale, title="Largest angle, degrees"),
            tooltip=[
                "row:N",
                "column:N",
                alt.Tooltip("smallest:Q", format=".1f", title="smallest angle, degrees"),
                alt.Tooltip("largest:Q", format=".1f", title="largest angle, degrees"),
            ],
        )
        .properties(width=side, height=side)
    )


PLOT: Final = Plot("angles", "Angles between the subspaces of the tasks", describe, draw)
