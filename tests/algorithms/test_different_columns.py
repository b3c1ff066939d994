"""Tasks with different columns."""

import numpy as np
import pytest

from algorithms.automatic import fit_automatic, plan_automatic
from algorithms.ensemble import Ensemble
from algorithms.ensemble.contenders import contenders_for
from algorithms.ensemble.held_out import RowOptions
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.interface.errors import InvalidData, InvalidParams, UnknownTask
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.splits.splits import Splits
from algorithms.wrappers.by_parts.algorithm import ByParts, describe_columns
from algorithms.wrappers.new_tasks import check_new_tasks
from algorithms.wrappers.preparation.algorithm import for_model, prepared
from algorithms.wrappers.preparation.recipe import Recipe

FEW = Splits(n_folds=3, repeats=1)


def tasks_of(widths, *, n=20, target="numbers") -> TaskSet:
    """Return a linear task for each number of columns, of which the first matters."""
    rng, tasks = np.random.default_rng(0), []
    for t, d in enumerate(widths):
        X = rng.normal(size=(n, d))
        y = X[:, 0] + 0.2 * rng.normal(size=n)
        y = np.where(y > 0, "yes", "no") if target == "classes" else y
        tasks.append(Task.from_rows(f"t{t}", X, y=y, feature_names=[f"x{i}" for i in range(d)]))
    return TaskSet(tuple(tasks))


def choose(tasks, **options):
    """Return an automatic choice and the report of its model."""
    plan = plan_automatic(tasks.summaries(), AutomaticOptions(splits=FEW, **options))
    found, report = fit_automatic(plan, tasks, rows=RowOptions(), seed=0, trace=Trace())
    return found, report["choice"]


def roles_of(choice) -> set[str]:
    return {row["role"] for row in choice["leaderboard"]}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.quick(1)
