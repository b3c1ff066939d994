"""Search: candidates, the number of their scores, and the selected one."""

import math

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.metrics import accuracy_score, explained_variance_score, r2_score

from algorithms.evaluation.scores.metrics import METRICS, deciding_metric, metrics_for
from algorithms.evaluation.scores.ratios import MIN_RATIO_ROWS
from algorithms.evaluation.selection.choices import with_fixed_values
from algorithms.evaluation.selection.paths import fit_candidates, group_by_path
from algorithms.evaluation.selection.search import (
    Range,
    SearchOptions,
    list_candidates,
    plan_rounds,
    rank_candidates,
    select_best,
)
from algorithms.evaluation.selection.validation import (
    concatenate_scores,
    mean_interval,
    mean_score,
    mean_scores,
    score_per_split,
    score_splits,
)
from algorithms.interface.errors import InvalidParams
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.harness.problems import tilted_gaussians

RMSE = METRICS["rmse"]


def search(**values) -> SearchOptions:
    return SearchOptions.model_validate({"space": {"k": [1, 2, 3]}, **values}, strict=False)


def scores(values):
    """Return scores whose value in each split is given."""
    return {"by_task": {"rmse": {"t": list(values)}}, "over_rows": {"rmse": list(values)}}


def regression(*sizes, seed=0) -> TaskSet:
    rng = np.random.default_rng(seed)
    made = []
    for i, n in enumerate(sizes):
        X = rng.normal(size=(n, 3))
        made.append(Task.from_rows(f"t{i}", X, y=X @ [1.0, 2.0, i] + rng.normal(size=n) + 5 * i))
    return TaskSet(tuple(made))


# --- what is tried -------------------------------------------------------------------------------


def test_a_grid_is_the_product_and_keeps_what_is_given() -> None:
    space = {"a": [1, 2], "b": ["x", "y", "z"]}
    tried = list_candidates({"c": 7, "a": 9}, search(space=space), seed=0)
    assert [(one["a"], one["b"], one["c"]) for one in tried] == [
        (a, b, 7) for a in (1, 2) for b in ("x", "y", "z")
    ]


@pytest.mark.parametrize("n", [2, 5, 12, 100])
def test_draws_from_lists_are_all_different(n) -> None:
    space = {"a": [1, 2, 3], "b": [1, 2, 3, 4]}
    options = search(space=space, method="random", n_candidates=n)
    tried = list_candidates({}, options, seed=3)
    assert len({(one["a"], one["b"]) for one in tried}) == len(tried) == min(n, 12)
    assert tried == list_candidates({}, options, seed=3)
    assert n == 100 or tried != list_candidates({}, options, seed=4)


def test_draws_from_a_range_are_even_on_its_scale() -> None:
    rng = np.random.default_rng(0)
    linear = [Range(low=2.0, high=5.0).draw(rng) for _ in range(500)]
    assert kstest(linear, "uniform", args=(2, 3)).pvalue > 0.01
    log = [math.log(Range(low=1e-3, high=1e3, scale="log").draw(rng)) for _ in range(500)]
    assert kstest(log, "uniform", args=(math.log(1e-3), math.log(1e6))).pvalue > 0.01
    whole = [Range(low=1, high=4).draw(rng) for _ in range(4000)]
    assert np.bincount(whole).tolist() == pytest.approx([0, 1000, 1000, 1000, 1000], abs=120)
    octaves = [Range(low=1, high=64, scale="log").draw(rng) for _ in range(4000)]
    assert {type(one) for one in octaves} == {int}
    assert (min(octaves), max(octaves)) == (1, 64)
    # about half are at most 6: each end includes half a unit more
    middle = math.exp((math.log(0.5) + math.log(64.5)) / 2)
    assert np.mean(np.array(octaves) < round(middle)) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"space": {"k": []}}, "'k' has an empty list"),
        ({"space": {"k": {"low": 1, "high": 2}}}, "'k' is a range"),
        ({"space": {"k": {"low": 3, "high": 2}}, "method": "random"}, "expected low < high"),
        (
            {"space": {"k": {"low": 0, "high": 2, "scale": "log"}}, "method": "random"},
            "expected 0 < low < high",
        ),
        ({"n_candidates": 5}, "'n_candidates' needs the method"),
        ({"space": {"k": list(range(1001))}, "method": "halving"}, "1001 combinations"),
    ],
)
def test_an_invalid_space_is_rejected(values, message) -> None:
    with pytest.raises(InvalidParams, match=message):
        list_candidates({}, search(**values), seed=0)


