"""Quality of probabilities: Brier score, log loss, and the reliability curve."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from algorithms.calibration.probabilities import Scored, learn_maps, normalise
from algorithms.evaluation.metrics import brier_losses, log_losses
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Array

#: Number of equally wide bins of the reliability curve.
N_BINS: Final = 10
_LEVEL: Final = 0.95


def report_quality(
    scored: Mapping[str, Scored], fold_of: Mapping[str, NDArray[np.intp]]
) -> dict[str, Any]:
    """Return the quality of the probabilities of rows that were held out, as JSON.

    The probabilities of a fold come from maps that were learned from the other folds. ``before``
    has those of the sigmoid 1/(1 + exp(-score)) instead of a learned map.

    Parameters
    ----------
    fold_of
        Fold of each score, by task.
    """
    after = _held_out(scored, fold_of)
    before = {name: normalise(expit(scored[name].scores)) for name in scored}
    known = {name: np.flatnonzero(np.isfinite(p).all(axis=1)) for name, p in after.items()}
    kept = {name: one.take(known[name]) for name, one in scored.items() if known[name].size}
    return {
        "before": _summarize(kept, {name: before[name][known[name]] for name in kept}),
        "after": _summarize(kept, {name: after[name][known[name]] for name in kept}),
    }


def reliability(p: Array, is_class: NDArray[np.bool_]) -> list[dict[str, float | int]]:
    """Return the reliability curve: a point for each bin of probabilities that has rows.

    ``low`` and ``high`` are the ends of the 95 % binomial interval of the share of the class
    (Clopper and Pearson).

    Parameters
    ----------
    p, is_class : (n_pairs,)
        Probability of a class of a row, and whether the row is of that class.
    """
    which = np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)
    points: list[dict[str, float | int]] = []
    for b in np.unique(which):
        inside = which == b
        n, n_class = int(inside.sum()), int(is_class[inside].sum())
        tail = (1 - _LEVEL) / 2
        points.append(
            {
                "n": n,
                "probability": float(p[inside].mean()),
                "share": n_class / n,
                "low": _beta(tail, n_class, n - n_class + 1) if n_class else 0.0,
                "high": _beta(1 - tail, n_class + 1, n - n_class) if n_class < n else 1.0,
            }
        )
    return points


def _beta(share: float, a: int, b: int) -> float:
    """Return a quantile of a beta distribution; importing scipy.stats takes half a second."""
    return float(betaincinv(a, b, share))


def _held_out(
    scored: Mapping[str, Scored], fold_of: Mapping[str, NDArray[np.intp]]
) -> dict[str, Array]:
    """Return held-out probabilities by task; NaN where no other fold has a score."""
    found = {
        name: np.full((len(one.codes), len(one.classes)), np.nan) for name, one in scored.items()
    }
    for fold in np.unique(np.concatenate(list(fold_of.values()))):
        others = {name: one.take(fold_of[name] != fold) for name, one in scored.items()}
        try:
            maps = learn_maps(others)
        except InvalidData:
            continue
        for name, one in scored.items():
            rows = fold_of[name] == fold
            if rows.any():
                found[name][rows] = maps[name].apply(one.scores[rows])
    return found


def _summarize(scored: Mapping[str, Scored], p: Mapping[str, Array]) -> dict[str, Any]:
    by_task = {
        name: {
            "brier": float(brier_losses(p[name], one.codes).mean()),
            "log_loss": float(log_losses(p[name], one.codes).mean()),
        }
        for name, one in scored.items()
    }
    pairs = [_pairs(p[name], one) for name, one in scored.items()]
    points = reliability(*(np.concatenate(part) for part in zip(*pairs, strict=True)))
    n_pairs = sum(int(point["n"]) for point in points)
    gaps = [int(point["n"]) * abs(point["probability"] - point["share"]) for point in points]
    means = {
        metric: float(np.mean([values[metric] for values in by_task.values()]))
        for metric in ("brier", "log_loss")
    }
    return {
        **means,
        "calibration_error": float(sum(gaps) / n_pairs),
        "by_task": by_task,
        "reliability": points,
    }


def _pairs(p: Array, one: Scored) -> tuple[Array, NDArray[np.bool_]]:
    """Return the probabilities of classes with whether rows are of them; one of two classes."""
    first = 1 if len(one.classes) == 2 else 0
    is_class = one.codes[:, np.newaxis] == np.arange(first, len(one.classes))
    return p[:, first:].ravel(), is_class.ravel()
