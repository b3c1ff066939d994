"""Targets in tables, as people fill them in."""

import io
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.errors.problems import Problem
from service.inference.task_column import TaskSource
from service.monitoring.feedback_table import read_feedback

SOURCE = TaskSource(None, "ward", lambda _: True, known=lambda: ("a", "b"))
PARQUET = "application/vnd.apache.parquet"


def targets_in(body, media_type, classes):
    table = read_feedback(body, media_type, SOURCE, target_name="ill", classes=classes)
    return table.targets


def as_json(targets):
    rows = [{"row_id": f"r{i}", "ill": target} for i, target in enumerate(targets)]
    return json.dumps(rows).encode()


def as_parquet(targets):
    table = pa.table({"row_id": [f"r{i}" for i in range(len(targets))], "ill": pa.array(targets)})
    target = io.BytesIO()
    pq.write_table(table, target)
    return target.getvalue()


def test_a_class_that_is_a_number_may_be_written_as_pandas_writes_a_column_with_gaps():
    frame = pd.DataFrame({"row_id": ["x", "y", "z"], "ill": [1, None, 0]})
    csv = frame.to_csv(index=False).encode()
    assert b"1.0" in csv
    for body, media_type in (
        (csv, "text/csv"),
        (as_json([1.0, None, 0.0]), "application/json"),
        (as_json(["1", "", "0"]), "application/json"),
        (as_json([True, None, False]), "application/json"),
        (as_parquet([1.0, None, 0.0]), PARQUET),
    ):
        assert targets_in(body, media_type, {"0", "1"}) == ["1", None, "0"]


def test_a_class_that_looks_like_another_number_stays_as_it_is():
    assert targets_in(as_json(["1.0", "01", 2.5]), "application/json", {"1.0", "1"}) == [
        "1.0",
        "1",
        "2.5",
    ]


def test_true_and_false_are_the_classes_that_an_upload_of_them_has():
    for body, media_type in (
        (as_json([True, False]), "application/json"),
        (as_parquet([True, False]), PARQUET),
    ):
        assert targets_in(body, media_type, {"true", "false"}) == ["true", "false"]


def test_a_list_is_no_label():
    with pytest.raises(Problem, match="expected a label, got"):
        targets_in(as_json([[1, 2]]), "application/json", {"0", "1"})


def ids_in(frame):
    """Return the ids that are made for the rows of a table, the same in every format."""
    arrow = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame), arrow)
    csv, records = frame.to_csv(index=False).encode(), frame.to_json(orient="records").encode()
    bodies = ((csv, "text/csv"), (records, "application/json"), (arrow.getvalue(), PARQUET))
    first, *others = (
        read_feedback(*body, SOURCE, target_name="ill", classes={"0", "1"}).row_ids
        for body in bodies
    )
    assert others == [first, first]
    return first


def test_rows_that_differ_in_a_long_number_or_in_the_zeros_of_a_code_have_ids_of_their_own():
    frame = pd.DataFrame({"ward": ["a"] * 3, "ill": [0, 1, 0]})
    order = frame.assign(order=[1234567890123456789, 1234567890123456790, 10**17])
    assert len(set(ids_in(order))) == 3
    codes = frame.assign(code=["00123", "0123", "x"])
    (first, *_) = ids_in(codes)
    assert len({name.partition("-0")[0] for name in ids_in(codes)}) == 3
    assert first not in ids_in(frame.assign(code=["123", "x", "x"]))


def test_rows_have_the_same_id_however_their_numbers_are_written():
    def with_number(number):
        frame = pd.DataFrame({"ward": ["a"], "ill": [1]})
        (name,) = ids_in(frame.assign(x=pd.Series([number])))
        return name

    assert len(set(map(with_number, (1, 1.0, "1.00", "1e0")))) == 1
    assert len(set(map(with_number, (10**17, 1e17, "1e17")))) == 1
    assert with_number("0.50") == with_number(0.5)