# --- rounds --------------------------------------------------------------------------------------


def test_a_grid_has_one_round() -> None:
    assert [(r.n_candidates, r.n_splits) for r in plan_rounds(search(n_folds=7), 50)] == [(50, 7)]


@pytest.mark.parametrize(
    ("n", "n_folds", "factor", "expected"),
    [
        (27, 9, 3, [(27, 1), (9, 3), (3, 9)]),
        (27, 5, 3, [(27, 2), (9, 5)]),
        (10, 100, 2, [(10, 25), (5, 50), (3, 100)]),
        (3, 9, 3, [(3, 9)]),
        (7, 2, 3, [(7, 2)]),
    ],
)
def test_halving_leaves_one_of_so_many_in_each_round(n, n_folds, factor, expected) -> None:
    found = plan_rounds(search(method="halving", n_folds=n_folds, factor=factor), n)
    assert [(r.n_candidates, r.n_splits) for r in found] == expected


def test_halving_finds_what_the_grid_finds_for_less() -> None:
    rng = np.random.default_rng(0)
    truth = np.abs(np.arange(27) - 11.2)
    table = truth[:, np.newaxis] + 0.1 * rng.normal(size=(27, 9))
    spent = {}
    for method in ("grid", "halving"):
        options, seen = search(method=method, n_folds=9), []

        def score(which, indices, seen=seen):
            seen += [(w, i) for w in which for i in indices]
            return [scores(table[w, list(indices)]) for w in which]

        assert select_best(options, 27, score, RMSE) == 11
        assert len(set(seen)) == len(seen)  # nothing is scored twice
        spent[method] = len(seen)
    assert spent == {"grid": 27 * 9, "halving": 27 + 9 * 2 + 3 * 6}


def test_the_first_of_equal_candidates_is_best_and_one_without_a_score_is_last() -> None:
    results = {4: scores([None]), 0: scores([2.0]), 2: scores([1.0]), 1: scores([1.0])}
    assert rank_candidates(results, RMSE, "tasks") == [1, 2, 0, 4]
    results = {
        which: {**found, "by_task": {"r2": found["by_task"]["rmse"]}}
        for which, found in results.items()
    }
    assert rank_candidates(results, METRICS["r2"], "tasks") == [0, 1, 2, 4]


# --- what is measured ----------------------------------------------------------------------------


def test_means_over_tasks_and_over_rows_are_those_of_a_public_library() -> None:
    tasks = regression(40, 10)
    ridge = ALGORITHMS["ridge"]
    splits = Splits(n_folds=2, repeats=1)
    metrics = metrics_for([ridge], tasks.tasks)
    (found,) = score_splits(
        fit_candidates(ridge, [{}]), tasks, splits, [0, 1], metrics=metrics, seed=0, trace=Trace()
    )
    for name, public in (("explained_variance", explained_variance_score), ("r2", r2_score)):
        pairs = {task.name: [] for task in tasks}
        for index in (0, 1):
            split = splits.split(tasks, index, seed=0)
            params = ridge.parse({})
            rng = np.random.default_rng([0, index])
            model = ridge.fit(split.train, params, trace=Trace(), rng=rng)
            for task in split.test:
                pairs[task.name].append((task.y, model.predict(task.X, task=task.name)))
        # the held-out rows of both splits together
        pooled = {task: np.concatenate(of_task, axis=1) for task, of_task in pairs.items()}
        mean = np.mean([public(*pair) for pair in pooled.values()])
        whole = public(*np.concatenate(list(pooled.values()), axis=1))
        assert mean_score(found, name, "tasks") == pytest.approx(mean)
        assert np.mean(score_per_split(found, name, "rows")) == pytest.approx(whole)
        # two splits: one degree of freedom, for which the quantile of Student's t is 12.706
        per_split = score_per_split(found, name, "tasks")
        reach = 12.706 * np.std(per_split, ddof=1) * np.sqrt(1 / 2 + 1)
        ends = mean_interval(found, METRICS[name], "tasks", ratio=1.0, spans_tasks=True)
        assert [ends["low"], ends["high"]] == pytest.approx([mean - reach, 1.0], rel=1e-4)
        assert mean_scores(found)["over_rows"][name] == pytest.approx(whole)


