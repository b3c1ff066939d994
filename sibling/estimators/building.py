"""Estimator classes, made from algorithms."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Final

from sklearn.base import TransformerMixin

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import explain_unknown
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS
from algorithms.interface.ties import DEFAULT_TIES
from algorithms.wrappers.calibration.model import METHODS_FOR, CalibratedModel
from sibling.estimators.estimator import Estimator
from sibling.estimators.kinds import kinds_of
from sibling.estimators.methods import CALL_REQUEST, Transformer, by_task, make_method, score

#: Parameters of every estimator, with their defaults and descriptions.
_COMMON: Final[dict[str, tuple[Any, str]]] = {
    "preparation": (
        None,
        """How text, dates, booleans and missing values become numbers, such as
    ``{'scale': 'robust'}``. None: only where there are any, with the defaults.""",
    ),
    "calibration": (
        None,
        """Fit also without each of some folds of the rows, for ``predict_proba``, ``predict_set``
    and ``predict_interval``: True, or options such as ``{'n_folds': 10}``. None: without.""",
    ),
    "new_tasks": (
        DEFAULT_NEW_TASKS,
        """What calls do about tasks that were not trained: ``'refuse'`` them, or answer by what the
    tasks have in ``'common'``, with a warning that names them.""",
    ),
    "ties": (
        DEFAULT_TIES,
        """Which rows of equal values are held out together, where parameters or methods are
    selected: ``'auto'``, those that are the same sample; all, ``'values'``; or ``'none'``.""",
    ),
    "random_state": (0, "Seed of the fit, as for a job."),
}
_CLASS_WEIGHT: Final = """Weights of classes, which multiply the weights of the rows:
    ``'balanced'``, for the same total weight of every class of a task, or ``{class: weight}``.
    None: equal weights."""
_TARGET: Final = (
    "auto",
    """``'numbers'``: regression. ``'classes'``: classification. ``'auto'``: numbers, integers too,
    are numbers; text and booleans are classes.""",
)


def make_estimator(
    algorithm: Algorithm[Any, Any], base: type[Estimator] = Estimator
) -> type[Estimator]:
    """Return the estimator class of an algorithm, a subclass of ``base``."""
    name = type(algorithm).__name__
    methods = {method: make_method(algorithm.Model, method) for method in algorithm.Model.methods()}
    for kind in kinds_of(algorithm):
        if "predict" in algorithm.Model.methods_for(kind):
            kind_methods = METHODS_FOR[kind]
            methods |= {method: make_method(CalibratedModel, method) for method in kind_methods}
    if "predict" in methods:
        methods["score"] = score
    body: dict[str, Any] = {
        "__module__": "sibling",
        "__qualname__": name,
        "__doc__": _describe(algorithm),
        "__init__": _constructor(name, defaults_of(algorithm)),
        "_algorithm": algorithm,
        **methods,
        # pipelines and searches pass the tasks on without being asked to
        **{
            f"__metadata_request__{method}": {"tasks": True} if method == "score" else CALL_REQUEST
            for method in methods
        },
        "__metadata_request__fit": {"tasks": True, "groups": True},
    }
    if not algorithm.needs.weights:
        body["fit"] = _without_weights(base.fit)
    if "transform" not in methods:
        return type(name, (base,), body)
    made = type(name, (Transformer, TransformerMixin, base), body)
    made.transform = by_task(made.transform)  # type: ignore[attr-defined]
    return made


def _without_weights(fit: Any) -> Any:
    """Return a method ``fit`` that does not declare weights; it refuses them with the reason."""

    @functools.wraps(fit)
    def fit_rows(self: Estimator, X: Any, y: Any = None, **options: Any) -> Any:
        return fit(self, X, y, **options)

    declared = inspect.signature(fit)
    kept = [parameter for name, parameter in declared.parameters.items() if name != "sample_weight"]
    fit_rows.__signature__ = declared.replace(parameters=kept)  # type: ignore[attr-defined]
    return fit_rows


def defaults_of(algorithm: Algorithm[Any, Any]) -> dict[str, Any]:
    """Return the names and defaults of the parameters of an estimator.

    A default that could be changed in place, such as a dictionary, is None here.
    """
    defaults: dict[str, Any] = {}
    for name, field in algorithm.Params.model_fields.items():
        is_fixed = field.default_factory is None and not isinstance(field.default, dict | list)
        defaults[name] = field.default if is_fixed else None
    kinds = kinds_of(algorithm)
    if len(kinds) == 2:
        defaults["target"] = _TARGET[0]
    if algorithm.needs.weights and "classes" in kinds:
        defaults.setdefault("class_weight", None)
    return defaults | {name: default for name, (default, _) in _COMMON.items()}


def _constructor(owner: str, defaults: Mapping[str, Any]) -> Any:
    def __init__(self: Estimator, **values: Any) -> None:  # noqa: N807
        for name in values:
            if name not in defaults:
                problem = explain_unknown(name, defaults, what="parameter")
                raise TypeError(f"{owner}: {problem}")
        for name, default in defaults.items():
            setattr(self, name, values.get(name, default))

    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in defaults.items()
    ]
    __init__.__qualname__ = f"{owner}.__init__"  # Python's own messages have this name
    __init__.__signature__ = inspect.Signature([receiver, *keywords])  # type: ignore[attr-defined]
    return __init__


def _describe(algorithm: Algorithm[Any, Any]) -> str:
    """Return the docstring of an estimator."""
    fields = algorithm.Params.model_fields
    lines = [f"{algorithm.title}.", "", algorithm.summary, "", "Parameters", "----------"]
    common = {name: text for name, (_, text) in _COMMON.items()} | {
        "target": _TARGET[1],
        "class_weight": _CLASS_WEIGHT,
    }
    for name, default in defaults_of(algorithm).items():
        text = fields[name].description if name in fields else common[name]
        lines += [f"{name} : default {default!r}", f"    {text}"]
    return "\n".join([*lines, "", "References", "----------", algorithm.reference])
