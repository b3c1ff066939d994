"""A look at a file before it is uploaded: columns, first rows, and what each column may be for."""

import numpy as np
import pandas as pd
import pytest

from service.datasets.formats.one_sided_groups import groups_without
from service.datasets.formats.proposals import divide
from service.datasets.inspection_routes import router as inspection_routes
from tests.written import written

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
NPZ = "application/x-npz"


@pytest.fixture
def look(app):
    """Look at a file, and check that nothing of it is stored."""
    app.api.include_router(inspection_routes)

    def look(body, media_type="text/csv", *, status=200, **query):
        url, headers = "/v1/datasets:inspect", {"content-type": media_type}
        response = app.send("POST", url, params=query, content=body, headers=headers)
        assert response.status_code == status, response.text
        assert app.left_behind() == {}
        return response.json()

    return look


@pytest.fixture(scope="module")
def stays():
    """Rows of 20 hospitals, with ids and missing values of which the first hospital has none."""
    rng = np.random.default_rng(0)
    n, hospital = 200, np.repeat(np.arange(20), 10)
    bmi = rng.normal(26, 4, n).round(1)
    bmi[100:125] = np.nan
    return pd.DataFrame(
        {
            "hospital": [f"H{h:02d}" for h in hospital],
            "patient_id": [f"P-{i}" for i in range(n)],
            "admitted": pd.date_range("2025-01-01", periods=n).strftime("%Y-%m-%d"),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(20, 95, n),
            "bmi": bmi,
            "days": rng.gamma(3, 2, n).round(1) + 0.5,
        }
    )


def by_name(found):
    return {column["name"]: column for column in found["columns"]}


def test_a_file_is_described_over_all_rows_with_a_proposal(look, stays):
    found = look(stays.to_csv(index=False, sep=";", decimal=",").encode())
    assert (found["n_samples"], found["n_columns"]) == (200, 7)
    assert (found["task_column"], found["target_column"]) == ("hospital", "days")
    columns = by_name(found)
    assert {name: column["kind"] for name, column in columns.items()} == {
        "hospital": "category",
        "patient_id": None,
        "admitted": "date",
        "sex": "category",
        "age": "number",
        "bmi": "number",
        "days": "number",
    }
    assert columns["bmi"]["missing"] == 0.125  # of the whole file: its first rows have all values
    assert columns["hospital"]["groups"] == {"n": 20, "smallest": 10, "largest": 10, "without": {}}
    assert columns["patient_id"]["groups"] is None
    assert [len(found["rows"]), found["rows"][0]["patient_id"]] == [20, "P-0"]
    assert found["rows"][0]["admitted"] == "2025-01-01T00:00:00"
    assert found["rows"][0]["days"] == stays.days[0]
    assert found["notes"] == ["read with delimiter ';', decimal ','"]


@pytest.mark.parametrize("media_type", [XLSX, "application/vnd.apache.parquet", "application/json"])
def test_all_formats_of_tables_are_looked_at(look, stays, media_type):
    writers = {
        XLSX: lambda file: stays.to_excel(file, index=False),
        "application/json": lambda file: stays.to_json(file, orient="records"),
    }
    found = look(written(writers.get(media_type, stays.to_parquet)), media_type)
    assert (found["task_column"], found["target_column"]) == ("hospital", "days")
    assert by_name(found)["bmi"]["missing"] == 0.125
    assert found["rows"][3]["patient_id"] == "P-3"


def test_a_file_of_arrays_shows_its_tasks(look):
    found = look(
        written(np.savez, **{"a/X": np.ones((4, 2)), "a/y": np.arange(4.0), "b/X": np.eye(2)}), NPZ
    )
    assert (found["columns"], found["task_column"]) == ([], None)
    assert found["tasks"] == [
        {"name": "a", "n_samples": 4, "n_features": 2, "target": "numbers"},
        {"name": "b", "n_samples": 2, "n_features": 2, "target": "none"},
    ]


def test_without_a_column_that_repeats_no_groups_are_proposed(look, stays):
    found = look(stays[["age", "bmi", "sex", "days"]].to_csv(index=False).encode())
    assert (found["task_column"], found["target_column"]) == (None, "days")
    assert set(found["task_columns"]) == {"age", "sex"}  # one of them can still be chosen


def test_groups_may_be_numbers_or_more_texts_than_a_category_has(look, stays):
    wide = pd.concat([stays] * 20, ignore_index=True)
    schools = wide.assign(school=np.repeat(np.arange(400), 10)).drop(columns="hospital")
    assert look(schools.to_csv(index=False).encode())["task_column"] == "school"
    towns = schools.assign(place=[f"town {i}" for i in schools.pop("school")])
    found = look(towns.to_csv(index=False).encode())
    assert (by_name(found)["place"]["kind"], found["task_column"]) == (None, "place")
    assert by_name(found)["place"]["groups"] == {
        "n": 400,
        "smallest": 10,
        "largest": 10,
        "without": {},
    }


