"""Whether sharing helps: the numbers by hand, the sentences on data made to be known."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, kstest, t
from sklearn.metrics import roc_auc_score

from algorithms.evaluation.comparison.comparison import (
    ComparedMethod,
    CompareOptions,
    MethodScores,
    compare,
    compared_methods,
)
from algorithms.evaluation.comparison.families import (
    FamilyComparison,
    compare_families,
    verdict_of,
)
from algorithms.evaluation.comparison.verdict_sentences import summarize_comparison
from algorithms.evaluation.scores.gains import LEVEL, benjamini_hochberg, gain_of, holm
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.choices import with_inner_selection
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.scores import auc
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.harness.problems import identical_gaussians
from service.jobs.studies import plans

RMSE = METRICS["rmse"]


def numbers(n, *, name="t", seed=0) -> Task:
    rng = np.random.default_rng(seed)
    return Task.from_rows(name, rng.normal(size=(n, 3)), y=rng.normal(size=n))


def study(algorithm, tasks, *, seed=0, **values):
    """Return the report of a comparison, carried out as the parts of a job are."""
    algorithm = ALGORITHMS[algorithm]
    options = values.pop("compare", CompareOptions())
    wanted = plans.StudyOptions(compare=options)
    laid = plans.plan_job(algorithm, values, tasks.summaries(), wanted, seed=seed)
    parts = [
        plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=seed, trace=Trace())
        for part in laid.child_jobs
    ]
    return plans.combine_results(laid.plan, parts, tasks)[1]["comparison"]


def test_the_gain_is_the_corrected_resampled_t_test() -> None:
    ours, theirs = [1.0, 1.2, 0.9, 1.1], [1.4, 1.3, 1.5, 1.2]
    found = gain_of(ours, theirs, RMSE, ratio=0.25)
    d = np.subtract(theirs, ours)
    error = np.sqrt(d.var(ddof=1) * (1 / 4 + 0.25))
    assert found.mean == pytest.approx(d.mean())
    assert found.p_value == pytest.approx(2 * t.sf(d.mean() / error, 3))
    assert found.interval() == pytest.approx(t.interval(0.95, 3, d.mean(), error))
    assert found.value == pytest.approx(np.mean(theirs))
    # the other way up, the other way round
    other = gain_of(ours, theirs, METRICS["r2"], ratio=0.25)
    assert other.mean == pytest.approx(-found.mean)


def test_splits_without_a_score_are_left_out_and_one_is_too_few() -> None:
    assert gain_of([1.0, None, 2.0], [1.5, 9.0, None], RMSE, ratio=1.0) is None
    same = gain_of([1.0, 1.0], [1.0, 1.0], RMSE, ratio=1.0)
    assert (same.mean, same.p_value, same.interval()) == (0.0, 1.0, (0.0, 0.0))


def test_a_difference_of_rounding_counts_as_zero() -> None:
    values = np.array([0.5, 0.25, 0.125])
    found = gain_of(list(values - 1.67e-17), list(values), RMSE, ratio=0.25)
    assert (found.mean, found.p_value) == (0.0, 1.0)


def test_errors_of_rounding_are_equal_whatever_their_ratio() -> None:
    truth = np.full(20, 3.0)
    ours = RMSE.measure(truth, truth + 5e-16, None)
    assert ours == RMSE.measure(truth, truth, None) == 0.0
    assert RMSE.measure(truth, truth + 1e-6, None) == pytest.approx(1e-6)
    # probabilities and shares have the scale 1
    found = gain_of([3e-16, 2e-16], [0.0, 0.0], METRICS["brier"], ratio=0.25)
    assert (found.mean, found.p_value) == (0.0, 1.0)
    small = gain_of([3e-16, 2e-16], [0.0, 0.0], RMSE, ratio=0.25)  # in a small unit
    assert small.mean < 0.0


@pytest.mark.parametrize(("n_splits", "is_sure"), [(2, False), (10, True)])
def test_the_same_difference_in_every_split_is_not_certain(n_splits, is_sure) -> None:
    found = gain_of([0.0] * n_splits, [0.5] * n_splits, METRICS["error_rate"], ratio=0.25)
    # one more split without a difference: d J/(J + 1), variance d²/(J + 1)
    error = 0.5 * np.sqrt((1 / (n_splits + 1) + 0.25) / (n_splits + 1))
    assert (found.mean, found.error, found.df) == (0.5, pytest.approx(error), n_splits)
    assert found.p_value == pytest.approx(2 * t.sf(0.5 / error, n_splits))
    assert (found.p_value < 0.05) == is_sure


def test_p_values_are_corrected_by_holm_and_by_benjamini_and_hochberg() -> None:
    # by hand: 3 · 0.01, 2 · 0.03 and 1 · 0.04 but not below the one before
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    # 3 · 0.01/1, then 3 · 0.03/2 but not above the one after, 3 · 0.04/3
    assert benjamini_hochberg([0.04, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([]) == benjamini_hochberg([]) == []
    for seed in range(50):
        p = np.round(np.random.default_rng(seed).random(seed % 12 + 1) ** 3, 2)  # with ties
        np.testing.assert_allclose(benjamini_hochberg(p), false_discovery_control(p), rtol=1e-14)


def test_the_area_under_the_curve_equals_that_of_scikit_learn() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        scores = np.round(rng.standard_normal(30), 1)  # with ties
        is_class = rng.random(30) < 0.4
        area = auc(is_class[:, None], scores[:, None])
        assert area == pytest.approx(roc_auc_score(is_class, scores))


def test_given_parameters_are_kept_and_others_are_selected() -> None:
    mtda = ALGORITHMS["mtda"]
    assert with_inner_selection(mtda, {}) == {"selection": "cv"}
    assert with_inner_selection(mtda, {"d": 3}) == {"d": 3, "d_grid": [3], "selection": "cv"}
    assert with_inner_selection(mtda, {"selection": "given", "d": 3}) == {
        "selection": "given",
        "d": 3,
    }
    assert with_inner_selection(ALGORITHMS["pca"], {"k": 3}) == {"k": 3}


@pytest.mark.parametrize("name", [n for n, a in ALGORITHMS.items() if a.baselines])
def test_baselines_are_known_and_take_what_they_share(name) -> None:
    for method in compared_methods(ALGORITHMS[name], {}):
        ALGORITHMS[method.algorithm].parse(method.values)
    assert any(baseline.role == "single_task" for baseline in ALGORITHMS[name].baselines)


def test_a_given_parameter_does_not_apply_to_the_baselines() -> None:
    methods = compared_methods(ALGORITHMS["fmtl"], {"C": 3.0, "kernel": "linear"})
    assert methods[0].values["grid"] == [3.0]
    for method in methods[1:-1]:
        assert method.values["grid"] == ALGORITHMS["fmtl"].Params().grid
        assert (method.values["selection"], method.values["kernel"]) == ("cv", "linear")
    methods = compared_methods(ALGORITHMS["fmtl"], {"grid": [1.0, 1000.0]})
    assert all(list(method.values["grid"]) == [1.0, 1000.0] for method in methods[:-1])


def test_baselines_of_mtfl_use_its_input_options() -> None:
    mtfl = ALGORITHMS["mtfl"]
    values = {"standardise": "none", "fit_intercept": False}
    for method in compared_methods(mtfl, values)[1:-1]:
        assert values.items() <= method.values.items()
    values = {"kernel": "polynomial", "degree": 3}
    methods = compared_methods(mtfl, values)[1:-1]
    assert {method.algorithm for method in methods} == {"kernel-ridge"}
    for method in methods:
        assert values.items() <= method.values.items()
        ALGORITHMS["kernel-ridge"].parse(method.values)


@pytest.mark.parametrize("name", [n for n, a in ALGORITHMS.items() if a.baselines])
def test_baselines_have_names_of_their_own(name) -> None:
    labels = [(m.algorithm, m.role, m.variant) for m in compared_methods(ALGORITHMS[name], {})]
    assert len(set(labels)) == len(labels)


def test_a_metric_is_compared_with_its_documented_reference() -> None:
    class Fixed:
        @staticmethod
        def predict(X, **_):
            return X[:, 0]

        @staticmethod
        def decision_function(X, **_):
            return X[:, 0]

        @staticmethod
        def classes(_):
            return ("no", "yes")

    task = Task.from_rows("t", [[1.0], [2.0], [4.0]], y=[1.0, 3.0, 3.0])
    assert METRICS["rmse"].score(Fixed(), task) == pytest.approx(np.sqrt(2 / 3))
    assert METRICS["r2"].score(Fixed(), task) == pytest.approx(1 - 2 / (8 / 3))
    assert METRICS["explained_variance"].score(Fixed(), task) == pytest.approx(
        1 - (2 / 3) / (8 / 9)
    )
    labels = Task.from_rows("t", [[1.0], [2.0], [4.0], [2.0]], y=["no", "yes", "yes", "no"])
    # of four pairs three are in order and one is tied
    area = METRICS["auc"].score
    assert area(Fixed(), labels) == pytest.approx((3 + 0.5) / 4)
    alone = Task.from_rows("t", [[1.0], [2.0]], y=["no", "no"])
    assert np.isnan(area(Fixed(), alone))


@pytest.mark.parametrize(
    "splits",
    [
        Splits(scheme="kfold", n_folds=3, repeats=2),
        Splits(scheme="holdout", n_splits=6, test_size=0.4),
        Splits(scheme="given", given=[{"t": [0, 2]}, {"u": [1]}]),
    ],
)
def test_every_split_is_a_partition_and_depends_on_the_seed_alone(splits) -> None:
    tasks = TaskSet((numbers(9), numbers(5, name="u", seed=1)))
    for index in range(splits.count()):
        split = splits.split(tasks, index, seed=3)
        again = splits.split(tasks, index, seed=3)
        held = {task.name: task for task in split.test}
        for task in tasks:
            train = split.train[task.name]
            rows = [train.X, held[task.name].X] if task.name in held else [train.X]
            both = np.concatenate(rows)
            assert len(train.X) >= 1
            assert sorted(map(tuple, both)) == sorted(map(tuple, task.X))
            np.testing.assert_array_equal(train.X, again.train[task.name].X)
    assert splits.ratio(tasks) > 0


def test_repeats_differ_and_every_row_is_held_out_once_in_each() -> None:
    tasks = TaskSet((numbers(9),))
    splits = Splits(n_folds=3, repeats=2)
    held = [splits.split(tasks, index, seed=0).test["t"].X for index in range(6)]
    for start in (0, 3):
        assert len({tuple(row) for part in held[start : start + 3] for row in part}) == 9
    assert not np.array_equal(held[0], held[3])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"t": [9]}], "row 9 of task 't', which has 9 rows"),
        ([{"x": [0]}], "lists rows of task 'x'"),
        ([{"t": list(range(9))}], "every row of task 't'"),
    ],
)
def test_rows_that_cannot_be_held_out_are_rejected(given, message) -> None:
    tasks = TaskSet((numbers(9),))
    with pytest.raises(InvalidData, match=message):
        Splits(scheme="given", given=given).split(tasks, 0, seed=0)


def subspaces(*, related: bool, n_tasks=8, n_samples=12, d=10, k=2, seed=0) -> TaskSet:
    """Return rows around k-dimensional subspaces, one for all tasks or another for each."""
    rng = np.random.default_rng(seed)
    common = np.linalg.qr(rng.normal(size=(d, k)))[0]
    made = []
    for index in range(n_tasks):
        basis = common if related else np.linalg.qr(rng.normal(size=(d, k)))[0]
        X = 2 * rng.normal(size=(n_samples, k)) @ basis.T + rng.normal(size=(n_samples, d))
        made.append(Task.from_rows(f"task {index}", X))
    return TaskSet(tuple(made))


def table(
    n_tasks=2,
    n_splits=10,
    noise=0.01,
    seed=0,
    *,
    compare_by=None,
    metric=RMSE,
    names=None,
    **means,
):
    """Return the report of methods with these mean scores: role (and a number) = mean."""
    rng = np.random.default_rng(seed)
    methods = []
    for label, mean in means.items():
        role = label.rstrip("0123456789")
        values = mean + noise * rng.normal(size=(n_tasks, n_splits))
        by_task = {f"t{i}": list(row) for i, row in enumerate(values)}
        over_rows = {metric.name: list(values.mean(axis=0))}
        scores = {"by_task": {metric.name: by_task}, "over_rows": over_rows}
        name = (names or {}).get(label, label)
        methods.append(MethodScores(ComparedMethod(name, role, {}), scores))
    found = compare(methods, metric, compare_by or CompareOptions(), ratio=0.25)
    return summarize_comparison(found)


def test_sharing_helps_even_if_another_multi_task_method_is_better() -> None:
    found = table(candidate=0.8, single_task=1.0, pooled=0.6, multi_task=0.7, trivial=2.0)
    assert found["verdict"] == "helps"
    assert found["sharing"]["together"] == {"algorithm": "pooled", "role": "pooled", "variant": ""}
    assert found["candidate"]["verdict"] == "helps"
    assert found["best"]["algorithm"] == "pooled"
    assert found["best"]["tied"] == []
    worse = {entry["role"]: entry["gain"] for entry in found["overall"]}
    assert worse["pooled"] < 0 < worse["single_task"]


def test_sharing_may_help_even_if_the_candidate_is_worse_than_single_task() -> None:
    found = table(candidate=1.2, single_task=1.0, pooled=0.6, trivial=2.0)
    assert (found["verdict"], found["candidate"]["verdict"]) == ("helps", "hurts")
    assert (
        "candidate itself is worse than single_task (each task learned alone)."
        in (found["sentences"])
    )


def test_sharing_hurts_only_if_a_single_task_method_is_best() -> None:
    found = table(candidate=1.2, single_task1=1.0, single_task2=1.5, pooled=1.1, trivial=2.0)
    assert found["verdict"] == "hurts"
    assert found["sharing"]["apart"]["algorithm"] == "single_task1"
    assert found["sharing"]["together"]["algorithm"] == "pooled"  # it comes nearest
    assert found["sharing"]["gain"] == pytest.approx(-0.1, abs=0.02)
    # the trivial prediction may be the best of all: then nothing is learned, by either family
    found = table(candidate=1.0, single_task=1.0, pooled=1.0, trivial=0.8)
    assert found["verdict"] == "unclear"
    assert found["best"]["role"] == "trivial"
    assert any("No method is shown to be better than the same" in s for s in found["sentences"])


def test_sharing_helps_only_if_it_is_also_better_than_the_trivial_prediction() -> None:
    assert table(candidate=1.0, single_task=1.2, trivial=1.0)["verdict"] == "unclear"
    assert table(candidate=1.0, single_task=1.2, trivial=1.3)["verdict"] == "helps"


@pytest.mark.parametrize(("noise", "is_chance"), [(0.01, False), (1.0, True)])
def test_a_gain_is_called_chance_only_if_it_is_not_significant(noise, is_chance) -> None:
    found = table(candidate=0.9, single_task=1.0, noise=noise)
    (baseline,) = found["overall"]
    assert (baseline["p_adjusted"] < 0.05) != is_chance
    (sentence,) = [s for s in found["sentences"] if "corrected for the number of baselines" in s]
    assert ("may be chance" in sentence) == is_chance


def test_a_difference_too_small_to_name_is_equal() -> None:
    small = {"candidate": 0.995, "single_task": 1.0, "trivial": 2.0, "noise": 1e-4}
    assert table(**small)["sharing"]["p_value"] < 1e-6
    assert table(**small)["verdict"] == "equal"
    assert table(**small)["tasks"]["t0"]["verdict"] == "equal"
    assert table(**small, compare_by=CompareOptions(min_effect=0.004))["verdict"] == "helps"
    swapped = small | {"candidate": 1.0, "single_task": 0.995}
    assert table(**swapped)["verdict"] == "equal"
    assert table(**swapped, compare_by=CompareOptions(min_effect=0.004))["verdict"] == "hurts"
    assert table(candidate=1.0, single_task=1.0, noise=0.0)["verdict"] == "equal"
    # too small to name, and too uncertain to call it equal
    assert table(candidate=0.995, single_task=1.0, trivial=2.0, noise=0.05)["verdict"] == "unclear"


def test_the_verdict_is_corrected_for_the_number_of_methods() -> None:
    one = table(candidate=0.95, single_task=1.0, noise=0.02)
    p = one["sharing"]["p_value"]
    assert p == pytest.approx(one["overall"][0]["p_value"])
    # four more ways of learning together, each far worse: five could have been the best
    worse = {f"multi_task{i}": 1.5 for i in range(4)}
    five = table(candidate=0.95, single_task=1.0, noise=0.02, **worse)
    assert five["sharing"]["p_value"] == pytest.approx(5 * p)
    # sharing must also be better than a second single-task method, which needs no correction
    two = table(candidate=0.95, single_task1=1.0, single_task2=1.5, noise=0.02)
    assert two["sharing"]["p_value"] == pytest.approx(p)
    assert two["sharing"]["apart"]["algorithm"] == "single_task1"


@pytest.mark.parametrize(
    ("gain", "margin", "p_value", "expected"),
    [
        (0.5, 0.4, 0.01, "helps"),
        (-0.5, 0.4, 0.01, "hurts"),
        (0.5, 0.6, 0.01, "equal"),  # significant, but too small to matter
        (0.5, 0.9, 0.5, "equal"),  # the whole interval is
        (0.5, 0.4, 0.05, "unclear"),
    ],
)
def test_a_verdict_needs_a_significant_and_relevant_gain(gain, margin, p_value, expected) -> None:
    found = FamilyComparison(
        gain=gain,
        low=gain - 0.4,
        high=gain + 0.4,
        p_value=p_value,
        margin=margin,
        together=0,
        apart=1,
    )
    assert verdict_of(found) == expected


def test_the_interval_is_corrected_for_the_methods_of_its_family() -> None:
    rng = np.random.default_rng(0)
    errors = [(1.0 + 0.1 * rng.normal(size=8)).tolist() for _ in range(3)]
    errors[0] = [0.8 * value for value in errors[2]]

    def gains(one, other):
        return gain_of(errors[one], errors[other], RMSE, ratio=0.25)

    found = compare_families([0, 1], [2], gains, min_effect=0.01)
    assert (found.together, found.apart) == (0, 2)
    assert (found.low, found.high) == gains(0, 2).interval(LEVEL / 2)


def test_tasks_are_corrected_for_their_number() -> None:
    found = table(n_tasks=6, candidate=0.95, single_task=1.0, noise=0.03, seed=3)
    p = [entry["p_value"] for entry in found["tasks"].values()]
    adjusted = [entry["p_adjusted"] for entry in found["tasks"].values()]
    np.testing.assert_allclose(adjusted, false_discovery_control(p))
    assert any(a < 0.05 for a in p)
    assert all(
        (entry["verdict"] == "unclear") == (entry["p_adjusted"] >= 0.05)
        for entry in found["tasks"].values()
    )
    assert "Benjamini-Hochberg over 6 tasks" in found["sentences"][-1]


def test_methods_not_significantly_worse_than_the_best_are_listed() -> None:
    found = table(candidate=1.0, multi_task=1.001, single_task=1.3, trivial=2.0)
    assert {found["best"]["algorithm"], *(m["algorithm"] for m in found["best"]["tied"])} == {
        "candidate",
        "multi_task",
    }


@pytest.mark.parametrize(("metric", "best"), [("r2", "candidate"), ("rmse", "single_task")])
def test_the_best_method_has_the_highest_score_or_the_lowest_error(metric, best) -> None:
    found = table(candidate=0.8, pooled=0.7, single_task=0.6, metric=METRICS[metric])
    assert found["larger_is_better"] == (metric == "r2")
    assert found["verdict"] == ("helps" if metric == "r2" else "hurts")
    assert found["best"]["algorithm"] == best
    values = {entry["algorithm"]: entry["value"] for entry in found["methods"]}
    assert found["best"]["value"] == pytest.approx(values[best])


def test_a_method_worse_than_the_candidate_is_not_among_the_best() -> None:
    n_beaten = 0
    for seed in range(20):
        found = table(
            seed=seed, noise=0.2, candidate=1.0, multi_task1=0.95, multi_task2=0.97, pooled=0.96,
            single_task=1.3, trivial=1.6,
        )  # fmt: skip
        tied = {method["algorithm"] for method in found["best"]["tied"]}
        for entry in found["overall"]:
            if entry["gain"] > 0.02 and entry["p_adjusted"] < 0.05:
                n_beaten += 1
                assert entry["baseline"] not in tied
    assert n_beaten > 10


def test_the_verdict_is_helps_if_sharing_helps() -> None:
    found = study("rmt-pca", subspaces(related=True), k=2)
    assert found["verdict"] == "helps"
    assert found["sentences"][0].startswith("Learning together helps on this data: rmt-pca is")
    apart = next(entry for entry in found["overall"] if entry["role"] == "single_task")
    assert apart["low"] > 0
    assert found["methods"][-1]["role"] == "trivial"
    assert found["methods"][-1]["value"] > found["methods"][0]["value"]


@pytest.mark.slow
def test_the_verdict_is_hurts_and_names_the_best_method() -> None:
    tasks = subspaces(related=False, n_samples=40)
    found = study("rmt-pca", tasks, k=2, lam=1e6, selection="given")
    assert found["verdict"] == "hurts"
    assert "pca (each task learned alone) is better than every" in found["sentences"][0]
    assert {entry["verdict"] for entry in found["tasks"].values()} <= {"hurts", "unclear"}
    assert (found["best"]["algorithm"], found["best"]["tied"]) == ("pca", [])


@pytest.mark.slow  # statistics
def test_the_verdict_is_unclear_for_unrelated_tasks() -> None:
    found = study("rmt-pca", subspaces(related=False, n_samples=20), k=2)
    assert found["verdict"] in {"unclear", "equal"}
    assert found["tasks"]


def linear_tasks(*, n_tasks=10, n_samples=10, d=20, own=0.3, noise=0.5, seed=0) -> TaskSet:
    """Return tasks whose coefficients are common but for a part of their own."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=d)
    made = []
    for index in range(n_tasks):
        X = rng.normal(size=(n_samples, d))
        y = X @ (common + own * rng.normal(size=d)) + noise * rng.normal(size=n_samples)
        made.append(Task.from_rows(f"task {index}", X, y=y))
    return TaskSet(tuple(made))


