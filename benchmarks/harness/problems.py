"""Small synthetic problems with known solutions, for benchmarks and tests."""

from dataclasses import dataclass

import numpy as np

from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array

#: Variances along the axes of the paper's synthetic tasks.
PAPER_SPECTRUM = (1.0, 1.0, 2.0, 2.0, 3.0, 3.0)
#: Standard deviation of the tilt. The paper prints 0.3 as the variance, but that rotates the axes
#: by a median of 98 degrees, while its text describes rotations close to the identity.
PAPER_TILT = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class GaussianProblem:
    """Gaussian tasks and their true covariances.

    Parameters
    ----------
    covariances : (n_tasks, n_features, n_features)
    """

    tasks: TaskSet
    covariances: Array


def tilted_gaussians(
    rng: np.random.Generator,
    *,
    n_tasks: int,
    n_samples: int = 10,
    tilt: float = PAPER_TILT,
    spectrum: tuple[float, ...] = PAPER_SPECTRUM,
) -> GaussianProblem:
    """Return tasks whose covariances are small random rotations of one covariance.

    C_t = O_t C_0 O_tᵀ with O_t the orthogonal matrix nearest to I + N, N of independent normal
    entries (Yamane et al. 2016, section 3.2, https://proceedings.mlr.press/v63/yamane65.html).

    Parameters
    ----------
    tilt
        Standard deviation of the entries of N.
    """
    d = len(spectrum)
    core = np.linalg.qr(rng.standard_normal((d, d)))[0]
    roots = np.stack([_tilted(rng, d, tilt) @ core for _ in range(n_tasks)]) * np.sqrt(spectrum)
    return _draw(rng, roots, n_samples)


def identical_gaussians(
    rng: np.random.Generator, *, n_tasks: int, n_samples: int = 10
) -> GaussianProblem:
    """Return tasks with the same covariance, for which one subspace is best."""
    return tilted_gaussians(rng, n_tasks=n_tasks, n_samples=n_samples, tilt=0.0)


def unrelated_gaussians(
    rng: np.random.Generator,
    *,
    n_tasks: int,
    n_samples: int = 10,
    spectrum: tuple[float, ...] = PAPER_SPECTRUM,
) -> GaussianProblem:
    """Return tasks whose principal axes are independent, which are best learned alone."""
    d = len(spectrum)
    axes = np.linalg.qr(rng.standard_normal((n_tasks, d, d)))[0]
    return _draw(rng, axes * np.sqrt(spectrum), n_samples)


def covariance_tasks(
    rng: np.random.Generator, *, n_tasks: int, n_matrices: int = 4, n_samples: int = 20
) -> TaskSet:
    """Return tasks with stacks of covariance matrices in place of rows, as for EEG epochs."""
    problem = tilted_gaussians(rng, n_tasks=n_tasks, n_samples=n_matrices * n_samples)
    stacks = [
        np.stack([np.cov(part, rowvar=False) for part in np.split(task.X, n_matrices)])
        for task in problem.tasks
    ]
    return TaskSet(
        tuple(
            Task.from_covariances(task.name, stack)
            for task, stack in zip(problem.tasks, stacks, strict=True)
        )
    )


def _tilted(rng: np.random.Generator, d: int, tilt: float) -> Array:
    """Return the orthogonal matrix nearest to I + N, N of :func:`tilted_gaussians`."""
    left, _, right = np.linalg.svd(np.eye(d) + tilt * rng.standard_normal((d, d)))
    return np.asarray(left @ right)


def _draw(rng: np.random.Generator, roots: Array, n_samples: int) -> GaussianProblem:
    """Return tasks with random rows of covariance R Rᵀ, for roots R (n_tasks, d, d)."""
    noise = rng.standard_normal((len(roots), n_samples, roots.shape[1]))
    tasks = tuple(
        Task.from_rows(f"task-{t + 1}", rows @ root.T)
        for t, (rows, root) in enumerate(zip(noise, roots, strict=True))
    )
    return GaussianProblem(TaskSet(tasks), roots @ np.swapaxes(roots, 1, 2))


@dataclass(frozen=True, slots=True, eq=False)
class RareEvents:
    """Tasks whose rows have an event or none, and further rows of the same tasks.

    Parameters
    ----------
    new
        Further rows of each task, whose shares of events are those of the tasks.
    """

    tasks: TaskSet
    new: TaskSet


def rare_events(
    rng: np.random.Generator,
    *,
    n_tasks: int = 30,
    n_samples: int = 12,
    n_without: int = 6,
    n_new: int = 60,
) -> RareEvents:
    """Return tasks such as the patients of hospitals, the first of which have no event at all.

    The log-odds of an event are linear in six columns, with coefficients that differ a little
    between tasks. Two of three other tasks have two events in their rows, the third has one: with
    the defaults, 40 of 360 rows have an event.
    """
    common = np.array([0.9, -0.7, 0.5, 0.0, 0.0, 0.3])
    tasks, new = [], []
    for t in range(n_tasks):
        X = rng.standard_normal((20 * n_samples + n_new, len(common)))
        slopes = common + 0.2 * rng.standard_normal(len(common))
        log_odds = X @ slopes - 2.6 + 0.3 * rng.standard_normal()
        y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-log_odds)), "event", "none")
        name, pool = f"hospital-{t + 1:02}", y[n_new:]
        n_events = 0 if t < n_without else 2 - (t % 3 == 0)
        rows = np.concatenate(
            [
                np.flatnonzero(pool == "event")[:n_events],
                np.flatnonzero(pool == "none")[: n_samples - n_events],
            ]
        )
        tasks.append(Task.from_rows(name, X[n_new:][rows], y=pool[rows]))
        new.append(Task.from_rows(name, X[:n_new], y=y[:n_new]))
    return RareEvents(TaskSet(tuple(tasks)), TaskSet(tuple(new)))
