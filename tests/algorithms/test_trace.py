from dataclasses import dataclass, replace

import numpy as np
import pytest

from algorithms.interface.artifact import read_arrays
from algorithms.interface.errors import Cancelled, Diverged
from algorithms.interface.trace import MAX_HISTORY, Checkpoint, LoopState, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving(LoopState):
    x: np.ndarray
    n_steps: int = 0


def halve(state: Halving) -> Halving:
    x = state.x / 2
    return Halving(
        objective=float(x.sum()), residual=float(np.abs(x).max()), x=x, n_steps=state.n_steps + 1
    )


START = Halving(objective=4.0, residual=4.0, x=np.array([4.0, 1 / 3]))


def run(trace, *, loop="halving", step=halve, start=START, max_iter=100, tolerance=0.1):
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def test_converges_below_the_tolerance() -> None:
    trace = Trace()
    end = run(trace)
    assert (end.n_steps, trace.stop_reason) == (6, "converged")
    assert [step.iteration for step in trace.history] == list(range(7))
    assert trace.history[-1].fraction == 1.0


def test_stops_at_the_limit() -> None:
    trace = Trace()
    assert run(trace, max_iter=2).n_steps == 2
    assert trace.stop_reason == "max_iter"


def test_stops_when_stalled() -> None:
    trace = Trace()
    stuck = Halving(objective=1.0, residual=1.0, x=START.x, is_stalled=True)
    assert run(trace, step=lambda _: stuck) is stuck
    assert trace.stop_reason == "stalled"


def test_a_loop_that_starts_at_its_solution_has_a_history() -> None:
    trace = Trace()
    assert run(trace, tolerance=5.0) is START
    assert [step.iteration for step in trace.history] == [0]


def test_divergence_is_an_error() -> None:
    bad = Halving(objective=float("nan"), residual=1.0, x=START.x)
    with pytest.raises(Diverged, match="'halving'"):
        run(Trace(), step=lambda _: bad)


@pytest.mark.parametrize(
    ("field", "value"),
    [("objective", float("nan")), ("objective", float("-inf")), ("residual", float("nan"))],
)
def test_a_start_that_is_not_a_number_is_divergence(field, value) -> None:
    start = replace(START, **{field: value})
    for tolerance in (0.1, 1e9):  # also where the loop would stop at once
        with pytest.raises(Diverged, match=f"{field} is {value} at the start of 'halving'"):
            run(Trace(), start=start, tolerance=tolerance)


def test_a_residual_that_is_not_a_number_is_divergence() -> None:
    bad = Halving(objective=1.0, residual=float("nan"), x=START.x)
    with pytest.raises(Diverged, match="residual is nan at iteration 1"):
        run(Trace(), step=lambda _: bad)


def test_an_infinite_residual_means_not_yet_known() -> None:
    steps = []
    start = replace(START, residual=float("inf"))
    assert run(Trace(on_step=steps.append), start=start).n_steps == 6

    def halve_unknown(state):
        return replace(halve(state), residual=float("inf"))

    run(Trace(on_step=steps.append), step=halve_unknown, max_iter=3)
    assert all(0.0 <= step.fraction <= 1.0 for step in steps)


def test_cancel_is_seen_before_the_next_step() -> None:
    steps = []
    trace = Trace(on_step=steps.append, is_cancelled=lambda: len(steps) == 3)
    with pytest.raises(Cancelled, match="after 2 iterations"):
        run(trace)


def test_cancel_is_seen_by_a_loop_that_would_not_step() -> None:
    with pytest.raises(Cancelled):
        run(Trace(is_cancelled=lambda: True), tolerance=5.0)


def test_progress_covers_all_expected_loops() -> None:
    trace = Trace()
    trace.expect_loops(2)
    run(trace, loop="first")
    assert trace.history[-1].fraction == pytest.approx(0.5)
    run(trace, loop="second")
    assert trace.history[-1].fraction == pytest.approx(1.0)
    fractions = [step.fraction for step in trace.history]
    assert fractions == sorted(fractions)
    assert trace.stop_reasons == {"first": "converged", "second": "converged"}