@pytest.mark.slow
def test_sharing_helps_related_tasks_of_few_rows_though_another_method_is_better() -> None:
    options = CompareOptions(splits=Splits(n_folds=5, repeats=1))
    found = study("mtfl", linear_tasks(), compare=options)
    assert found["verdict"] == "helps"
    assert found["best"]["algorithm"] != "mtfl"


@pytest.mark.slow  # a comparison
def test_a_baseline_that_does_not_fit_is_left_out_once() -> None:
    found = study("mtfl", linear_tasks(n_tasks=2), selection="given")
    (left,) = found["left_out"]
    assert left["baseline"] == "logistic-regression"
    assert left["roles"] == ["single_task", "pooled"]


@pytest.mark.parametrize("metric", [None, "reconstruction_error"])
@pytest.mark.parametrize("labels", [None, ["a", "b"]])
@pytest.mark.quick(1)
def test_a_transfer_is_compared_with_linear_models_where_they_have_the_metric(
    metric, labels
) -> None:
    made = subspaces(related=True, n_tasks=2, n_samples=12)
    y = None if labels is None else labels * 6
    tasks = TaskSet(tuple(Task.from_rows(task.name, task.X, y=y) for task in made))
    options = CompareOptions(splits=Splits(n_folds=3, repeats=1), metric=metric)
    found = study("tlvm", tasks, compare=options, L=2, r=6, max_iter=20)
    of_rows = metric is not None or labels is None
    assert found["metric"] == ("reconstruction_error" if of_rows else "error_rate")
    linear = {"pca", "transfer-pca", "ppca"}
    compared = {method["algorithm"] for method in found["methods"]}
    assert compared == {"tlvm", "gp-lvm", "constant"} | (linear if of_rows else set())
    reasons = {entry["baseline"]: entry["reason"] for entry in found["left_out"]}
    assert set(reasons) == (set() if of_rows else linear)
    assert all("error_rate needs the method predict" in reason for reason in reasons.values())


