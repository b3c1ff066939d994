"""Numbers as people write them: with separators of thousands, and with units."""

import json

import numpy as np
import pandas as pd
import pytest

from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.datasets.manifest import columns_of_manifest
from service.storage.tables import DatasetRow
from tests.written import written

CSV, JSON, PARQUET = "text/csv", "application/json", "application/vnd.apache.parquet"
STREAM = "application/vnd.apache.arrow.stream"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def as_csv(frame):
    return frame.to_csv(index=False, sep=";").encode()


def as_parquet(frame):
    return frame.to_parquet(index=False)


def as_json(frame):
    return frame.to_json(orient="records").encode()


WRITERS = {
    CSV: as_csv,
    JSON: as_json,
    PARQUET: as_parquet,
    XLSX: lambda frame: written(frame.to_excel, index=False),
}


@pytest.fixture(params=WRITERS)
def read(request, reader):
    """Return a function that reads columns of text in a format."""

    def read_columns(columns, **options):
        n_rows = len(next(iter(columns.values())))
        frame = pd.DataFrame({"task": ["a"] * n_rows, **columns})
        return reader.read(WRITERS[request.param](frame), request.param, **options)

    return read_columns


def values_of(reader, result):
    """Return the rows of the first task."""
    return next(iter(reader.tasks(result))).X.tolist()


def notes_of(result):
    return " ".join(result["manifest"]["warnings"])


POINTS = ["999", "1.299", "12.300"]


def test_points_that_may_separate_thousands_are_refused_with_both_readings(reader, read):
    result = read({"x": POINTS})
    words = ("'1.299' can be 1.299 or 1299", "decimal=.", "thousands=.")
    reader.assert_rejected(result, "ambiguous-number", *words, row=1, column="x")


@pytest.mark.parametrize("options", [{"decimal": ","}, {"thousands": "."}])
def test_declared_points_separate_thousands(reader, read, options):
    result = read({"x": POINTS}, **options)
    assert values_of(reader, result) == [[999], [1299], [12300]]
    assert "decimal ','" in notes_of(result)
    assert "thousands '.'" in notes_of(result)


def test_points_that_are_declared_to_separate_thousands_do_so_between_commas(reader):
    result = reader.read(b'task,x\na,999\na,1.299\na,"2.500,5"\n', thousands=".")
    assert values_of(reader, result) == [[999], [1299], [2500.5]]
    result = reader.read(b"task,x\na,999\na,1.29\n", thousands=".")
    reader.assert_rejected(result, "not-a-number", "'1.29'", row=1, column="x")


@pytest.mark.parametrize("options", [{"decimal": "."}, {"thousands": "none"}, {"thousands": ","}])
def test_declared_points_separate_decimals(reader, read, options):
    assert values_of(reader, read({"x": POINTS}, **options)) == [[999], [1.299], [12.3]]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("2,5", [1299, 2.5]),
        ("0.125", [1.299, 0.125]),
        ("1.5", [1.299, 1.5]),
        ("1.299,50", [1299, 1299.5]),
        ("1,299.50", [1.299, 1299.5]),
        ("1.299.000", [1299, 1299000]),
    ],
)
def test_a_value_of_another_column_shows_what_a_point_separates(reader, read, shown, expected):
    result = read({"x": [*POINTS, None], "z": ["1", "2", "3", shown]})
    rows = values_of(reader, result)
    assert [rows[1][0], rows[3][1]] == expected


@pytest.mark.parametrize("kind", [[], ["size:category"]])
def test_a_number_among_text_does_not_show_what_a_point_separates(reader, read, kind):
    sizes = ["small", "0,75", "large"] if not kind else ["0,5", "0,75", "1,5"]
    result = read({"x": POINTS, "size": sizes}, column_kind=kind)
    reader.assert_rejected(result, "ambiguous-number", "thousands=.", row=1, column="x")


@pytest.mark.parametrize(
    "options",
    [{"target_column": "é", "target_kind": "classes"}, {"ignore_column": "é"}],
)
def test_labels_and_ignored_columns_do_not_show_what_a_point_separates(reader, read, options):
    result = read({"x": POINTS, "e\u0301": ["1,5", "2,5", "1,5"]}, **options)
    reader.assert_rejected(result, "ambiguous-number", "thousands=.", row=1, column="x")


