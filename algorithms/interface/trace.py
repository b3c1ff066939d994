"""The loop that runs all iterative methods.

A :class:`Trace` counts iterations, records the objective, reports progress, writes checkpoints,
resumes from them, and decides when and why a loop stops.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import Cancelled, Diverged

StopReason = Literal["converged", "stalled", "max_iter"]

#: Maximum length of the history; whenever it is exceeded, every second step is dropped.
MAX_HISTORY = 2048
#: First word of the names of loops that project rows by a fitted model.
PROJECTION = "project"


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Limits of one iterative solver.

    Parameters
    ----------
    tolerance
        The solver has converged once its residual is at most this. The solver defines the
        residual, for example a relative duality gap or a relative gradient norm.
    max_iter
        Maximum number of iterations.
    """

    tolerance: float
    max_iter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """State of an iterative method; fields of subclasses are arrays and numbers only.

    Parameters
    ----------
    residual
        The loop has converged once this is below its tolerance (relative gradient norm, duality
        gap, ...).
    is_stalled
        No step of positive length improves the objective at working precision.
    """

    objective: float
    residual: float
    is_stalled: bool = False

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return every field as an array."""
        return {f.name: np.asarray(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        """Return the state from the arrays of :meth:`to_arrays`."""
        values: dict[str, Any] = {
            f.name: arrays[f.name].item() if arrays[f.name].ndim == 0 else arrays[f.name]
            for f in dataclasses.fields(cls)
        }
        return cls(**values)

    def final(self) -> Self:
        """Return the state without the arrays that only further steps of its loop need.

        A checkpoint has the state of every finished loop, so subclasses drop large members here.
        """
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result(LoopState):
    """State of a loop with a single step: the array that this step computes."""

    array: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """Progress after one iteration."""

    loop: str
    iteration: int
    max_iter: int
    objective: float
    residual: float
    elapsed_s: float
    #: Estimated share of the whole fit that is done, 0 to 1.
    fraction: float
    #: What else the fit has found so far, as JSON.
    found: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds that its loops may still take; None without a limit.
    left_s: float | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """File and interval of checkpoints, from which a later fit can resume."""

    path: Path
    every_s: float = 30.0


State = TypeVar("State", bound=LoopState)
Item = TypeVar("Item")


class Trace:
    """Runs every loop of a fit.

    Parameters
    ----------
    on_step
        Called with a :class:`Step` at the start of a loop (iteration 0) and after every
        iteration.
    is_cancelled
        Called before every iteration; if it returns true, :class:`Cancelled` is raised.
    checkpoint
        Where finished loops and the state of the running loop are stored, at intervals and on
        cancellation. If the file exists, finished loops are not repeated and the running loop
        resumes. The result is bit-identical to the result of an uninterrupted fit.
    is_ending
        Returns whether a fit that compares several methods should end with those that it has.
    """

    def __init__(
        self,
        *,
        on_step: Callable[[Step], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        checkpoint: Checkpoint | None = None,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self.is_ending = is_ending
        self.history: list[Step] = []
        self.stop_reasons: dict[str, StopReason] = {}
        #: Number of iterations of all finished loops, including loops of an interrupted fit.
        self.n_iterations = 0
        #: Objective at the end of the last finished loop.
        self.objective: float | None = None
        #: What else the fit has found so far, as JSON, for its next steps.
        self.found: Mapping[str, Any] = {}
        #: Returns the seconds that loops may still take; None without a limit.
        self.left_s: Callable[[], float] | None = None
        self._on_step = on_step
        self._is_cancelled = is_cancelled
        self._checkpoint = checkpoint
        self._started = time.monotonic()
        self._saved = self._started
        self._part, self._n_parts = 0, 1
        self._n_expected = 1
        self._n_finished = 0
        self._stride = 1
        self._finished: dict[str, dict[str, NDArray[np.generic]]] = {}
        self._resumed: dict[str, dict[str, NDArray[np.generic]]] = {}
        if checkpoint is not None and checkpoint.path.exists():
            self._resumed = _unflatten(read_arrays(checkpoint.path)[0])

    @property
    def stop_reason(self) -> StopReason | None:
        """Reason why the last loop stopped; None before the first loop has stopped."""
        return next(reversed(self.stop_reasons.values()), None)

    def expect_loops(self, n_loops: int) -> None:
        """Set the number of loops that the fit will run, for the estimate of progress."""
        self._n_expected = max(n_loops, 1)

    def parts(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield items; each counts as an equal part of the progress.

        Raises
        ------
        Cancelled
            The caller asked to stop.
        """
        for i, item in enumerate(items):
            if self._is_cancelled is not None and self._is_cancelled():
                self._write({})
                raise Cancelled(f"cancelled before part {i + 1} of {len(items)}")
            self._part, self._n_parts, self._n_finished, self._n_expected = i, len(items), 0, 1
            yield item

    def nested(self, is_over: Callable[[], bool] | None = None) -> "Trace":
        """Return a trace for a fit inside this one: cancelled with it, but not recorded.

        Parameters
        ----------
        is_over
            Called before every iteration; if it returns true, the fit inside is cancelled, too.
        """
        checks = [check for check in (self._is_cancelled, is_over) if check is not None]
        return Trace(is_cancelled=(lambda: any(check() for check in checks)) if checks else None)

    def run(
        self,
        loop: str,
        step: Callable[[State], State],
        start: State,
        *,
        max_iter: int,
        tolerance: float,
    ) -> State:
        """Run a loop and return the :meth:`~LoopState.final` form of its last state.

        Parameters
        ----------
        loop
            Unique name of the loop within the fit.
        step
            Returns the next state, given the current one.
        tolerance
            The loop has converged when ``state.residual <= tolerance``.

        Raises
        ------
        Cancelled
            The caller asked to stop.
        Diverged
            The objective is not finite, or the residual is NaN, at the start or later.
        """
        state, iteration, reason = self._resume(loop, start)
        _check_finite(loop, state, iteration)
        first_residual = state.residual
        if reason is None and iteration == 0:
            # report the start, so that a loop that starts at its solution has a history
            done = _share_done(state, first_residual, 0, max_iter=max_iter, tolerance=tolerance)
            self._report(loop, state, iteration, max_iter, done)
        while reason is None:
            # checked first, so that a series of loops that stop at once can be cancelled too
            if self._is_cancelled is not None and self._is_cancelled():
                self._write(_running(loop, state, iteration))
                raise Cancelled(f"cancelled in '{loop}' after {iteration} iterations")
            reason = _reason(state, iteration, max_iter=max_iter, tolerance=tolerance)
            if reason is not None:
                break
            state = step(state)
            iteration += 1
            _check_finite(loop, state, iteration)
            done = _share_done(
                state, first_residual, iteration, max_iter=max_iter, tolerance=tolerance
            )
            self._report(loop, state, iteration, max_iter, done)
            self._save_at_interval(loop, state, iteration)
        state = state.final()
        self.stop_reasons[loop] = reason
        self.n_iterations += iteration
        self.objective = state.objective
        self._n_finished += 1
        if self._checkpoint is not None:
            reason_code = np.asarray(_REASONS.index(reason))
            self._finished[loop] = {
                **state.to_arrays(),
                "@iteration": np.asarray(iteration),
                "@reason": reason_code,
            }
        return state

    def run_once(
        self, loop: str, solve: Callable[[], tuple[NDArray[np.float64], float]]
    ) -> NDArray[np.float64]:
        """Run a direct computation as a loop of one step and return its array.

        Parameters
        ----------
        solve
            Returns the array and the objective.
        """

        def step(state: _Result) -> _Result:
            del state
            array, objective = solve()
            return _Result(objective=objective, residual=0.0, array=array)

        start = _Result(objective=0.0, residual=1.0, array=np.zeros((1, 1)))
        return self.run(loop, step, start, max_iter=1, tolerance=0.5).array

    def stage(self, name: str, compute: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the array that a stage of several loops, or of none, computes.

        Once it is computed, checkpoints have this array instead of the states of its loops.

        Parameters
        ----------
        name
            Unique name among the stages and loops of the fit.
        compute
            Runs the loops. A resumed fit does not call it if the stage was finished.
        """
        stored = self._resumed.get(name)
        if stored is None:
            n_before = len(self.stop_reasons)
            array = compute()
            reasons = dict(list(self.stop_reasons.items())[n_before:])
            stored = {
                "array": array,
                "@loops": np.frombuffer("\n".join(reasons).encode(), np.uint8),
                "@reasons": np.array([_REASONS.index(reason) for reason in reasons.values()]),
            }
            for loop in reasons:
                self._finished.pop(loop, None)
        else:
            array = np.asarray(stored["array"], dtype=np.float64)
            names = stored["@loops"].tobytes().decode()
            loops = names.split("\n") if names else []
            for loop, code in zip(loops, stored["@reasons"].tolist(), strict=True):
                self.stop_reasons[loop] = _REASONS[code]
            self._n_finished += len(loops)
        if self._checkpoint is not None:
            self._finished[name] = stored
        return array

    def _resume(self, loop: str, start: State) -> tuple[State, int, StopReason | None]:
        arrays = self._resumed.get(loop)
        if arrays is None:
            return start, 0, None
        reason = _REASONS[int(arrays["@reason"])] if "@reason" in arrays else None
        return type(start).from_arrays(arrays), int(arrays["@iteration"]), reason

    def _report(
        self, loop: str, state: LoopState, iteration: int, max_iter: int, done: float
    ) -> None:
        in_part = min((self._n_finished + done) / self._n_expected, 1.0)
        fraction = (self._part + in_part) / self._n_parts
        elapsed_s = time.monotonic() - self._started
        entry = Step(
            loop,
            iteration,
            max_iter,
            state.objective,
            state.residual,
            elapsed_s,
            fraction,
            self.found,
            None if self.left_s is None else self.left_s(),
        )
        if iteration % self._stride == 0 or iteration == 1:
            self.history.append(entry)
        if len(self.history) > MAX_HISTORY:
            self.history = self.history[::2]
            self._stride *= 2
        if self._on_step is not None:
            self._on_step(entry)

    def _save_at_interval(self, loop: str, state: LoopState, iteration: int) -> None:
        if self._checkpoint is not None:
            now = time.monotonic()
            if now - self._saved >= self._checkpoint.every_s:
                self._saved = now
                self._write(_running(loop, state, iteration))

    def _write(self, running: Mapping[str, Mapping[str, NDArray[np.generic]]]) -> None:
        if self._checkpoint is None:
            return
        # a fit continues even if its checkpoint cannot be written
        with contextlib.suppress(OSError):
            write_arrays(self._checkpoint.path, _flatten({**self._finished, **running}), header={})


_REASONS: tuple[StopReason, ...] = ("converged", "stalled", "max_iter")


def _reason(
    state: LoopState, iteration: int, *, max_iter: int, tolerance: float
) -> StopReason | None:
    if state.residual <= tolerance:
        return "converged"
    if state.is_stalled:
        return "stalled"
    if iteration >= max_iter:
        return "max_iter"
    return None


def _check_finite(loop: str, state: LoopState, iteration: int) -> None:
    """Raise Diverged if the objective is not finite or the residual is NaN.

    An infinite residual is allowed: a duality gap can be infinite at first.
    """
    for name, value, is_bad in (
        ("objective", state.objective, not math.isfinite(state.objective)),
        ("residual", state.residual, math.isnan(state.residual)),
    ):
        if is_bad:
            where = f"at iteration {iteration}" if iteration else "at the start"
            raise Diverged(
                f"the {name} is {value} {where} of '{loop}'; "
                "rescale the data or use a stronger regularisation"
            )


def _share_done(
    state: LoopState, first_residual: float, iteration: int, *, max_iter: int, tolerance: float
) -> float:
    """Estimate the share of a loop that is done, from iterations and the decay of the residual."""
    if state.residual <= tolerance or state.is_stalled:
        return 1.0
    by_count = iteration / max_iter
    if not (0 < tolerance < first_residual < math.inf and 0 < state.residual < math.inf):
        return by_count
    by_decay = math.log(first_residual / state.residual) / math.log(first_residual / tolerance)
    return min(max(by_count, by_decay), 1.0)


def _running(
    loop: str, state: LoopState, iteration: int
) -> dict[str, dict[str, NDArray[np.generic]]]:
    return {loop: {**state.to_arrays(), "@iteration": np.asarray(iteration)}}


def _flatten(
    loops: Mapping[str, Mapping[str, NDArray[np.generic]]],
) -> dict[str, NDArray[np.generic]]:
    return {f"{loop}\t{k}": v for loop, arrays in loops.items() for k, v in arrays.items()}


def _unflatten(
    arrays: Mapping[str, NDArray[np.generic]],
) -> dict[str, dict[str, NDArray[np.generic]]]:
    loops: dict[str, dict[str, NDArray[np.generic]]] = {}
    for key, value in arrays.items():
        loop, _, name = key.rpartition("\t")
        loops.setdefault(loop, {})[name] = value
    return loops
