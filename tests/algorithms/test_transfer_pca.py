import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from algorithms.baselines.pca import TaskPCA
from algorithms.baselines.transfer_pca import PPCA, TransferPCA
from algorithms.baselines.transfer_pca.model import PPCAModel, expected_latents
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from benchmarks.harness.problems import tilted_gaussians

#: Subspaces of well separated eigenvalues from two LAPACK routes.
ANGLE = 1e-7


def fit(algorithm, tasks, **values):
    params = algorithm.Params(**values)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


@pytest.fixture
def tasks() -> TaskSet:
    made = tilted_gaussians(np.random.default_rng(0), n_tasks=3, n_samples=40).tasks
    return TaskSet(tuple(Task.from_rows(t.name, t.X + i) for i, t in enumerate(made)))


def top(A, k):
    return np.linalg.svd(A, full_matrices=False)[2][:k].T


def centred(task):
    return task.X - task.X.mean(axis=0)


def test_without_weight_every_target_has_the_axes_of_the_source(tasks) -> None:
    model = fit(TransferPCA(), tasks, source="task-2", weight=0.0)
    for name in tasks.names:
        found = model.basis_of(name)
        assert subspace_angles(found, top(centred(tasks["task-2"]), 2)).max() < ANGLE
        np.testing.assert_allclose(model.mean_of(name), tasks[name].X.mean(axis=0))


def test_weight_one_pools_and_a_large_weight_leaves_the_target_alone(tasks) -> None:
    pooled = fit(TransferPCA(), tasks, source="task-1", weight=1.0)
    union = np.concatenate([centred(tasks["task-1"]), centred(tasks["task-3"])])
    assert subspace_angles(pooled.basis_of("task-3"), top(union, 2)).max() < ANGLE
    alone = fit(TransferPCA(), tasks, source="task-1", weight=1e9)
    own = fit(TaskPCA(), tasks)
    assert subspace_angles(alone.basis_of("task-3"), own.basis_of("task-3")).max() < 1e-6


def test_probabilistic_pca_is_that_of_scikit_learn(tasks) -> None:
    model = fit(PPCA(), tasks, k=2)
    for t, task in enumerate(tasks):
        public = PCA(2).fit(task.X)
        covariance = model.W[t] @ model.W[t].T + model.noise[t] * np.eye(6)
        np.testing.assert_allclose(covariance, public.get_covariance(), atol=1e-9)
        np.testing.assert_allclose(
            model.reconstruct(task.X, task=task.name),
            public.inverse_transform(public.transform(task.X)),
            atol=1e-9,
        )


def test_expected_latents_are_those_of_the_joint_gaussian(tasks) -> None:
    model = fit(PPCA(), tasks, k=2, rows="weighted", weight=5.0)
    row = tasks["task-3"].X[:1].copy()
    row[0, [1, 4]] = np.nan
    W, seen = model.W[2], [0, 2, 3, 5]
    K = W[seen] @ W[seen].T + model.noise[2] * np.eye(4)
    expected = W[seen].T @ np.linalg.solve(K, row[0, seen] - model.mean[2, seen])
    np.testing.assert_allclose(model.transform(row, task="task-3")[0], expected)


def test_rows_with_different_missing_values_are_handled_one_by_one(tasks) -> None:
    model = fit(PPCA(), tasks, k=2)
    rows = tasks["task-1"].X[:9].copy()
    rows[1::3, 0] = np.nan
    rows[2::3, [2, 5]] = np.nan
    for method in (model.transform, model.reconstruct):
        together = method(rows, task="task-1")
        alone = np.concatenate([method(row[np.newaxis], task="task-1") for row in rows])
        np.testing.assert_allclose(together, alone, atol=1e-12)


def test_missing_values_are_replaced_by_their_expectation() -> None:
    rng = np.random.default_rng(8)
    w = np.array([0.1, 2.0, 2.0, 2.0])
    X = np.outer(rng.standard_normal(500), w) + rng.standard_normal((500, 4))
    model = fit(PPCA(), TaskSet((Task.from_rows("a", X),)), k=1)
    W, noise = model.W[0], model.noise[0]
    C = W @ W.T + noise * np.eye(4)
    rows = np.full((5, 4), np.nan)
    rows[:, 0] = X[:5, 0]
    # the conditional mean of a Gaussian
    expected = model.mean[0] + np.outer(rows[:, 0] - model.mean[0, 0], C[:, 0] / C[0, 0])
    found = model.reconstruct(rows, task="a")
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-9)


def test_latents_exist_without_noise_and_with_more_axes_than_values() -> None:
    W = np.diag([2.0, 1.0, 0.0])[:, :2]
    row = np.array([[np.nan, 3.0, np.nan]])
    np.testing.assert_allclose(expected_latents(W, row, noise=0.0), [[0.0, 3.0]])


def test_weighted_noise_is_the_mean_of_the_other_eigenvalues(tasks) -> None:
    model = fit(PPCA(), tasks, k=2, rows="weighted", weight=3.0, source="task-1")
    A = np.concatenate([centred(tasks["task-1"]), np.sqrt(3.0) * centred(tasks["task-2"])])
    values = np.linalg.eigvalsh(A.T @ A / (39 + 3 * 39))
    assert model.noise[1] == pytest.approx(values[:4].mean())
    np.testing.assert_allclose(
        np.linalg.norm(model.W[1], axis=0) ** 2, values[:3:-1] - model.noise[1]
    )


def test_a_single_row_is_rejected_where_no_other_task_helps(tasks) -> None:
    few = TaskSet((tasks["task-1"], tasks["task-2"].take(np.array([0]))))
    with pytest.raises(InvalidData, match="'task-2' has 1 row; ppca with rows 'own'"):
        fit(PPCA(), few)
    assert np.isfinite(fit(PPCA(), few, rows="weighted").W).all()
    assert fit(TransferPCA(), few).tasks == few.names


def test_arrays_of_the_wrong_shape_are_rejected(tasks) -> None:
    model = fit(PPCA(), tasks)
    with pytest.raises(ValueError, match="noise is"):
        PPCAModel.from_arrays({**model.to_arrays(), "noise": np.zeros(2)}, model.header())
