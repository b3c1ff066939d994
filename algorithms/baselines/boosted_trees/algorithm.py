"""Gradient-boosted decision trees, trained by LightGBM.

    F(x) = F_0 + η Σ_m tree_m(x)

Each tree is fitted to the gradient and curvature of the loss at the trees before it: the square
loss for numbers, the logistic loss for two classes, and the cross-entropy for more. Splits are on
one column each; in pooled form also on the task, which is a category, so that trees are shared
until a split separates tasks. The number of trees has the smallest error in a
cross-validation of the training rows (early stopping).

In form 'task', a task of a single class has constant trees, with the log-odds for half a row of
each other class, as they would be infinite without. In pooled form it has the trees of all.

Columns are standardised before training, which does not change the splits that are possible, and
numbers are divided by their deviation. A new task of a pooled model belongs to no known category.
Trained models need no LightGBM, because they have the trees as arrays
(:mod:`algorithms.baselines.boosted_trees.forest`).

Reference: Ke et al., *LightGBM: a highly efficient gradient boosting decision tree*, NIPS 2017,
https://papers.nips.cc/paper/6907; Friedman, *Greedy function approximation: a gradient boosting
machine*, Annals of Statistics 2001, doi:10.1214/aos/1013203451
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from algorithms.baselines.boosted_trees.forest import Forest, concatenate
from algorithms.baselines.boosted_trees.model import Part, TreesModel
from algorithms.baselines.boosted_trees.params import BoostedTreesParams
from algorithms.baselines.boosted_trees.training import (
    TreeProblem,
    check_installed,
    problem_of,
    train,
)
from algorithms.evaluation import Split, fold_splits
from algorithms.families.linear.bases import fit_standardisation
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import (
    Needs,
    check_classes,
    check_known_labels,
    check_same_classes,
    check_same_kind,
)
from algorithms.interface.target_scales import deviation, numeric_targets
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.weights import joint_weights, weights_of
from algorithms.interface.work import (
    WorkEstimate,
    estimate_passes,
    n_rows,
    without_fold,
)
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import weighted_mean

#: Numbers that pass through memory to train a tree: for each entry of the rows, and for each column
#: of each leaf, whose histogram has 255 bins; and calls.
ENTRY_VALUES: Final = 3.0
HISTOGRAM_VALUES: Final = 530.0
TREE_CALLS: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class _Scaling:
    """Standardisation of the rows, and the categories of tasks."""

    mean: Array
    scale: Array
    positions: dict[str, int]

    @classmethod
    def of(cls, tasks: TaskSet) -> "_Scaling":
        """Return the standardisation of the rows of all tasks, with a category for each."""
        union = np.concatenate([task.X for task in tasks])
        positions = {name: i for i, name in enumerate(tasks.names)}
        return cls(*fit_standardisation(union, "features", joint_weights(tasks)), positions)

    def group(self, tasks: Sequence[Task], *, is_pooled: bool) -> tuple[TreeProblem, Part]:
        """Return the problem of the rows of some tasks, and the part without its trees."""
        center, unit = 0.0, 1.0
        classes: tuple[Any, ...] = ()
        if tasks[0].target == "numbers":
            y = np.concatenate([numeric_targets(task) for task in tasks])
            weights = joint_weights(TaskSet(tuple(tasks)))
            center = weighted_mean(y, weights)
            unit = deviation([y], is_centered=True, weights=[weights]) or 1.0
        else:
            classes = _labels(tasks[0])
        problem = problem_of(
            tasks, mean=self.mean, scale=self.scale, center=center, unit=unit,
            is_pooled=is_pooled, positions=self.positions, classes=classes,
        )  # fmt: skip
        return problem, Part((0, 0), center, unit, -1, classes)


class BoostedTrees(Algorithm[BoostedTreesParams, TreesModel]):
    """Gradient-boosted trees of each task, or of all tasks."""

    name = "boosted-trees"
    title = "Gradient-boosted trees"
    summary = (
        "Sums of decision trees (LightGBM) of each task, or of the rows of all tasks with the task "
        "as a category. The usual strong baseline for tables with many rows."
    )
    reference = "Ke et al. (2017), https://papers.nips.cc/paper/6907"
    needs = Needs(same_features=True, target="any", weights=True)
    Params = BoostedTreesParams
    Model = TreesModel

    def check(self, summaries: Sequence[TaskSummary], params: BoostedTreesParams) -> None:
        """Raise InvalidData or InvalidParams if tasks are unsuitable, or LightGBM is missing."""
        super().check(summaries, params)
        if summaries[0].target == "classes":
            check_classes(summaries, algorithm=self.name)
        if params.form == "pooled":
            check_known_labels(summaries)
        check_installed()

    def work(self, summaries: Sequence[TaskSummary], params: BoostedTreesParams) -> WorkEstimate:
        """Return the work of all trees, including the cross-validation."""
        final = estimate_passes(summaries) + _trees(summaries, params)
        if params.selection == "given":
            return final
        trees = _trees(without_fold(summaries, params.n_folds), params)
        folds = replace(
            trees.times(params.n_folds),
            largest=f"{trees.largest} in each of {params.n_folds} folds",
        )
        return final + folds

    def fit(
        self, tasks: TaskSet, params: BoostedTreesParams, *, trace: Trace, rng: np.random.Generator
    ) -> TreesModel:
        """Return the trees, of the given or the selected number."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        ordered = tasks.by_name()
        scaling = _Scaling.of(ordered)
        trace.expect_loops(1 + (params.selection == "cv"))
        n_trees = params.n_trees
        fit_info: dict[str, Any] = {"params": params.model_dump(mode="json")}
        if params.selection == "cv":
            splits = fold_splits(ordered, n_folds=params.n_folds, seed=int(rng.integers(2**32)))
            errors = _held_out_errors(splits, params, trace=trace)
            n_trees = int(errors.argmin()) + 1
            fit_info["cv_error"] = float(errors[n_trees - 1])
        fit_info["n_trees"] = n_trees
        forest, parts = _train(ordered, scaling, params, n_trees=n_trees, trace=trace, loop="trees")
        return TreesModel(
            self.name,
            tasks.names,
            tuple(parts[name] for name in tasks.names),
            forest,
            scaling.mean,
            scaling.scale,
            fit_info,
        )

    def final_objective(self, params: BoostedTreesParams, trace: Trace) -> None:
        """Return None: the loops report the share that is left."""
        del params, trace

    def adapt_task(self, model: TreesModel, task: Task, *, trace: Trace) -> TreesModel:
        """Return the model with a new task: with its own trees, or with the trees of all tasks."""
        params = BoostedTreesParams.model_validate(model.fit_info["params"])
        self.check([task.summary()], params)
        first = model.parts[0]
        check_same_kind(task, first.classes)
        tasks = (*model.tasks, task.name)
        if params.form == "pooled":
            check_same_classes([model.tasks[0], task.name], [first.classes, _labels(task)])
            return replace(model, tasks=tasks, parts=(*model.parts, replace(first, category=-1)))
        forest, parts = _train(
            TaskSet((task,)),
            _Scaling(model.mean, model.scale, {}),
            params,
            n_trees=model.fit_info["n_trees"],
            trace=trace,
            loop=f"trees of '{task.name}'",
        )
        n, part = model.forest.n_trees, parts[task.name]
        part = replace(part, trees=(part.trees[0] + n, part.trees[1] + n))
        forest = concatenate([model.forest, forest])
        return replace(model, tasks=tasks, parts=(*model.parts, part), forest=forest)


