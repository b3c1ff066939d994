"""Every promise of the interface, kept by every registered algorithm.

Nothing here knows an algorithm: problems are generated from ``needs``.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pytest
from pydantic import ValidationError

import algorithms
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import (
    Cancelled,
    Diverged,
    InvalidData,
    InvalidParams,
    UnknownTask,
    UnusedWeights,
    find_similar,
)
from algorithms.interface.methods import CLASS_METHODS, OUTPUT_SHAPES
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Checkpoint, Step, Trace
from algorithms.interface.weights import weigh
from algorithms.registry import ALGORITHMS, load_model, save_model
from benchmarks.harness.problems import covariance_tasks, identical_gaussians, tilted_gaussians
from sibling.plots import Source, available, specification

#: Rounding of J between iterations.
MONOTONE_RTOL = 1e-12
#: Permuted tasks add up in another order.
PERMUTED_RTOL = 1e-7
#: Bytes of a checkpoint per byte of rows and targets. The largest, 3.3, is that of mtfl with
#: classes: 30 directions of a quasi-Newton method and their changes of the gradient.
MAX_CHECKPOINT_RATIO = 4.0
#: Steps of a fit whose checkpoints are measured.
MAX_MEASURED_STEPS = 400
#: Distances that differ by rounding are equal, and the class is then chosen otherwise.
NEAREST_RTOL = 1e-9


def with_targets(tasks: TaskSet, kind: str) -> TaskSet:
    """Return the tasks with targets that depend on their first column."""
    made = []
    for task in tasks:
        numbers = task.X[:, 0] + 0.1 * task.X[:, 1]
        labels = np.where(numbers > np.median(numbers), "high", "low")
        y = {"none": None, "numbers": numbers, "classes": labels}[kind]
        made.append(Task.from_rows(task.name, task.X, y=y))
    return TaskSet(tuple(made))


def heterogeneous(kind: str) -> TaskSet:
    """Return tasks of unlike widths, the widest with fewer rows than features; three classes."""
    rng = np.random.default_rng(4)
    made = []
    for name, width, n in (("narrow", 3, 15), ("middle", 6, 18), ("wide", 40, 12)):
        labels = np.arange(n) % 3
        X = rng.standard_normal((n, width)) + 2 * labels[:, np.newaxis] * (np.arange(width) % 2)
        y = {
            "none": None,
            "numbers": X[:, 0],
            "classes": labels if name == "narrow" else np.array(["a", "bb", "ccc"])[labels],
        }[kind]
        made.append(Task.from_rows(name, X, y=y))
    return TaskSet(tuple(made))


def shared_rows(kind: str) -> TaskSet:
    """Return tasks on the very same rows, their targets along unlike columns."""
    rows = np.random.default_rng(5).standard_normal((16, 4))
    X = [np.roll(rows, t, axis=1) for t in range(3)]
    targets = with_targets(
        TaskSet(tuple(Task.from_rows(f"t{t}", x) for t, x in enumerate(X))), kind
    )
    return TaskSet(tuple(Task.from_rows(task.name, rows, y=task.y) for task in targets))


PROBLEMS: dict[str, Callable[[str], TaskSet]] = {
    "shared": shared_rows,
    "related": lambda kind: with_targets(
        tilted_gaussians(np.random.default_rng(1), n_tasks=4, n_samples=12).tasks, kind
    ),
    "identical": lambda kind: with_targets(
        identical_gaussians(np.random.default_rng(2), n_tasks=3, n_samples=20).tasks, kind
    ),
    "heterogeneous": heterogeneous,
    "covariances": lambda kind: covariance_tasks(np.random.default_rng(3), n_tasks=3),  # noqa: ARG005
}


#: Those that the quick tests fit to identical tasks too.
PAPERS = ("rmt-pca", "mtda", "fmtl", "mtfl", "tlvm")


def kinds_of_targets(algorithm: Algorithm) -> tuple[str, ...]:
    """Return the kinds of targets that an algorithm takes."""
    need = algorithm.needs.target
    return ("numbers", "classes") if need == "any" else (need,)


CASES = [
    pytest.param(
        algorithm,
        problem(target),
        id=f"{name}-{kind}-{target}",
        marks=pytest.mark.slow if kind == "identical" and name not in PAPERS else (),
    )
    for name, algorithm in ALGORITHMS.items()
    for kind, problem in PROBLEMS.items()
    for target in kinds_of_targets(algorithm)
    if kind != "covariances" or algorithm.needs.covariances
    if kind != "heterogeneous" or not algorithm.needs.same_features
    if (kind == "shared") == algorithm.needs.shared_rows
]


def is_by_parts(algorithm, tasks) -> bool:
    """Return whether an algorithm has a model of its own for each set of columns of the tasks."""
    return algorithm.is_combined and len({task.n_features for task in tasks}) > 1


over_cases = pytest.mark.parametrize(("algorithm", "tasks"), CASES)
over_adapting_cases = pytest.mark.parametrize(
    ("algorithm", "tasks"),
    [
        case
        for case in CASES
        if case.values[0].supports_adaptation()
        if not is_by_parts(*case.values)
    ],
)
over_algorithms = pytest.mark.parametrize(
    "algorithm", [pytest.param(algorithm, id=name) for name, algorithm in ALGORITHMS.items()]
)
over_adapting_algorithms = pytest.mark.parametrize(
    "algorithm",
    [pytest.param(one, id=name) for name, one in ALGORITHMS.items() if one.supports_adaptation()],
)


def fit(algorithm, tasks, *, trace=None, seed=0, **values):
    params = algorithm.Params(**values)
    return algorithm.fit(tasks, params, trace=trace or Trace(), rng=np.random.default_rng(seed))


class Fitted(NamedTuple):
    """A model by the defaults, the trace of its fit, and the number of steps that it reported."""

    model: Any
    trace: Trace
    n_steps: int


_FITTED: dict[tuple[str, int], Fitted] = {}


def fitted(algorithm, tasks: TaskSet) -> Fitted:
    """Fit tasks of this module by the defaults, once for all tests, which change nothing of it."""
    key = algorithm.name, id(tasks)
    if key not in _FITTED:
        steps: list[Step] = []
        trace = Trace(on_step=steps.append)
        _FITTED[key] = Fitted(fit(algorithm, tasks, trace=trace), trace, len(steps))
    return _FITTED[key]


def same_bits(a, b) -> bool:
    arrays, others = a.to_arrays(), b.to_arrays()
    return (
        a.header() == b.header()
        and arrays.keys() == others.keys()
        and all(arrays[name].tobytes() == others[name].tobytes() for name in arrays)
        and all(arrays[name].shape == others[name].shape for name in arrays)
    )


def answers(model, task: Task, rows) -> dict[str, np.ndarray]:
    """Return what each method answers for a task; rows are cut or repeated to the width."""
    found = {}
    for method in model.available_methods():
        width = model.width(method, task=task.name)
        found[method] = getattr(model, method)(np.resize(rows, (5, width)), task=task.name)
    return found


@over_algorithms
def test_fields_have_title_description_and_bounds(algorithm) -> None:
    schema = algorithm.Params.model_json_schema()
    for name, field in schema["properties"].items():
        assert field.get("title"), name
        assert field.get("description"), name
        assert "default" in field, name
        if field.get("type") in ("integer", "number"):
            assert {"minimum", "exclusiveMinimum"} & field.keys(), name
            assert {"maximum", "exclusiveMaximum"} & field.keys(), name


@over_algorithms
def test_no_number_may_be_negative(algorithm) -> None:
    # regularisations, tolerances, dimensions and counts; grids hold the values of one of them
    for name, field in algorithm.Params.model_json_schema()["properties"].items():
        for part in (field, field.get("items", {}), *field.get("anyOf", ())):
            if part.get("type") in ("integer", "number"):
                assert part.get("minimum", part.get("exclusiveMinimum")) >= 0, name


@over_algorithms
def test_params_survive_json_and_reject_unknown_names(algorithm) -> None:
    params = algorithm.Params()
    assert algorithm.Params.model_validate(json.loads(params.model_dump_json())) == params
    with pytest.raises(ValidationError):
        algorithm.Params(no_such_parameter=1)


@pytest.mark.parametrize(("place", "field"), [(None, "k"), ("param_sets/2", "param_sets/2/k")])
def test_a_rejected_parameter_is_named_with_its_location(place, field) -> None:
    with pytest.raises(InvalidParams, match=r"pca: .*'k'") as rejected:
        ALGORITHMS["pca"].parse({"k": 0}, place=place)
    assert rejected.value.field == field


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("n_fold", "rmt-pca: space: unknown parameter 'n_fold'; did you mean 'n_folds'?"),
        ("zzz", "rmt-pca: space: unknown parameter 'zzz'; the parameters are: k, lam, "),
    ],
)
def test_an_unknown_parameter_gets_a_suggestion(name, message) -> None:
    with pytest.raises(InvalidParams) as rejected:
        ALGORITHMS["rmt-pca"].parse({name: 1}, place="space")
    assert rejected.value.message.startswith(message)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("mtlf", "mtfl"), ("rigde", "ridge"), ("mtf", "mtfl"), ("rmtpca", "rmt-pca"), ("zzz", None)],
)
def test_swapped_letters_go_before_other_slips(typed, meant) -> None:
    assert find_similar(typed, list(ALGORITHMS)) == meant
    assert find_similar(typed, list(ALGORITHMS)[::-1]) == meant


def test_modules_at_the_top_level_are_algorithms() -> None:
    found = {path.stem for path in Path(algorithms.__file__).parent.glob("*.py")}
    homes = {type(algorithm).__module__.split(".")[1] for algorithm in ALGORITHMS.values()}
    assert found - homes == {"__init__", "automatic", "registry"}


@over_algorithms
def test_name_and_descriptions_are_present(algorithm) -> None:
    assert ALGORITHMS[algorithm.name] is algorithm
    assert algorithm.name == algorithm.name.lower()
    assert algorithm.title
    assert len(algorithm.summary) > 40
    assert "http" in algorithm.reference or "doi" in algorithm.reference.lower()


@over_cases
def test_a_model_answers_for_new_tasks_if_its_algorithm_says_so(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    if not algorithm.has_common_part(algorithm.Params()) or is_by_parts(algorithm, tasks):
        with pytest.raises(UnknownTask, match="'new'"):
            model.for_new_tasks(("new",))
        return
    extended = model.for_new_tasks(("new", "newer"))
    assert extended.tasks == ("new", "newer")
    assert extended.classes("new") == model.classes(model.tasks[0])
    rows = np.arange(1.0, 4.0)
    found, newer = (answers(extended, Task(name, rows), rows) for name in extended.tasks)
    for method, outputs in found.items():
        assert outputs.dtype.kind == "U" or np.isfinite(outputs).all(), method
        np.testing.assert_array_equal(newer[method], outputs)


@over_cases
def test_defaults_fit_every_generated_problem(algorithm, tasks) -> None:
    model, trace, _ = fitted(algorithm, tasks)
    assert model.algorithm == algorithm.name
    assert model.tasks == tasks.names
    assert trace.stop_reason is not None
    assert trace.history
    assert trace.history[-1].fraction == pytest.approx(1.0)
    assert all(np.isfinite(step.objective) for step in trace.history)
    for scores in model.metrics.values():
        assert set(scores) == set(tasks.names)
        assert all(np.isfinite(score) for score in scores.values())
    json.dumps(model.header(), allow_nan=False)


@over_cases
def test_objective_is_monotone_where_theory_guarantees_it(algorithm, tasks) -> None:
    trace = fitted(algorithm, tasks).trace
    sign = {"up": 1.0, "down": -1.0, None: 0.0}[algorithm.monotone]
    for before, after in zip(trace.history, trace.history[1:], strict=False):
        # a selection has the losses of candidates instead
        if before.loop == after.loop != "selection":
            change = sign * (after.objective - before.objective)
            assert change >= -MONOTONE_RTOL * abs(before.objective)


@over_cases
def test_same_seed_gives_the_same_bits(algorithm, tasks) -> None:
    assert same_bits(fit(algorithm, tasks), fitted(algorithm, tasks).model)


@over_cases
def test_targets_change_nothing_where_they_are_ignored(algorithm, tasks) -> None:
    kinds = [kind for kind in ("numbers", "classes") if algorithm.needs.ignores_targets({kind})]
    if not kinds or tasks.tasks[0].input != "rows":
        return
    expected = fitted(algorithm, tasks).model
    for kind in kinds:
        assert same_bits(fit(algorithm, with_targets(tasks, kind)), expected)


def with_weights(tasks: TaskSet, weights: Callable[[Task], Any]) -> TaskSet:
    """Return tasks with weights, ready for a fit; an extra row of weight 0 if weights have one."""
    made = []
    for task in tasks:
        w = np.asarray(weights(task), dtype=np.float64)
        extra = len(w) - task.n_samples
        X = np.concatenate([task.X, 7.0 + task.X[:extra]])
        y = None if task.y is None else np.concatenate([task.y, task.y[:extra]])
        made.append(replace(task, X=X, y=y, weights=w))
    return weigh(TaskSet(tuple(made)))


def uneven(task: Task) -> Any:
    return 1.0 + np.arange(task.n_samples) % 3


@cache
def fit_unevenly(algorithm, tasks: TaskSet) -> Any:
    """Fit tasks with uneven weights, once for all tests, which change nothing of the model."""
    return fit(algorithm, with_weights(tasks, uneven))


@over_cases
def test_weights_are_used_or_refused(algorithm, tasks) -> None:
    if algorithm.needs.weights:
        assert not same_bits(fit_unevenly(algorithm, tasks), fitted(algorithm, tasks).model)
        return
    with pytest.raises(UnusedWeights, match=f"have weights, which {algorithm.name} does not use"):
        fit_unevenly(algorithm, tasks)


@over_cases
@pytest.mark.quick(18)
def test_laws_of_weights(algorithm, tasks) -> None:
    if not algorithm.needs.weights:
        return
    equal = fit(algorithm, with_weights(tasks, lambda task: np.full(task.n_samples, 3.7)))
    assert same_bits(equal, fitted(algorithm, tasks).model)
    expected = fit_unevenly(algorithm, tasks)
    scaled = fit(algorithm, with_weights(tasks, lambda task: 4.0 * uneven(task)))
    assert same_bits(scaled, expected)
    if not algorithm.needs.shared_rows:
        more = fit(algorithm, with_weights(tasks, lambda task: np.append(uneven(task), 0.0)))
        assert same_bits(more, expected)


@over_cases
def test_inputs_stay_unchanged(algorithm, tasks) -> None:
    before = [task.X.tobytes() for task in tasks]
    for task in tasks:
        task.X.flags.writeable = False
    model = fit(algorithm, tasks)
    rows = np.random.default_rng(0).standard_normal((5, tasks.tasks[0].n_features))
    rows.flags.writeable = False
    answers(model, tasks.tasks[0], rows)
    assert [task.X.tobytes() for task in tasks] == before


@over_cases
def test_permuted_tasks_permute_the_answer(algorithm, tasks) -> None:
    backwards = TaskSet(tasks.tasks[::-1])
    model, other = fitted(algorithm, tasks).model, fit(algorithm, backwards)
    rows = np.random.default_rng(0).standard_normal((5, tasks.tasks[0].n_features))
    for task in tasks:
        here, there = answers(model, task, rows), answers(other, task, rows)
        for method, answer in here.items():
            if answer.dtype.kind in "iuU":
                np.testing.assert_array_equal(answer, there[method])
                continue
            np.testing.assert_allclose(
                answer, there[method], rtol=PERMUTED_RTOL, atol=PERMUTED_RTOL
            )


@over_cases
def test_a_saved_model_returns_the_same_bits(algorithm, tasks, tmp_path) -> None:
    model = fitted(algorithm, tasks).model
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert same_bits(model, loaded)
    rows = np.random.default_rng(0).standard_normal((5, tasks.tasks[0].n_features))
    for task in tasks:
        here, there = answers(model, task, rows), answers(loaded, task, rows)
        assert all(here[method].tobytes() == there[method].tobytes() for method in here)


@over_algorithms
@pytest.mark.quick(5)
def test_its_plots_are_valid_specifications(algorithm) -> None:
    tasks = next(case.values[1] for case in CASES if case.values[0] is algorithm)
    model, trace, _ = fitted(algorithm, tasks)
    fields = ("loop", "iteration", "objective", "residual")
    steps = {name: [getattr(step, name) for step in trace.history] for name in fields}
    source = Source(model, steps)
    found = available(source)
    assert ("objective" in found) == bool(trace.history)
    relations = model.relations()
    n_outputs = 0 if relations is None else len(relations.names)
    pairs = [] if relations is None else relations.strength[~np.eye(n_outputs, dtype=bool)]
    are_given = n_outputs > 2 and pairs[0] != 0 and np.allclose(pairs, pairs[0])
    assert ("relations" in found) == (n_outputs > 1 and not are_given)
    assert ("scatter" in found) == any(model.embedding(task) for task in model.tasks)
    for name in found:
        text = json.dumps(specification(name, source), allow_nan=False)
        alt.TopLevelSpec.validate(json.loads(text))


@over_cases
def test_an_artifact_of_version_0_1_loads(algorithm, tasks, tmp_path) -> None:
    """Its header has ``facts`` where newer ones have ``fit_info``."""
    model = fitted(algorithm, tasks).model
    save_model(model, tmp_path / "model")
    arrays, header = read_arrays(tmp_path / "model")
    if "fit_info" in header["model"]:
        header["model"]["facts"] = header["model"].pop("fit_info")
    write_arrays(tmp_path / "old", arrays, header=header)
    loaded = load_model(tmp_path / "old")
    assert same_bits(model, loaded)
    assert loaded.header() == load_model(tmp_path / "model").header()


@over_cases
def test_columns_by_class_are_those_of_the_labels(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    has_columns = CLASS_METHODS & set(model.methods())
    for task in tasks:
        if not has_columns or task.target != "classes":
            assert model.classes(task.name) == () or "predict" in model.methods()
            continue
        labels = model.classes(task.name)
        assert labels == tuple(np.unique(task.y).tolist())
        here = answers(model, task, np.random.default_rng(0).standard_normal((5, task.n_features)))
        for method in has_columns:
            # two classes have one score
            is_one = method == "decision_function" and len(labels) == 2
            assert here[method].shape == ((5,) if is_one else (5, len(labels)))
            assert here[method].dtype == np.float64
    with pytest.raises(UnknownTask, match=tasks.names[0]):
        model.classes("nobody")


@over_cases
def test_outputs_have_the_shape_of_their_method(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    for task in tasks:
        rows = np.random.default_rng(0).standard_normal((5, task.n_features))
        for method, found in answers(model, task, rows).items():
            if method in OUTPUT_SHAPES:
                assert found.shape == (5, *OUTPUT_SHAPES[method])


@over_cases
def test_the_predicted_class_is_the_nearest(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    if not {"predict", "distances"} <= set(model.methods()):
        return
    for task in tasks:
        rows = np.random.default_rng(0).standard_normal((20, task.n_features))
        distances = model.distances(rows, task=task.name)
        chosen = np.searchsorted(model.classes(task.name), model.predict(rows, task=task.name))
        nearest = distances.min(axis=1)
        assert (nearest >= 0).all()
        np.testing.assert_allclose(
            distances[np.arange(20), chosen], nearest, rtol=NEAREST_RTOL, atol=NEAREST_RTOL
        )


@over_cases
def test_cancel_ends_the_fit_within_a_step(algorithm, tasks) -> None:
    steps = []
    trace = Trace(on_step=steps.append, is_cancelled=lambda: bool(steps))
    with pytest.raises(Cancelled):
        fit(algorithm, tasks, trace=trace)
    assert len(steps) == 1


class _Spoilt(Trace):
    """Has a field of the start of one loop replaced by what is not a number."""

    def __init__(self, field: str, place: int) -> None:
        super().__init__()
        self.field, self.place = field, place

    def run(self, loop, step, start, **values):
        self.place -= 1
        if self.place < 0:
            start = replace(start, **{self.field: float("nan")})
        return super().run(loop, step, start, **values)


@over_cases
@pytest.mark.parametrize("field", ["objective", "residual"])
def test_a_loop_that_starts_at_a_non_finite_value_ends_the_fit(algorithm, tasks, field) -> None:
    trace = fitted(algorithm, tasks).trace
    for place in range(min(len(trace.stop_reasons), 3)):
        with pytest.raises(Diverged, match="at the start of"):
            fit(algorithm, tasks, trace=_Spoilt(field, place))


@over_cases
@pytest.mark.quick(18)
def test_a_resumed_fit_gives_the_same_bits(algorithm, tasks, tmp_path) -> None:
    whole, _, n_steps = fitted(algorithm, tasks)
    last = min(n_steps, 6) - 1
    for n_done in sorted({n for n in (1, 2, last) if 0 < n <= last}):
        path, steps = tmp_path / f"broken-{n_done}", []
        trace = Trace(
            on_step=steps.append,
            is_cancelled=lambda n=n_done, s=steps: len(s) >= n,
            checkpoint=Checkpoint(path, every_s=0.0),
        )
        with pytest.raises(Cancelled):
            fit(algorithm, tasks, trace=trace)
        # writing one after every further step would take most of the time
        resumed = Trace(checkpoint=Checkpoint(path))
        assert same_bits(whole, fit(algorithm, tasks, trace=resumed))


def spread_tasks(kind: str, *, is_shared: bool) -> TaskSet:
    """Return 20 tasks of 40 rows and 20 columns, on the same rows or each on its own."""
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((20, 40, 20))
    made = (Task.from_rows(f"t{t}", np.roll(x, t, axis=1)) for t, x in enumerate(rows))
    targets = with_targets(TaskSet(tuple(made)), kind)
    if not is_shared:
        return targets
    return TaskSet(tuple(Task.from_rows(task.name, rows[0], y=task.y) for task in targets))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        pytest.param(algorithm, kind, id=f"{name}-{kind}")
        for name, algorithm in ALGORITHMS.items()
        for kind in kinds_of_targets(algorithm)[-1:]  # classes take more than numbers
    ],
)
def test_a_checkpoint_is_not_much_larger_than_the_data(algorithm, kind, tmp_path) -> None:
    is_shared = algorithm.needs.shared_rows
    tasks = spread_tasks(kind, is_shared=is_shared)
    n_rows = len({task.X.tobytes() for task in tasks}) * 40
    size = 8 * (n_rows * 20 + sum(task.n_samples for task in tasks if task.y is not None))
    path, sizes = tmp_path / "checkpoint", [0]

    def measure(_step) -> None:
        sizes.append(path.stat().st_size if path.exists() else 0)

    trace = Trace(
        on_step=measure,
        is_cancelled=lambda: len(sizes) > MAX_MEASURED_STEPS,
        checkpoint=Checkpoint(path, every_s=0.0),
    )
    with contextlib.suppress(Cancelled):
        fit(algorithm, tasks, trace=trace)
    measure(None)
    assert max(sizes) <= MAX_CHECKPOINT_RATIO * size


@over_cases
def test_one_iteration_returns(algorithm, tasks) -> None:
    if "max_iter" in algorithm.Params.model_fields:
        assert fit(algorithm, tasks, max_iter=1).tasks == tasks.names
        # the limit is that of the method; a choice of parameters has a step per candidate
        given = {"selection": "given"} if "selection" in algorithm.Params.model_fields else {}
        trace = Trace()
        model = fit(algorithm, tasks, trace=trace, max_iter=1, **given)
        assert model.tasks == tasks.names
        assert max(step.iteration for step in trace.history) <= 1


@over_cases
def test_unknown_task_lists_the_known_ones(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    for method in model.available_methods():
        with pytest.raises(UnknownTask, match=tasks.names[0]):
            getattr(model, method)(np.zeros((1, 2)), task="nobody")


@over_cases
def test_invalid_rows_are_reported_with_task_row_and_column(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    name = tasks.names[0]
    for method in model.available_methods():
        width = model.width(method, task=name)
        rows = np.zeros((3, width))
        rows[2, width - 1] = np.inf if method in model.takes_missing else np.nan
        with pytest.raises(InvalidData) as caught:
            getattr(model, method)(rows, task=name)
        assert (caught.value.task, caught.value.row, caught.value.column) == (name, 2, width - 1)
        with pytest.raises(InvalidData, match=f"expects rows of {width}"):
            getattr(model, method)(np.zeros((3, width + 1)), task=name)
        assert len(getattr(model, method)(np.zeros((0, width)), task=name)) == 0


@over_algorithms
def test_mismatched_features_name_both_tasks(algorithm) -> None:
    if not algorithm.needs.same_features:
        return
    rng = np.random.default_rng(0)
    tasks = TaskSet(
        (
            Task.from_rows("narrow", rng.standard_normal((9, 3))),
            Task.from_rows("wide", rng.standard_normal((9, 4))),
        )
    )
    summaries = with_targets(tasks, kinds_of_targets(algorithm)[0]).summaries()
    with pytest.raises(InvalidData, match=r"'narrow' has 3 features.*'wide' 4"):
        algorithm.check(summaries, algorithm.Params())


@over_algorithms
def test_a_class_that_no_other_task_has_names_the_task(algorithm) -> None:
    if algorithm.needs.target != "classes":
        return
    rows = np.random.default_rng(0).standard_normal((8, 3))
    tasks = TaskSet(
        (
            Task.from_rows("both", rows, y=["a", "b"] * 4),
            Task.from_rows("alike", rows, y=["c"] * 8),
        )
    )
    with pytest.raises(InvalidData, match="'alike' has rows of one class only") as caught:
        fit(algorithm, tasks)
    assert caught.value.task == "alike"


@over_algorithms
def test_too_few_rows_name_the_task(algorithm) -> None:
    if algorithm.needs.min_samples < 2:
        return
    rng = np.random.default_rng(0)
    tasks = TaskSet(
        (
            Task.from_rows("many", rng.standard_normal((9, 3))),
            Task.from_rows("one", rng.standard_normal((1, 3))),
        )
    )
    summaries = with_targets(tasks, kinds_of_targets(algorithm)[0]).summaries()
    with pytest.raises(InvalidData, match="'one' has 1 row; "):
        algorithm.check(summaries, algorithm.Params())


#: Two values each, such that both are ends and neither is a bound, and one value of the others.
INNER_GRIDS: dict[str, tuple] = {
    "C": (0.5, 1.0), "gamma": (0.2, 0.3), "lam": (2.0, 3.0), "share": (0.2, 0.3),
    "common_share": (0.2, 0.3), "d": (2, 3), "d_prime": (2, 3),
    "k": (2, 3), "n_clusters": (2, 3), "n_groups": (2, 3),
}  # fmt: skip
CHOOSING = [
    pytest.param(algorithm, name, id=f"{algorithm.name}-{name}")
    for algorithm in ALGORITHMS.values()
    for name in algorithm.Params.GRIDS
]


@pytest.mark.parametrize(("algorithm", "name"), CHOOSING)
def test_a_choice_at_an_end_of_its_grid_causes_a_warning(algorithm, name) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 8)
    kind = kinds_of_targets(algorithm)[0]
    rows = [rng.standard_normal((5, 7))[y] + rng.standard_normal((40, 7)) for _ in range(2)]
    if algorithm.needs.shared_rows:
        rows[1] = rows[0]
    targets = {"none": None, "classes": y, "numbers": rows[0][:, 0] + rng.standard_normal(40)}
    tasks = TaskSet(tuple(Task.from_rows(f"t{i}", X, y=targets[kind]) for i, X in enumerate(rows)))
    grids = algorithm.Params.GRIDS
    others = {grid: INNER_GRIDS[other][:1] for other, grid in grids.items() if other != name}
    values = {"selection": algorithm.Params.INNER_SELECTION, **others}
    if "ends" in algorithm.Params.model_fields:
        values["ends"] = "none"
    tried = INNER_GRIDS[name]
    model = fit(algorithm, tasks, **values, **{grids[name]: tried})
    found = [w for w in model.warnings if f"add smaller values to '{grids[name]}'" in w
            or f"add larger values to '{grids[name]}'" in w]  # fmt: skip
    assert len(found) >= 1
    assert all(f"the chosen {name} = " in w for w in found)
    for other, grid in grids.items():
        assert other == name or not any(f"'{grid}'" in w for w in model.warnings)
    # one value is no choice
    alone = fit(algorithm, tasks, **values, **{grids[name]: tried[:1]})
    assert not any("value that was tried" in w for w in alone.warnings)


#: What a fit may refuse, made of a task that it takes.
MISFITS: dict[str, Callable[[Task], Task]] = {
    "values whose squares are no numbers": lambda task: Task(
        "new", 1e160 * task.X, task.input, task.y
    ),
    "values whose squares are zero": lambda task: Task("new", 1e-160 * task.X, task.input, task.y),
    "one row": lambda task: Task(
        "new", task.X[:1], task.input, None if task.y is None else task.y[:1]
    ),
    "one more column": lambda task: Task("new", np.pad(task.X, ((0, 0), (0, 1))), "rows", task.y),
    "no targets": lambda task: Task("new", task.X, task.input),
    "other targets": lambda task: Task(
        "new", task.X, "rows", np.arange(len(task.X)) if task.target == "numbers" else task.X[:, 0]
    ),
    "covariances": lambda task: Task.from_covariances("new", np.cov(task.X, rowvar=False)),
    "one class": lambda task: Task("new", task.X, "rows", np.zeros(len(task.X), dtype=int)),
}


RELATED = {kind: PROBLEMS["related"](kind) for kind in ("none", "numbers", "classes")}


@over_adapting_algorithms
@pytest.mark.parametrize("misfit", MISFITS)
def test_adapt_rejects_what_fit_rejects(algorithm, misfit) -> None:
    tasks = RELATED[kinds_of_targets(algorithm)[0]]
    new = MISFITS[misfit](tasks.tasks[0])
    try:
        fit(algorithm, TaskSet((*tasks.tasks, new)))
    except InvalidData:
        with pytest.raises(InvalidData, match="'new'"):
            algorithm.adapt(fitted(algorithm, tasks).model, new)
    else:
        # a weighted mean is fitted to other columns, but its members are of equal ones
        refused = pytest.raises(InvalidData, match="needs the same columns")
        is_refused = algorithm.is_combined and misfit == "one more column"
        with refused if is_refused else contextlib.nullcontext():
            algorithm.adapt(fitted(algorithm, tasks).model, new)


@over_cases
def test_a_new_task_is_added_or_rejected_with_a_reason(algorithm, tasks) -> None:
    model = fitted(algorithm, tasks).model
    old = tasks.tasks[0]
    new = Task("new", old.X, old.input, old.y)
    if not algorithm.supports_adaptation() or is_by_parts(algorithm, tasks):
        with pytest.raises(InvalidData, match="'new'"):
            algorithm.adapt(model, new)
        return
    adapted = algorithm.adapt(model, new)
    assert adapted.tasks == (*model.tasks, "new")
    rows = np.random.default_rng(0).standard_normal((5, old.n_features))
    for task in tasks:
        here, there = answers(model, task, rows), answers(adapted, task, rows)
        assert all(np.array_equal(here[method], there[method]) for method in here)
    # intervals of a weighted mean are by the rows of other tasks
    refused = pytest.raises(InvalidData, match="too few other tasks")
    is_refused = algorithm.is_combined and old.target == "numbers"
    with refused if is_refused else contextlib.nullcontext():
        answers(adapted, new, rows)
    with pytest.raises(InvalidData, match="already"):
        algorithm.adapt(adapted, new)


@over_adapting_cases
def test_adapt_uses_the_trace_of_the_caller(algorithm, tasks, monkeypatch) -> None:
    model, old = fitted(algorithm, tasks).model, tasks.tasks[0]
    new = [Task(name, old.X, old.input, old.y) for name in ("new", "newer")]
    trace, running, loops = Trace(), [], []
    plain = Trace.run

    def run(self, loop, *args, **options):
        """Record loops, but for those inside a step of one under the caller's trace."""
        if not running:
            loops.append(loop if self is trace else f"stray: {loop}")
        running.append(loop)
        try:
            return plain(self, loop, *args, **options)
        finally:
            running.pop()

    monkeypatch.setattr(Trace, "run", run)
    adapted = model
    for task in trace.parts(new):
        adapted = algorithm.adapt(adapted, task, trace=trace)
    assert not [loop for loop in loops if loop.startswith("stray")]
    assert len(set(loops)) == len(loops)  # a checkpoint knows them by name
    if loops:
        assert trace.history[-1].fraction == pytest.approx(1.0)
        with pytest.raises(Cancelled):
            algorithm.adapt(model, new[0], trace=Trace(is_cancelled=lambda: True))


