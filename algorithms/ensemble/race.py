"""The race: each contender is fitted to all rows, then to the rows outside of each fold.

The models of all rows are the ones that serve. The fits of folds only say what a model is worth on
rows that it has not seen. A contender whose fit fails, or would exceed the budget, is left out.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.ensemble.contenders import Contender
from algorithms.ensemble.held_out import HeldOutRows, outputs_of
from algorithms.interface.errors import AlgorithmError, Cancelled, InvalidData
from algorithms.interface.model import Model
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]

#: Share of the budget that one fit may take, and that all fits with all rows may take.
FIT_SHARE: Final = 0.2
FITS_SHARE: Final = 0.6
#: Why a contender is left out for the budget.
TOO_SLOW: Final = "it would exceed the time budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceState(LoopState):
    """State of the fits of a contender.

    Parameters
    ----------
    objective
        Mean squared output error on the rows held out so far, in units of the variance of the
        targets.
    residual
        Number of fits that are left.
    seconds
        Processor time.
    reason
        Why the contender is left out, as bytes of text; empty if it is not.
    outputs : (n, C)
        For the rows that were held out so far, NaN for others.
    """

    seconds: float
    reason: NDArray[np.uint8]
    outputs: Array

    @classmethod
    def start(cls, n_fits: int, outputs: Array) -> "RaceState":
        """Return the state before the first fit."""
        nothing = np.zeros(0, dtype=np.uint8)
        return cls(
            objective=0.0, residual=float(n_fits), seconds=0.0, reason=nothing, outputs=outputs
        )

    def left_out(self, reason: str) -> "RaceState":
        """Return the state of a contender that is left out."""
        return replace(self, residual=0.0, reason=np.frombuffer(reason.encode(), dtype=np.uint8))

    @property
    def why(self) -> str:
        """Why the contender is left out; empty if it is not."""
        return self.reason.tobytes().decode()


class Clock:
    """Processor time of this process since the start of a fit, against a budget."""

    def __init__(self, budget_s: float) -> None:
        self._start = time.process_time()
        self._budget_s = budget_s

    def spent(self) -> float:
        """Return the seconds since the start."""
        return time.process_time() - self._start

    def share(self, size: float) -> float:
        """Return a share of the budget, in seconds."""
        return size * self._budget_s


@dataclass(eq=False)
class Race:
    """The fits of some contenders.

    Parameters
    ----------
    outputs
        Outputs for held-out rows, (n, C), by the label of each contender that finished.
    left_out
        Why each other contender is left out, by its label.
    seconds
        Processor time of each contender, by its label.
    """

    contenders: Sequence[Contender]
    rows: HeldOutRows
    clock: Clock
    trace: Trace
    seed: int
    outputs: dict[str, Array] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _models: dict[str, Model] = field(default_factory=dict)

    def run(self) -> None:
        """Fit all contenders to all rows, and the ones that can be fitted to the folds.

        Raises
        ------
        InvalidData
            No contender can be fitted.
        """
        self.trace.expect_loops(2 * len(self.contenders) + 1)
        fitted = [one for one in self.contenders if self._fit(one, is_first=not self._models)]
        self.trace.expect_loops(len(self.contenders) + len(fitted) + 1)
        for one in fitted:
            self._fit_folds(one, is_first=not self.outputs)
        if not self.outputs:
            first = self.contenders[0].label
            detail = f"no method of the ensemble can be fitted ({first}: {self.left_out[first]})"
            raise InvalidData(detail, task=self.rows.tasks.names[0])

    def model(self, contender: Contender) -> Model:
        """Return the model of all rows."""
        if contender.label not in self._models:  # an earlier attempt had it
            self._models[contender.label] = contender.fit(
                self.rows.tasks, trace=self.trace.nested(), seed=self.seed
            )
        return self._models[contender.label]

    def _fit(self, contender: Contender, *, is_first: bool) -> bool:
        """Return whether a contender could be fitted to all rows; the first has no limit."""
        end = min(self.clock.spent() + self.clock.share(FIT_SHARE), self.clock.share(FITS_SHARE))
        limit = math.inf if is_first else end

        def step(state: RaceState) -> RaceState:
            def fit(trace: Trace) -> RaceState:
                model = contender.fit(self.rows.tasks, trace=trace, seed=self.seed)
                self._models[contender.label] = model
                return replace(state, residual=0.0)

            return self._limited(fit, state, limit)

        return self._run(f"fit {contender.label}", contender, step, 1)[0]

    def _fit_folds(self, contender: Contender, *, is_first: bool) -> None:
        """Keep the outputs of a contender for the rows of each fold, by fits without it."""
        folds = self.rows.folds

        def step(state: RaceState) -> RaceState:
            n_left = round(state.residual)
            mean = state.seconds / max(len(folds) - n_left, 1)
            limit = math.inf if is_first else self.clock.share(1.0)
            if self.clock.spent() + n_left * mean > limit:
                return state.left_out(f"{TOO_SLOW}: {n_left} folds are left")

            def fit(trace: Trace) -> RaceState:
                fold = folds[-n_left]
                model = contender.refit(
                    self.model(contender), self.rows.train(fold), trace=trace, seed=self.seed
                )
                outputs = state.outputs.copy()
                for task, where in self.rows.test(fold):
                    outputs[where] = outputs_of(model, task, self.rows.labels)
                error = self.rows.mean_error(outputs)
                return replace(state, objective=error, residual=n_left - 1.0, outputs=outputs)

            return self._limited(fit, state, limit)

        is_done, outputs = self._run(f"folds of {contender.label}", contender, step, len(folds))
        if is_done:
            self.outputs[contender.label] = outputs

    def _run(
        self,
        loop: str,
        contender: Contender,
        step: Callable[[RaceState], RaceState],
        n_fits: int,
    ) -> tuple[bool, Array]:
        """Return whether a contender finished a loop of fits, and its outputs."""
        n_columns = max(len(self.rows.labels), 1)
        empty = np.full((len(self.rows.owner), n_columns) if n_fits > 1 else (0, 0), np.nan)
        start = RaceState.start(n_fits, empty)
        state = self.trace.run(loop, step, start, max_iter=n_fits, tolerance=0.0)
        spent = self.seconds.get(contender.label, 0.0) + state.seconds
        self.seconds[contender.label] = spent
        if state.why:
            self.left_out[contender.label] = state.why
        return not state.why, state.outputs

    def _limited(
        self, fit: Callable[[Trace], RaceState], state: RaceState, limit: float
    ) -> RaceState:
        """Return the state after a fit, which ends at a limit of the clock."""
        start = self.clock.spent()

        def is_over() -> bool:
            return self.clock.spent() > limit

        if is_over():
            return state.left_out(TOO_SLOW)
        try:
            state = fit(self.trace.nested(is_over))
        except Cancelled:
            if not is_over():
                raise
            state = state.left_out(TOO_SLOW)
        except AlgorithmError as error:
            state = state.left_out(error.message)
        return replace(state, seconds=state.seconds + self.clock.spent() - start)
