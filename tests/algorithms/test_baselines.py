import tracemalloc
from itertools import permutations, product

import numpy as np
import pytest

from algorithms.baselines.pca import CommonPCA, TaskPCA
from algorithms.baselines.transfer_pca import PPCA, TransferPCA
from algorithms.families.subspaces.model import SubspaceModel
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.eigen import complete, fix_signs, leading_of_dense, leading_of_factor
from algorithms.numerics.grassmann import projector_distance
from algorithms.rmtpca import RMTPCA
from benchmarks.harness.problems import covariance_tasks, tilted_gaussians, unrelated_gaussians

#: Subspaces of well separated eigenvalues from two LAPACK routes.
SUBSPACE_ATOL = 1e-9


def fit(algorithm, tasks, **values):
    params = algorithm.Params(**values)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def top(C, k):
    return np.linalg.eigh(C)[1][:, : -k - 1 : -1]


def assert_same_subspace(U, V) -> None:
    assert projector_distance(U.T, V.T) <= SUBSPACE_ATOL


@pytest.fixture
def tasks() -> TaskSet:
    shifted = tilted_gaussians(np.random.default_rng(0), n_tasks=3, n_samples=30).tasks
    return TaskSet(tuple(Task.from_rows(t.name, t.X + i) for i, t in enumerate(shifted)))


def test_pca_per_task_is_the_top_of_each_covariance(tasks) -> None:
    model = fit(TaskPCA(), tasks, k=3)
    for t, task in enumerate(tasks):
        C = np.cov(task.X, rowvar=False)
        assert_same_subspace(model.U[t], top(C, 3))
        np.testing.assert_allclose(model.spectrum[t], np.linalg.eigvalsh(C)[:-4:-1])
        np.testing.assert_allclose(model.mean_of(task.name), task.X.mean(axis=0))
        assert model.total_variance[t] == pytest.approx(np.trace(C))


def test_common_pca_is_the_top_of_the_unweighted_sum(tasks) -> None:
    uneven = TaskSet((tasks.tasks[0].take(np.arange(8)), *tasks.tasks[1:]))
    model = fit(CommonPCA(), uneven, k=2)
    C = sum(np.cov(task.X, rowvar=False) for task in uneven)
    assert model.U.shape == (1, 6, 2)
    assert_same_subspace(model.U[0], top(C, 2))
    # columns are the principal axes of the sum
    axes = model.U[0].T @ C @ model.U[0]
    np.testing.assert_allclose(axes, np.diag(np.diag(axes)), atol=1e-9)
    np.testing.assert_allclose(
        model.spectrum[1],
        np.diag(model.U[0].T @ np.cov(uneven.tasks[1].X, rowvar=False) @ model.U[0]),
    )


def test_pooled_pca_is_the_pca_of_the_union(tasks) -> None:
    model = fit(CommonPCA(), tasks, k=2, form="pooled")
    union = np.concatenate([task.X for task in tasks])
    assert_same_subspace(model.U[0], top(np.cov(union, rowvar=False), 2))
    np.testing.assert_allclose(model.mean_of("task-2"), union.mean(axis=0))


def test_the_two_common_forms_are_different_estimators(tasks) -> None:
    by_sum, pooled = (fit(CommonPCA(), tasks, form=form) for form in ("sum", "pooled"))
    assert projector_distance(by_sum.U[0].T, pooled.U[0].T) > 0.1


def test_pooled_form_rejects_covariances() -> None:
    stacks = covariance_tasks(np.random.default_rng(0), n_tasks=2)
    with pytest.raises(InvalidParams, match="'pooled' needs rows") as caught:
        fit(CommonPCA(), stacks, form="pooled")
    assert caught.value.field == "form"


def test_covariance_tasks_have_mean_zero_and_use_the_mean_matrix() -> None:
    stacks = covariance_tasks(np.random.default_rng(1), n_tasks=2)
    model = fit(TaskPCA(), stacks)
    np.testing.assert_array_equal(model.mean, 0.0)
    assert_same_subspace(model.U[0], top(stacks.tasks[0].X.mean(axis=0), 2))


@pytest.mark.parametrize("form", ["sum", "pooled"])
def test_wide_tasks_agree_with_dense_matrices(form) -> None:
    rng = np.random.default_rng(2)
    tasks = TaskSet(
        tuple(Task.from_rows(f"t{t}", rng.standard_normal((9, 120)) + t) for t in range(3))
    )
    own = fit(TaskPCA(), tasks, k=3)
    assert_same_subspace(own.U[1], top(np.cov(tasks.tasks[1].X, rowvar=False), 3))
    common = fit(CommonPCA(), tasks, k=3, form=form)
    if form == "sum":
        C = sum(np.cov(task.X, rowvar=False) for task in tasks)
    else:
        C = np.cov(np.concatenate([task.X for task in tasks]), rowvar=False)
    assert_same_subspace(common.U[0], top(C, 3))