def test_deviations_of_tasks_with_rows_of_their_own_are_pooled() -> None:
    # in each of 3 tasks and 5 folds the same variance of .5; 12 degrees of freedom
    by_task = {
        name: [level - 1, level, level, level, level + 1] for level, name in enumerate("abc")
    }
    scores = {"by_task": {"rmse": by_task}, "over_rows": {"rmse": [1.0] * 5}}
    ends = mean_interval(scores, METRICS["rmse"], "tasks", ratio=0.25, spans_tasks=False)
    reach = 2.178812829667229 * np.sqrt(0.5 * (1 / 5 + 0.25) / 3)
    assert [ends["low"], ends["high"]] == pytest.approx([1 - reach, 1 + reach])
    shared = mean_interval(scores, METRICS["rmse"], "tasks", ratio=0.25, spans_tasks=True)
    reach = 2.7764451051977987 * np.sqrt(0.5 * (1 / 5 + 0.25))
    assert [shared["low"], shared["high"]] == pytest.approx([0.0, 1 + reach])  # not negative
    # splits that hold out different tasks: only those over the splits are known
    apart = {"a": [1.0, None], "b": [None, 2.0]}
    scores = {"by_task": {"rmse": apart}, "over_rows": {"rmse": [1.0, 2.0]}}
    ends = mean_interval(scores, METRICS["rmse"], "tasks", ratio=1.0, spans_tasks=False)
    assert ends["high"] == pytest.approx(1.5 + 12.706204736 * np.sqrt(0.5 * (1 / 2 + 1)))


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_intervals_of_tiny_and_huge_scores_are_those_of_others_in_their_unit(unit) -> None:
    found = []
    for u in (1.0, unit):
        by_task = {"a": [1.0 * u, 2.0 * u, 1.5 * u], "b": [2.0 * u, 2.2 * u, 1.1 * u]}
        scores = {"by_task": {"rmse": by_task}, "over_rows": {"rmse": [u, u, u]}}
        ends = mean_interval(scores, METRICS["rmse"], "tasks", ratio=0.25, spans_tasks=False)
        found.append([ends["low"] / u, ends["high"] / u])
    assert found[1] == pytest.approx(found[0])


