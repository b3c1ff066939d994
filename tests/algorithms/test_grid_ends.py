import numpy as np
import pytest

from algorithms.baselines.linear.lasso import SharedLassoParams
from algorithms.interface.params import (
    end_warnings,
    end_warnings_by_task,
    losses_by_value,
    search_end_warnings,
)
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtda import MTDAParams
from algorithms.registry import ALGORITHMS
from algorithms.rmtpca import RMTPCAParams

PARAMS = MTDAParams(d_grid=(4, 1, 2), gamma_grid=(10.0, 0.0, 0.1))


@pytest.mark.parametrize(
    ("name", "value", "direction"),
    [
        ("gamma", 10.0, "larger"),
        ("gamma", 0.1, None),
        ("gamma", 0.0, None),  # no shrinkage: nothing lies below
        ("d", 1, None),
        ("d", 2, None),
        ("d", 4, "larger"),
    ],
)
def test_a_choice_at_a_grid_end_causes_a_warning_unless_it_is_the_bound(
    name, value, direction
) -> None:
    warnings = end_warnings(PARAMS, {name: value})
    assert len(warnings) == (direction is not None)
    if direction:
        assert f"the chosen {name} = {value:g}" in warnings[0]
        assert f"add {direction} values to '{name}_grid'" in warnings[0]


def test_a_choice_at_the_smaller_end_causes_a_warning() -> None:
    (warning,) = end_warnings(RMTPCAParams(grid=(0.1, 1.0)), {"lam": 0.1})
    assert "smallest value that was tried" in warning
    assert "add smaller values to 'grid'" in warning


def test_a_largest_value_without_effect_beyond_causes_no_warning() -> None:
    assert end_warnings(PARAMS, {"d": 4}, limits={"d": 5})
    assert not end_warnings(PARAMS, {"d": 4}, limits={"d": 4})
    assert not end_warnings(SharedLassoParams(grid=(0.5, 1.0)), {"share": 1.0})


def test_a_grid_of_one_value_causes_no_warning() -> None:
    assert not end_warnings(MTDAParams(d_grid=(3, 3)), {"d": 3})


def test_choices_of_each_task_are_counted() -> None:
    chosen = {"a": {"d": 4}, "b": {"d": 4}, "c": {"d": 2}, "e": {"d": 4}}
    limits = {"a": {"d": 4}, "b": {"d": 9}, "c": {"d": 9}, "e": {"d": 9}}
    (warning,) = end_warnings_by_task(PARAMS, chosen, limits=limits)
    assert "the chosen d = 4, for 2 of 4 tasks ('b', 'e'), is the largest" in warning


def test_an_end_where_the_loss_is_level_causes_no_warning() -> None:
    """A larger gamma cannot matter where all coefficients are 0 already."""
    level = {"gamma": {0.0: 2.0, 0.1: 1.002, 10.0: 1.0}}
    steep = {"gamma": {0.0: 2.0, 0.1: 1.5, 10.0: 1.0}}
    assert not end_warnings(PARAMS, {"gamma": 10.0}, losses=level)
    assert end_warnings(PARAMS, {"gamma": 10.0}, losses=steep)
    chosen = {"a": {"gamma": 10.0}, "b": {"gamma": 10.0}}
    (warning,) = end_warnings_by_task(PARAMS, chosen, losses={"a": level, "b": steep})
    assert "for 1 of 2 tasks" in warning
    tried = {"gamma": [0.0, 0.1, 10.0]}
    assert not search_end_warnings(PARAMS, tried, {"gamma": 10.0}, level)
    assert search_end_warnings(PARAMS, tried, {"gamma": 10.0}, steep)


@pytest.mark.parametrize(("exponent", "is_level"), [(1.0, True), (0.1, False)])
def test_gains_beyond_the_end_follow_from_the_gains_before_it(exponent, is_level) -> None:
    """The loss 1 + v^-a has the remaining gain v^-a."""
    grid = (1.0, 10.0, 100.0)
    losses = {"gamma": {v: 1 + v**-exponent for v in grid}}
    params = MTDAParams(gamma_grid=grid)
    assert bool(end_warnings(params, {"gamma": 100.0}, losses=losses)) != is_level


def test_the_loss_of_a_value_is_that_of_the_best_candidate_with_it() -> None:
    candidates = [MTDAParams(d=d, gamma=gamma) for d in (1, 2) for gamma in (0.1, 1.0)]
    losses = losses_by_value(candidates, [4.0, 3.0, np.inf, 5.0], ["d", "gamma"])
    assert losses == {"d": {1: 3.0, 2: 5.0}, "gamma": {0.1: 4.0, 1.0: 3.0}}


@pytest.mark.parametrize("name", ["ridge", "mean-regularised", "kernel-ridge"])
def test_targets_that_no_column_predicts_cause_no_warning(name) -> None:
    rng = np.random.default_rng(0)
    tasks = TaskSet(
        tuple(
            Task.from_rows(task, rng.normal(size=(30, 5)), y=rng.normal(size=30)) for task in "abc"
        )
    )
    algorithm = ALGORITHMS[name]
    params = algorithm.parse({})
    model = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    assert model.fit_info["gamma"] == max(params.grid)
    assert not [warning for warning in model.warnings if "that was tried" in warning]