def test_transform_and_back_is_the_projection(tasks) -> None:
    model = fit(TaskPCA(), tasks, k=2)
    rows = tasks.tasks[1].X
    Z = model.transform(rows, task="task-2")
    np.testing.assert_allclose(Z, (rows - rows.mean(axis=0)) @ model.U[1])
    np.testing.assert_allclose(Z.var(axis=0, ddof=1), model.spectrum[1])
    again = model.transform(model.inverse_transform(Z, task="task-2"), task="task-2")
    np.testing.assert_allclose(again, Z, atol=1e-12)


def test_retained_ratio_is_the_share_of_the_spectrum(tasks) -> None:
    model = fit(TaskPCA(), tasks, k=2)
    expected = model.spectrum.sum(axis=1) / model.total_variance
    np.testing.assert_allclose(list(model.metrics["rvr"].values()), expected)


def test_single_task_pca_is_best_for_unrelated_tasks_with_many_rows() -> None:
    problem = unrelated_gaussians(np.random.default_rng(3), n_tasks=6, n_samples=400)

    def ratio(model):
        U = np.broadcast_to(model.U, (6, *model.U.shape[1:]))
        return np.mean(np.einsum("tik,tij,tjk->t", U, problem.covariances, U))

    assert ratio(fit(TaskPCA(), problem.tasks)) > ratio(fit(CommonPCA(), problem.tasks)) + 0.5


def test_too_few_rows_for_the_dimensions_cause_a_warning() -> None:
    # with n rows the covariance has rank n - 1, so n = k is too few; the paper prints n < k
    tasks = tilted_gaussians(np.random.default_rng(4), n_tasks=2, n_samples=3).tasks
    assert any("do not determine" in warning for warning in fit(TaskPCA(), tasks, k=3).warnings)
    assert fit(TaskPCA(), tasks, k=2).warnings == ()


def test_a_constant_task_causes_a_warning_and_is_reconstructed() -> None:
    tasks = TaskSet((Task.from_rows("flat", np.ones((5, 3))),))
    model = fit(TaskPCA(), tasks)
    assert "no variance" in model.warnings[0]
    assert model.metrics["rvr"]["flat"] == 1.0