@pytest.mark.parametrize("labels", [False, True])
def test_kept_predictions_are_those_of_models_that_have_not_seen_the_rows(labels) -> None:
    tasks = regression(40, 10)
    if labels:
        tasks = TaskSet(
            tuple(
                Task.from_rows(t.name, t.X, y=np.where(t.y > np.median(t.y), "up", "down"))
                for t in tasks
            )
        )
    ridge = ALGORITHMS["ridge"]
    splits = Splits(n_folds=2, repeats=2)
    found = [
        score_splits(
            fit_candidates(ridge, [{}]),
            tasks,
            splits,
            [index],
            metrics=metrics_for([ridge], tasks.tasks),
            seed=0,
            trace=Trace(),
            n_predictions=20,
        )[0]
        for index in range(4)
    ]
    kept = concatenate_scores(found)["predictions"]
    assert kept["n_rows"] == 50  # of the first repeat
    assert sum(len(own["rows"]) for own in kept["tasks"].values()) == 40
    held_out = splits.held_out(tasks, [0, 1], seed=0)
    for index, one in enumerate(held_out):
        split = splits.split(tasks, index, seed=0)
        rng = np.random.default_rng([0, index])
        model = ridge.fit(split.train, ridge.parse({}), trace=Trace(), rng=rng)
        for task in tasks:
            own = kept["tasks"][task.name]
            mine = [i for i, row in enumerate(own["rows"]) if one[task.name][row]]
            assert mine
            rows = np.array([own["rows"][i] for i in mine])
            predicted = model.predict(task.X[rows], task=task.name).tolist()
            assert [own["true"][i] for i in mine] == task.y[rows].tolist()
            if labels:
                scores = model.decision_function(task.X[rows], task=task.name)
                assert [own["predicted"][i] for i in mine] == predicted
                np.testing.assert_allclose([own["scores"][i] for i in mine], scores)
            else:
                np.testing.assert_allclose([own["predicted"][i] for i in mine], predicted)
                assert own["scores"] == [None] * len(own["rows"])


def test_labels_of_unlike_kinds_are_counted_over_all_rows() -> None:
    class Parrot:
        @staticmethod
        def predict(X, *, task):
            return np.full(len(X), {"a": 1, "b": "x"}[task])

    y = {"a": np.array([1, 2, 1]), "b": np.array(["x", "y", "y", "y", "y"])}
    metric = METRICS["error_rate"]
    seen = [
        metric.observe(Parrot(), Task.from_rows(name, np.ones((len(v), 1)), y=v))
        for name, v in y.items()
    ]
    truth, answer = (np.concatenate(side) for side in zip(*seen, strict=True))
    written = [[str(label) for label in labels] for labels in y.values()]
    said = [["1"] * 3, ["x"] * 5]
    expected = 1 - accuracy_score([*written[0], *written[1]], [*said[0], *said[1]])
    assert metric.measure(truth, answer) == pytest.approx(expected) == 5 / 8


def test_a_ratio_has_no_average_over_tasks_that_are_all_small() -> None:
    tasks = [TaskSummary("t", MIN_RATIO_ROWS - 1, 2, target="classes")]
    metrics = metrics_for([ALGORITHMS["logistic-regression"]], tasks)
    auc, _ = deciding_metric(metrics, search(metric="auc"), tasks)
    assert auc.name == "auc"
    auc.check_sizes(tasks, "rows")
    METRICS["error_rate"].check_sizes(tasks, "tasks")
    with pytest.raises(InvalidParams) as error:
        auc.check_sizes(tasks, "tasks")
    assert error.value.field == "average"


def test_scores_of_some_splits_and_of_others_are_those_of_all() -> None:
    tasks, ridge = regression(12, 9), ALGORITHMS["ridge"]
    metrics = metrics_for([ridge], tasks.tasks)
    splits = Splits(n_folds=4, repeats=1)

    def of(indices):
        fit = fit_candidates(ridge, [{}])
        return score_splits(fit, tasks, splits, indices, metrics=metrics, seed=1, trace=Trace())[0]

    assert concatenate_scores([of([0]), of([1, 2]), of([3])]) == of(range(4))


# --- paths ---------------------------------------------------------------------------------------


def test_candidates_that_differ_along_a_path_alone_are_together() -> None:
    class Along:
        path_param = "lam"

    tried = [{"lam": lam, "k": k} for k in (1, 2) for lam in (0.1, 1.0)]
    assert group_by_path(Along, tried) == [[0, 1], [2, 3]]
    Along.path_param = None
    assert group_by_path(Along, tried) == [[0], [1], [2], [3]]