def test_methods_learn_each_task_alone_and_the_report_says_why(single, tmp_path) -> None:
    tasks = tasks_of([2, 3])
    found, choice = choose(tasks, single=single)
    assert {row["algorithm"] for row in choice["leaderboard"]} >= {"ridge", "gp", "boosted-trees"}
    assert roles_of(choice) == {"single_task"}
    assert choice["estimate"]["value"] < 0.5  # of a constant: 1
    (said,) = [one for one in choice["sentences"] if "different columns" in one]
    assert "nothing could be shared" in said
    assert "'x0', 'x1' in common" in said
    # no other sentence contradicts it
    assert not any("verdict" in one or "not tested" in one for one in choice["sentences"])
    (unsuited,) = [one for one in choice["sentences"] if one.startswith("Not suited")]
    compared = {row["algorithm"] for row in choice["leaderboard"]}
    assert not compared & set(unsuited.partition(": ")[2].partition(": ")[0].split(", "))
    save_model(found.model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for task in tasks:
        assert loaded.width("predict", task=task.name) == task.n_features
        expected = found.model.predict(task.X, task=task.name)
        np.testing.assert_array_equal(loaded.predict(task.X, task=task.name), expected)


def test_tasks_with_the_same_columns_share_among_each_other() -> None:
    _, choice = choose(tasks_of([2, 2, 3, 3, 3]), algorithms=["ridge", "mean-regularised"])
    assert roles_of(choice) == {"single_task", "pooled", "multi_task"}
    assert choice["together_or_apart"]["reason"] is None
    assert choice["alignment"]["n_tasks"] == 3
    assert any("share only between tasks of the same ones" in one for one in choice["sentences"])


def test_discriminants_share_between_classes_of_different_columns() -> None:
    _, choice = choose(tasks_of([2, 3, 4], n=12, target="classes"), algorithms=["mtda", "ridge"])
    assert roles_of(choice) == {"single_task", "multi_task"}
    assert any("only mtda can share" in one for one in choice["sentences"])


def test_a_form_that_cannot_be_fitted_is_named_apart_from_one_that_was_compared() -> None:
    _, choice = choose(tasks_of([2, 3]), algorithms=["ridge"])
    (unsuited,) = [one for one in choice["sentences"] if one.startswith("Not suited")]
    assert "ridge (all tasks pooled)" in unsuited


@pytest.mark.parametrize("target", ["numbers", "classes"])
@pytest.mark.parametrize("widths", [[2, 3], [2, 3, 3]])
@pytest.mark.quick(1)
def test_every_contender_of_the_race_is_the_fit_of_each_set_of_columns(target, widths) -> None:
    tasks = tasks_of(widths, n=12, target=target)
    for one in contenders_for(tasks.summaries()):
        if one.variant == "of logarithms" or not isinstance(one.algorithm, ByParts):
            continue
        model = one.fit(tasks, trace=Trace(), seed=0)
        inner = ALGORITHMS[one.algorithm.name]
        is_alone = one.role == "single_task" and not one.values.get("form")
        part = TaskSet(tasks.tasks[1:2] if is_alone else tasks.tasks[1:])
        alone = inner.fit(part, one.params, trace=Trace(), rng=np.random.default_rng(0))
        X = tasks["t1"].X
        np.testing.assert_array_equal(
            model.predict(X, task="t1"), alone.predict(X, task="t1"), err_msg=one.label
        )
        assert set(model.tasks) == set(tasks.names)
        assert one.role == "single_task" or len(widths) > 2


@pytest.mark.slow
def test_the_ensemble_takes_them_and_refuses_what_needs_common_columns() -> None:
    tasks, ensemble = tasks_of([2, 3], n=12), Ensemble()
    params = ensemble.Params(n_folds=2)
    assert ensemble.work(tasks.summaries(), params).seconds > 0
    assert ensemble.memory(tasks.summaries(), params).n_bytes > 0
    model = ensemble.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    with pytest.raises(UnknownTask):
        model.for_new_tasks(("new",))
    with pytest.raises(InvalidData, match="cannot be adapted"):
        ensemble.adapt(model, Task.from_rows("new", tasks["t0"].X, y=tasks["t0"].y))
    ridge = next(one for one in model.members if one.algorithm == "ridge")
    with pytest.raises(InvalidData, match="cannot be adapted"):
        for_model(ALGORITHMS["ridge"], ridge, None).adapt(ridge, tasks["t0"])


def test_equal_columns_need_no_sentence() -> None:
    assert describe_columns(tasks_of([2, 2]).summaries(), ()) is None


def test_any_algorithm_fits_each_set_of_columns_apart_if_asked(tmp_path) -> None:
    tasks, recipe = tasks_of([2, 3, 3], n=12), Recipe(different_columns="apart")
    inner = ALGORITHMS["mean-regularised"]
    apart, refusing = prepared(inner, None, recipe), prepared(inner, None, Recipe())
    params = inner.parse({})
    with pytest.raises(InvalidData, match="different_columns"):
        refusing.check(tasks.summaries(), params)
    apart.check(tasks.summaries(), params)
    rng = np.random.default_rng(0)
    model = apart.fit(tasks, params, trace=Trace(), rng=rng)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    # that of the others alone, which have the same preparation
    alone = refusing.fit(
        TaskSet(tasks.tasks[1:]), params, trace=Trace(), rng=np.random.default_rng(0)
    )
    for name in ("t1", "t2"):
        X = tasks[name].X
        np.testing.assert_allclose(
            loaded.predict(X, task=name), alone.predict(X, task=name), rtol=1e-9
        )
    assert loaded.predict(tasks["t0"].X, task="t0").shape == (12,)
    with pytest.raises(InvalidParams, match="no part that is common"):
        check_new_tasks(apart, params, "common")


def test_tasks_of_the_same_columns_are_fitted_as_without_the_option() -> None:
    tasks, inner = tasks_of([3, 3], n=12), ALGORITHMS["gp"]
    params, X = inner.parse({}), tasks["t0"].X
    apart, together = (
        prepared(inner, None, Recipe(different_columns=how)).fit(
            tasks, params, trace=Trace(), rng=np.random.default_rng(0)
        )
        for how in ("apart", "refuse")
    )
    assert apart.relations() is not None
    np.testing.assert_array_equal(apart.predict(X, task="t0"), together.predict(X, task="t0"))
