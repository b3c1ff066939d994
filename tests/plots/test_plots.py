"""Plots against the arrays that they show."""

import json
import subprocess
import sys
from pathlib import Path

import altair as alt
import numpy as np
import pytest
import vl_convert
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.linalg import subspace_angles
from scipy.spatial.distance import squareform
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from algorithms.interface.model import Embedding
from algorithms.interface.relations import relations_of
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from sibling.plots import (
    PLOTS,
    HeldOut,
    NoPlot,
    Source,
    UnknownPlot,
    available,
    held_out_rows,
    specification,
)

ROOT = Path(__file__).parents[2]


def make_tasks(*, labels=False, n_tasks=3):
    rng = np.random.default_rng(3)
    tasks = []
    for t in range(n_tasks):
        X = rng.standard_normal((24, 5))
        y = X @ [1.0, t, 0, 0, 0] + 0.1 * rng.standard_normal(24)
        tasks.append(
            Task.from_rows(f"t{t}", X, y=np.digitize(y, [-1, 1]).astype(str) if labels else y)
        )
    return TaskSet(tuple(tasks))


def fit(name, tasks, **values):
    algorithm, trace = ALGORITHMS[name], Trace()
    rng = np.random.default_rng(0)
    model = algorithm.fit(tasks, algorithm.parse(values), trace=trace, rng=rng)
    fields = ("loop", "iteration", "objective", "residual")
    return Source(model, {f: [getattr(step, f) for step in trace.history] for f in fields})


def draw(name, source, **options):
    """Return a specification that the schema of Vega-Lite allows."""
    spec = specification(name, source, **options)
    copy = json.loads(json.dumps(spec, allow_nan=False))
    # the check of thousands of rows takes seconds
    copy["datasets"] = {table: rows[:20] for table, rows in copy["datasets"].items()}
    alt.TopLevelSpec.validate(copy)
    return spec


@pytest.fixture(scope="module")
def mtfl():
    return fit("mtfl", make_tasks(), gamma=0.1, selection="given")


@pytest.mark.parametrize(
    ("name", "labels", "values", "expected"),
    [
        ("mtfl", False, {}, {"relations", "spectrum", "objective"}),
        ("fmtl", False, {}, {"relations", "objective"}),
        ("mtda", True, {"d": 2}, {"scatter", "objective"}),
        ("tlvm", True, {"L": 2}, {"scatter", "objective"}),
        ("rmt-pca", False, {"k": 2}, {"relations", "spectrum", "angles", "objective"}),
        ("common-pca", False, {"k": 2}, {"spectrum", "objective"}),
        ("constant", False, {}, set()),
    ],
)
def test_a_model_has_the_plots_of_what_it_learned(name, labels, values, expected):
    source = fit(name, make_tasks(labels=labels), **values)
    if name == "constant":
        source = Source(source.model)
    found = available(source)
    assert set(found) == expected
    for plot in found:
        for theme in ("light", "dark"):
            spec = draw(plot, source, theme=theme)
            assert spec["title"]["text"] == PLOTS[plot].title
            assert spec["description"].startswith(found[plot].sentence)


def test_cells_are_the_strengths_in_the_order_of_the_clusters(mtfl):
    found = mtfl.model.relations()
    spec = draw("relations", mtfl)
    cells = {(c["row"], c["column"]): c["strength"] for c in spec["datasets"]["cells"]}
    assert len(cells) == 9
    for i, a in enumerate(found.names):
        for j, b in enumerate(found.names):
            assert cells[a, b] == pytest.approx(found.strength[i, j])
    axis = spec["vconcat"][1]["encoding"]["x"]["sort"]
    assert axis == [found.names[i] for i in found.order]


def heights(spec):
    """Return the height of the lowest common branch of each two leaves, from the drawn lines."""
    merges = {}
    for corner in spec["datasets"]["branches"]:
        merges.setdefault(corner["merge"], []).append((corner["position"], corner["distance"]))
    n = len(merges) + 1
    under = {(i + 0.5, 0.0): [i] for i in range(n)}
    matrix = np.zeros((n, n))
    for merge in sorted(merges):
        start, up, down, end = merges[merge]
        a, b = under.pop(start), under.pop(end)
        matrix[np.ix_(a, b)] = up[1]
        matrix[np.ix_(b, a)] = up[1]
        under[(start[0] + end[0]) / 2, down[1]] = a + b
    return matrix