def answers_of(model, tasks):
    found = [model.predict(task.X, task=task.name) for task in tasks]
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("name", "values", "tried", "atol"),
    [
        ("mtfl", {"tolerance": 1e-10}, [0.1, 10.0, 1.0], 1e-4),
        ("mtfl", {"tolerance": 1e-10, "features": "selected"}, [3.0, 0.3], 1e-4),
        ("fmtl", {"tolerance": 1e-10}, [0.1, 10.0, 1.0], 1e-12),
        ("fmtl", {"tolerance": 1e-10, "kernel": "rbf"}, [0.1, 10.0], 1e-12),
        ("kernel-tasks", {"tolerance": 1e-10}, [1.0, 0.1], 1e-12),
    ],
)
def test_what_is_learned_along_a_path_is_what_is_learned_alone(name, values, tried, atol) -> None:
    algorithm, tasks = ALGORITHMS[name], regression(30, 20, 25)
    params = [
        algorithm.parse({**values, "selection": "given", algorithm.path_param: value})
        for value in tried
    ]

    def rng():
        return np.random.default_rng(0)

    models = algorithm.fit_path(tasks, params, trace=Trace(), rng=rng())
    for one, model in zip(params, models, strict=True):
        alone = algorithm.fit(tasks, one, trace=Trace(), rng=rng())
        np.testing.assert_allclose(
            answers_of(model, tasks), answers_of(alone, tasks), rtol=0, atol=atol
        )
        assert model.fit_info["params"] == alone.fit_info["params"]


def test_shared_rows_have_one_eigendecomposition_for_every_strength() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    tasks = TaskSet(tuple(Task.from_rows(f"t{i}", X, y=rng.normal(size=40)) for i in range(3)))
    fmtl = ALGORITHMS["fmtl"]
    params = [fmtl.parse({"C": C, "kernel": "rbf", "solver": "spectral"}) for C in (0.1, 1, 10)]
    models = fmtl.fit_path(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    for one, model in zip(params, models, strict=True):
        alone = fmtl.fit(tasks, one, trace=Trace(), rng=np.random.default_rng(0))
        np.testing.assert_array_equal(answers_of(model, tasks), answers_of(alone, tasks))


@pytest.mark.parametrize("seed", range(5))
def test_a_path_of_couplings_reaches_the_objective_of_separate_fits(seed) -> None:
    """The objective is higher where a separate fit ends at another local optimum."""
    tasks = tilted_gaussians(np.random.default_rng(seed), n_tasks=5, n_samples=12).tasks
    pca = ALGORITHMS["rmt-pca"]
    params = [pca.parse({"k": 2, "lam": lam}) for lam in (1.0, 0.0, 30.0, 1.0)]
    models = pca.fit_path(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    for one, model in zip(params, models, strict=True):
        alone = pca.fit(tasks, one, trace=Trace(), rng=np.random.default_rng(0))
        assert objective(model, tasks) >= objective(alone, tasks) * (1 - 1e-7)
        assert model.fit_info["lam"] == alone.fit_info["lam"]


def objective(model, tasks) -> float:
    """Return eq. 4: the variance that each subspace keeps, and how near they are in pairs."""
    P = np.einsum("tik,tjk->tij", model.U, model.U)
    C = np.stack([np.cov(task.X.T, bias=True) for task in tasks])
    S = P.sum(axis=0)
    pairs = np.einsum("ij,ij->", S, S) - np.einsum("tij,tij->", P, P)
    return float(np.einsum("tij,tij->", P, C) + model.fit_info["lam"] * pairs / 2)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("mtfl", {"gamma": 2.0}, {"gamma": 2.0, "selection": "given"}),
        ("mtfl", {"gamma": 2.0, "selection": "cv"}, {"gamma": 2.0, "selection": "given"}),
        ("mean-regularised", {"gamma": 2.0}, {"gamma": 2.0, "grid": [2.0]}),
        (
            "mean-regularised",
            {"gamma": 2.0, "common_share": 0.5},
            {"gamma": 2.0, "common_share": 0.5, "selection": "given"},
        ),
        ("pca", {"k": 2}, {"k": 2}),
    ],
)
def test_a_searched_parameter_is_not_selected_again(name, values, expected) -> None:
    assert (
        with_fixed_values(ALGORITHMS[name], values, {n for n in values if n != "selection"})
        == expected
    )
