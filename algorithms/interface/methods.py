"""The names of the methods of models, and what holds for each in all models."""

from collections.abc import Mapping

#: Methods that a model may have; each takes rows and ``task=``.
METHODS = (
    "transform",
    "inverse_transform",
    "reconstruct",
    "variance",
    "predict",
    "distances",
    "decision_function",
    "predict_proba",
    "predict_interval",
    "predict_set",
)
#: Shape of the outputs of one row, for methods of which it is the same in all models.
OUTPUT_SHAPES: Mapping[str, tuple[int, ...]] = {
    "predict": (),
    "variance": (),
    "predict_interval": (2,),
}
#: Methods that take a level, the share of new rows that their outputs cover.
LEVEL_METHODS = frozenset({"predict_interval", "predict_set"})
DEFAULT_LEVEL = 0.9
#: Methods whose output columns, if there are several, are the classes, ordered as in
#: :meth:`~algorithms.interface.model.Model.classes`.
CLASS_METHODS = frozenset({"distances", "decision_function", "predict_proba", "predict_set"})
#: Methods whose input has the columns of the training rows; the others take coordinates.
FEATURE_METHODS = frozenset(METHODS) - {"inverse_transform"}
