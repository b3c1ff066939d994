"""Numeric targets that look like class codes cause a warning; others do not."""

import numpy as np
import pytest

from algorithms.interface.task_values import MAX_CODES
from algorithms.interface.tasks import Task
from service.datasets.formats.target_kinds import warn_of_codes

RNG = np.random.default_rng(0)


def tasks(*targets):
    return [
        Task.from_rows(f"t{i}", np.arange(len(y), dtype=float)[:, None], y=y)
        for i, y in enumerate(targets)
    ]


@pytest.mark.parametrize(
    ("targets", "listed"),
    [
        ([np.tile([0.0, 1.0], 4), np.tile([1.0, 0.0], 4)], "2 distinct values (0, 1)"),
        ([np.tile([-1.0, 1.0], 4)], "2 distinct values (-1, 1)"),
        ([np.tile([-0.0, 0.0, 1.0], 4)], "2 distinct values (0, 1)"),
        # one value in each task, two in all
        ([np.zeros(4), np.ones(4)], "2 distinct values (0, 1)"),
        ([np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 2)], "5 distinct values (1, 2, 3, 4, 5)"),
        ([np.tile(np.arange(10.0), 2)], f"{MAX_CODES} distinct values (0, 1, 2, 3"),
        ([np.tile([101.0, 2e6], 3)], "2 distinct values (101, 2000000)"),
    ],
)
def test_repeated_small_integers_cause_a_warning(targets, listed):
    (warning,) = warn_of_codes(tasks(*targets))
    assert listed in warning
    assert "upload with target_kind=classes" in warning


@pytest.mark.parametrize(
    "targets",
    [
        [RNG.integers(1, 71, 200).astype(float), RNG.integers(1, 71, 30).astype(float)],
        [np.tile(np.arange(11.0), 20)],  # ratings from 0 to 10
        [np.tile([0.0, 0.5, 1.0], 9)],  # not integers
        [np.tile([0.0, 1.0], 9), np.linspace(0, 1, 9)],  # of all tasks together
        [np.tile([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 4), np.tile([6.0, 7.0, 8.0, 9.0, 10.0], 4)],
        [np.arange(5.0)],  # codes would repeat
        [np.full(20, 3.0)],  # only one class
    ],
)
def test_other_numbers_cause_no_warning(targets):
    assert warn_of_codes(tasks(*targets)) == []


def test_classes_and_tasks_without_targets_cause_no_warning():
    bare = Task.from_rows("bare", np.ones((4, 1)))
    assert warn_of_codes([bare, *tasks(np.array(["0", "1"] * 4))]) == []
    assert warn_of_codes(tasks(np.array([0, 1] * 4))) == []  # integers are labels to algorithms


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
def test_dtypes_do_not_matter_and_an_explicit_kind_causes_no_warning(reader, dtype):
    arrays = {"a/X": np.arange(8.0).reshape(8, 1), "a/y": np.tile([0, 1], 4).astype(dtype)}
    assert len(reader.read_npz(arrays)["manifest"]["warnings"]) == 1
    for kind in ("numbers", "classes"):
        assert reader.read_npz(arrays, target_kind=kind)["manifest"]["warnings"] == []


def test_a_column_of_a_table_is_checked_like_an_array(reader):
    body = b"task,x,y\n" + b"".join(b"a,%d,%d\n" % (i, i % 3) for i in range(9))
    (warning,) = reader.read(body, target_column="y")["manifest"]["warnings"]
    assert "3 distinct values (0, 1, 2)" in warning
    assert reader.read(body)["manifest"]["warnings"] == []