def _trees(summaries: Sequence[TaskSummary], params: BoostedTreesParams) -> WorkEstimate:
    """Return the work of the trees of one fit, of which there is at most one for each class."""
    n_models = 1 if params.form == "pooled" else len(summaries)
    n_classes = max(summary.n_classes for summary in summaries)
    n_trees = params.n_trees * (n_classes if n_classes > 2 else 1)
    n, d = n_rows(summaries), summaries[0].n_features
    # a leaf needs rows
    n_leaves = min(params.n_leaves, max(n / n_models / params.min_rows, 1.0))
    return WorkEstimate(
        f"{n_models * n_trees:,} trees for {n:,} rows",
        "use fewer 'n_trees' or columns",
        values=n_trees * (ENTRY_VALUES * n * d + HISTOGRAM_VALUES * n_models * n_leaves * d),
        steps=n_trees * n_models * TREE_CALLS,
    )


def _train(
    tasks: TaskSet,
    scaling: _Scaling,
    params: BoostedTreesParams,
    *,
    n_trees: int,
    trace: Trace,
    loop: str,
) -> tuple[Forest, dict[str, Part]]:
    """Return the trees of tasks in the order of their names, and the part of each task."""
    groups = _groups(tasks, params)
    made = [scaling.group(group, is_pooled=params.form == "pooled") for group in groups]
    problems = [problem for problem, _ in made]
    forests = train(problems, params, n_trees=n_trees, trace=trace, loop=loop)
    return concatenate(forests), _parts(groups, made, forests, scaling, params)


