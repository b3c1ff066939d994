import json

import numpy as np
import pytest

from algorithms.families.kernel_machines.certificate import Certificate
from algorithms.interface.stored_fields import json_ready
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.gaps import ROUNDING, relative_gap
from algorithms.registry import ALGORITHMS, load_model, save_model

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("primal", "gap"),
    [
        *((value, 1.0) for value in (INF, -INF, NAN)),
        *((1.0, value) for value in (INF, -INF, NAN)),
        (-1.0, 0.5),  # a problem whose optimum is never negative
        (-1e-9, 0.0),
        (0.0, 1e-12),
        (1.0, -2 * ROUNDING),  # below the dual value
        (1e200, -1e200),
    ],
)
def test_a_missing_certificate_is_an_infinite_gap(primal, gap) -> None:
    assert relative_gap(primal, gap) == INF


@pytest.mark.parametrize(
    ("primal", "gap", "expected"),
    [(2.0, 1.0, 0.5), (2.0, 3.0, 1.5), (0.0, 0.0, 0.0), (1.0, -ROUNDING / 2, 0.0)],
)
def test_the_relative_gap_is_a_fraction_of_the_primal_value(primal, gap, expected) -> None:
    assert relative_gap(primal, gap) == expected


def test_one_negative_term_invalidates_the_certificate() -> None:
    good = Certificate(primal=2.0, dual=1.0, terms=np.array([0.5, 0.5]))
    assert good.relative_gap == 0.5
    # its sum is as it should be
    bad = Certificate(primal=2.0, dual=1.0, terms=np.array([1.5, -0.5]))
    assert bad.relative_gap == INF
    assert Certificate(primal=2.0, dual=1.0, terms=np.array([1.0, NAN])).relative_gap == INF
    assert Certificate(primal=-INF, dual=-INF, terms=np.zeros(2)).relative_gap == INF


def test_non_finite_numbers_are_null_at_any_depth() -> None:
    value = {"a": [1.0, INF, {"b": (NAN, "x", None, np.float64(-INF))}], "c": True}
    assert json_ready(value) == {"a": [1.0, None, {"b": [None, "x", None, None]}], "c": True}
    json.dumps(json_ready(value), allow_nan=False)


@pytest.mark.slow
def test_a_model_without_a_certificate_is_stored_and_read_again(tmp_path) -> None:
    from dataclasses import replace

    algorithm = ALGORITHMS["kernel-tasks"]
    tasks = TaskSet((Task.from_rows("a", np.eye(4), y=[1.0, 2.0, 3.0, 5.0]),))
    model = algorithm.fit(tasks, algorithm.Params(), trace=Trace(), rng=np.random.default_rng(0))
    spoilt = replace(
        model, fit_info={**model.fit_info, "relative_gap": INF}, scores={"duality_gap": {"a": INF}}
    )
    save_model(spoilt, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.fit_info["relative_gap"] is None
    assert again.metrics == {"duality_gap": {"a": INF}}
    save_model(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