def rows_of_four_tasks(is_flat):
    """Return rows for four tasks: all rows equal where flat, and else varied in four ways."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((7, 4))
    one_column_constant, one_row_different = normal.copy(), np.full((7, 4), 0.1)
    one_column_constant[:, 0] = 0.1
    one_row_different[3, 2] = 0.2
    varied = [normal, one_column_constant, one_row_different, 1e-6 * normal]
    flat = np.tile(normal[0] / 3, (7, 1))
    assert flat.var(axis=0).max() > 0  # by rounding: the mean of equal rows is not exact
    return [flat if flat_task else X for flat_task, X in zip(is_flat, varied, strict=True)]


@pytest.mark.parametrize("is_flat", list(product([False, True], repeat=4)))
def test_variance_warning_is_about_the_flat_tasks_and_no_others(is_flat) -> None:
    rows = rows_of_four_tasks(is_flat)
    for names in permutations("abcd"):
        tasks = TaskSet(tuple(Task.from_rows(*pair) for pair in zip(names, rows, strict=True)))
        warnings = fit(TaskPCA(), tasks).warnings
        flat = sorted(name for name, flat_task in zip(names, is_flat, strict=True) if flat_task)
        listed = ", ".join(f"'{name}'" for name in flat)
        have = "has" if len(flat) == 1 else "have"
        expected = (f"{len(flat)} of 4 tasks ({listed}) {have} no variance",)
        assert warnings == (expected if flat else ())


def test_signs_do_not_depend_on_the_signs_of_the_data(tasks) -> None:
    mirrored = TaskSet(tuple(Task.from_rows(t.name, -t.X) for t in tasks))
    np.testing.assert_allclose(
        fit(TaskPCA(), tasks).U, fit(TaskPCA(), mirrored).U, atol=SUBSPACE_ATOL
    )


def test_fix_signs_makes_the_largest_entry_positive() -> None:
    U = np.array([[0.1, -0.9, 0.2], [0.5, 0.4, -0.3]])
    np.testing.assert_array_equal(fix_signs(U), [[-0.1, 0.9, -0.2], [0.5, 0.4, -0.3]])


@pytest.mark.parametrize("m", [0, 1, 3])
def test_completion_keeps_the_given_rows(m) -> None:
    V = np.linalg.qr(np.random.default_rng(5).standard_normal((7, m)))[0].T
    Q = complete(V, 4)
    np.testing.assert_array_equal(Q[:m], V)
    np.testing.assert_allclose(Q @ Q.T, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("m", [2, 5, 20])
def test_thin_and_dense_eigenvectors_agree(m) -> None:
    A = np.random.default_rng(6).standard_normal((m, 8))
    k = min(m, 3)
    assert projector_distance(leading_of_factor(A, k), leading_of_dense(A.T @ A, k)) <= 1e-7
    U = leading_of_factor(A, 4)
    np.testing.assert_allclose(U @ U.T, np.eye(4), atol=1e-12)


def test_new_tasks_of_other_width_are_rejected(tasks) -> None:
    model = fit(TaskPCA(), tasks)
    with pytest.raises(InvalidData, match="'new' has 5 features, the model 6"):
        TaskPCA().adapt(model, Task.from_rows("new", np.ones((4, 5))))
    with pytest.raises(InvalidData, match="'new' has 1 row"):
        TaskPCA().adapt(model, Task.from_rows("new", np.ones((1, 6))))


@pytest.mark.parametrize("algorithm", [RMTPCA(), TaskPCA(), CommonPCA(), TransferPCA(), PPCA()])
@pytest.mark.parametrize(("d", "n"), [(6, 10), (40, 5)], ids=["narrow", "wide"])
def test_as_many_dimensions_as_features_reconstruct_the_rows(algorithm, d, n) -> None:
    rng = np.random.default_rng(0)
    wide = TaskSet(tuple(Task.from_rows(f"t{i}", rng.standard_normal((n, d))) for i in range(2)))
    model = fit(algorithm, wide, k=d)
    for task in wide:
        back = model.inverse_transform(model.transform(task.X, task=task.name), task=task.name)
        np.testing.assert_allclose(back, task.X, atol=1e-9)
    message = f"k = {d + 1} is more than n_features = {d}"
    with pytest.raises(InvalidParams, match=message):
        fit(algorithm, wide, k=d + 1)


@pytest.mark.parametrize("algorithm", [RMTPCA(), TaskPCA(), CommonPCA()])
def test_adapting_to_a_wide_task_needs_no_more_memory_than_a_fit(algorithm) -> None:
    # d = 3000: one dense matrix is 72 MB, the rows of the four tasks 1 MB
    rng = np.random.default_rng(0)
    rows = [Task.from_rows(f"t{i}", rng.standard_normal((10, 3000))) for i in range(5)]
    tracemalloc.start()
    model = fit(algorithm, TaskSet(tuple(rows[:4])), k=2)
    fitting = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    algorithm.adapt(model, rows[4])
    joining = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert joining <= 1.5 * fitting


@pytest.mark.parametrize("algorithm", [TaskPCA(), CommonPCA()])
@pytest.mark.parametrize(("d", "n"), [(6, 10), (40, 5), (300, 5)])
def test_a_new_task_has_the_spectrum_of_its_own_covariance(algorithm, d, n) -> None:
    rng = np.random.default_rng(1)
    rows = [Task.from_rows(f"t{i}", rng.standard_normal((n, d))) for i in range(3)]
    model = algorithm.adapt(fit(algorithm, TaskSet(tuple(rows[:2])), k=3), rows[2])
    C, U = np.cov(rows[2].X, rowvar=False), model.basis_of("t2")
    np.testing.assert_allclose(model.spectrum[2], np.diag(U.T @ C @ U), atol=1e-10)
    assert model.total_variance[2] == pytest.approx(np.trace(C))
    if algorithm.name == "pca":
        np.testing.assert_allclose(model.spectrum[2], np.linalg.eigvalsh(C)[:-4:-1])


@pytest.mark.parametrize("algorithm", [RMTPCA(), TaskPCA(), CommonPCA()])
def test_a_new_task_is_checked_against_the_bounds_of_a_fit(algorithm, tasks) -> None:
    model = fit(algorithm, tasks)
    with pytest.raises(InvalidData, match="'new' has total variance"):
        algorithm.adapt(model, Task.from_rows("new", 1e-60 * tasks.tasks[0].X))


def test_a_new_task_of_few_or_equal_rows_causes_a_warning(tasks) -> None:
    model = fit(TaskPCA(), tasks, k=3)
    few = TaskPCA().adapt(model, Task.from_rows("few", tasks.tasks[0].X[:3]))
    assert "('few') has at most k = 3 rows" in few.warnings[-1]
    flat = TaskPCA().adapt(model, Task.from_rows("flat", np.ones((9, 6))))
    assert "('flat') has no variance" in flat.warnings[-1]


def test_new_task_of_a_pooled_model_keeps_the_grand_mean(tasks) -> None:
    model = fit(CommonPCA(), tasks, form="pooled")
    adapted = CommonPCA().adapt(model, Task.from_rows("new", tasks.tasks[0].X + 9))
    np.testing.assert_array_equal(adapted.mean_of("new"), model.mean_of("task-1"))
    by_sum = fit(CommonPCA(), tasks)
    adapted = CommonPCA().adapt(by_sum, Task.from_rows("new", tasks.tasks[0].X + 9))
    np.testing.assert_allclose(adapted.mean_of("new"), tasks.tasks[0].X.mean(axis=0) + 9)


def test_arrays_of_the_wrong_shape_are_rejected(tasks) -> None:
    model = fit(TaskPCA(), tasks)
    arrays = {**model.to_arrays(), "spectrum": np.zeros((1, 2))}
    with pytest.raises(ValueError, match="spectrum is float64"):
        SubspaceModel.from_arrays(arrays, model.header())
