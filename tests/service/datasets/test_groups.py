"""Groups of rows: read in every layout, stored, and never split."""

from contextlib import suppress

import numpy as np
import pytest
from pydantic import ValidationError

from algorithms.interface.errors import AlgorithmError, InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.units import tie_rows
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.preparation.columns import Column
from service.datasets import canonical
from service.datasets.canonical import read_tasks, write_tasks
from service.datasets.manifest import summaries

NPZ = "application/x-npz"
X = np.arange(8.0).reshape(4, 2)
CSV = "task,a,b,person\nn,1,2,p1\nn,3,4,p1\nn,5,6,p2\ns,7,8,p2\n"


def test_a_column_of_a_table_has_the_groups(reader) -> None:
    result = reader.read(CSV.encode(), group_column="person")
    tasks = reader.tasks(result)
    assert tasks["n"].groups.tolist() == ["p1", "p1", "p2"]
    assert tasks["s"].groups.tolist() == ["p2"]
    assert tasks["n"].feature_names == ("a", "b")
    assert result["manifest"]["groups"] == ["p1", "p2"]


def test_tasks_of_a_multi_target_table_share_the_groups(reader) -> None:
    table = "x,a,b,person\n1,2,3,p\n4,5,6,q\n"
    tasks = reader.tasks(
        reader.read(table.encode(), target_column=["a", "b"], group_column="person")
    )
    assert [task.groups.tolist() for task in tasks] == [["p", "q"]] * 2


@pytest.mark.parametrize(
    ("table", "column", "detail"),
    [
        (CSV, "where", "there is no column 'where'"),
        (
            CSV.replace("p2\ns", "\ns"),
            "person",
            "line 4, task 'n', column 'person': the group is missing",
        ),
        (CSV, "task", "column 'task' is used 2 times"),
    ],
)
def test_an_invalid_group_column_is_reported(reader, table, column, detail) -> None:
    issues = reader.read(table.encode(), group_column=column)["issues"]
    assert detail in issues[0]["detail"]


@pytest.mark.parametrize("groups", [np.array([1, 1, 2, 9]), np.array(["a", "a", "b", "c"])])
def test_archives_may_have_groups_per_task_or_per_table(reader, groups) -> None:
    per_task = {"n/X": X, "n/groups": groups, "s/X": X[:2], "s/groups": groups[2:]}
    tasks = reader.tasks(reader.read_npz(per_task))
    assert tasks["n"].groups.tolist() == groups.tolist()
    assert tasks["s"].groups.tolist() == groups[2:].tolist()
    C = np.stack([np.eye(2)] * 4)
    covariances = reader.tasks(reader.read_npz({"n/C": C, "n/groups": groups}))
    assert covariances["n"].groups.tolist() == groups.tolist()
    table = {"X": X, "task": np.array(["n", "s", "n", "s"]), "groups": groups}
    tasks = reader.tasks(reader.read_npz(table))
    assert tasks["n"].groups.tolist() == groups[::2].tolist()


@pytest.mark.parametrize(
    ("groups", "detail"),
    [
        (np.arange(3), "groups of shape (3,)"),
        (np.array([1.0, np.nan, 2.0, 3.0]), "row 1: the group is nan"),
        (np.array(["a", " ", "b", "c"]), "a group is empty"),
    ],
)
def test_invalid_groups_in_an_archive_are_reported(reader, groups, detail) -> None:
    issues = reader.read_npz({"n/X": X, "n/groups": groups})["issues"]
    assert detail in issues[0]["detail"]


def test_equal_groups_match_across_tasks_and_types(tmp_path) -> None:
    tasks = [
        Task.from_rows("a", X, groups=[1, 1, 2, 3]),
        Task.from_rows("b", X + 9, groups=["1", "x", "x", "y"]),
        Task.from_rows("c", X - 9),
    ]
    manifest = write_tasks(tmp_path / "content", tasks)
    found = read_tasks(tmp_path / "content", manifest)
    assert found["a"].groups.tolist() == ["1", "1", "2", "3"]
    assert found["b"].groups.tolist() == ["1", "x", "x", "y"]
    assert found["c"].groups is None
    # of b, only the rows of x can be held out, as group 1 also has rows in a
    assert [task.n_divisible for task in summaries(manifest)] == [4, 4, 4]