@pytest.mark.parametrize("T", [12, 60])
def test_the_dendrogram_is_that_of_scipy(T):
    factor = np.random.default_rng(0).standard_normal((T, 4))
    found = relations_of(factor @ factor.T, [f"t{i}" for i in range(T)])
    spec = draw("relations", Source(Related(found)))
    distance = 1 - np.abs(found.strength)
    np.fill_diagonal(distance, 0)
    expected = squareform(cophenet(linkage(squareform(distance, checks=False), "average")))
    order = list(found.order)
    np.testing.assert_allclose(heights(spec), expected[np.ix_(order, order)], atol=1e-12)


class Related:
    """A model that has relations only."""

    def __init__(self, found):
        self.found = found
        self.tasks = found.names

    def relations(self):
        return self.found

    def learned(self):
        return {}

    def embedding(self, _):
        return None


def test_many_outputs_are_means_of_clusters_and_the_plot_says_so():
    G = np.kron(np.eye(2), np.ones((300, 300))) + 1e-3 * np.eye(600)
    spec = draw("relations", Source(Related(relations_of(G, [f"task {i}" for i in range(600)]))))
    cells = [cell["strength"] for cell in spec["datasets"]["cells"]]
    assert len(cells) == 60 * 60
    assert sum(value > 0.9 for value in cells) + sum(abs(value) < 1e-9 for value in cells) == 3600
    assert "600 outputs are cut into 60 clusters" in spec["description"]
    assert len(spec["datasets"]["branches"]) == 4 * 59
    assert np.triu(heights(spec), 1).max() == pytest.approx(1.0)  # the two groups join last


def test_unrelated_outputs_are_drawn():
    spec = draw("relations", Source(Related(relations_of(np.eye(4), list("abcd")))))
    assert len(spec["datasets"]["cells"]) == 16


def test_names_that_are_not_plain_are_values_of_the_data():
    names = ["<script>", 'a"b', "c.d[0]", "a\ufffe", "b\x01"]
    spec = draw("relations", Source(Related(relations_of(np.eye(5), names))))
    assert {cell["row"] for cell in spec["datasets"]["cells"]} == set(names)


def test_the_spectrum_has_the_weights_of_the_features(mtfl):
    rows = draw("spectrum", mtfl)["datasets"]["spectrum"]
    np.testing.assert_allclose([row["share"] for row in rows], mtfl.model.spectrum)


def test_the_spectrum_of_subspaces_is_the_share_of_the_variance():
    source = fit("rmt-pca", make_tasks(), k=2)
    rows = draw("spectrum", source)["datasets"]["spectrum"]
    model = source.model
    for row in rows:
        t = model.tasks.index(row["task"])
        share = model.spectrum[t, row["component"] - 1] / model.total_variance[t]
        assert row["share"] == pytest.approx(share)
    assert len(rows) == 6


def test_angles_are_those_of_scipy():
    source = fit("rmt-pca", make_tasks(), k=2)
    model = source.model
    cells = draw("angles", source)["datasets"]["cells"]
    for cell in cells:
        a, b = (model.basis_of(cell[side]) for side in ("row", "column"))
        expected = np.degrees(subspace_angles(a, b))
        assert cell["largest"] == pytest.approx(expected.max(), abs=1e-5)
        assert cell["smallest"] == pytest.approx(expected.min(), abs=1e-5)
    assert len(cells) == 9


def test_points_are_the_projected_rows_with_their_classes():
    tasks = make_tasks(labels=True)
    source = fit("mtda", tasks, d=2)
    points = draw("scatter", source)["datasets"]["points"]
    for task in tasks:
        own = [point for point in points if point["task"] == task.name]
        Z = source.model.transform(task.X, task=task.name)
        np.testing.assert_allclose([[p["first"], p["second"]] for p in own], Z, atol=1e-12)
        assert [p["class"] for p in own] == task.y.tolist()


def test_latents_are_drawn_with_their_labels():
    source = fit("tlvm", make_tasks(labels=True), L=2)
    points = draw("scatter", source)["datasets"]["points"]
    first = source.model.tasks[0]
    own = np.array([[p["first"], p["second"]] for p in points if p["task"] == first])
    np.testing.assert_array_equal(own, source.model.part_of(first).references.X)