def test_the_name_task_and_the_options_are_kept_as_the_proposal(look, stays):
    body = stays.assign(task=stays.sex, target=stays.bmi.fillna(0)).to_csv(index=False).encode()
    found = look(body)
    assert (found["task_column"], found["target_column"]) == ("task", "target")
    found = look(body, task_column="hospital", target_column="age")
    assert (found["task_column"], found["target_column"]) == ("hospital", "age")


def test_columns_with_gaps_and_numbers_of_rows_are_not_proposed(look, stays):
    ward = stays.hospital.where(stays.index > 0)
    rows = stays.assign(ward=ward, row_id=stays.index)[["ward", "row_id", *stays.columns]]
    found = look(rows.to_csv(index=False).encode())
    columns = by_name(found)
    assert columns["ward"]["groups"] is None
    assert [name for name, column in columns.items() if column["is_id"]] == ["row_id"]
    assert found["target_column"] == "days"


def test_a_column_that_cannot_be_read_has_the_reason_and_the_others_are_shown(look, stays):
    cells = [*stays.age.astype(str)[:-1], "many"]
    found = look(stays.assign(age=cells).to_csv(index=False).encode())
    assert "'many'" in by_name(found)["age"]["reason"]
    assert [name for name, column in by_name(found).items() if column["reason"]] == ["age"]


@pytest.mark.parametrize(
    ("body", "query", "code", "place"),
    [
        (b"", {}, "empty-file", {}),
        (b"a,b\n1,2,3\n", {}, "wrong-width", {"row": 0}),
        (b"a,b\n1,2\n", {"ignore_column": "c"}, "missing-column", {"column": "c"}),
        (b"a,b\n", {}, "no-rows", {}),
    ],
)
def test_a_file_that_cannot_be_read_has_its_issues(look, body, query, code, place):
    problem = look(body, status=422, **query)
    assert problem["code"] == "invalid-dataset"
    first = problem["errors"][0]
    assert (first["code"], {key: first.get(key) for key in place}) == (code, place)


def test_a_file_of_an_unknown_format_is_refused(look):
    assert look(b"%PDF", "application/pdf", status=415)["code"] == "unsupported-media-type"


def test_groups_in_order_are_found_whatever_their_name():
    codes = np.repeat(np.arange(30), 8)
    mixed = np.random.default_rng(1).permutation(codes)
    assert divide(codes, "k", "number").is_likely
    assert not divide(mixed, "k", "number").is_likely
    assert divide(mixed, "school", "number").is_likely
    assert divide(codes, "k", "number").score > divide(mixed, "k", "number").score
    assert divide(np.arange(240), "school", "number") is None
    assert divide(np.zeros(240, int), "school", "number") is None


def test_groups_without_an_event_are_counted_over_the_whole_file(look, stays):
    died = np.arange(len(stays)) % 10 == 0
    died[:60] = False  # six hospitals without an event
    died[70:80] = True  # and one without another outcome
    table = stays.assign(died=np.where(died, "yes", "no"))
    found = look(table.to_csv(index=False).encode())
    without = by_name(found)["hospital"]["groups"]["without"]
    assert (found["target_column"], without["died"]) == ("died", [1, 6])
    assert "days" not in without
    coded = look(table.assign(died=died.astype(int)).to_csv(index=False).encode())
    assert by_name(coded)["hospital"]["groups"]["without"]["died"] == [1, 6]


def test_a_file_without_a_column_of_two_values_is_looked_at(look):
    rows = [f"{name},{i},{i / 2}" for name in "abc" for i in range(6)]
    found = look("\n".join(["ward,age,days", *rows]).encode())
    assert (found["task_column"], found["target_column"]) == ("ward", "days")
    assert by_name(found)["ward"]["groups"]["without"] == {}


def test_groups_without_a_value_need_two_values_and_do_without_missing_ones():
    groups = np.array([0, 0, 1, 1, 2, 2, -1])
    nan = np.nan
    assert groups_without(groups, np.array([0, 1, nan, 1, 0, 0, 1])) == (1, 1)
    assert groups_without(groups, np.array([0, 1, nan, nan, 0, 1, 1])) == (1, 1)
    assert groups_without(groups, np.array([0, 1, 0, 1, 2, 0, 0])) is None
    assert groups_without(groups, np.full(7, nan)) is None
    assert groups_without(groups, np.ones(7)) is None