def test_long_histories_are_thinned() -> None:
    trace = Trace()
    run(trace, max_iter=3 * MAX_HISTORY, tolerance=-1.0)
    assert len(trace.history) <= MAX_HISTORY
    assert trace.history[-1].iteration > 2.9 * MAX_HISTORY
    # evenly, so that the newest steps are no denser than the oldest
    kept = [step.iteration for step in trace.history[2:]]
    assert set(np.diff(kept)) == {4}


def test_an_interrupted_fit_resumes_where_it_stopped(tmp_path) -> None:
    checkpoint = Checkpoint(tmp_path / "state", every_s=0.0)
    steps = []
    trace = Trace(
        on_step=steps.append, is_cancelled=lambda: len(steps) == 10, checkpoint=checkpoint
    )
    run(trace, loop="first")
    with pytest.raises(Cancelled):
        run(trace, loop="second")
    resumed = []
    again = Trace(on_step=resumed.append, checkpoint=checkpoint)
    first, second = run(again, loop="first"), run(again, loop="second")
    whole = run(Trace())
    assert {step.loop for step in resumed} == {"second"}
    assert resumed[0].iteration > 1
    for end in (first, second):
        assert end.x.tobytes() == whole.x.tobytes()
        assert end.n_steps == whole.n_steps
    assert again.stop_reasons["first"] == "converged"


def test_a_finished_stage_replaces_its_loops_in_checkpoints(tmp_path) -> None:
    def fit(trace):
        trace.expect_loops(3)
        made = trace.stage("both", lambda: np.array([run(trace, loop=n).x[0] for n in "ab"]))
        return made, run(trace, loop="last").x

    whole = fit(Trace())
    # in the first loop, in the second, and after the stage
    for n_done, stored in ((3, {"a"}), (10, {"a", "b"}), (16, {"both", "last"})):
        checkpoint, steps = Checkpoint(tmp_path / str(n_done), every_s=0.0), []
        stopped = Trace(
            on_step=steps.append,
            is_cancelled=lambda n=n_done, seen=steps: len(seen) >= n,
            checkpoint=checkpoint,
        )
        with pytest.raises(Cancelled):
            fit(stopped)
        names = {key.partition("\t")[0] for key in read_arrays(checkpoint.path)[0]}
        assert names == stored
        resumed = Trace(checkpoint=checkpoint)
        for array, expected in zip(fit(resumed), whole, strict=True):
            assert array.tobytes() == expected.tobytes()
        assert list(resumed.stop_reasons) == ["a", "b", "last"]
        assert resumed.history[-1].fraction == 1.0


def test_state_survives_its_arrays() -> None:
    again = Halving.from_arrays(START.to_arrays())
    assert again.x.tobytes() == START.x.tobytes()
    assert (again.objective, again.is_stalled, again.n_steps) == (4.0, False, 0)
    assert type(again.is_stalled) is bool


def test_parts_share_progress_evenly_and_resume_after_a_cancel(tmp_path) -> None:
    trace, seen = Trace(), []
    for name in trace.parts(["a", "b", "c", "d"]):
        trace.expect_loops(2)
        for half in range(2):
            run(trace, loop=f"{name}{half}")
            seen.append(trace.history[-1].fraction)
    assert seen == [(i + 1) / 8 for i in range(8)]
    calls = iter([False] * 8 + [True])
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    stopped = Trace(is_cancelled=lambda: next(calls), checkpoint=checkpoint)
    parts = stopped.parts(["a", "b"])
    run(stopped, loop=next(parts))
    with pytest.raises(Cancelled, match="before part 2 of 2"):
        next(parts)
    resumed = Trace(checkpoint=checkpoint)
    assert run(resumed, loop="a").n_steps == 6
    assert not resumed.history