def _groups(tasks: TaskSet, params: BoostedTreesParams) -> list[tuple[Task, ...]]:
    """Return the tasks whose rows make one model."""
    if params.form == "task":
        return [(task,) for task in tasks]
    check_same_classes(tasks.names, [_labels(task) for task in tasks])
    return [tasks.tasks]


def _labels(task: Task) -> tuple[Any, ...]:
    """Return the labels of a task, sorted; empty for numbers."""
    return tuple(task.class_labels().tolist()) if task.target == "classes" else ()


def _parts(
    groups: Sequence[Sequence[Task]],
    made: Sequence[tuple[TreeProblem, Part]],
    forests: Sequence[Forest],
    scaling: _Scaling,
    params: BoostedTreesParams,
) -> dict[str, Part]:
    """Return the part of each task, with the positions of its trees."""
    ends = np.cumsum([0, *(forest.n_trees for forest in forests)]).tolist()
    is_pooled = params.form == "pooled"
    return {
        task.name: replace(
            part,
            trees=(ends[i], ends[i + 1]),
            category=scaling.positions[task.name] if is_pooled else -1,
        )
        for i, (group, (_, part)) in enumerate(zip(groups, made, strict=True))
        for task in group
    }


def _held_out_errors(splits: Sequence[Split], params: BoostedTreesParams, *, trace: Trace) -> Array:
    """Return the mean loss on held-out rows after each number of trees, (n_trees,).

    It is the training loss (in units of the deviation of the targets), because the error rate
    of few rows is the same for many numbers of trees.
    """
    scalings = [_Scaling.of(split.train.by_name()) for split in splits]
    folds = [_groups(split.train.by_name(), params) for split in splits]
    is_pooled = params.form == "pooled"
    made = [
        [scaling.group(group, is_pooled=is_pooled) for group in groups]
        for scaling, groups in zip(scalings, folds, strict=True)
    ]
    problems = [problem for fold in made for problem, _ in fold]
    forests = train(problems, params, n_trees=params.n_trees, trace=trace, loop="selection")
    total, size, done = np.zeros(params.n_trees), 0.0, 0
    for split, scaling, groups, fold in zip(splits, scalings, folds, made, strict=True):
        fold_forests = forests[done : done + len(fold)]
        done += len(fold)
        parts = _parts(groups, fold, fold_forests, scaling, params)
        forest = concatenate(fold_forests)
        for task in split.test.by_name():
            if task.name in parts:
                total += _losses(forest, parts[task.name], task, scaling, params.n_trees)
                size += float(weights_of(task).sum())
    return total / (size or 1.0)


def _losses(forest: Forest, part: Part, task: Task, scaling: _Scaling, n_trees: int) -> Array:
    """Return the (weighted) sum of the losses of a task's rows after each number of trees."""
    rows = (task.X - scaling.mean) / scaling.scale
    category = np.full(task.n_samples, part.category)
    values = forest.leaf_values(rows, category, slice(*part.trees))
    F = values.reshape(task.n_samples, -1, part.n_scores).cumsum(axis=1)
    if F.shape[1] < n_trees:  # training ended when no leaf could be split
        F = np.concatenate([F, np.repeat(F[:, -1:], n_trees - F.shape[1], axis=1)], axis=1)
    w = weights_of(task)[:, np.newaxis]
    if not part.classes:
        y = (numeric_targets(task) - part.center) / part.unit
        return np.asarray((w * (F[:, :, 0] - y[:, np.newaxis]) ** 2).sum(axis=0))
    codes = np.searchsorted(np.array(part.classes), np.asarray(task.y))
    if part.n_scores == 1:
        sign = np.where(codes == 1, 1.0, -1.0)[:, np.newaxis]
        return np.asarray((w * np.logaddexp(0.0, -sign * F[:, :, 0])).sum(axis=0))
    true_scores = np.take_along_axis(F, codes[:, np.newaxis, np.newaxis], axis=2)[:, :, 0]
    return np.asarray((w * (np.logaddexp.reduce(F, axis=2) - true_scores)).sum(axis=0))
