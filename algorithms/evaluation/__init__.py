"""Judging what was learned: splits, metrics, and the choice of parameters, for any algorithm.

*Stratified split.* Each task is split by itself: n random rows of every class train, all others
test. So every class of a task is in both parts, however many rows it has; a class of n rows or
fewer is refused by name (:func:`stratified_split`).

*Error rate.* The share of the held-out rows of a task whose predicted label is not the true one.
An error over several tasks is the mean of their error rates: a task of ten rows counts as much as
one of a thousand (:func:`error_rates`, :func:`mean_error_rate`). What guessing would give is
1 - 1/c for c classes of equal size, which differs from task to task.

*Units*. Rows of the same group are never divided, in whatever tasks they are; rows without a group
are identified by their values. So what is held out of one task trains no other
(:func:`algorithms.interface.units.units_of`). Rows that are named in a split (``given``) are
taken as they are named. In discrete data different samples may have equal values: of the School
data 89 % of the pupils have a twin in their school, and explained variance of ridge regression per
school is .27 by folds of values, .32 where every pupil is a group. Give such rows a group each.

*Inner cross-validation* (``selection="cv"``). The rows of every class of a task are dealt to
``n_folds`` folds in turn. Each candidate is fitted without one fold and judged by the mean error
rate on it; the candidate of least mean over the folds is then fitted on all rows, the plainest of
equal ones. A class of one row is never held out, so that no fit lacks a class. An algorithm that
ties its tasks chooses once for all of them, one that looks at each task alone for each
(:func:`folds_of`, :func:`select_params`).

*Search* (a job's ``search``). The same folds for any algorithm and metric, each combination of
values a part of the job; the model's ``/report`` keeps every value. It chooses once for all tasks.
``grid`` tries every combination, ``random`` draws them, from lists or from ranges, linear or
logarithmic. ``halving`` judges all on few folds, and one in ``factor`` goes on to more of them,
until the last are judged on all; what is spent are folds and not rows, because what is best for
half of the rows is too plain for all of them.

*Averages*. ``tasks``: the mean over tasks of the mean over splits. ``rows``: the metric of all
held-out rows of all tasks as if they were those of one, for each split. For explained variance
these are the values that papers call per task and global: pooled rows differ between tasks as well
as within them, so that the global value is larger for whoever only knows the means of the tasks.
An area under a curve has no value over rows, for scores of one task are not on another's scale.
Reports give both; ``average`` says which one decides.

*Comparison* (a job's ``compare``). The algorithm (the candidate), other multi-task methods and
pooled ones learn together; single-task methods learn apart; the constant prediction is the trivial
baseline. All choose their parameters inside the same training rows, each as freely as the others.
The verdict says whether learning together in any form is better than learning apart: *helps* needs
one method that is better than every single-task method and the trivial one, *hurts* one single-task
method that is better than all that learn together, both at 5 % in all (for the correction see
:mod:`algorithms.evaluation.families`) and by the smallest effect worth naming, which is
``min_effect`` (1 %) of the metric's value of the method to beat; *equal* is a difference that is
smaller, or surely so; else it is *unclear*. Which method is best is a second statement, with those
not shown to be worse. Statements on single tasks are corrected for the number of tasks
(Benjamini-Hochberg, 5 %). Levels and power: ``benchmarks/verdict_calibration.py``.

*Evaluation* (a job's ``evaluate``). The algorithm with its parameters is judged on held-out rows
(K folds, a random part again and again, or the rows that are named), with every metric that suits
its models; what is trained learns from all rows.

No row that is used for a choice is used to judge it. :func:`select_params` sees the rows of a
dataset only, all of which are for training: whoever wants an error keeps rows out of the upload,
predicts them with the model, and compares. The error of the choice itself (``cv_error`` among the
model's ``fit_info``, the best of a report) is too small, being the least of many.

*Which algorithm?* Upload the training rows once, train every algorithm with class targets on
them with ``selection="cv"``, and compare their error rates on the same held-out rows. A difference
that does not repeat over several random splits is none.
"""

from algorithms.evaluation.metrics import error_rates, held_out_loss, mean_error_rate
from algorithms.evaluation.selection import (
    Selection,
    grid_candidates,
    select_params,
    select_per_task,
)
from algorithms.evaluation.splits import (
    Split,
    fold_split,
    fold_splits,
    folds_of,
    stratified_split,
)

__all__ = [
    "Selection",
    "Split",
    "error_rates",
    "fold_split",
    "fold_splits",
    "folds_of",
    "grid_candidates",
    "held_out_loss",
    "mean_error_rate",
    "select_params",
    "select_per_task",
    "stratified_split",
]
