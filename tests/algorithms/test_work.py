"""Expected work of fits. ``benchmarks/fit_time.py`` compares it with the time that they take."""

import math
from itertools import pairwise

import pytest

from algorithms.interface.durations import describe_duration
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    FLOPS_PER_S,
    STEPS_PER_S,
    VALUES_PER_S,
    WorkEstimate,
    with_share,
    without_fold,
)
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.options import Calibration

#: Parameters without a default.
PARAMS = {"k": 2}
#: How far the exponent of a power law may be off because of terms of lower order.
LOWER_ORDER = 0.1
#: Share by which an estimate may fall where a fit changes to a cheaper form of its matrices.
CHEAPER_FORM = 0.05
#: With more rows per column, this one needs fewer steps, or none of a cross-validation.
NEEDS_FEWER_STEPS = "mtfl"
#: Bases from which rows, columns or tasks grow, and the rows of each: iterative methods need fewer
#: steps once a task has more rows than columns, so that these numbers stay on one side.
BASES = (
    ({"T": 4, "n": 60, "d": 8}, (15, 30, 90, 300)),
    ({"T": 4, "n": 30, "d": 200}, (10, 30, 90, 180)),
)


def summaries(T=3, n=100, d=20, *, target="numbers", **values):
    n_classes = 2 if target == "classes" else 0
    return tuple(
        TaskSummary(f"t{t}", n, d, target=target, n_classes=n_classes, **values) for t in range(T)
    )


def targets_of(algorithm):
    need = algorithm.needs.target
    return {"any": ("numbers", "classes"), "none": ("none",)}.get(need, (need,))


def params_of(algorithm, **values):
    names = {k: v for k, v in PARAMS.items() if k in algorithm.Params.model_fields}
    return algorithm.parse({**names, **values})


def selections_of(algorithm):
    field = algorithm.Params.model_json_schema()["properties"].get("selection")
    return ({},) if field is None else tuple({"selection": name} for name in field["enum"])


def seconds(name, tasks, **values):
    algorithm = ALGORITHMS[name]
    return algorithm.work(tasks, params_of(algorithm, **values)).seconds


CASES = [
    pytest.param(name, target, values, id="-".join([name, target, *values.values()]))
    for name, algorithm in ALGORITHMS.items()
    for target in targets_of(algorithm)
    for values in selections_of(algorithm)
]


@pytest.mark.parametrize(("name", "target", "values"), CASES)
def test_more_rows_columns_or_tasks_take_no_less_time(name, target, values) -> None:
    if ALGORITHMS[name].is_combined:  # within a budget, methods that take long are left out
        values = {**values, "budget_s": 3600.0}
    for base, n_rows in BASES:
        for changed, sizes in (("T", (10, 30, 90)), ("n", n_rows), ("d", (10, 30, 90, 300))):
            found = [
                seconds(name, summaries(**{**base, changed: size}, target=target), **values)
                for size in sizes
            ]
            assert all(0 < one < math.inf for one in found)
            if name == NEEDS_FEWER_STEPS and changed == "n":
                continue
            for smaller, larger in pairwise(found):
                assert larger >= (1 - CHEAPER_FORM) * smaller, changed


@pytest.mark.parametrize(("name", "target", "values"), CASES)
def test_no_part_of_the_work_with_a_share_of_the_rows_is_negative(name, target, values) -> None:
    algorithm = ALGORITHMS[name]
    for n_units in (20, 90, 100):  # of rows that are held out together
        tasks = summaries(T=6, d=8, target=target, n_units=n_units)
        found = algorithm.work(with_share(tasks, 0.05), params_of(algorithm, **values))
        assert min(found.flops, found.values, found.steps) >= 0
        assert found.seconds > 0


@pytest.mark.parametrize(("name", "target", "values"), CASES)
def test_every_estimate_says_what_takes_the_time_and_what_takes_less(name, target, values) -> None:
    algorithm = ALGORITHMS[name]
    found = algorithm.work(summaries(target=target), params_of(algorithm, **values))
    assert found.largest
    assert found.remedy.startswith("use ")
    assert found.describe().startswith("about ")


def power(few, many, *, name, **values):
    """Return the exponent p of a time that grows as size^p between two sizes, with factor 2."""
    return math.log2(seconds(name, many, **values) / seconds(name, few, **values))


def test_the_eigendecomposition_of_a_kernel_grows_with_the_cube_of_the_rows() -> None:
    few, many = summaries(T=2, n=10_000), summaries(T=2, n=20_000)
    for name in ("okl", "convex-okl"):
        assert power(few, many, name=name) == pytest.approx(3, abs=LOWER_ORDER)
    assert power(few, many, name="kernel-ridge") == pytest.approx(3, abs=LOWER_ORDER)


