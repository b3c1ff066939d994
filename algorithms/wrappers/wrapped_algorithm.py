"""An algorithm that extends the fit of another one."""

from collections.abc import Sequence
from typing import Any

from algorithms.interface.algorithm import Algorithm, Baseline
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import MemoryEstimate, WorkEstimate


class WrappedAlgorithm(Algorithm[Any, Any]):
    """Base class of algorithms that are described as another one, with the same parameters."""

    def __init__(self, inner: Algorithm[Any, Any]) -> None:
        self._inner = inner
        self.name = inner.name
        self.title = inner.title
        self.summary = inner.summary
        self.question = inner.question
        self.reference = inner.reference
        self.needs = inner.needs
        self.role = inner.role
        self.baselines = inner.baselines
        self.path_param = inner.path_param
        self.monotone = inner.monotone
        self.Params = inner.Params
        self.Model = inner.Model

    def baselines_for(self, params: Params) -> tuple[Baseline, ...]:
        """Return the baselines of the algorithm."""
        return self._inner.baselines_for(params)

    def check(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData or InvalidParams if the algorithm cannot be fitted."""
        self._inner.check(summaries, params)

    def memory(self, summaries: Sequence[TaskSummary], params: Params) -> MemoryEstimate:
        """Return the expected peak memory of a fit of the algorithm."""
        return self._inner.memory(summaries, params)

    def work(self, summaries: Sequence[TaskSummary], params: Params) -> WorkEstimate:
        """Return the expected work of a fit of the algorithm."""
        return self._inner.work(summaries, params)

    def check_selection(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData if parameters are to be selected, but no row can be held out."""
        self._inner.check_selection(summaries, params)

    def check_held_out(self, params: Params) -> None:
        """Raise InvalidParams if the algorithm cannot be fitted to a part of the rows."""
        self._inner.check_held_out(params)

    def has_common_part(self, params: Params) -> bool:
        """Return whether models can answer for tasks that they were not trained on."""
        return self._inner.has_common_part(params)

    def supports_adaptation(self) -> bool:
        """Return whether the algorithm can add a task to a model."""
        return self._inner.supports_adaptation()
