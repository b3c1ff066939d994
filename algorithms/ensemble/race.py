"""The race: each contender is fitted to all rows, then to the rows outside of each fold.

The models of all rows are the ones that serve. The fits of folds only say what a model is worth on
rows that it has not seen. A contender whose fit fails, would exceed the budget, or is clearly
behind another while its folds take long, is left out.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.ensemble.behind import leader_of
from algorithms.ensemble.contenders import Contender
from algorithms.ensemble.held_out import HeldOutRows
from algorithms.ensemble.stack import Stack, stack_of
from algorithms.evaluation.comparison.no_verdict import APART, ENDED, TOGETHER, TRIVIAL
from algorithms.interface.errors import AlgorithmError, Cancelled, InvalidData
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.splits.subsamples import N_PARTS

#: Share of the budget that one fit may take, and that all fits with all rows may take.
FIT_SHARE: Final = 0.2
FITS_SHARE: Final = 0.6
#: A contender whose fit takes less than this share has its folds before the fits of others.
CHEAP_SHARE: Final = 0.1
#: A fit that is expected to take so many times what it may take is not tried.
MAX_OVERRUN: Final = 2.0
#: Expected time of the report, relative to that of scoring contenders as they finish.
REPORT_COST: Final = 2.0
#: Expected seconds of the further folds from which a contender that is behind is stopped.
MIN_SAVED_S: Final = 5.0
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
    """Processor time of this process since the start of a fit, against a budget.

    Parameters
    ----------
    is_ending
        Returns whether the race is to end, as if the budget were used up.
    """

    def __init__(self, budget_s: float, is_ending: Callable[[], bool] = lambda: False) -> None:
        self._start = time.process_time()
        self._budget_s = budget_s
        self.is_ending = is_ending

    def spent(self) -> float:
        """Return the seconds since the start."""
        return time.process_time() - self._start

    def share(self, size: float) -> float:
        """Return a share of the budget, in seconds; 0 once the race is to end."""
        return 0.0 if self.is_ending() else size * self._budget_s

    def left(self) -> float:
        """Return the seconds that are left."""
        return max(self.share(1.0) - self.spent(), 0.0)

    def too_slow(self) -> str:
        """Return why a contender is left out for which no time is left."""
        return ENDED if self.is_ending() else TOO_SLOW


@dataclass(eq=False)
class Race:
    """The fits of some contenders.

    Parameters
    ----------
    outputs
        Outputs for held-out rows, (n, C), by the label of each contender that finished.
    left_out
        Why each other contender is left out, by its label.
    seconds, fit_seconds, predict_seconds
        Processor time of each contender, by its label: in all, of the fit of all rows, and of
        predictions per 1,000 rows.
    on_scored
        Called with each contender that has its outputs.
    of_parts
        Outputs of models of a number of parts of the training rows, by number and label.
    """

    contenders: Sequence[Contender]
    rows: HeldOutRows
    clock: Clock
    trace: Trace
    seed: int
    on_scored: Callable[["Race", Contender], None] | None = None
    outputs: dict[str, Array] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    fit_seconds: dict[str, float] = field(default_factory=dict)
    predict_seconds: dict[str, float] = field(default_factory=dict)
    of_parts: dict[int, dict[str, Array]] = field(default_factory=dict)
    _models: dict[str, Model] = field(default_factory=dict)
    _stacks: dict[str, Stack] = field(default_factory=dict)

    def run(self) -> None:
        """Fit all contenders to all rows, and the ones that can be fitted to the folds.

        Raises
        ------
        InvalidData
            No contender can be fitted.
        """
        self.trace.expect_loops(2 * len(self.contenders) + 1)
        self.trace.left_s = self.clock.left
        waiting = []
        for one in self.contenders:
            if not self._fit(one, is_first=not self._models):
                continue
            if self.fit_seconds[one.label] <= self.clock.share(CHEAP_SHARE):
                self._score(one)
            else:
                waiting.append(one)
        n_fitted = len(self.contenders) - len(self.left_out)
        self.trace.expect_loops(len(self.contenders) + n_fitted + 1)
        for one in waiting:
            self._score(one)
        if not self.outputs:
            first = self.contenders[0].label
            detail = f"no method of the ensemble can be fitted ({first}: {self.left_out[first]})"
            raise InvalidData(detail, task=self.rows.tasks.names[0])

    def _score(self, contender: Contender) -> None:
        """Keep the outputs of a contender for held-out rows; the first has no limit."""
        outputs = self._fit_folds(contender, is_first=not self.outputs)
        if outputs is not None:
            self.outputs[contender.label] = outputs
            if self.on_scored is not None:
                self.on_scored(self, contender)

    def stack(self, labels: Sequence[str]) -> Stack:
        """Return the stack of contenders that finished; each learns its probabilities once."""
        for label in labels:
            if label not in self._stacks:
                self._stacks[label] = stack_of(self.rows, [self.outputs[label]])
        first, *others = (self._stacks[label] for label in labels)
        return first.join(others)

    def run_parts(self, contenders: Sequence[Contender]) -> dict[str, str]:
        """Fit contenders to parts of the training rows; return why some are left out, by label."""
        before, failed = dict(self.left_out), {}
        for n_parts in range(1, N_PARTS):
            for one in contenders:
                outputs = self._fit_folds(one, is_first=False, n_parts=n_parts)
                if outputs is not None:
                    self.of_parts.setdefault(n_parts, {})[one.label] = outputs
                else:
                    failed[one.label] = f"few rows: {self.left_out[one.label]}"
        self.left_out = before
        return failed

    @cached_property
    def _summaries(self) -> Sequence[TaskSummary]:
        return self.rows.whole().train.summaries()

    def model(self, contender: Contender) -> Model:
        """Return the model of all rows."""
        if contender.label not in self._models:  # an earlier attempt had it
            self._models[contender.label] = contender.fit(
                self.rows.whole().train, trace=self.trace.nested(), seed=self.seed
            )
        return self._models[contender.label]

    def _fit(self, contender: Contender, *, is_first: bool) -> bool:
        """Return whether a contender could be fitted to all rows; the first has no limit."""
        end = min(self.clock.spent() + self.clock.share(FIT_SHARE), self.clock.share(FITS_SHARE))
        limit = math.inf if is_first else end

        def step(state: RaceState) -> RaceState:
            expected = contender.algorithm.work(self._summaries, contender.params)
            if expected.seconds > MAX_OVERRUN * (limit - self.clock.spent()):
                return state.left_out(self.clock.too_slow())

            def fit(trace: Trace) -> RaceState:
                model = contender.fit(self.rows.whole().train, trace=trace, seed=self.seed)
                self._models[contender.label] = model
                return replace(state, residual=0.0)

            return self._limited(fit, state, limit)

        start = RaceState.start(1, np.zeros((0, 0)))
        is_done, _ = self._run(f"fit {contender.label}", contender, step, start)
        self.fit_seconds[contender.label] = self.seconds[contender.label]
        return is_done

    def _fit_folds(
        self, contender: Contender, *, is_first: bool, n_parts: int = N_PARTS
    ) -> Array | None:
        """Return the outputs of a contender for the rows of each fold, by fits without it."""
        folds = self.rows.folds

        def step(state: RaceState) -> RaceState:
            n_left = round(state.residual)
            mean = state.seconds / max(len(folds) - n_left, 1)
            limit = math.inf if is_first else self._end_of_folds()
            if self.clock.spent() + n_left * mean > limit:
                return state.left_out(self.clock.too_slow())
            if n_left < len(folds) and n_parts == N_PARTS:
                leader = self._leader_of(contender, state.outputs, n_left)
                if leader is not None:
                    n = len(folds) - n_left
                    return state.left_out(
                        f"it was clearly behind {leader} after {n} of {len(folds)} folds"
                    )

            def fit(trace: Trace) -> RaceState:
                fold = folds[-n_left]
                prepared = self.rows.train(fold, n_parts=n_parts, seed=self.seed)
                if n_parts == N_PARTS:
                    whole = self.model(contender)
                    model = contender.refit(whole, prepared.train, trace=trace, seed=self.seed)
                else:
                    model = contender.fit(prepared.train, trace=trace, seed=self.seed)
                outputs = state.outputs.copy()
                before = self.clock.spent()
                where, found = self.rows.outputs(model, fold, prepared)
                predict_s = (self.clock.spent() - before) / len(where) * 1000
                self.predict_seconds[contender.label] = predict_s
                outputs[where] = found
                error = self.rows.mean_error(outputs)
                return replace(state, objective=error, residual=n_left - 1.0, outputs=outputs)

            return self._limited(fit, state, limit)

        loop = f"folds of {contender.label}"
        if n_parts < N_PARTS:
            loop += f", {n_parts}/{N_PARTS} of the rows"
        unknown = np.full(self.rows.is_possible.shape, np.nan)
        start = RaceState.start(len(folds), unknown)
        is_done, outputs = self._run(loop, contender, step, start)
        return outputs if is_done else None

    def _end_of_folds(self) -> float:
        """Return the time from which the budget is left for the report.

        What is not spent on fits is spent on scores, of which the report has more.
        """
        beside = self.clock.spent() - sum(self.seconds.values())
        return self.clock.share(1.0) - REPORT_COST * max(beside, 0.0)

    def _leader_of(self, contender: Contender, outputs: Array, n_left: int) -> str | None:
        """Return the contender that one is clearly behind, if its further folds take long.

        That depends on their expected time, which is the same on every machine. The only one of a
        side of the verdict that is no constant is not stopped. One that learns tasks alone is
        compared with others that do: without the best of them, learning together would seem to
        gain more than it does.
        """
        side = APART if contender.role in APART else TOGETHER
        others = [
            one.label
            for one in self.contenders
            if one.label in self.outputs and one.role in side and one.algorithm.name != TRIVIAL
        ]
        seconds = n_left * contender.algorithm.work(self._summaries, contender.params).seconds
        if not others or seconds < MIN_SAVED_S:
            return None
        rivals = others if side is APART else list(self.outputs)
        return leader_of(self.stack(rivals), rivals, outputs)

    def _run(
        self,
        loop: str,
        contender: Contender,
        step: Callable[[RaceState], RaceState],
        start: RaceState,
    ) -> tuple[bool, Array]:
        """Return whether a contender finished a loop of fits, and its outputs."""
        n_fits = round(start.residual)
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
            has_limit = limit < math.inf  # the first has none: without it there is no model
            return self.clock.spent() > limit or (has_limit and self.clock.is_ending())

        if is_over():
            return state.left_out(self.clock.too_slow())
        try:
            state = fit(self.trace.nested(is_over))
        except Cancelled:
            if not is_over():
                raise
            state = state.left_out(self.clock.too_slow())
        except AlgorithmError as error:
            state = state.left_out(error.message)
        except MemoryError as error:  # others need less
            state = state.left_out(f"it needs more memory than the process may use: {error}")
        return replace(state, seconds=state.seconds + self.clock.spent() - start)
