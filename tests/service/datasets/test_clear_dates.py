"""Dates in text that can be read in one way only, in every format of tables."""

import importlib.resources
import io
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from algorithms.wrappers.preparation.encoder import encode
from service.datasets.manifest import columns_of_manifest
from tests.written import written

CSV, JSON, PARQUET = "text/csv", "application/json", "application/vnd.apache.parquet"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
DAYS = [date(2000, 1, 1), date(1995, 2, 28), date(2024, 12, 31)]


WRITERS = {
    CSV: lambda frame: frame.to_csv(index=False).encode(),
    JSON: lambda frame: frame.to_json(orient="records").encode(),
    PARQUET: lambda frame: frame.to_parquet(index=False),
    XLSX: lambda frame: written(frame.to_excel, index=False),
}


@pytest.fixture(params=WRITERS)
def read(request, reader):
    """Return a function that reads a column in a format."""

    def read_column(values, **options):
        frame = pd.DataFrame({"task": ["a"] * len(values), "d": values, "x": 1.5})
        return reader.read(WRITERS[request.param](frame), request.param, **options)

    return read_column


def seconds(days):
    return [datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() for day in days]


def column_of(result):
    """Return the kind of the column, and all notes but that on the single column of numbers."""
    columns = {column["name"]: column["kind"] for column in result["manifest"].get("columns", ())}
    return columns.get("d", "number"), " ".join(result["manifest"]["warnings"])