WRITTEN = {
    "comma": (["1,234.50", "-7", "1,234,567"], [1234.5, -7, 1234567]),
    "point": (["1.299,50", "7", "-1.000"], [1299.5, 7, -1000]),
    "apostrophe": (["1'299.50", "7", "12\u2019000"], [1299.5, 7, 12000]),
    "space": (["1 299,50", "7", "1 299 000"], [1299.5, 7, 1299000]),
    "no-break space": (["1\u00a0299,50", "7", "3"], [1299.5, 7, 3]),
    "narrow space": (["1\u202f299,50", "7", "3"], [1299.5, 7, 3]),
    "thin space": (["1\u2009299.50", "7", "3"], [1299.5, 7, 3]),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("is_target", [False, True])
@pytest.mark.quick(19)
def test_thousands_separators_are_detected_and_noted(reader, read, name, is_target):
    texts, expected = WRITTEN[name]
    result = (
        read({"x": texts, "y": texts}, target_column=["y"]) if is_target else read({"x": texts})
    )
    task = next(iter(reader.tasks(result)))
    assert task.X[:, 0].tolist() == expected
    if is_target:
        assert task.y.tolist() == expected
    assert "thousands" in notes_of(result)


@pytest.mark.parametrize("wrong", ["1.29", "12345.000", "0.299", "1.299.5"])
def test_a_point_in_another_place_is_a_mistake_among_points_of_thousands(reader, read, wrong):
    result = read({"x": [*POINTS, wrong]}, decimal=",")
    reader.assert_rejected(result, "not-a-number", repr(wrong), row=3, column="x")
    assert "category" not in result["issues"][0]["detail"]


@pytest.mark.parametrize(
    ("texts", "unit", "expected"),
    [
        (["12 %", "3.5%"], "%", [12, 3.5]),
        (["$1.50", "$1,234.25"], "$", [1.5, 1234.25]),
        (["1.299,50 €", "-7 €"], "€", [1299.5, -7]),
        (["-$1.50", "$2"], "$", [-1.5, 2]),
        (["5 kg", "12kg", "3.5 kg"], "kg", [5, 12, 3.5]),
        (["3.4 mg/dl", "12 mg/dl"], "mg/dl", [3.4, 12]),
        (["36,6 °C", "\u22122,5 °C"], "°C", [36.6, -2.5]),
        (["1.234,50 m²", "7 m²"], "m²", [1234.5, 7]),
        (["5 cm3", "1,250.5 cm3"], "cm3", [5, 1250.5]),
        (["72 beats per minute", "80 beats per minute"], "beats per minute", [72, 80]),
        (["5 fl. oz.", "6 fl. oz."], "fl. oz.", [5, 6]),
        (["EUR 5", "EUR 12.50"], "EUR", [5, 12.5]),
        (["CHF 1'200.50", "-CHF 7.00"], "CHF", [1200.5, -7]),
        (["Fr. 5.50", "Fr. 1\u2019000.25"], "Fr.", [5.5, 1000.25]),
        (["R$ 1.299,50", "R$ 7,00"], "R$", [1299.5, 7]),
        (["USD-3.50", "USD4"], "USD", [-3.5, 4]),
    ],
)
def test_a_unit_that_all_values_have_is_left_out_with_a_note(reader, read, texts, unit, expected):
    result = read({"x": texts})
    assert [row[0] for row in values_of(reader, result)] == expected
    assert f"the unit {unit!r}" in notes_of(result)


TEXTS_WITHOUT_A_UNIT = [
    ["5 kg", "300 g", "2 kg"],
    ["3 PM", "11 PM", "3 PM"],
    ["1 Jan", "15 Jan", "1 Jan"],
    ["12:30", "13:30", "12:30"],
    ["K1", "K2", "K1"],
    ["EUR 5", "USD 6", "EUR 5"],
    ["Room 5", "Room 6", "Room 5"],
    ["2 kg of 3", "4 kg of 3", "2 kg of 3"],
]


@pytest.mark.parametrize("texts", TEXTS_WITHOUT_A_UNIT)
def test_text_without_a_unit_that_all_share_stays_text(read, texts):
    result = read({"x": texts, "z": [1.0, 2, 3]})
    assert result["manifest"]["columns"][0]["levels"] == sorted(set(texts))


@pytest.mark.parametrize("form", ["{} kg", "EUR {}"])
def test_a_unit_of_targets_and_of_rows_for_a_model_is_left_out(reader, read, form):
    texts = [form.format(n) for n in (5, 12, 3.5)]
    result = read({"x": [*texts[:2], None], "y": texts}, target_column="y")
    assert next(iter(reader.tasks(result))).y.tolist() == [5, 12, 3.5]
    (column,) = columns_of_manifest(result["manifest"])
    assert encode([form.format(7), "7", 7.0], column).tolist() == [7, 7, 7]
    with pytest.raises(InvalidColumn, match="'7 g'"):
        encode(["7 g"], column)
    kept = read({"x": texts, "z": [1.0, 2, 3]}, column_kind=["x:category"])
    assert kept["manifest"]["columns"][0]["levels"] == sorted(texts)


@pytest.mark.parametrize("texts", [["$1.50", "2"], ["12 %", "3 €"], ["7", "1_000"]])
def test_units_that_differ_are_refused_without_advice_to_use_categories(reader, read, texts):
    result = read({"x": texts})
    reader.assert_rejected(result, "not-a-number", "plain number", column="x")
    assert "category" not in json.dumps(result["issues"])


@pytest.mark.parametrize("n_rows", [10, 500])
def test_points_that_only_later_rows_explain_are_read(reader, n_rows):
    rows = [f"a;{k}.{k % 7}00;{k}" for k in range(1, n_rows)]
    body = "\n".join(["task;x;z", *rows, "a;1.000;2,5", ""]).encode()
    X = next(iter(reader.tasks(reader.read(body)))).X
    assert X[:-1, 0].tolist() == [k * 1000 + k % 7 * 100 for k in range(1, n_rows)]


def test_commas_between_cells_show_that_points_separate_decimals(reader):
    body = b'task,x,z\na,1.299,"1,234"\na,12.300,5\n'
    assert values_of(reader, reader.read(body)) == [[1.299, 1234], [12.3, 5]]


def test_the_writing_of_numbers_is_found_in_features_alone(reader):
    """Neither tasks nor groups are numbers, however they look."""
    body = b"task;g;x\n1,5;2,5;1.5\n1,5;2,5;2\n"
    assert reader.tasks(reader.read(body, group_column="g")).names == ("1,5",)


def test_columns_are_numbers_to_the_bit_as_plain_ones_are(reader):
    values = np.random.default_rng(0).normal(size=300) * 10.0 ** np.arange(300)[::-1] ** 0.5
    written = [f"{value:,.6f}" for value in values]
    result = reader.read(json.dumps([{"task": "a", "x": x} for x in written]).encode(), JSON)
    assert [row[0] for row in values_of(reader, result)] == [float(f"{v:.6f}") for v in values]


def test_a_combination_keeps_how_all_its_tables_were_written(app):
    def upload(body):
        return app.upload(body.encode()).json()["id"]

    german = upload("task;x;z\na;1.299;1,5\n"), upload("task;x;z\nb;2.000;2,5\n")
    plain = upload("task;x;z\nc;2000;2.5\n")

    def combined(*ids):
        sources = [{"dataset_id": dataset_id} for dataset_id in ids]
        answer = app.send(
            "POST", "/v1/datasets:combine", json={"name": " ".join(ids), "sources": sources}
        )
        with app.services.database.read() as session:
            return session.get_one(DatasetRow, answer.json()["id"]).manifest

    assert combined(*german)["number_writings"]["common"] == {"decimal": ",", "thousands": "."}
    assert "number_writings" not in combined(german[0], plain)


SIGNS = {
    "minus": (["\u22125", "3", "\u22121.5"], [-5, 3, -1.5]),
    "brackets": (["(1,234.50)", "20.25", "(3.00)"], [-1234.5, 20.25, -3]),
    "units": (["($1.50)", "$2.50", "\u2212$3.00"], [-1.5, 2.5, -3]),
    "decimal commas": (["1.234,5", "\u22122.345,6", "(7,1)"], [1234.5, -2345.6, -7.1]),
}


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("role", ["feature", "target"])
def test_negative_numbers_of_print_are_read_with_a_note(reader, read, name, role):
    texts, numbers = SIGNS[name]
    columns = {"x": [*texts, None] if role == "feature" else [1, 2, 3]}
    columns |= {"y": texts} if role == "target" else {}
    result = read(columns, **({"target_column": "y"} if role == "target" else {}))
    if role == "target":
        assert next(iter(reader.tasks(result))).y.tolist() == numbers
        return
    assert [row[0] for row in values_of(reader, result)[:3]] == numbers
    assert "are read as negative" in notes_of(result)
    (column,) = columns_of_manifest(result["manifest"])  # as a model of the table has it
    assert encode(texts, column).tolist() == numbers


def test_a_minus_sign_of_print_is_read_in_rows_for_plain_numbers():
    assert encode(["\u22125", "3"], Column("x")).tolist() == [-5, 3]
    with pytest.raises(InvalidColumn):
        encode(["(5)"], Column("x"))


def test_numbers_that_are_all_in_brackets_are_not_negative(read):
    result = read({"x": ["(1)", "(2)", "(3)"], "z": [1.5, 2, 3]})
    assert result["manifest"]["columns"][0]["levels"] == ["(1)", "(2)", "(3)"]


def test_a_percentage_for_a_model_of_plain_numbers_is_refused_with_what_to_write():
    with pytest.raises(InvalidColumn, match=r"'12 %'; write it as .* 0\.12 or 12"):
        encode(["0.5", "12 %"], Column("share"))
