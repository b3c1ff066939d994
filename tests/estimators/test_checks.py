"""scikit-learn's own checks, of every estimator with one task, for each kind of targets."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from sibling import Auto
from sibling.estimators import ESTIMATORS
from sibling.estimators.kinds import kinds_of

#: The checks fit to noise, constants and few rows, and look for the warnings that matter.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMES_ALONE = "their own class_weight takes 'none' or 'balanced', and no weights by class"
ITERATIVE = "latents of rows are optimised, up to a tolerance, together with those of other rows"
OWN_MESSAGE = "the message on a third class names the task and an algorithm that takes it"
AUTO = "a decision function is offered until the targets, integers here, turn out to be numbers"
SCALED = (
    "weights of mean 1 keep the meaning of the regularisation, which n repeated rows make n times "
    "weaker; tests/algorithms/test_weights.py has the law with a regularisation that is as strong"
)
FEW_ROWS = "the checks have fewer rows than the columns and the intercept need"
#: Estimators whose regularisation has no strength relative to the sum of the losses.
PROJECTIONS = {
    "Aggregate",
    "MTDA",
    "NullSpaceLDA",
    "PCAClassifier",
    "RatioTraceLDA",
    "TraceRatioLDA",
}
WITHOUT_STRENGTH = {"Constant", "SharedLasso", *PROJECTIONS}
NEAREST = "weights change the projection; the class is that of the nearest row, whatever its weight"
LEAVES = "the least number of rows of a leaf counts rows, whatever their weights"
DRAWN = "folds hold out other rows if rows are repeated or removed"
LEARNS_NOTHING = "the constant prediction learns nothing from the columns"
#: Estimators that treat declared kinds of targets as another one of their family does, which is
#: checked: FMTL and GraphMachines, Ridge, MeanRegularised.
KINDS_AS_OTHERS = {
    *("TaskMachines", "ScaledMachines", "MeanMachines", "MTRL", "OKL", "ConvexOKL"),
    *("KernelRidge", "SharedLasso", "CMTL", "GMTL"),
}

#: Methods of a choice that fit in milliseconds, by the kind of the targets.
FAST = {
    "numbers": ["constant", "ridge", "mean-regularised"],
    "classes": ["constant", "ridge"],
}


def estimators():
    """Return one estimator for each algorithm, and kind of targets that can be declared.

    Selection takes most of the time: it is between the ends of each grid, and those of declared
    kinds select no parameters.
    """
    made = []
    for cls in ESTIMATORS.values():
        if cls is Auto:
            made += [Auto(algorithms=FAST[kind], target=kind) for kind in FAST]
            continue
        params = cls._algorithm.Params
        grids = {grid: params.model_fields[grid].default for grid in params.GRIDS.values()}
        made.append(cls(**{grid: (values[0], values[-1]) for grid, values in grids.items()}))
        given = {"selection": "given"} if hasattr(made[-1], "selection") else {}
        kinds = () if cls.__name__ in KINDS_AS_OTHERS else kinds_of(cls._algorithm)
        made += [cls(target=kind, **given) for kind in kinds if len(kinds) == 2]
    return made


ESTIMATORS_TO_CHECK = estimators()


def expected_failures(estimator):
    """Return the checks that an estimator fails, with the reasons."""
    found = {}
    algorithm = estimator._algorithm
    has_own = "class_weight" in algorithm.Params.model_fields and not algorithm.needs.weights
    if has_own and estimator.target == "classes":
        found["check_class_weight_classifiers"] = NAMES_ALONE
    if hasattr(estimator, "projection"):
        found["check_methods_subset_invariance"] = ITERATIVE
    if type(estimator).__name__ in PROJECTIONS:
        found["check_class_weight_classifiers"] = NEAREST
    found |= failures_of_weights(estimator)
    two_classes = {"MeanRegularised", "MixedModel"}
    if type(estimator).__name__ in two_classes and estimator.target == "classes":
        found["check_classifier_not_supporting_multiclass"] = OWN_MESSAGE
    if type(estimator).__name__ == "Constant" and estimator.target == "numbers":
        found["check_regressors_train"] = LEARNS_NOTHING
    if type(estimator).__name__ == "Constant" and estimator.target == "classes":
        found["check_classifiers_train"] = LEARNS_NOTHING
        found["check_classifiers_classes"] = LEARNS_NOTHING
    return found


def failures_of_weights(estimator):
    """Return the checks of weights that an estimator fails, with the reasons."""
    name, algorithm = type(estimator).__name__, estimator._algorithm
    if not algorithm.needs.weights:
        return {}
    if name == "MixedModel":
        own = {"check_sample_weight_equivalence_on_dense_data": FEW_ROWS}
        if estimator.target == "classes":
            own["check_classifiers_one_label_sample_weights"] = FEW_ROWS
        return own
    if name == "Auto":
        reason = DRAWN if estimator.target == "numbers" else SCALED
        forms = ("dense", "sparse")
        return {f"check_sample_weight_equivalence_on_{form}_data": reason for form in forms}
    is_open = getattr(estimator, "target", None) == "auto" and algorithm.needs.target == "any"
    if not is_open and name in WITHOUT_STRENGTH:
        return {}
    is_sparse = estimator.__sklearn_tags__().input_tags.sparse
    forms = ("dense", "sparse") if is_sparse else ("dense",)
    reason = LEAVES if name == "BoostedTrees" else AUTO if is_open else SCALED
    return {f"check_sample_weight_equivalence_on_{form}_data": reason for form in forms}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS_TO_CHECK, ids=repr)
def test_it_passes_the_checks_of_scikit_learn(estimator):
    # one test for all: there are 2,800 checks, most of a few milliseconds
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert len(results) > 40
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    assert failed.keys() == expected_failures(estimator).keys(), failed