#: Values whose squares, or the squares of those, are no numbers.
SIZES = (1e-300, 1e-200, 1e-100, 1e100, 1e160, 1e300)
#: A gap of a solver, on numbers that a factor has rounded anew.
SIZED_RTOL = 1e-3
sized_cases = [
    case
    if case.values[0].name in PAPERS
    else pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
    for case in CASES
    if case.id.split("-")[-2] not in ("identical", "covariances")
    if not is_by_parts(*case.values)  # members that refuse a size leave the mean
]


def times(tasks: TaskSet, *, rows: float = 1.0, targets: float = 1.0) -> TaskSet:
    """Return the tasks in other units."""
    made = []
    for task in tasks:
        y = task.y * targets if task.target == "numbers" else task.y
        made.append(Task(task.name, task.X * rows, task.input, y))
    return TaskSet(tuple(made))


def is_a_power(answer, before, size: float) -> bool:
    """Return whether an answer is one before times a power of the size, or the same label."""
    if answer.dtype.kind in "iuU":
        return np.array_equal(answer, before)
    atol = SIZED_RTOL * np.abs(before).max()
    return any(
        np.allclose(answer / size**power, before, rtol=SIZED_RTOL, atol=atol)
        for power in (-1, 0, 1, 2)
    )


def fit_or_refusal(algorithm, tasks):
    try:
        return fit(algorithm, tasks)
    except InvalidData as error:
        return error


@pytest.mark.parametrize(("algorithm", "tasks"), sized_cases)
def test_values_of_any_size_are_predicted_or_rejected_for_their_size(algorithm, tasks) -> None:
    """The answer is that of other units, or the error speaks of scale: nothing else ever."""
    first = tasks.tasks[0]
    rows = np.random.default_rng(0).standard_normal((5, first.n_features))
    before = answers(fitted(algorithm, tasks).model, first, rows)
    units = [{"rows": size} for size in SIZES]
    units += [{"targets": size} for size in SIZES if first.target == "numbers"]
    for unit in units:
        (size,) = unit.values()
        found = fit_or_refusal(algorithm, times(tasks, **unit))
        if isinstance(found, InvalidData):
            assert found.task in tasks.names, unit
            assert "rescale" in found.message, (unit, found.message)
            continue
        for method, answer in answers(found, first, rows * unit.get("rows", 1.0)).items():
            if method != "inverse_transform":  # of coordinates, whose size may be that of rows
                assert is_a_power(answer, before[method], size), (unit, method)
