"""How tasks are related, against what the field defines for each kind of model."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from algorithms.interface.relations import relations_of
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS


def two_groups(T=6, n=40, target="numbers"):
    """Return tasks whose functions are w or -w', by turns."""
    rng = np.random.default_rng(4)
    w = rng.standard_normal((2, 5))
    tasks = []
    for t in range(T):
        X = rng.standard_normal((n, 5)) @ np.diag([3, 2, 1, 1, 1])
        y = X @ w[t % 2] + 0.1 * rng.standard_normal(n)
        if target == "labels":
            y = np.array(["a", "b", "c"])[np.digitize(y, [-1, 1])]
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(tasks))


def fit(name, tasks, **values):
    algorithm = ALGORITHMS[name]
    params, rng = algorithm.Params(**values), np.random.default_rng(0)
    return algorithm.fit(tasks, params, trace=Trace(), rng=rng)


@pytest.mark.parametrize(("name", "values"), [("fmtl", {"kernel": "linear"}), ("mtfl", {})])
def test_related_tasks_are_adjacent_in_the_order(name, values) -> None:
    found = fit(name, two_groups(), **values).relations()
    even = [int(found.names[i][1:]) % 2 for i in found.order]
    assert np.count_nonzero(np.diff(even)) == 1


def test_linear_functions_are_related_by_their_cosines() -> None:
    model = fit("mtfl", two_groups())
    origin = np.zeros((1, 5))
    slopes = np.array(
        [
            (model.predict(np.eye(5), task=t) - model.predict(origin, task=t))
            * model.functions.basis.scale
            for t in model.tasks
        ]
    )
    unit = slopes / np.linalg.norm(slopes, axis=1, keepdims=True)
    np.testing.assert_allclose(model.relations().strength, unit @ unit.T, atol=1e-10)


def test_functions_on_a_kernel_are_related_by_their_inner_product() -> None:
    model = fit("mtfl", two_groups(T=3, n=10), kernel="polynomial", degree=1)
    # (1 + ⟨x, x'⟩/d): the functions are linear with a constant, of features 1 and x/√d
    basis = model.functions.basis
    features = np.column_stack([np.ones(len(basis.references)), basis.references / np.sqrt(5)])
    weights = features.T @ model.functions.W
    unit = weights / np.linalg.norm(weights, axis=0)
    np.testing.assert_allclose(model.relations().strength, unit.T @ unit, atol=1e-9)


def test_subspaces_are_related_by_their_principal_angles() -> None:
    model = fit("rmt-pca", two_groups(), k=2)
    strength = model.relations().strength
    for r in range(6):
        for s in range(6):
            angles = subspace_angles(model.basis_of(f"t{r}"), model.basis_of(f"t{s}"))
            assert strength[r, s] == pytest.approx(np.mean(np.cos(angles) ** 2), abs=1e-9)


def test_pooled_subspaces_and_latent_models_have_no_relations() -> None:
    assert fit("common-pca", two_groups(), k=2).relations() is None
    assert fit("tlvm", two_groups(), L=2).relations() is None


def test_a_column_for_each_class_has_its_name() -> None:
    found = fit("mtfl", two_groups(T=2, target="labels")).relations()
    assert found.names == tuple(f"t{t}: {c}" for t in range(2) for c in "abc")
    assert found.strength.shape == (6, 6)


def test_an_output_without_scale_is_unrelated_to_all() -> None:
    found = relations_of(np.diag([1.0, 0.0, 4.0]), ["a", "b", "c"])
    np.testing.assert_array_equal(found.strength, np.diag([1.0, 0.0, 1.0]))
    assert found.sparsity == 1.0
    assert found.sentence == "No two of the 3 outputs are related (below 0.05)."


def sentence(*pairs: float) -> str:
    """Return the sentence of outputs a, b, ... with these strengths, row by row."""
    T = round((1 + np.sqrt(1 + 8 * len(pairs))) / 2)
    G = np.eye(T)
    G[np.triu_indices(T, 1)] = pairs
    return relations_of(np.triu(G) + np.triu(G, 1).T, [chr(97 + i) for i in range(T)]).sentence


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((1.0,), "'a' and 'b' are strongly related (+1.00)."),
        ((0.4,), "'a' and 'b' are moderately related (+0.40)."),
        ((-0.2,), "'a' and 'b' are weakly related (-0.20, with opposite signs)."),
        ((0.01,), "'a' and 'b' are unrelated (below 0.05)."),
        ((0.01, -0.02, 0.0), "No two of the 3 outputs are related (below 0.05)."),
        ((1.0, 1.0, -1.0), "All 3 outputs are strongly related (1.00 in size)."),
        ((0.9, 0.8, -0.95), "All 3 outputs are strongly related (0.80 to 0.95 in size)."),
        # two pairs as strong as can be: no output is named as the least related
        (
            (1.0, 0.0, 0.0, 0.0, 0.0, 1.0),
            (
                "'a' and 'b' are most strongly related (+1.00); "
                "4 of the 6 pairs are nearly unrelated (below 0.05)."
            ),
        ),
        (
            (0.8, 0.2, 0.1),
            (
                "'a' and 'b' are most strongly related (+0.80); "
                "'c' is least related to others (at most 0.20, with 'a')."
            ),
        ),
        (
            (-0.8, 0.02, 0.01),
            (
                "'a' and 'b' are most strongly related (-0.80); "
                "2 of the 3 pairs are nearly unrelated (below 0.05); "
                "'c' is nearly unrelated to all others."
            ),
        ),
    ],
)
def test_the_sentence_describes_the_strengths(pairs, expected) -> None:
    assert sentence(*pairs) == expected
