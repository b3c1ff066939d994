"""k-nearest neighbours: the mean target, or the commonest label, of the most similar training rows.

    f(x) = Σ_{i ∈ N_k(x)} v_i y_i / Σ_{i ∈ N_k(x)} v_i

N_k(x) has the k training rows with the smallest Euclidean distance to x after standardisation, of
the task alone or of all tasks. The weights v_i are 1, or 1/distance; rows at distance 0 then count
alone. For classes, y_i are indicators of the labels; of equally common labels, the first in sorted
order is predicted. Only k is learned, by cross-validation of the training rows. In form 'task', a
task of a single class has neighbours of that class only, and always predicts it.

Cost: O(n log n) for a k-d tree, and between O(log n) and O(n) distances per prediction: a tree
helps little with more than about 15 columns.

Reference: Cover, Hart, *Nearest neighbor pattern classification*, IEEE Transactions on Information
Theory 1967, doi:10.1109/TIT.1967.1053964
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from algorithms.baselines.neighbours.model import NeighboursModel, References, concatenated
from algorithms.baselines.neighbours.params import NeighboursParams
from algorithms.evaluation import grid_candidates, held_out_loss, select_params
from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.linear.bases import fit_standardisation
from algorithms.interface.algorithm import Algorithm, PreparedFold
from algorithms.interface.needs import (
    Needs,
    check_classes,
    check_known_labels,
    check_same_classes,
    check_same_kind,
)
from algorithms.interface.params import end_warnings, losses_by_value
from algorithms.interface.target_scales import numeric_targets, scales_by_task
from algorithms.interface.tasks import (
    Task,
    TaskSet,
    TaskSummary,
    check_magnitudes,
    tasks_have,
)
from algorithms.interface.trace import Trace
from algorithms.interface.work import (
    WorkEstimate,
    estimate_passes,
    estimate_selection,
    n_rows,
    without_fold,
)
from algorithms.numerics.arrays import Array

#: Numbers that pass through memory for each distance that a search in a tree computes on the mean
#: over all rows of the tree, and for each row; and the calls of each task.
DISTANCE_VALUES: Final = 4.0
ROW_VALUES: Final = 400.0
TASK_CALLS: Final = 40


class Neighbours(Algorithm[NeighboursParams, NeighboursModel]):
    """k-nearest neighbours of each task, or of all tasks."""

    name = "nearest-neighbours"
    title = "k-nearest neighbours"
    summary = (
        "The mean target, or the commonest label, of the most similar training rows of a task or "
        "of all tasks, with k selected by cross-validation. A nonlinear baseline without a model."
    )
    reference = "Cover and Hart (1967), doi:10.1109/TIT.1967.1053964"
    needs = Needs(same_features=True, target="any")
    Params = NeighboursParams
    Model = NeighboursModel

    def check(self, summaries: Sequence[TaskSummary], params: NeighboursParams) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        if summaries[0].target == "classes":
            check_classes(summaries, algorithm=self.name)
        if params.form == "pooled":
            check_known_labels(summaries)

    def work(self, summaries: Sequence[TaskSummary], params: NeighboursParams) -> WorkEstimate:
        """Return the work of the trees, and of the neighbours of held-out rows for each k."""
        final = estimate_passes(summaries)
        if params.selection == "given":
            return final
        fold = without_fold(summaries, params.n_folds)
        n = n_rows(summaries)
        reached = n_rows(fold) if params.form == "pooled" else n_rows(fold) / len(fold)
        neighbours = WorkEstimate(
            f"the neighbours of {n:,} rows",
            "use fewer rows, or form 'task'",
            values=n / params.n_folds * (reached * DISTANCE_VALUES + ROW_VALUES),
            steps=TASK_CALLS * len(summaries),
        )
        return estimate_selection(
            neighbours,
            final + estimate_passes(fold).times(params.n_folds),
            n_candidates=len(set(params.grid)),
            n_folds=params.n_folds,
        )

    def fit(
        self, tasks: TaskSet, params: NeighboursParams, *, trace: Trace, rng: np.random.Generator
    ) -> NeighboursModel:
        """Return the standardised rows, and the given or selected k."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        trace.expect_loops(1 + (params.selection == "cv"))
        fit_info: dict[str, Any] = {"params": params.model_dump(mode="json")}
        k = params.k
        warnings: tuple[str, ...] = ()
        if params.selection == "cv":
            k, chosen, warnings = self._select(tasks, params, trace=trace, rng=rng)
            fit_info |= chosen
        model = replace(self._model(tasks, params, trace=trace), k=k, fit_info=fit_info)
        return replace(model, warnings=(*warnings, *_warnings(model)))

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: NeighboursParams, *, rng: np.random.Generator
    ) -> PreparedFold[NeighboursParams, NeighboursModel]:
        """Return a fold with the same standardised rows and trees for every k."""
        del rng
        self.check(train.summaries(), params)
        check_magnitudes(train)
        model = self._model(train, params, trace=Trace())
        return PreparedFold(lambda candidate, _: replace(model, k=candidate.k), test)

    def _model(self, tasks: TaskSet, params: NeighboursParams, *, trace: Trace) -> NeighboursModel:
        """Return the model with the given k."""
        ordered = tasks.by_name()
        union = np.concatenate([task.X for task in ordered])
        mean, scale = trace.run_once(
            "standardisation",
            lambda: (np.stack(fit_standardisation(union, params.standardise)), 0.0),
        )
        by_task = {task.name: _references(task, mean, scale) for task in ordered}
        if params.form == "pooled":
            check_same_classes(tuple(by_task), [refs.classes for refs in by_task.values()])
            references: tuple[References, ...] = (concatenated(list(by_task.values())),)
            source = (0,) * len(tasks)
        else:
            references = tuple(by_task[name] for name in tasks.names)
            source = tuple(range(len(tasks)))
        return NeighboursModel(
            self.name, tasks.names, references, source, mean, scale, params.k, params.weights, {}
        )

    def _select(
        self, tasks: TaskSet, params: NeighboursParams, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[int, dict[str, Any], tuple[str, ...]]:
        """Return the selected k, the results of the selection as JSON, and warnings.

        Of equally good values the largest, which gives the smoothest function, is selected.
        """
        how: Literal["all", "moderated"] = "all" if params.form == "pooled" else "moderated"
        candidates = grid_candidates(params, prefer_large=params.GRIDS)
        selection = select_params(
            self,
            tasks.by_name(),
            candidates,
            n_folds=params.n_folds,
            trace=trace,
            rng=rng,
            loss=held_out_loss(scales_by_task(tasks, how, is_centered=True)),
        )
        k = selection.params.k
        sizes = [task.n_samples for task in tasks]
        n = sum(sizes) if params.form == "pooled" else max(sizes)
        warnings = (
            *failure_warnings(selection.failed),
            *end_warnings(
                params,
                {"k": k},
                limits={"k": n},
                losses=losses_by_value(candidates, selection.losses, ["k"]),
            ),
        )
        return k, {"k": k, "cv_errors": list(selection.losses), **selection.fit_info}, warnings

    def final_objective(self, params: NeighboursParams, trace: Trace) -> None:
        """Return None: nothing is optimised."""
        del params, trace

    def has_common_part(self, params: NeighboursParams) -> bool:
        """Return True: the neighbours of a task without rows are rows of any task."""
        del params
        return True

    def adapt_task(self, model: NeighboursModel, task: Task, *, trace: Trace) -> NeighboursModel:
        """Return the model with a new task: its own rows, or the rows of the tasks of the model."""
        del trace
        params = NeighboursParams.model_validate(model.fit_info["params"], strict=False)
        self.check([task.summary()], params)
        first, new = model.references[0], _references(task, model.mean, model.scale)
        check_same_kind(task, first.classes)
        tasks = (*model.tasks, task.name)
        if params.form == "pooled":
            check_same_classes([model.tasks[0], task.name], [first.classes, new.classes])
            return replace(model, tasks=tasks, source=(*model.source, 0))
        references, source = (*model.references, new), (*model.source, len(model.references))
        return replace(model, tasks=tasks, references=references, source=source)


def _references(task: Task, mean: Array, scale: Array) -> References:
    rows = (task.X - mean) / scale
    if task.target == "numbers":
        return References(rows, numeric_targets(task)[:, np.newaxis])
    assert task.y is not None
    labels = task.class_labels()
    Y = (task.y[:, np.newaxis] == labels).astype(np.float64)
    return References(rows, Y, tuple(labels.tolist()))


def _warnings(model: NeighboursModel) -> tuple[str, ...]:
    sizes = [len(model.references[i].rows) for i in model.source]
    small = [task for task, n in zip(model.tasks, sizes, strict=True) if n < model.k]
    if not small:
        return ()
    warning = (
        f"{tasks_have(small, len(model.tasks))} fewer rows than k = {model.k}, so all of them "
        "are neighbours"
    )
    return (warning,)