class Stranger(Related):
    """A model of an algorithm that the plots have never heard of."""

    def learned(self):
        return {"components": np.stack([np.eye(3)[:1], np.eye(3)[1:2]]), "feature_weights": [1, 0]}

    def embedding(self, task):
        return Embedding(np.array([[1.0], [2.0]]), (task, "other"), "training rows")


def test_an_unknown_model_has_the_plots_of_what_it_learned():
    source = Source(Stranger(relations_of(np.eye(2), ["a", "b"])))
    assert list(available(source)) == ["relations", "scatter", "spectrum", "angles"]
    cells = draw("angles", source)["datasets"]["cells"]
    assert [cell["largest"] for cell in cells] == pytest.approx([0, 90, 90, 0])
    assert "between two tasks is 90°:" in draw("angles", source)["description"]
    assert draw("spectrum", source)["description"].startswith("1 of 2 features has 90 %")
    points = draw("scatter", source)["datasets"]["points"]
    assert [(point["task"], point["first"], point["class"]) for point in points] == [
        ("a", 1.0, "a"),
        ("a", 2.0, "other"),
        ("b", 1.0, "b"),
        ("b", 2.0, "other"),
    ]


def test_the_objective_is_that_of_the_steps(mtfl):
    rows = draw("objective", mtfl)["datasets"]["steps"]
    last = mtfl.steps["loop"][-1]
    own = [
        o
        for loop, o in zip(mtfl.steps["loop"], mtfl.steps["objective"], strict=True)
        if loop == last
    ]
    assert [row["objective"] for row in rows if row["loop"] == last] == own


def test_a_long_fit_is_thinned_and_the_plot_says_so():
    n = 2000
    steps = {
        "loop": ["fit"] * n,
        "iteration": list(range(n)),
        "objective": [float("nan"), *np.linspace(1, 0, n - 1)],
        "residual": [float("inf"), *np.geomspace(1, 1e-9, n - 2), 0.0],
    }
    spec = draw("objective", Source(steps=steps))
    rows = spec["datasets"]["steps"]
    assert len(rows) == 500
    assert (rows[0]["objective"], rows[0]["residual"], rows[-1]["residual"]) == (None, None, None)
    assert rows[-1]["iteration"] == n - 1
    assert "500 of 2,000 steps are shown" in spec["description"]


def test_the_projection_of_rows_is_no_part_of_the_training():
    source = fit("tlvm", make_tasks(labels=True), L=2)
    spec = draw("objective", source)
    loops = {row["loop"]: row["panel"] for row in spec["datasets"]["steps"]}
    assert loops
    assert not any(loop.startswith("project") for loop in loops)
    assert len(set(loops.values())) == len(loops)  # each objective has a panel of its own
    assert len([panel for panel in spec["vconcat"] if "title" in panel]) == len(loops)
    assert "(source)" in spec["description"]
    assert "project" not in spec["description"]


def test_one_iteration_is_singular():
    steps = {"loop": ["fit"] * 2, "iteration": [0, 1], "objective": [2, 1], "residual": [1, 0]}
    assert "from 2 to 1 in 1 iteration." in draw("objective", Source(steps=steps))["description"]


def test_loops_that_differ_in_a_number_share_a_panel_but_tasks_do_not():
    loops = ["start 1", "start 2", "task 'b 1'", "task 'b 2'", "fold 1, gamma 0.1"]
    n = len(loops)
    steps = {"loop": loops, "iteration": [1] * n, "objective": [1.0] * n, "residual": [1.0] * n}
    rows = draw("objective", Source(steps=steps))["datasets"]["steps"]
    assert [row["panel"] for row in rows] == [0, 0, 1, 2, 3]


def test_loops_of_a_search_have_the_value_of_gamma():
    loops = set(fit("mtfl", make_tasks(), selection="cv").steps["loop"])
    gammas = [float(loop.rsplit(" ", 1)[1]) for loop in loops if loop.startswith("fold 1, gamma ")]
    assert 0 < min(gammas) < 1  # a running number would begin at 1


