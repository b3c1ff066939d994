"""Rows of the dataset of a model that a renewal trains on again."""

from datetime import UTC, datetime, timedelta

import pytest

from service.renewal.copying import rows_within
from service.renewal.schemas import RenewalSpec
from service.storage.tables import DatasetRow

UPLOADED = datetime(2026, 1, 1, tzinfo=UTC)


def dataset(**sizes):
    tasks = [{"name": name, "n_samples": n} for name, n in sizes.items()]
    return DatasetRow(manifest={"tasks": tasks}, created_at=UPLOADED)


def kept(days=10, n_new=400, **rule):
    spec = RenewalSpec(rows=10, **rule)
    moment = UPLOADED + timedelta(days=days)
    return rows_within(spec, dataset(a=1000, b=500, c=10), dataset(a=n_new), moment)


@pytest.mark.parametrize(
    "rule",
    [
        {"max_rows": 100, "max_age_days": 1},
        {"max_rows": 1910, "bounds": "all"},
        {"max_age_days": 11, "bounds": "all"},
    ],
)
def test_all_rows_stay_while_they_are_within_the_bounds_or_bounds_are_those_of_new_rows(rule):
    assert kept(**rule) is None


def test_rows_leave_evenly_for_new_ones_and_no_task_leaves():
    rows = kept(max_rows=400 + 755, bounds="all")
    assert {task: len(numbers) for task, numbers in rows.items()} == {"a": 500, "b": 250, "c": 10}
    assert rows["a"] == sorted(set(rows["a"]))
    assert (rows["a"][0], rows["a"][-1]) == (0, 999)
    assert sum(rows["a"]) / 500 == pytest.approx(499.5, abs=1)
    assert rows["c"] == list(range(10))


@pytest.mark.parametrize("rule", [{"max_rows": 300}, {"max_age_days": 9}])
def test_twenty_rows_of_each_task_stay_where_there_is_no_room_or_all_are_old(rule):
    rows = kept(bounds="all", **rule)
    assert {task: len(numbers) for task, numbers in rows.items()} == {"a": 20, "b": 20, "c": 10}
