"""The automatic choice where the right model is simple: effects of tasks and columns add up."""

import numpy as np
import pytest

from algorithms.automatic import fit_automatic
from algorithms.ensemble.held_out import RowOptions
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.wrappers.preparation.columns import Column
from service.jobs.studies import plans

pytestmark = pytest.mark.slow  # a race of all methods for each draw

#: How much the mean error over some draws may exceed that of the right model.
AS_GOOD = 1.03
#: Between the expected error and that of new rows, averaged over the draws.
EXPECTED_RTOL = 0.1


def persons_and_items(rng):
    """Return 50 persons who each answer 15 of 24 items, and the answers to the other items."""
    column = Column("item", "category", tuple(f"item {i}" for i in range(24)))
    easiness, tasks, new = rng.normal(size=24), [], []
    for p in range(50):
        items = rng.permutation(24)
        y = rng.normal() + easiness[items] + rng.normal(size=24)
        tasks.append(task_of(f"person {p:02}", column, items[:15], y[:15], first=15 * p))
        new.append((items[15:], y[15:]))
    return TaskSet(tuple(tasks)), column, new


def houses_in_counties(rng, *, effect):
    """Return 20 counties of 6 houses with a yes/no column, and 300 other houses of each."""
    column, tasks, new = Column("basement", "boolean"), [], []
    for c in range(20):
        x = rng.random(306) < 0.3
        y = 0.5 * rng.normal() + effect * x + 0.75 * rng.normal(size=306)
        tasks.append(task_of(f"county {c:02}", column, x[:6], y[:6], first=6 * c))
        new.append((x[6:], y[6:]))
    return TaskSet(tuple(tasks)), column, new


def task_of(name, column, x, y, *, first):
    """Return a task whose rows, though many are equal, are samples of their own."""
    X = x[:, np.newaxis].astype(float)
    groups = first + np.arange(len(y))
    return Task.from_rows(name, X, y=y, feature_names=[column.name], groups=groups)


def right_predictions(tasks, column, new):
    """Return least squares on the column, with a normal constant of each task, by REML."""
    levels = np.arange(max(len(column.levels), 2))
    x, y = (np.concatenate([getattr(task, key) for task in tasks]) for key in ("X", "y"))
    A, T, n = (x == levels).astype(float), len(tasks), len(y) // len(tasks)

    def of_tasks(values):
        return np.repeat(values.reshape(T, n, -1).sum(axis=1), n, axis=0).reshape(values.shape)

    fits = []
    for ratio in np.geomspace(0.003, 30, 60):  # of the variances of constants and noise
        share = ratio / (1 + n * ratio)
        M = A.T @ (A - share * of_tasks(A))
        b = np.linalg.solve(M, A.T @ (y - share * of_tasks(y)))
        r = y - A @ b
        squares = r @ (r - share * of_tasks(r))
        value = (len(y) - len(b)) * np.log(squares) + np.linalg.slogdet(M).logabsdet
        fits.append((value + T * np.log1p(n * ratio), b, share * of_tasks(r)[::n]))
    _, b, constants = min(fits, key=lambda fit: fit[0])
    return [
        b[found.astype(int)] + constant for (found, _), constant in zip(new, constants, strict=True)
    ]


def mean_error(predictions, new):
    return np.mean(
        [np.sqrt(np.mean((y - found) ** 2)) for found, (_, y) in zip(predictions, new, strict=True)]
    )


@pytest.mark.parametrize(
    ("make", "options", "n_draws", "min_helps"),
    [
        (persons_and_items, {}, 2, 2),  # each takes as long as four of the others
        (houses_in_counties, {"effect": 0.7}, 4, 3),
        (houses_in_counties, {"effect": 0.0}, 4, 0),
    ],
    ids=["items", "basements", "no effect"],
)
def test_additive_effects_are_predicted_as_by_the_model_that_knows_of_them(
    make, options, n_draws, min_helps
) -> None:
    errors, expected, helps = [], [], []
    for seed in range(n_draws):
        tasks, column, new = make(np.random.default_rng(seed), **options)
        choices = AutomaticOptions()
        choice, report = fit_automatic(
            plans.plan_choice(tasks.summaries(), choices).plan["auto"],
            tasks,
            rows=RowOptions(columns=(column,)),
            seed=seed,
            trace=Trace(),
        )
        predictions = [
            choice.model.predict(x[:, np.newaxis].astype(float), task=task.name)
            for (x, _), task in zip(new, tasks, strict=True)
        ]
        right = right_predictions(tasks, column, new)
        constants = [np.full(len(y), t.y.mean()) for t, (_, y) in zip(tasks, new, strict=True)]
        errors.append([mean_error(one, new) for one in (predictions, right, constants)])
        expected.append(report["choice"]["estimate"]["value"])
        helps.append(report["choice"]["together_or_apart"]["verdict"] == "helps")
    of_choice, of_right, of_constants = np.transpose(errors)
    assert of_choice.mean() <= AS_GOOD * of_right.mean()
    assert np.mean(expected) == pytest.approx(of_choice.mean(), rel=EXPECTED_RTOL)
    assert (of_choice < of_constants)[helps].all()  # it is true
    assert sum(helps) >= min_helps