def gain(baseline, mean, role="single_task"):
    ends = {"low": mean - 1, "high": mean + 2}
    return {"baseline": baseline, "role": role, "variant": "", "gain": mean, **ends}


def test_gains_are_those_over_the_best_single_task_baseline():
    comparison = {
        "title": "RMSE",
        "metric": "rmse",
        "unit": "mass",
        "methods": [{"algorithm": "mtfl"}],
        "overall": [gain("constant", 5.0), gain("ridge", 1.0), gain("lasso", 0.5, "multi_task")],
        "by_task": {
            "a": [gain("constant", 9.0), gain("ridge", -0.5)],
            "b": [gain("constant", 9.0), gain("ridge", 3.0)],
            "c": [gain("constant", 9.0), gain("ridge", 2.0) | {"gain": None, "low": None}],
        },
    }
    spec = draw("gains", Source(report={"comparison": comparison}))
    assert spec["datasets"]["gains"] == [
        {"task": "b", "gain": 3.0, "low": 2.0, "high": 5.0, "side": "better"},
        {"task": "a", "gain": -0.5, "low": -1.5, "high": 1.5, "side": "worse"},
    ]
    assert "better than ridge (each task alone) on 1 of 2 tasks" in spec["description"]
    assert "RMSE of mass: gain over learning alone" in json.dumps(spec)