@pytest.mark.parametrize("name", ["fmtl", "kernel-tasks", "kernel-scaled", "kernel-graph", "mtrl"])
def test_kernel_machines_grow_with_the_square_of_the_rows_and_with_landmarks_linearly(name) -> None:
    few, many = summaries(T=3, n=20_000), summaries(T=3, n=40_000)
    assert power(few, many, name=name) == pytest.approx(2, abs=LOWER_ORDER)
    assert power(few, many, name=name, nystrom=500) == pytest.approx(1, abs=LOWER_ORDER)
    assert seconds(name, many, nystrom=500) < seconds(name, many) / 5


@pytest.mark.parametrize("name", ["pca", "lda-rt", "ridge"])
def test_methods_of_each_task_grow_with_the_tasks_linearly(name) -> None:
    target = "classes" if name == "lda-rt" else "numbers"
    few, many = (summaries(T=T, n=500, d=100, target=target) for T in (100, 200))
    assert power(few, many, name=name) == pytest.approx(1, abs=LOWER_ORDER)


def test_pca_of_many_columns_grows_with_their_cube() -> None:
    few, many = summaries(T=3, n=3000, d=1500), summaries(T=3, n=3000, d=3000)
    assert 2.5 < power(few, many, name="pca") <= 3 + LOWER_ORDER


def test_active_rows_of_latent_models_count_by_their_cube() -> None:
    tasks = summaries(T=3, n=2000, d=2000, target="none")
    few, many = (seconds("gp-lvm", tasks, r=r) for r in (1000, 2000))
    # the projection of all rows grows with the square
    assert 2.5 < math.log2(many / few) < 3


@pytest.mark.parametrize(
    ("name", "grid"), [("fmtl", "grid"), ("mtda", "gamma_grid"), ("logistic-regression", "grid")]
)
def test_a_selection_grows_with_its_candidates(name, grid) -> None:
    algorithm, tasks = ALGORITHMS[name], summaries(T=20, n=300, target="classes")
    one, many = (
        seconds(name, tasks, selection="cv", **{grid: values})
        for values in ([1.0], [0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
    )
    assert one < many < 6 * one
    given = seconds(name, tasks, selection="given")
    assert given < one
    work = algorithm.work(tasks, params_of(algorithm, selection="cv"))
    assert "candidates" in work.largest
    assert "use fewer candidates" in work.remedy


def test_calibration_adds_a_fit_without_each_fold() -> None:
    algorithm, tasks = ALGORITHMS["ridge"], summaries(T=20, n=300)
    params = params_of(algorithm)
    options = Calibration(n_folds=4)
    fold = algorithm.work(without_fold(tasks, 4), params).seconds
    expected = algorithm.work(tasks, params).seconds + 4 * fold
    assert calibrated(algorithm, options).work(tasks, params).seconds == pytest.approx(expected)


def test_seconds_are_the_sum_at_the_reference_speeds() -> None:
    one = WorkEstimate("a", "use b", flops=FLOPS_PER_S, values=2 * VALUES_PER_S)
    other = WorkEstimate("c", "use d", steps=4 * STEPS_PER_S)
    assert one.seconds == 3
    both = one + other
    assert both.seconds == 7
    assert (both.largest, both.remedy) == ("c", "use d")
    assert both.times(10).describe(factor=6) == "about 7 min for c"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "1 s"),
        (12.4, "12 s"),
        (119, "119 s"),
        (250, "4.2 min"),
        (2400, "40 min"),
        (9000, "2.5 h"),
        (7 * 86_400, "7 days"),
    ],
)
def test_durations_have_two_digits_and_a_unit(value, text) -> None:
    assert describe_duration(value) == text


@pytest.mark.parametrize("name", ["ridge", "mean-regularised", "mtfl"])
def test_rows_that_are_left_out_together_take_time(name) -> None:
    alone, distinct, equal = (
        seconds(name, summaries(n=200, n_units=n_units), selection="loo")
        for n_units in (None, 200, 150)
    )
    assert alone == distinct < equal


def test_units_of_all_tasks_grow_with_the_cube_of_the_tasks() -> None:
    few, many = (
        seconds("mean-regularised", summaries(T, 20, 5, rows_hash="same"), selection="loo")
        for T in (2000, 4000)
    )
    assert math.log2(many / few) == pytest.approx(3, abs=LOWER_ORDER)
