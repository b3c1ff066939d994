"""Recall of each class, and the classes that a model never answers, on held-out rows."""

from typing import Annotated, Any, Final

from pydantic import Field
from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from algorithms.evaluation.scores.predictions import Predictions
from algorithms.interface.tasks import TaskSet
from algorithms.numerics.scores import recall_by_class

#: Maximum number of classes in a report.
MAX_CLASSES: Final = 50
#: What to do about a class that is never answered.
_ADVICE: Final = (
    "To find it, train with class_weight='balanced', or with a calibration with "
    "threshold='prevalence' or costs of classes; or rank rows by decision_function"
)


class ClassRecall(TypedDict):
    """How often a class is found."""

    n_rows: Annotated[int, Field(description="Held-out rows of the class.")]
    n_answered: Annotated[int, Field(description="Held-out rows that are predicted as the class.")]
    recall: Annotated[float, Field(description="Share of the rows of the class that are found.")]


class ClassReport(TypedDict):
    """Recall of each class in the sample of predictions, over the rows of all tasks."""

    n_rows: Annotated[int, Field(description="Number of rows of the sample.")]
    by_class: Annotated[
        dict[str, ClassRecall],
        Field(description=f"Recall by class; of the {MAX_CLASSES} rarest, if there are more."),
    ]
    sentences: Annotated[
        list[str], Field(description="Classes that the model never answers, and what to do.")
    ]


def report_classes(predictions: Predictions | None, tasks: TaskSet) -> ClassReport | None:
    """Return the recall of each class; None without predictions of classes."""
    names = {task.name for task in tasks if task.target == "classes"}
    parts = [
        part for name, part in (predictions or {"tasks": {}})["tasks"].items() if name in names
    ]
    true = [str(label) for part in parts for label in part["true"]]
    predicted = [str(label) for part in parts for label in part["predicted"]]
    if not true:
        return None
    by_class: dict[str, Any] = recall_by_class(true, predicted, limit=MAX_CLASSES)
    sentences = [
        f"The model never answers '{label}' in {len(true)} held-out rows, of which "
        f"{entry['n_rows']} {'is' if entry['n_rows'] == 1 else 'are'} '{label}'. {_ADVICE}."
        for label, entry in by_class.items()
        if not entry["n_answered"]
    ]
    return ClassReport(n_rows=len(true), by_class=by_class, sentences=sentences)