FORMS = ["%b %-d %Y", "%-d %b %Y", "%b-%-d-%Y", "%d-%b-%Y", "%B %d, %Y", "%d. %B %Y", "%d%b%Y"]
FORMS += ["%a, %d %b %Y", "%Y-%b-%d", "%d-%b-%y", "%Y%m%d"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.quick(13)
def test_dates_with_the_english_name_of_the_month_are_read(reader, read, form):
    texts = [f"{day:{form}}" for day in DAYS]
    result = read([*texts, None])
    kind, notes = column_of(result)
    assert kind == "date"
    found = reader.tasks(result)["a"].X[:, 0]
    np.testing.assert_array_equal(found, [*seconds(DAYS), np.nan])
    assert f"dates in 'd' such as '{texts[0]}' read as 2000-01-01" in notes
    assert ("69 to 99 are in the 1900s" in notes) == ("%y" in form)


PERIODS = {
    "months": ["2000-01", "1995-02", "2024-12"],
    "months of slashes": ["01/2000", "02/1995", "12/2024"],
    "months of statistics": ["2000M01", "1995M02", "2024M12"],
    "names": ["Jan 2000", "February 1995", "Dec-2024"],
    "short years": ["Jan-00", "Feb-95", "Dec-24"],
    "quarters": ["2000Q1", "1995-Q1", "2024 Q4"],
    "quarters first": ["Q1 2000", "Q1/1995", "q4-2024"],
    "months of Stata": ["2000m1", "1995m2", "2024m12"],
    "quarters with a colon": ["2000:Q1", "1995:Q1", "2024:Q4"],
}


@pytest.mark.parametrize("name", PERIODS)
def test_months_and_quarters_are_their_first_day(reader, read, name):
    result = read(PERIODS[name])
    kind, notes = column_of(result)
    assert kind == "date"
    assert "such as" in notes
    months = (1, 1, 10) if "quarters" in name else (1, 2, 12)
    expected = [date(day.year, month, 1) for day, month in zip(DAYS, months, strict=True)]
    assert reader.tasks(result)["a"].X[:, 0].tolist() == seconds(expected)


CLOCKS = {
    "names of zones": "%Y-%m-%d %H:%M:%S UTC",
    "a space before the zone": "%Y-%m-%d %H:%M:%S +0000",
    "points after the year": "%Y.%m.%d %H:%M",
    "spaces after points": "%-d. %-m. %Y",
    "SAS": "%d%b%Y:%H:%M:%S",
    "C": "%a %b %e %H:%M:%S %Y",
    "mail": "%a, %d %b %Y %H:%M:%S GMT",
    "digits": "%Y%m%d%H%M%S",
    "weeks": "%G-W%V-%u",
    "Chinese": "%Y年%-m月%-d日",
}


@pytest.mark.parametrize("name", CLOCKS)
def test_dates_of_logs_and_programs_are_read_in_tables_and_rows(reader, read, name):
    has_time = "%H" in CLOCKS[name]
    days = [datetime(d.year, d.month, d.day, 13 * has_time, 0, tzinfo=UTC) for d in DAYS]
    texts = [f"{day:{CLOCKS[name]}}" for day in days]
    result = read(texts)
    assert column_of(result)[0] == "date"
    expected = [day.timestamp() for day in days]
    assert reader.tasks(result)["a"].X[:, 0].tolist() == expected
    column = columns_of_manifest(result["manifest"])[0]
    assert encode(texts, column).tolist() == expected


def test_advice_on_years_of_two_digits_warns_of_those_that_come_first(read):
    assert "come first need four digits" in column_of(read(["24-01-03", "24-02-05"]))[1]
    assert "come first" not in column_of(read(["24.01.03", "24.02.05"]))[1]


def test_weeks_are_their_monday_if_the_year_has_them(reader, read):
    result = read(["2024-W01", "2024W10"])
    days = [date(2024, 1, 1), date(2024, 3, 4)]
    assert reader.tasks(result)["a"].X[:, 0].tolist() == seconds(days)
    assert column_of(read(["2024-W01", "2024-W53"]))[0] == "category"


def test_whole_numbers_that_are_all_dates_are_read_as_such(reader, read):
    numbers = [20240131, 20231231, 19991231]
    result = read(numbers)
    kind, notes = column_of(result)
    assert kind == "date"
    assert "column_kind=d:number" in notes
    declared = read(numbers, column_kind=["d:number"])
    assert reader.tasks(declared)["a"].X[:, 0].tolist() == numbers


@pytest.mark.parametrize(
    "numbers",
    [[20240131, 20240132], [20240131.5, 20240201], [20240131], [18991231, 20240131], [7, 20240131]],
)
def test_other_numbers_stay_numbers(reader, read, numbers):
    result = read(numbers)
    assert column_of(result)[0] == "number"
    assert reader.tasks(result)["a"].X[:, 0].tolist() == numbers


@pytest.mark.parametrize(
    "texts",
    [
        ["31. Januar 2024", "1. Mai 2024"],
        ["24-Jan", "25-Jan"],
        ["2024-01-31 12:00:00 CET", "2024-02-28 13:00:00 CET"],
        ["12:30 31/01/2024", "12:30 28/02/2024"],
        ["1. Quartal 2024", "2. Quartal 2024"],
        [f"{i // 60:02}:{i % 60:02} 31/01/2024" for i in range(90)],
    ],
)
def test_dates_that_are_not_read_have_a_note_that_names_dates(read, texts):
    kind, notes = column_of(read(texts))
    assert kind == ("number" if len(texts) > 20 else "category")  # it is left out
    assert f"looks like dates such as '{texts[0]}', but is read as text" in notes
    assert "column_kind" not in notes


@pytest.mark.parametrize("wrong", ["31-Feb-2024", "soon"])
def test_a_wrong_value_among_such_dates_has_a_note_and_is_found(reader, read, wrong):
    texts = ["31-Jan-2024", "1-Mar-2024", wrong]
    kind, notes = column_of(read(texts))
    assert kind == "category"
    assert repr(wrong) in notes
    assert "column_kind=d:date" in notes
    declared = read(texts, column_kind=["d:date"])
    reader.assert_rejected(declared, "not-of-kind", repr(wrong), row=2, column="d")


@pytest.mark.parametrize("order", ["dmy", "mdy"])
def test_the_order_of_dates_is_found_and_declared_in_every_format(reader, read, order):
    form = "%d/%m/%Y" if order == "dmy" else "%m/%d/%Y"
    texts = [f"{day:{form}}" for day in DAYS]
    result = read(texts)
    assert column_of(result)[0] == "date"
    assert reader.tasks(result)["a"].X[:, 0].tolist() == seconds(DAYS)
    unclear = read(["01/02/2024", "03/04/2024"])
    assert "day and month can be either" in column_of(unclear)[1]
    declared = read(["01/02/2024", "03/04/2024"], column_kind=[f"d:date-{order}"])
    days = [date(2024, 2, 1), date(2024, 4, 3)]
    days = days if order == "dmy" else [date(2024, 1, 2), date(2024, 3, 4)]
    assert reader.tasks(declared)["a"].X[:, 0].tolist() == seconds(days)


PARTS = {
    "numbers of parts": ["1001-01", "1001-05", "1002-12"],
    "one number of a part": ["2001-01", "2001-05", "1699-12"],
    "months of statistics": ["1001M01", "1002M03", "1003M04"],
    "quarters": ["1001Q1", "1002Q2", "1003Q3"],
    "a month 13": ["2001-01", "2001-13", "2002-12"],
}


@pytest.mark.parametrize("name", PARTS)
def test_months_of_years_that_are_not_plausible_are_text(read, name):
    assert column_of(read(PARTS[name]))[0] == "category"


def test_months_of_the_first_and_the_last_plausible_year_are_dates(read):
    assert column_of(read(["1700-01", "2000-05", "2200-12"]))[0] == "date"


def test_share_prices_with_written_dates_are_those_with_iso_dates(reader):
    path = importlib.resources.files("vega_datasets").joinpath("_data/stocks.csv")
    written = path.read_bytes()
    frame = pd.read_csv(io.BytesIO(written))
    assert frame["date"][0] == "Jan 1 2000"
    iso = frame.assign(date=pd.to_datetime(frame["date"], format="%b %d %Y").dt.date)
    options = {"task_column": "symbol", "target_column": "price"}
    results = [reader.read(data, **options) for data in (written, WRITERS[CSV](iso))]
    for mine, theirs in zip(*map(reader.tasks, results), strict=True):
        assert mine.X.tolist() == theirs.X.tolist()
        assert mine.y.tolist() == theirs.y.tolist()
    assert results[0]["manifest"]["columns"][0]["kind"] == "date"