def test_a_group_that_is_a_whole_task_cannot_be_held_out(tmp_path) -> None:
    tasks = [
        Task.from_rows("a", X, groups=["p"] * 4),
        Task.from_rows("b", X + 9, groups=list("pqrs")),
    ]
    manifest = write_tasks(tmp_path / "content", tasks)
    assert [task.n_divisible for task in summaries(manifest)] == [0, 3]


@pytest.mark.parametrize("is_shared", [False, True])
def test_manifests_count_the_units_of_training_where_a_category_is_the_only_column(
    tmp_path, is_shared
) -> None:
    """Each of 40 patients got a drug and a placebo, or both have 40 outcomes."""
    X = [np.array([[0.0], [1.0]]) for _ in range(40)]
    tasks = [Task.from_rows(f"p{i}", X[0] if is_shared else X[i]) for i in range(40)]
    treatment = Column("treatment", kind="category", levels=("drug", "placebo"))
    manifest = write_tasks(tmp_path / "content", tasks, columns=[treatment])
    tied = tie_rows(read_tasks(tmp_path / "content", manifest), "auto", is_category=True)
    n_units = len({group for task in tied for group in task.groups.tolist()})
    assert summaries(manifest)[0].n_shared_units == n_units == (2 if is_shared else 80)


LABELS = np.array(["p", "q"] * 3)


def alike(name, values, y=None) -> Task:
    """Return a task in which rows with the same value are equal."""
    X = np.array([[value, value**2] for value in values], dtype=float)
    return Task.from_rows(name, X, y=np.arange(float(len(values))) if y is None else y)


@pytest.mark.parametrize(
    ("tasks", "n_refused"),
    [
        ([alike("n", [5] * 6), alike("s", [5] * 6)], 9),
        ([alike("n", [5] * 6, LABELS)], 10),
        # each class of a task has equal rows, but the task has rows that differ
        ([alike("n", [5, 6] * 3, LABELS), alike("s", [5, 6] * 3, LABELS)], 6),
        # each set of equal rows is the whole of a task, but one task has two
        ([alike("a", [1] * 2), alike("b", [1, 1, 2, 2]), alike("c", [2] * 2)], 5),
        ([alike("n", range(6)), alike("s", [5] * 6)], 0),
    ],
)
def test_a_selection_that_can_hold_out_no_row_is_refused_before_the_fit(
    tmp_path, tasks, n_refused
) -> None:
    tasks = tie_rows(TaskSet(tuple(tasks)), "values").tasks
    known = summaries(write_tasks(tmp_path / "content", tasks))
    refused = {}
    for name, algorithm in ALGORITHMS.items():
        with suppress(ValidationError, AlgorithmError):
            params = algorithm.Params()
            algorithm.check(known, params)
            try:
                algorithm.check_selection(known, params)
            except InvalidData:
                refused[name] = params
    assert len(refused) == n_refused
    assert all(getattr(one, "selection", "cv") != "given" for one in refused.values())
    for name, params in refused.items():
        rng = np.random.default_rng(0)
        with pytest.raises(
            InvalidData, match=f"to select (parameters of {name}|among methods); add rows"
        ):
            ALGORITHMS[name].check_selection(known, params)
        with pytest.raises(InvalidData, match="no row can be held out"):
            ALGORITHMS[name].fit(TaskSet(tuple(tasks)), params, trace=Trace(), rng=rng)


def test_groups_beyond_the_limit_of_the_manifest_are_numbered(tmp_path) -> None:
    n = 10_001
    task = Task.from_rows("a", np.arange(float(n))[:, np.newaxis], groups=np.arange(n) // 2 * 2 + 7)
    manifest = write_tasks(tmp_path / "content", [task])
    assert len(manifest["groups"]) == 5001
    task = Task.from_rows("a", np.arange(float(n))[:, np.newaxis], groups=np.arange(n) + 7)
    manifest = write_tasks(tmp_path / "content", [task])
    assert "groups" not in manifest
    assert read_tasks(tmp_path / "content", manifest)["a"].groups.tolist() == list(range(n))


def test_very_many_rows_are_not_checked_for_equal_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(canonical, "_MAX_ROWS_COMPARED", 7)
    tasks = [Task.from_rows("a", X), Task.from_rows("b", X[::-1])]
    known = summaries(write_tasks(tmp_path / "content", tasks))
    assert [(task.n_divisible, task.n_units) for task in known] == [(None, None)] * 2
    assert known[0].rows_hash != known[1].rows_hash
