"""What models answer for tasks that they were not trained on."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.left_out_tasks import score_left_out_tasks
from algorithms.evaluation.selection.paths import fit_single
from algorithms.interface.errors import UnknownTask
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.new_tasks import for_tasks, with_new_tasks
from algorithms.wrappers.per_task import PerTaskModel
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.preparation.recipe import Recipe

#: Fixed effects of two optimisers of the same likelihood.
FIXED_RTOL = 1e-3
#: The same numbers by sums in another order.
ROUNDING = 1e-9

POOLED = ["ridge", "kernel-ridge", "logistic-regression", "nearest-neighbours", "constant"]


def tasks_of(target: str = "numbers", *, n_tasks: int = 8, n: int = 12) -> TaskSet:
    """Return tasks whose coefficients scatter around common ones."""
    rng = np.random.default_rng(7)
    b = np.array([1.0, -2.0, 0.5])
    made = []
    for t in range(n_tasks):
        X = rng.standard_normal((n, 3)) * [1.0, 3.0, 0.2] + [0.0, 5.0, 1.0]
        u = 0.4 * rng.standard_normal(3)
        y = 3 + rng.standard_normal() + (X - [0, 5, 1]) @ (b + u) + 0.3 * rng.standard_normal(n)
        if target == "classes":
            y = np.where(y > np.median(y), "yes", "no")
        made.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(made))


def standardised(tasks: TaskSet) -> TaskSet:
    """Return the tasks with the columns as linear models standardise them."""
    X = np.concatenate([task.X for task in tasks])
    return TaskSet(tuple(replace(task, X=(task.X - X.mean(0)) / X.std(0)) for task in tasks))


def fit(name: str, tasks: TaskSet, **values):
    algorithm = ALGORITHMS[name]
    params = algorithm.parse(values)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def answer(model, rows, method: str = "predict", task: str = "new"):
    return getattr(with_new_tasks(model, ("other", task)), method)(rows, task=task)


ROWS = np.random.default_rng(9).standard_normal((5, 3)) + np.array([0.0, 5.0, 1.0])


@pytest.mark.slow  # statsmodels takes seconds to import
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("random", ["intercepts", "slopes"])
def test_a_mixed_model_answers_by_the_fixed_effects_of_statsmodels(random) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    tasks = standardised(tasks_of())
    A = np.column_stack([np.ones(96), np.concatenate([task.X for task in tasks])])
    y = np.concatenate([task.y for task in tasks])
    groups = np.repeat(np.arange(8), 12)
    Z = A if random == "slopes" else A[:, :1]
    free = MixedLMParams.from_components(np.ones(4), np.eye(Z.shape[1]))
    fitted = MixedLM(y, A, groups=groups, exog_re=Z).fit(reml=True, free=free, gtol=1e-8)

    model = fit("mixed-model", tasks, random=random, covariance="diagonal")

    expected = np.column_stack([np.ones(5), ROWS]) @ fitted.fe_params
    np.testing.assert_allclose(answer(model, ROWS), expected, rtol=FIXED_RTOL)


def test_a_mixed_model_answers_by_generalised_least_squares() -> None:
    tasks = standardised(tasks_of())
    model = fit("mixed-model", tasks)
    Psi = np.diag(model.fit_info["relative_covariance"])
    left, right = np.zeros((4, 4)), np.zeros(4)
    for task in tasks:
        A = np.column_stack([np.ones(12), task.X])
        weighted = np.linalg.solve(np.eye(12) + A @ Psi @ A.T, A).T
        left, right = left + weighted @ A, right + weighted @ task.y
    expected = np.column_stack([np.ones(5), ROWS]) @ np.linalg.solve(left, right)
    np.testing.assert_allclose(answer(model, ROWS), expected, rtol=ROUNDING)


@pytest.mark.parametrize("target", ["numbers", "classes"])
@pytest.mark.parametrize("name", POOLED)
def test_a_pooled_form_answers_as_for_a_task_that_was_trained(name, target) -> None:
    target = "classes" if name == "logistic-regression" else target
    common = {"intercept": "common"} if "intercept" in ALGORITHMS[name].Params.model_fields else {}
    model = fit(name, tasks_of(target), form="pooled", **common)
    for method in {"predict", "decision_function"} & set(model.available_methods()):
        expected = getattr(model, method)(ROWS, task="t3")
        np.testing.assert_array_equal(answer(model, ROWS, method), expected)


@pytest.mark.parametrize("name", ["ridge", "kernel-ridge", "logistic-regression"])
def test_pooled_tasks_with_intercepts_answer_by_their_mean(name) -> None:
    target = "classes" if name == "logistic-regression" else "numbers"
    model = fit(name, tasks_of(target), form="pooled")
    expected = np.mean([model.decision_function(ROWS, task=t) for t in model.tasks], axis=0)
    np.testing.assert_allclose(answer(model, ROWS, "decision_function"), expected, rtol=ROUNDING)
    levels = [model.decision_function(ROWS, task=t)[0] for t in model.tasks]
    assert np.ptp(levels) > 1e-6


def test_pooled_trees_answer_as_for_a_task_that_was_added_without_its_rows() -> None:
    tasks = tasks_of(n=25)
    model = fit("boosted-trees", tasks, n_trees=20, selection="given")
    task = Task.from_rows("added", tasks.tasks[0].X, y=tasks.tasks[0].y)
    added = ALGORITHMS["boosted-trees"].adapt(model, task)
    expected = added.predict(ROWS, task="added")
    np.testing.assert_array_equal(answer(model, ROWS), expected)
    trained = [model.predict(ROWS, task=name) for name in model.tasks]
    assert not all(np.array_equal(expected, predicted) for predicted in trained)


def test_a_mean_regularised_model_answers_by_the_common_function_of_its_objective() -> None:
    tasks = tasks_of()
    model = fit("mean-regularised", tasks, selection="given", standardise="none", gamma=0.7)
    gamma, mu = model.fit_info["ridge"], model.fit_info["common_ridge"]
    # the objective as one least-squares problem in w_0 and the v_t, of centred tasks
    T, d = len(tasks), 3
    A = np.zeros((T * 12 + (T + 1) * d, (T + 1) * d))
    b = np.zeros(len(A))
    for t, task in enumerate(tasks):
        at, centred = slice(12 * t, 12 * t + 12), task.X - task.X.mean(0)
        A[at, :d] = A[at, d * (t + 1) : d * (t + 2)] = centred
        b[at] = task.y - task.y.mean()
    A[T * 12 :] = np.diag(np.sqrt(np.repeat([mu, *[gamma] * T], d)))
    w_0 = np.linalg.lstsq(A, b)[0][:d]
    intercept = np.mean([task.y.mean() - task.X.mean(0) @ w_0 for task in tasks])
    np.testing.assert_allclose(answer(model, ROWS), ROWS @ w_0 + intercept, rtol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_mtfl_answers_by_the_mean_of_the_functions_of_its_tasks(kernel, target) -> None:
    tasks = tasks_of(target)
    model = fit("mtfl", tasks, kernel=kernel, selection="given", gamma=0.1)
    scores = [model.decision_function(ROWS, task=task) for task in model.tasks]
    found = answer(model, ROWS, "decision_function")
    np.testing.assert_allclose(found, np.mean(scores, axis=0), rtol=ROUNDING)
    if target == "classes":
        assert set(answer(model, ROWS)) <= {"yes", "no"}


@pytest.mark.parametrize("form", ["task", "pooled"])
def test_the_neighbours_of_a_new_task_are_rows_of_all_tasks(form) -> None:
    tasks = tasks_of()
    model = fit("nearest-neighbours", tasks, form=form, k=3, selection="given")
    X, y = (np.concatenate([getattr(task, name) for task in tasks]) for name in "Xy")
    distances = np.linalg.norm((ROWS[:, None] - X) / X.std(0), axis=2)
    nearest = np.argsort(distances, axis=1)[:, :3]
    np.testing.assert_allclose(answer(model, ROWS), y[nearest].mean(1), rtol=ROUNDING)


@pytest.mark.parametrize("name", ["mixed-model", "mean-regularised"])
def test_a_new_task_has_the_scale_that_the_others_suggest(name) -> None:
    tasks = tasks_of()
    scaled = TaskSet(
        tuple(
            Task.from_rows(task.name, task.X, y=10.0 ** (t % 2) * task.y)
            for t, task in enumerate(tasks)
        )
    )
    model = fit(name, scaled, scale_targets="moderated")
    unit = model.functions.target_prior.scale
    once = fit(name, tasks, scale_targets="moderated")
    np.testing.assert_allclose(
        np.abs(answer(model, ROWS)).mean() / unit,
        np.abs(answer(once, ROWS)).mean() / once.functions.target_prior.scale,
        rtol=0.5,
    )


@pytest.mark.parametrize(
    "name", ["mixed-model", "mean-regularised", "mtfl", "ridge", "nearest-neighbours", "constant"]
)
def test_a_stored_model_answers_the_same(name, tmp_path) -> None:
    form = {"form": "pooled"} if name in ("ridge", "constant") else {}
    model = fit(name, tasks_of(), **form).with_new_tasks("common").with_task_column("school")
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.new_tasks, loaded.task_column) == ("common", "school")
    np.testing.assert_array_equal(answer(loaded, ROWS), answer(model, ROWS))


def test_prepared_calibrated_and_divided_models_answer_by_the_model_in_them() -> None:
    tasks = tasks_of()
    plain = fit("mixed-model", tasks)
    algorithm = calibrated(prepared(ALGORITHMS["mixed-model"], None, Recipe()), {})
    params = algorithm.parse({})
    wrapped = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    np.testing.assert_allclose(answer(wrapped, ROWS), answer(plain, ROWS), rtol=1e-6)
    divided = PerTaskModel(plain, fit("ridge", tasks), ("t0",))
    np.testing.assert_array_equal(answer(divided, ROWS), answer(plain, ROWS))


def test_tasks_that_were_trained_are_answered_as_before() -> None:
    model = fit("mixed-model", tasks_of())
    found, new = for_tasks(model, ["t1", "b", "t0", "a", "b"], "common")
    assert new == ("b", "a")
    for task in ("t0", "t1"):
        expected = model.predict(ROWS, task=task)
        np.testing.assert_array_equal(found.predict(ROWS, task=task), expected)
    with pytest.raises(UnknownTask):
        found.predict(ROWS, task="c")


def test_new_tasks_are_refused_unless_the_call_or_the_model_says_otherwise() -> None:
    model = fit("mixed-model", tasks_of())
    with pytest.raises(UnknownTask, match="new_tasks=common"):
        for_tasks(model, ["a"])
    willing = model.with_new_tasks("common")
    assert for_tasks(willing, ["a"])[1] == ("a",)
    with pytest.raises(UnknownTask):
        for_tasks(willing, ["a"], "refuse")
    alone = fit("ridge", tasks_of())
    with pytest.raises(UnknownTask) as refused:
        for_tasks(alone, ["a"])
    assert "new_tasks" not in refused.value.message


def test_a_model_without_a_common_part_names_the_tasks_and_what_to_do() -> None:
    model = fit("ridge", tasks_of())
    with pytest.raises(UnknownTask, match=r"'a', 'b'; .*'adapt'.*mixed-model") as refused:
        for_tasks(model, ["a", "t0", "b"], "common")
    assert refused.value.task == "a"


def test_tasks_of_different_classes_have_no_common_part() -> None:
    first, second = tasks_of("classes", n_tasks=2)
    renamed = Task.from_rows("t1", second.X, y=np.where(second.y == "yes", "up", "down"))
    for name in ("mixed-model", "mtfl", "nearest-neighbours"):
        with pytest.raises(UnknownTask, match="differ in classes"):
            answer(fit(name, TaskSet((first, renamed))), ROWS)


def test_a_preparation_of_each_task_has_none_for_a_new_one() -> None:
    algorithm = prepared(ALGORITHMS["mixed-model"], None, Recipe(per_task=True))
    params = algorithm.parse({})
    assert not algorithm.has_common_part(params)
    model = algorithm.fit(tasks_of(), params, trace=Trace(), rng=np.random.default_rng(0))
    with pytest.raises(UnknownTask, match="per_task"):
        answer(model, ROWS)


def test_scores_on_left_out_tasks_are_those_of_models_without_the_tasks() -> None:
    tasks = TaskSet(tasks_of().tasks[:4])
    ridge = {"form": "pooled", "selection": "given"}
    scores = score_left_out_tasks(
        fit_single(ALGORITHMS["ridge"], ridge), tasks, [METRICS["rmse"]], seed=0, trace=Trace()
    )
    for task in tasks:
        rest = TaskSet(tuple(other for other in tasks if other is not task))
        predicted = answer(fit("ridge", rest, **ridge), task.X)
        values = [value for value in scores["by_task"]["rmse"][task.name] if value is not None]
        assert values == [pytest.approx(np.sqrt(np.mean((task.y - predicted) ** 2)))]
