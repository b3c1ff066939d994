"""Tasks in scikit-learn's pipelines, searches and cross-validations."""

import numpy as np
import pytest
import sklearn
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.search import SearchOptions, list_candidates, select_best
from algorithms.evaluation.selection.validation import mean_score, score_splits
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from sibling import MTDA, MTFL, CommonPCA, Ridge, TaskPCA

#: The pipeline standardises the rows of a fold before the fit, the search in it.
ROUNDING = 1e-9

RNG = np.random.default_rng(0)
TASKS = np.repeat(["a", "b", "c"], 30)
X = RNG.standard_normal((90, 5))
Y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] + (TASKS == "b") * X[:, 3] + 0.3 * RNG.standard_normal(90)
LABELS = np.where(Y > 0, "high", "low")
#: The rows of a fold are of all tasks.
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


@pytest.fixture(autouse=True)
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def folds():
    return list(FOLDS.split(X, TASKS))


def test_a_pipeline_passes_the_tasks_to_every_step_that_takes_them():
    pipeline = make_pipeline(StandardScaler(), TaskPCA(k=3), Ridge(selection="given"))
    pipeline.fit(X, Y, tasks=TASKS)
    scaled = StandardScaler().fit_transform(X)
    latent = TaskPCA(k=3).fit_transform(scaled, tasks=TASKS)
    alone = Ridge(selection="given").fit(latent, Y, tasks=TASKS)
    np.testing.assert_array_equal(
        pipeline.predict(X, tasks=TASKS), alone.predict(latent, tasks=TASKS)
    )
    assert pipeline.score(X, Y, tasks=TASKS) == alone.score(latent, Y, tasks=TASKS)
    with pytest.raises(ValueError, match="pass the task of each row"):
        pipeline.predict(X)


def test_cross_validation_splits_the_tasks_with_the_rows():
    scores = cross_val_score(MTFL(selection="given"), X, Y, cv=folds(), params={"tasks": TASKS})
    for score, (train, test) in zip(scores, folds(), strict=True):
        fitted = MTFL(selection="given").fit(X[train], Y[train], tasks=TASKS[train])
        assert score == fitted.score(X[test], Y[test], tasks=TASKS[test])


def test_groups_go_to_the_splitter_and_to_the_fit():
    groups = np.arange(90) % 10
    space = {"selection": ["cv"], "n_folds": [2]}
    search = GridSearchCV(MTFL(), space, cv=GroupKFold(2), error_score="raise")
    search.fit(X, Y, tasks=TASKS, groups=groups)
    best = MTFL(selection="cv", n_folds=2).fit(X, Y, tasks=TASKS, groups=groups)
    without = MTFL(selection="cv", n_folds=2).fit(X, Y, tasks=TASKS)
    errors = search.best_estimator_.fit_info_["selection_errors"]
    assert errors == best.fit_info_["selection_errors"]
    assert errors != without.fit_info_["selection_errors"]
    # the search itself takes no tasks here
    assert search.best_estimator_.predict(X, tasks=TASKS).shape == (90,)


def test_weights_of_rows_count_in_scores():
    fitted = Ridge().fit(X, Y, tasks=TASKS)
    own = TASKS == "b"
    expected = fitted.score(X[own], Y[own], tasks="b")
    assert fitted.score(X, Y, sample_weight=own.astype(float), tasks=TASKS) == expected
    by_task = fitted.score(
        {"a": X[TASKS == "a"], "b": X[own]},
        {"a": Y[TASKS == "a"], "b": Y[own]},
        sample_weight={"a": np.zeros(30), "b": np.ones(30)},
    )
    assert by_task == pytest.approx(expected)


@pytest.mark.slow
def test_a_search_over_a_pipeline_in_processes_finds_what_it_finds_alone():
    pipeline = Pipeline([("pca", CommonPCA()), ("mtda", MTDA())])
    space = {"pca__k": [2, 4], "mtda__d": [1]}
    found = [
        GridSearchCV(pipeline, space, cv=folds(), n_jobs=n, error_score="raise").fit(
            X, LABELS, tasks=TASKS
        )
        for n in (1, 2)
    ]
    for name in ("mean_test_score", "params"):
        np.testing.assert_array_equal(found[0].cv_results_[name], found[1].cv_results_[name])


def test_a_grid_search_on_school_data_equals_our_own_search(data_file):
    with np.load(data_file("school.npz")) as data:
        schools = np.unique(data["task"])[:6]
        rows_of_all = np.concatenate([data["X"][data["task"] == s][:60] for s in schools])
        y = np.concatenate([data["y"][data["task"] == s][:60] for s in schools])
        tasks = np.concatenate([data["task"][data["task"] == s][:60] for s in schools])
    rows_of_all, y, tasks = rows_of_all.astype(float), y.astype(float), tasks.astype(str)
    names = list(dict.fromkeys(tasks.tolist()))
    grid = [0.1, 1.0, 10.0, 100.0, 1000.0]
    splits = list(FOLDS.split(rows_of_all, tasks))

    pipeline = Pipeline(
        [("scale", StandardScaler()), ("mtfl", MTFL(selection="given", standardise="none"))]
    )
    theirs = GridSearchCV(pipeline, {"mtfl__gamma": grid}, cv=splits, error_score="raise")
    theirs.fit(rows_of_all, y, tasks=tasks)

    starts = {name: np.flatnonzero(tasks == name)[0] for name in names}
    given = [
        {name: (test[tasks[test] == name] - starts[name]).tolist() for name in names}
        for _, test in splits
    ]
    algorithm, metric = ALGORITHMS["mtfl"], METRICS["r2"]
    options = SearchOptions(space={"gamma": grid}, metric="r2", average="rows")
    candidates = [
        algorithm.parse(values)
        for values in list_candidates({"selection": "given"}, options, seed=0)
    ]
    school = TaskSet(
        tuple(Task.from_rows(n, rows_of_all[tasks == n], y=y[tasks == n]) for n in names)
    )
    ours = {}

    def score(which, indices):
        del indices  # a grid has one round, on all splits
        found = score_splits(
            lambda train, rng: [
                algorithm.fit(train, candidates[i], trace=Trace(), rng=rng) for i in which
            ],
            school,
            Splits(given=given),
            range(len(given)),
            n_candidates=len(which),
            metrics=[metric],
            seed=0,
            trace=Trace(),
        )
        ours.update(zip(which, found, strict=True))
        return found

    best = select_best(options, len(candidates), score, metric)
    means = [mean_score(ours[i], "r2", "rows") for i in range(len(grid))]
    held_out = np.concatenate([test for _, test in splits])
    for gamma, mean in zip(grid, means, strict=True):
        pipeline.set_params(mtfl__gamma=gamma)
        predicted = [
            pipeline.fit(rows_of_all[train], y[train], tasks=tasks[train]).predict(
                rows_of_all[test], tasks=tasks[test]
            )
            for train, test in splits
        ]
        # R² of all held-out rows at once, where the search of scikit-learn has means over splits
        pooled = r2_score(y[held_out], np.concatenate(predicted))
        np.testing.assert_allclose(pooled, mean, rtol=ROUNDING)
    assert theirs.best_params_["mtfl__gamma"] == candidates[best].gamma
    assert 0 < max(means) < 1
    assert best not in {0, len(grid) - 1}  # a search that must choose
