"""Quality of probabilities: Brier score, log loss, and the reliability curve."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from algorithms.interface.errors import InvalidData
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import weighted_mean
from algorithms.numerics.scores import brier_losses, log_losses, recall_by_class
from algorithms.wrappers.calibration.probabilities import Scored, learn_maps, normalise

#: Number of equally wide bins of the reliability curve.
N_BINS: Final = 10
_LEVEL: Final = 0.95
#: Maximum number of classes with a recall.
_MAX_CLASSES: Final = 50


def report_quality(
    scored: Mapping[str, Scored],
    fold_of: Mapping[str, NDArray[np.intp]],
    costs: Mapping[str, Array] | None = None,
) -> dict[str, Any]:
    """Return the quality of the probabilities of rows that were held out, as JSON.

    The probabilities of a fold come from maps that were learned from the other folds. ``before``
    has the probabilities of the sigmoid 1/(1 + exp(-score)) instead of a learned map.

    Parameters
    ----------
    fold_of
        Fold of each score, by task.
    costs
        Factors of the classes by task, for the recall of each class with them.

    Raises
    ------
    InvalidData
        All rows are in one fold.
    """
    after = _held_out(scored, fold_of)
    before = {name: normalise(expit(task.scores), task.scores) for name, task in scored.items()}
    rows = {name: np.flatnonzero(np.isfinite(p).all(axis=1)) for name, p in after.items()}
    kept = {name: task.take(rows[name]) for name, task in scored.items() if rows[name].size}
    if not kept:
        name = next(iter(scored))
        raise InvalidData(
            f"the rows of task '{name}' or any other that can be held out must all stay together, "
            "so none are left to learn their probabilities from; add rows or groups, or train "
            "without calibration",
            task=name,
        )
    return {
        "before": _summarize(kept, {name: before[name][rows[name]] for name in kept}),
        "after": _summarize(kept, {name: after[name][rows[name]] for name in kept}),
        "by_class": _recall(kept, {name: after[name][rows[name]] for name in kept}, costs),
    }


def _recall(
    scored: Mapping[str, Scored], p: Mapping[str, Array], costs: Mapping[str, Array] | None
) -> dict[str, dict[str, Any]] | None:
    """Return the recall of each class, of the rarest if there are many; None without costs."""
    if not costs:
        return None
    true: list[str] = []
    predicted: list[str] = []
    for name, task in scored.items():
        labels = np.array([str(label) for label in task.classes])
        true += labels[task.codes].tolist()
        predicted += labels[(p[name] * costs[name]).argmax(axis=1)].tolist()
    return recall_by_class(true, predicted, limit=_MAX_CLASSES)


def reliability(
    p: Array, is_class: NDArray[np.bool_], weights: Array | None = None
) -> list[dict[str, float | int]]:
    """Return the reliability curve: a point for each bin of probabilities that has rows.

    ``low`` and ``high`` are the ends of the 95 % binomial interval of the share of the class
    (Clopper and Pearson). With weights, the interval is computed for the effective number of rows,
    (Σw)²/Σw².

    Parameters
    ----------
    p, is_class : (n_pairs,)
        Probability of a class of a row, and whether the row is of that class.
    weights : (n_pairs,) or None
        Weights of the rows; equal by default.
    """
    which = _bins(p)
    points: list[dict[str, float | int]] = []
    for b in np.unique(which):
        inside = which == b
        bin_weights = np.ones(inside.sum()) if weights is None else weights[inside]
        n = float(bin_weights.sum() ** 2 / (bin_weights**2).sum())
        share = weighted_mean(is_class[inside].astype(np.float64), bin_weights)
        n_class = share * n
        tail = (1 - _LEVEL) / 2
        points.append(
            {
                "n": int(inside.sum()),
                "probability": weighted_mean(p[inside], bin_weights),
                "share": share,
                "low": _beta(tail, n_class, n - n_class + 1) if share > 0 else 0.0,
                "high": _beta(1 - tail, n_class + 1, n - n_class) if share < 1 else 1.0,
            }
        )
    return points


def _bins(p: Array) -> NDArray[np.intp]:
    return np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)


def _beta(share: float, a: float, b: float) -> float:
    """Return a quantile of a beta distribution; importing scipy.stats takes half a second."""
    return float(betaincinv(a, b, share))


def _held_out(
    scored: Mapping[str, Scored], fold_of: Mapping[str, NDArray[np.intp]]
) -> dict[str, Array]:
    """Return held-out probabilities by task; NaN where no other fold has a score."""
    probabilities = {
        name: np.full((len(task.codes), len(task.classes)), np.nan) for name, task in scored.items()
    }
    for fold in np.unique(np.concatenate(list(fold_of.values()))):
        others = {name: task.take(fold_of[name] != fold) for name, task in scored.items()}
        try:
            maps = learn_maps(others)
        except InvalidData:
            continue
        for name, task in scored.items():
            rows = fold_of[name] == fold
            if rows.any():
                probabilities[name][rows] = maps[name].apply(task.scores[rows])
    return probabilities


def _summarize(scored: Mapping[str, Scored], p: Mapping[str, Array]) -> dict[str, Any]:
    by_task = {
        name: {
            "brier": weighted_mean(brier_losses(p[name], task.codes), task.weights),
            "log_loss": weighted_mean(log_losses(p[name], task.codes), task.weights),
        }
        for name, task in scored.items()
    }
    pairs = [_pairs(p[name], task) for name, task in scored.items()]
    of_pairs, is_class, weights = (np.concatenate(part) for part in zip(*pairs, strict=True))
    points = reliability(of_pairs, is_class, weights)
    sizes = np.bincount(_bins(of_pairs), weights=weights)
    sizes = sizes[sizes > 0]
    gaps = sizes * np.array([abs(point["probability"] - point["share"]) for point in points])
    means = {
        metric: float(np.mean([values[metric] for values in by_task.values()]))
        for metric in ("brier", "log_loss")
    }
    return {
        **means,
        "calibration_error": float(gaps.sum() / sizes.sum()),
        "by_task": by_task,
        "reliability": points,
    }


def _pairs(p: Array, task: Scored) -> tuple[Array, NDArray[np.bool_], Array]:
    """Return the probabilities of classes, whether rows are of them, and the weights of the rows.

    There is one pair for each row and class; of two classes only the second.
    """
    first = 1 if len(task.classes) == 2 else 0
    is_class = task.codes[:, np.newaxis] == np.arange(first, len(task.classes))
    weights = np.repeat(task.row_weights(), is_class.shape[1])
    return p[:, first:].ravel(), is_class.ravel(), weights