def test_a_search_is_drawn_by_the_parameters_that_differ():
    candidates = [
        {"params": {"gamma": g, "kernel": k, "fixed": 1}, "mean": {"rmse": g + len(k)}}
        for g in (0.01, 1.0, 100.0)
        for k in ("linear", "gaussian")
    ]
    search = {"metric": "rmse", "larger_is_better": False, "best": 0, "candidates": candidates}
    spec = draw("search", Source(report={"search": search}))
    gammas, kernels = spec["datasets"]["parameter 0"], spec["datasets"]["parameter 1"]
    assert [row["value"] for row in gammas] == [0.01, 1.0, 1.0, 100.0, 100.0, 0.01]
    scores = [candidate["mean"]["rmse"] for candidate in candidates]
    assert [row["score"] for row in kernels] == [*scores[1:], scores[0]]
    assert [row["kind"] for row in kernels] == ["other"] * 5 + ["best"]  # above the others
    assert spec["concat"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert "fixed" not in [panel["encoding"]["x"]["title"] for panel in spec["concat"]]


def test_a_search_is_drawn_in_parallel_coordinates():
    candidates = [
        {"params": {"gamma": g, "kernel": k, "fixed": 1}, "mean": {"mean_rmse": score}}
        for g, k, score in [(0.01, "linear", 1.0), (1.0, "gaussian", 2.0), (100.0, "linear", 5.0)]
    ]
    candidates.append({"params": candidates[0]["params"] | {"gamma": 7.0}, "mean": {}})  # failed
    search = {"metric": "mean_rmse", "larger_is_better": False, "best": 0, "candidates": candidates}
    data = draw("parallel", Source(report={"search": search}))["datasets"]
    lines = {}
    for row in (*data["others"], *data["best"]):
        lines.setdefault(row["candidate"], {})[row["axis"]] = row["position"]
    assert [list(line.values()) for line in lines.values()] == [
        pytest.approx([0.5, 0.0, 0.25]),  # a log scale, the order of names, and the score
        pytest.approx([1.0, 1.0, 1.0]),
        pytest.approx([0.0, 1.0, 0.0]),
    ]
    assert {row["candidate"] for row in data["best"]} == {2}
    labels = [row["label"] for row in data["labels"] if row["axis"] == "kernel"]
    assert labels == ["gaussian", "linear"]
    one = [{"params": {"gamma": g}, "mean": {"mean_rmse": g}} for g in (1.0, 2.0)]
    with pytest.raises(NoPlot):
        draw("parallel", Source(report={"search": search | {"candidates": one}}))


def test_a_plot_without_title_has_its_texts_in_the_description():
    source = fit("mtfl", make_tasks(), selection="given")
    bare, full = (draw("objective", source, has_title=flag) for flag in (False, True))
    assert "title" not in bare
    assert full["title"]["text"] == PLOTS["objective"].title
    assert bare["description"] == full["description"]
    rows = HeldOut(np.repeat("a", 5000), *np.random.default_rng(0).normal(size=(2, 5000)))
    drawn = draw("residuals", Source(rows=rows), has_title=False)
    assert "title" not in drawn
    assert "2,000 of 5,000 rows" in drawn["description"]


def test_equal_relations_of_all_pairs_are_not_drawn():
    equal = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    assert "relations" not in available(Source(Related(relations_of(equal, list("abcd")))))
    equal[0, 1] = equal[1, 0] = 0.4
    assert "relations" in available(Source(Related(relations_of(equal, list("abcd")))))


def test_gains_of_an_automatic_choice_have_their_level():
    known = {"verdict": "unclear", "gain": 0.5, "low": -0.1, "high": 1.0}
    unknown = {"verdict": "none", "gain": None, "low": None, "high": None}
    choice = {"title": "RMSE", "metric": "rmse", "unit": "days", "task_confidence": 0.9}
    choice |= {"together_or_apart": {"verdict": "helps"}, "tasks": {"a": known, "b": unknown}}
    spec = draw("gains", Source(report={"choice": choice}))
    assert [row["task"] for row in spec["datasets"]["gains"]] == ["a"]
    assert "Gains are drawn to their mean. Lines are 90 %" in spec["description"]
    choice["together_or_apart"] = {"verdict": "none"}
    assert "gains" not in available(Source(report={"choice": choice}))


def test_a_roc_curve_says_which_tasks_it_shows_and_which_have_none():
    rng = np.random.default_rng(0)
    names = [f"t{i}" for i in range(9)]
    true = np.tile(np.repeat(["no", "yes"], 10), 9)
    true[:20] = "no"
    # the later the task, the better the scores
    scores = {
        name: (rng.normal(size=20) + i * np.repeat([0, 1], 10), ("no", "yes"))
        for i, name in enumerate(names)
    }
    rows = HeldOut(np.repeat(names, 20), true, true, scores)
    spec = draw("roc", Source(rows=rows))
    shown = {row["task"] for row in spec["datasets"]["curves"]}
    areas = {name: roc_auc_score(true[-20:] == "yes", scores[name][0]) for name in names[1:]}
    assert len(shown) == 6
    assert {min(areas, key=areas.get), max(areas, key=areas.get)} <= shown
    assert "6 of 8 tasks are shown" in spec["description"]
    assert "1 task has no curve" in spec["description"]


def test_a_narrow_plot_has_panels_below_each_other_and_legends_below():
    source = fit("mtfl", make_tasks(), selection="given")
    spec = draw("objective", source, width=220)

    def widths(part):
        if isinstance(part, dict):
            own = [part["width"]] if isinstance(part.get("width"), int | float) else []
            return own + [width for value in part.values() for width in widths(value)]
        return [width for one in part for width in widths(one)] if isinstance(part, list) else []

    assert max(widths({k: v for k, v in spec.items() if k not in ("config", "datasets")})) <= 220
    assert spec["config"]["legend"]["orient"] == "bottom"


@pytest.mark.parametrize(
    ("width", "shown"), [(None, "A hospital of t…northern town 10"), (220, "A hospit…n town 10")]
)
def test_long_names_at_axes_keep_their_ends(width, shown):
    names = [f"A hospital of the northern town {i}" for i in range(9, 11)]
    gain = {"gain": 1.0, "low": 0.0, "high": 2.0, "verdict": "helps"}
    scores = {"metric": "rmse", "title": "RMSE", "unit": None, "average": "tasks"}
    choice = scores | {
        "together_or_apart": {"verdict": "helps"},
        "tasks": dict.fromkeys(names, gain),
    }
    source = Source(report={"choice": choice})
    image = vl_convert.vegalite_to_svg(draw("gains", source, width=width))
    assert f">{shown}<" in image


def test_importance_is_not_drawn_if_no_column_has_any():
    found = {"shared": [0.0, 0.0]}
    assert available(Source(importance=found)) == {}


def test_scores_are_those_of_the_evaluation():
    by_task = {"explained_variance": {"a": 0.5, "b": None}, "rmse": {"a": 1.0, "b": 2.0}}
    evaluation = {
        "by_task": by_task,
        "mean": {"explained_variance": 0.5, "rmse": 1.5},
        "n_splits": 3,
    }
    rows = draw("scores", Source(report={"evaluation": evaluation}))["datasets"]["scores"]
    assert {(r["metric"], r["task"]): r["score"] for r in rows} == {
        (metric, task): value for metric, of in by_task.items() for task, value in of.items()
    }


def test_predictions_and_residuals_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    true, predicted = rng.normal(size=(2, 5000))
    rows = HeldOut(np.repeat(["a", "b"], 2500), true, predicted)
    spec = draw("predictions", Source(rows=rows))
    assert "2,000 of 5,000 rows" in spec["description"]
    assert f"{np.sqrt(np.mean((true - predicted) ** 2)):.4g}" in spec["description"]
    spec = draw("residuals", Source(rows=rows))
    assert f"is {np.mean(true - predicted):.2f}. A trend" in spec["description"]
    points = spec["datasets"]["points"]
    assert points[-1]["residual"] == true[-1] - predicted[-1]
    assert len(points) == 2000
    assert set(available(Source(rows=rows))) == {"predictions", "residuals"}


@pytest.mark.parametrize(
    ("true", "predicted", "mean"),
    [
        pytest.param([0.001], [0.005], "-0.00400", id="one-row"),
        pytest.param([0.1, 0.2], [0.3, 0.4], "-0.200", id="equal"),
        pytest.param([1.0], [1.0], "0.00", id="zero"),
        pytest.param([1234.0, 1235.0], [0.0, 0.0], "1234.500", id="far-from-zero"),
    ],
)
def test_the_mean_residual_has_the_digits_that_its_deviation_or_else_its_size_allows(
    true, predicted, mean
):
    rows = HeldOut(np.array(["a"] * len(true)), np.array(true), np.array(predicted))
    assert f"The mean residual is {mean}. " in available(Source(rows=rows))["residuals"].sentence


def test_the_confusion_matrix_and_roc_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    true = rng.choice(["no", "yes"], 400)
    scores = np.round((true == "yes") + rng.normal(size=400), 1)  # with ties
    predicted = np.where(scores > 0.5, "yes", "no")
    rows = HeldOut(np.repeat("a", 400), true, predicted, {"a": (scores, ("no", "yes"))})
    cells = draw("confusion", Source(rows=rows))["datasets"]["cells"]
    found = [
        [
            next(c["rows"] for c in cells if (c["true"], c["predicted"]) == (a, b))
            for b in ("no", "yes")
        ]
        for a in ("no", "yes")
    ]
    np.testing.assert_array_equal(found, confusion_matrix(true, predicted))
    spec = draw("roc", Source(rows=rows))
    curve = spec["datasets"]["curves"]
    false, right, _ = roc_curve(true == "yes", scores, drop_intermediate=False)
    np.testing.assert_allclose([p["false"] for p in curve], false)
    np.testing.assert_allclose([p["true"] for p in curve], right)
    assert f"a {roc_auc_score(true == 'yes', scores):.3f}" in spec["description"]


def test_stored_predictions_are_rows_of_plots_and_the_sample_is_told():
    own = {"rows": [0, 2, 4], "true": [1.0, 2.0, 3.0], "predicted": [1.0, 2.5, 3.0]}
    stored = {"n_rows": 90, "tasks": {"a": own | {"scores": [None] * 3}}}
    source = Source(rows=held_out_rows({"predictions": stored}))
    spec = draw("predictions", source)
    assert "of 3 held-out rows is 0.2887. 3 of 90 held-out rows are shown" in spec["description"]
    assert [point["residual"] for point in spec["datasets"]["points"]] == [0, -0.5, 0]
    # labels that are integers, and a task whose models have no score
    labels = {"rows": [0, 1], "true": [3, 7], "predicted": [3, 3], "scores": [-1.0, -0.5]}
    tasks = {"a": labels, "b": labels | {"scores": [None, None]}}
    source = Source(rows=held_out_rows({"predictions": {"n_rows": 4, "tasks": tasks}}))
    assert set(available(source)) == {"confusion", "roc"}
    assert draw("roc", source)["description"].endswith("rows of both and their scores.")
    assert draw("confusion", source)["description"].startswith("2 of 4 held-out rows")
    assert held_out_rows({"predictions": None}) is None


def test_reliability_is_that_of_the_calibration():
    point = {"n": 10, "probability": 0.25, "share": 0.3, "low": 0.1, "high": 0.6}
    parts = {
        name: {"calibration_error": error, "reliability": [point | {"n": n}]}
        for name, error, n in (("before", 0.2, 7), ("after", 0.05, 9))
    }
    spec = draw("reliability", Source(report={"calibration": parts}))
    shown = spec["datasets"]["points"]
    assert [(row["kind"], row["rows"]) for row in shown] == [
        ("calibrated", 9),
        ("before calibration", 7),
    ]
    assert "is 0.05, and was 0.2 before calibration" in spec["description"]
    numbers = {"before": None, "after": None}
    assert not available(Source(report={"calibration": numbers}))


def test_a_plot_that_is_not_there_names_those_that_are(mtfl):
    with pytest.raises(NoPlot, match=r"no plot 'gains'.*relations, spectrum, objective"):
        specification("gains", mtfl)
    with pytest.raises(UnknownPlot, match="did you mean 'relations'"):
        specification("relation", mtfl)


@pytest.mark.slow
def test_altair_is_imported_when_something_is_drawn():
    code = (
        "import sys, sibling, sibling.plots, sibling.client; from sibling import MTFL\n"
        "print({'altair', 'vl_convert'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert done.stdout == b"set()\n"


def test_without_altair_there_is_a_sentence(monkeypatch, mtfl):
    from sibling.charts import MissingPackage

    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingPackage, match=r"pip install 'sibling\[plots\]'"):
        specification("relations", mtfl)


def test_a_learning_curve_shows_the_points_and_fits_of_a_report():
    points = [
        {"share": n / 20, "rows": n, "together": 1 + 1 / n, "apart": 1 + 4 / n} for n in (5, 10, 20)
    ]
    curve = {
        "reason": None,
        "points": points,
        "together": {"limit": 1.0, "factor": 1.0, "exponent": 1.0},
        "apart": {"limit": 1.0, "factor": 4.0, "exponent": 1.0},
        "max_rows": 200.0,
        "stops_at": 30.0,
        "low": 20.0,
        "high": 50.0,
        "rows_needed": None,
        "tasks_factor": None,
    }
    choice = {"curve": curve, "tasks": {"a": {}}, "title": "RMSE", "larger_is_better": False}
    choice |= {"metric": "rmse", "average": "rows"}
    spec = draw("learning-curve", Source(report={"choice": choice}))
    shown = {(p["rows"], p["side"]): p["value"] for p in spec["datasets"]["points"]}
    assert shown[10, "each task alone"] == pytest.approx(1.4)
    for line in spec["datasets"]["lines"]:
        factor = 4 if line["side"] == "each task alone" else 1
        assert line["value"] == pytest.approx(1 + factor / line["rows"])
    assert spec["datasets"]["stop"] == [{"rows": 30.0}]
    assert "From about 30 rows per task on, learning" in spec["description"]
    far = {"curve": {**curve, "stops_at": None, "high": None}}
    assert draw("learning-curve", Source(report={"choice": choice | far}))["datasets"]["stop"] == []
    none = {"curve": {"reason": "too few rows", "points": []}}
    assert "learning-curve" not in available(Source(report={"choice": choice | none}))


def test_axes_legends_and_tooltips_have_the_name_of_the_column_of_tasks():
    X = {name: np.random.default_rng(i).normal(size=(9, 3)) for i, name in enumerate("ab")}
    tasks = TaskSet(tuple(Task.from_rows(name, rows) for name, rows in X.items()))
    pca = ALGORITHMS["pca"]
    model = pca.fit(tasks, pca.parse({"k": 2}), trace=Trace(), rng=np.random.default_rng(0))
    encoding = specification("spectrum", Source(model.with_task_column("ward")))["encoding"]
    assert encoding["color"]["title"] == encoding["tooltip"][0]["title"] == "Ward"
    assert encoding["y"]["title"] == "Share of the variance of the ward"
    odd = specification("spectrum", Source(model.with_task_column(r"C:\data\1")))["encoding"]
    assert odd["y"]["title"] == r"Share of the variance of the C:\data\1"
    unnamed = specification("spectrum", Source(model))["encoding"]
    assert (unnamed["color"]["title"], unnamed["y"]["title"][-4:]) == ("Task", "task")
