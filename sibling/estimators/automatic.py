"""The estimator of an automatic choice."""

from collections.abc import Collection
from typing import Any

from algorithms.automatic import Auto, fit_automatic, plan_automatic
from algorithms.ensemble.held_out import RowOptions
from algorithms.interface.model import Model
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.new_tasks import check_new_tasks
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.weights import weighted
from sibling.estimators.building import make_estimator
from sibling.estimators.estimator import Estimator, class_weight_of
from sibling.estimators.fitting import check_fit, parse_calibration, parse_recipe
from sibling.estimators.inputs import Given


class AutoEstimator(Estimator):
    """Base class of the estimator that chooses among methods, as a job with ``auto`` does.

    Attributes
    ----------
    report_
        The report, as that of the model of a job: ``report_["choice"]["sentences"]`` in words.
    verdict_
        Whether learning together helps: ``"helps"``, ``"equal"``, ``"unclear"`` or ``"none"``.
    """

    report_: dict[str, Any]
    verdict_: str

    def _train(self, data: Given, params: Any, trace: Trace) -> tuple[Model, dict[str, Any]]:
        """Return the model of some tasks, and the report on the choice."""
        calibration = parse_calibration(self.calibration)
        rows = RowOptions(data.columns, parse_recipe(self.preparation), class_weight_of(self))
        ready = prepared(self._algorithm, rows.columns, rows.recipe)
        check_new_tasks(ready, params, self.new_tasks)
        has_weights = any(task.weights is not None for task in data.tasks)
        check_fit(weighted(ready, rows.class_weight, has_weights=has_weights), data, params)
        plan = plan_automatic(data.tasks.summaries(), params, new_tasks=self.new_tasks)
        choice, report = fit_automatic(
            {**plan, "unit": data.target_name},
            data.tasks,
            rows=rows,
            calibration=None if calibration is None else calibration.for_new_tasks(self.new_tasks),
            seed=self.random_state,
            trace=trace,
        )
        verdict = report["choice"]["together_or_apart"]["verdict"]
        found = {"report_": report, "verdict_": verdict}
        return choice.model.with_new_tasks(self.new_tasks), found

    @classmethod
    def _loads(cls) -> Collection[str]:
        """Return the names of all algorithms: any can be that of the one method of a choice."""
        return ALGORITHMS.keys()


def make_auto() -> type[Estimator]:
    """Return the estimator class of an automatic choice."""
    return make_estimator(Auto(), AutoEstimator)
