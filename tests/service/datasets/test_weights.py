"""Weights of rows: read in every layout, stored, kept, and shown."""

import numpy as np
import pytest

from algorithms.interface.tasks import Task, TaskSet
from service.datasets.canonical import read_all_rows, read_tasks, write_tasks
from service.datasets.formats.options import Limits
from service.datasets.ingestion.combination import combine as combine_parts
from service.datasets.ingestion.selected import SelectedDataset
from service.datasets.issues import Rejected
from service.datasets.manifest import summaries
from service.datasets.selection import Selection

X = np.arange(8.0).reshape(4, 2)
CSV = "task,a,b,count\nn,1,2,3\nn,3,4,0\nn,5,6,1.5\ns,7,8,2\n"


def test_a_column_of_a_table_has_the_weights(reader) -> None:
    result = reader.read(CSV.encode(), weight_column="count")
    tasks = reader.tasks(result)
    assert tasks["n"].weights.tolist() == [3, 0, 1.5]
    assert tasks["s"].weights.tolist() == [2]
    assert tasks["n"].feature_names == ("a", "b")
    assert [task["has_weights"] for task in result["manifest"]["tasks"]] == [True, True]
    assert all(task.has_weights for task in summaries(result["manifest"]))
    assert result["manifest"]["ignored"] == ["count"]


def test_tasks_of_a_multi_target_table_share_the_weights(reader) -> None:
    table = "x,a,b,w\n1,2,3,5\n4,5,6,6\n"
    tasks = reader.tasks(reader.read(table.encode(), target_column=["a", "b"], weight_column="w"))
    assert [task.weights.tolist() for task in tasks] == [[5, 6]] * 2


def test_rows_without_a_target_keep_their_weights(reader) -> None:
    table = "x,y,w\n1,2,5\n4,,6\n7,8,9\n"
    result = reader.read(table.encode(), target_column="y", weight_column="w")
    assert [task.weights.tolist() for task in reader.tasks(result)] == [[5, 9]]
    everything = read_all_rows(reader.folder / "content", result["manifest"])
    assert everything.tasks[0].weights.tolist() == [5, 9, 6]


@pytest.mark.parametrize(
    ("table", "column", "detail"),
    [
        (CSV, "where", "there is no column 'where'"),
        (CSV.replace("1.5", ""), "count", "row 2, column 'count': the weight is missing"),
        (CSV.replace("1.5", "-1"), "count", "row 2, column 'count': the weight is -1, expected"),
        (CSV.replace("1.5", "much"), "count", "column 'count'"),
        (CSV.replace("s,7,8,2", "s,7,8,0"), "count", None),
        (CSV, "task", "column 'task' is used 2 times"),
    ],
)
def test_an_invalid_weight_column_is_reported(reader, table, column, detail) -> None:
    result = reader.read(table.encode(), weight_column=column)
    if detail is None:  # without targets, no row of the task needs to count
        assert reader.tasks(result)["s"].weights.tolist() == [0]
        return
    assert detail in result["issues"][0]["detail"].replace("line 4, task 'n'", "row 2")


def test_a_task_of_which_no_row_counts_is_reported(reader) -> None:
    arrays = {"n/X": X, "n/y": np.arange(4.0), "n/sample_weight": np.zeros(4)}
    (issue,) = reader.read_npz(arrays)["issues"]
    assert "the weights of task 'n' are all zero" in issue["detail"]
    arrays["n/sample_weight"] = np.array([1.0, 1.0, np.nan, 1.0])
    (issue,) = reader.read_npz(arrays)["issues"]
    assert "task 'n', row 2: the weight is nan" in issue["detail"]
    arrays["n/sample_weight"] = np.ones(3)
    (issue,) = reader.read_npz(arrays)["issues"]
    assert "'n/sample_weight' needs shape (4,), one entry per row of X, got (3,)" in issue["detail"]


def test_archives_may_have_weights_per_task_or_per_table(reader) -> None:
    w = np.array([1, 2, 0, 9])
    y = np.array([1.0, np.nan, 3.0, 4.0])
    per_task = {"n/X": X, "n/y": y, "n/sample_weight": w, "s/X": X, "s/y": y}
    tasks = reader.tasks(reader.read_npz(per_task))
    assert tasks["n"].weights.tolist() == [1, 0, 9]
    assert tasks["s"].weights is None
    table = {"X": X, "task": np.array(["n", "s", "n", "s"]), "sample_weight": w}
    tasks = reader.tasks(reader.read_npz(table))
    assert tasks["n"].weights.tolist() == [1, 0]


def test_stored_weights_are_read_as_they_were(tmp_path) -> None:
    tasks = TaskSet((Task.from_rows("a", X, y=X[:, 0], weights=[1, 2, 3, 4.5]),))
    manifest = write_tasks(tmp_path / "d", tasks.tasks)
    (read,) = read_tasks(tmp_path / "d", manifest)
    assert read.weights.tolist() == [1, 2, 3, 4.5]


def test_selections_and_combinations_keep_the_weights() -> None:
    limits = Limits(
        decompressed_bytes=2**20, decompression_ratio=10, tasks=9, features=9, name_length=99
    )

    def part(weights, **selection) -> SelectedDataset:
        task = Task.from_rows("a", X, y=X[:, 0], weights=weights)
        chosen = Selection(dataset_id="dat_1", **selection)
        return SelectedDataset(TaskSet((task,)), chosen)

    whole = combine_parts([part([1, 2, 3, 4])], limits)
    assert whole.tasks[0].weights.tolist() == [1, 2, 3, 4]
    rows = {"start": 1, "stop": 3}
    joined = combine_parts([part([1, 2, 3, 4], rows=rows), part([5, 6, 7, 8])], limits)
    assert joined.tasks[0].weights.tolist() == [2, 3, 5, 6, 7, 8]
    with pytest.raises(Rejected, match="weights in only one of the datasets"):
        combine_parts([part(None), part([5, 6, 7, 8])], limits)
    with pytest.raises(Rejected, match="of the selected rows of task 'a' are all zero"):
        combine_parts([part([1, 0, 0, 4], rows=rows)], limits)
