"""The columns that matter most to the predictions of a model, as a chart with its unit."""

from collections.abc import Mapping
from typing import Any, Final

from service.ui import formats
from service.ui.views.bars import Chart, Value, bars_of
from service.ui.views.words import GroupWords

_MAX_COLUMNS: Final = 8
#: Smaller falls of a metric are shown as that.
_SMALLEST: Final = 0.005
_METRICS: Final = {"r2": "R²", "auc": "the area under the ROC curve", "accuracy": "accuracy"}
#: What the numbers of a chart are.
_FALLS: Final = {
    "r2": "fall of R², which is 1 at best; a fall above 1 means that they are then worse than the "
    "mean as every answer",
    "auc": "fall of the AUC, which is 0.5 by chance and 1 at best",
    "accuracy": "fall of the share of right predictions, in percentage points",
}


def what_matters(
    importance: Mapping[str, Any] | None, words: GroupWords, *, target: str, has_classes: bool
) -> Chart | None:
    """Return the importance of the first columns; None if all are 0.

    Parameters
    ----------
    target
        Name of what is predicted; empty if it has none.
    has_classes
        Whether classes are predicted, whose coefficients have no unit.
    """
    if importance is None or not any(value and value > 0 for value in importance["shared"]):
        return None
    pairs = list(zip(importance["columns"], importance["shared"], strict=False))[:_MAX_COLUMNS]
    known = [(column, max(value, 0.0)) for column, value in pairs if value is not None]
    if importance["kind"] == "coefficients":
        unit = "the first column" if has_classes else f"the spread of {target or 'the target'}"
        how = f"How much predictions change with the column, in percent of {unit}"
        whole = known[0][1] if has_classes else 1.0
        known = [(column, value / whole) for column, value in known]
    else:
        falls = _FALLS[importance["metric"]]
        how = f"How much worse predictions are when the values of the column are shuffled ({falls})"
    is_share = importance["metric"] in (None, "accuracy")
    values = [
        Value(column, "", "column", value, None, None, _text(value, is_share=is_share))
        for column, value in known
    ]
    more = importance["n_columns"] - len(values)
    rest = f"{formats.count(more, 'more column')}." if more > 0 else ""
    return Chart(bars_of(values), f"{how}, on average over {words.many}.", rest)


def _text(value: float, *, is_share: bool) -> str:
    """Return an importance without digits that change from one sample to the next."""
    if is_share:
        return formats.share(value)
    return "< 0.01" if 0 < value < _SMALLEST else f"{value:.2f}"


def measure_of(importance: Mapping[str, Any]) -> str:
    """Return what the numbers are, in the terms of statistics."""
    if importance["kind"] == "coefficients":
        return (
            "standard deviation of what a column adds to the prediction, for numbers relative to "
            "that of the target"
        )
    metric = _METRICS.get(importance["metric"], importance["metric"])
    return f"fall of {metric} when the values of the column are shuffled"