def test_folds_without_rows_are_left_out() -> None:
    found = study("rmt-pca", subspaces(related=True, n_samples=3), k=1, selection="given")
    assert found["n_splits"] == 10  # each repeat has two folds of no row
    assert all(entry["gain"] is not None for entry in found["overall"])


def test_a_comparison_without_rows_to_hold_out_is_rejected() -> None:
    alone = TaskSet(tuple(Task.from_rows(n, [[1.0, 2.0]], y=[1.0]) for n in "ab"))
    with pytest.raises(InvalidData, match="no split can hold out a row"):
        study("mtfl", alone, selection="given")


def test_a_method_without_baselines_cannot_be_compared() -> None:
    with pytest.raises(InvalidParams, match="pca cannot be compared"):
        study("pca", identical_gaussians(np.random.default_rng(0), n_tasks=2).tasks)


@pytest.mark.slow
def test_random_labels_give_no_gain_and_uniform_p_values() -> None:
    p_values, verdicts = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tasks = TaskSet(
            tuple(
                Task.from_rows(f"t{i}", rng.normal(size=(20, 4)), y=rng.permutation(20) % 2)
                for i in range(3)
            )
        )
        options = CompareOptions(splits=Splits(n_folds=4, repeats=1))
        found = study("mtda", tasks, seed=seed, compare=options, d_grid=[1], gamma_grid=[0.1])
        p_values += [
            entry["p_value"] for entry in found["overall"] if entry["baseline"] == "lda-rt"
        ]
        verdicts.append(found["verdict"])
    assert verdicts.count("helps") <= 3  # 5 % of 20, and its spread
    assert np.mean(np.array(p_values) < 0.05) <= 0.2
    assert kstest(p_values, "uniform", alternative="greater").pvalue > 0.01
