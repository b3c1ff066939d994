"""Values of columns become the same numbers in training and in calls, in every format."""

import io
import json
import math
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from algorithms.wrappers.preparation.columns import (
    PLAIN_NUMBERS,
    Column,
    DateWriting,
    NumberWriting,
)
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.texts import Texts, plain_dates, plain_numbers
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.registry import find_format
from service.inference.call import InputSpec
from service.inference.formats import reader_of
from service.inference.task_column import TaskSource
from service.inference.v2.request import read_request
from sibling.estimators.tables import read_new_table
from tests.written import parquet_of, written

CSV, JSON, LINES = "text/csv", "application/json", "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
STREAM, FILE = "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
LIMITS = Limits(
    decompressed_bytes=10**9, decompression_ratio=10**6, tasks=50, features=50, name_length=30
)
KINDS = ("number", "boolean", "category", "date")

# --- the formats, each as a writer of a column ---------------------------------------------------


def as_csv(values):
    def cell(value):
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        text = value.isoformat() if isinstance(value, date) else str(value)
        return '"' + text.replace('"', '""') + '"'

    # a comma between cells says that those in cells separate thousands
    has_commas = any(isinstance(value, str) and "," in value for value in values)
    delimiter = ";" if has_commas else ","
    rows = [f"t{delimiter}{cell(value)}" for value in values]
    return "\n".join([f"task{delimiter}x", *rows, ""]).encode()


def as_records(values):
    return [
        {"task": "t", "x": value.isoformat() if isinstance(value, date) else value}
        for value in values
    ]


def as_json(values):
    return json.dumps(as_records(values)).encode()


def as_lines(values):
    return "\n".join(map(json.dumps, as_records(values))).encode()


def as_arrow(values):
    return pa.table({"task": ["t"] * len(values), "x": pa.array(values)})


def as_parquet(values):
    return parquet_of(as_arrow(values))


def as_ipc(open_):
    def write(values):
        sink = io.BytesIO()
        table = as_arrow(values)
        with open_(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
        return sink.getvalue()

    return write


def as_workbook(values):
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in (["task", "x"], *(["t", value] for value in values)):
        sheet.append(row)
    return written(book.save)


WRITERS = {
    CSV: as_csv,
    JSON: as_json,
    LINES: as_lines,
    PARQUET: as_parquet,
    STREAM: as_ipc(pa.ipc.new_stream),
    FILE: as_ipc(pa.ipc.new_file),
    XLSX: as_workbook,
}


def train(media_type, body, kind):
    """Return the values of the column in an upload with a declared kind, and how it was read."""
    options = ReadOptions(column_kind=(f"x:{kind}",))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(body)
        parsed = find_format(media_type).read(path, options, LIMITS)
    return parsed.tasks[0].X[:, 0], parsed


def spec_of(parsed):
    spec = InputSpec("t", "predict", 1, allow_missing=True, columns=lambda: ("x",))
    return spec._replace(kinds=parsed.columns, numbers=lambda: parsed.numbers)


def call(media_type, body, parsed):
    """Return the values of the column as a call has them."""
    read, _ = reader_of(media_type)
    return read(body, TaskSource(None, "task", lambda _: False)).rows.as_matrix(spec_of(parsed))


def call_v2(values, parsed):
    """Return the values as a call of the Open Inference Protocol has them."""
    known = [value for value in values if value is not None]
    datatype = "BYTES"
    if known and isinstance(known[0], bool):
        datatype = "BOOL"
    elif known and isinstance(known[0], int | float):
        datatype = "FP64"
    data = [value.isoformat() if isinstance(value, date) else value for value in values]
    tensor = {"name": "x", "shape": [len(values)], "datatype": datatype, "data": data}
    body = json.dumps({"inputs": [tensor], "parameters": {"task": "t"}}).encode()
    names = ("task", "m", 1)
    _, found = read_request(body, None, names, TaskSource(None, "task", lambda _: False))
    return found.rows.as_matrix(spec_of(parsed))


# --- the values ----------------------------------------------------------------------------------


def lists_of(values):
    """Return columns, of which some values are missing, but not all."""
    return st.lists(st.none() | values, min_size=1, max_size=8).filter(
        lambda column: any(value is not None for value in column)
    )


LETTERS = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
WORDS = st.text(st.just(" ") | LETTERS, max_size=6).map(lambda text: f"c{text}")
# workbooks have 16 digits
FINITE = st.floats(-1e300, 1e300, allow_subnormal=False).map(lambda x: float(f"{x:.15g}"))
NUMBERS = FINITE.map(lambda x: x + 0.0) | st.integers(-(2**53) + 1, 2**53 - 1)
# workbooks have milliseconds, and dates from March 1900 on
FIRST, LAST = map(datetime.fromisoformat, ("1901-01-01", "2250-01-01"))
MOMENTS = st.datetimes(
    datetime.fromisoformat("1901-01-01"), datetime.fromisoformat("2250-01-01")
).map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
ROUND = st.decimals(-(10**8), 10**8, places=2).map(float)


def german(x):
    """Return a number as it is written in German."""
    return f"{x:,.2f}".translate(str.maketrans(",.", ".,"))


BOOLEAN_WORDS = st.sampled_from(["true", "FALSE", "yes", "No", "t", "f", "Y", "n", "1", "0"])
WRITTEN = st.one_of(
    MOMENTS.map(datetime.isoformat),
    MOMENTS.map(lambda moment: moment.date().isoformat()),
    MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC).isoformat(" ")),
    MOMENTS.map(lambda moment: f"{moment:%d.%m.%Y}"),
    MOMENTS.map(lambda moment: f"{moment:%Y/%m/%d %H:%M}"),
)
NAMED_FORMS = ("%b %-d %Y", "%d %B %Y", "%B %d, %Y", "%b-%d-%Y", "%d-%b-%Y %H:%M", "%Y-%b-%d")
NAMED = st.one_of(*(MOMENTS.map(lambda m, form=form: f"{m:{form}}") for form in NAMED_FORMS))
DAYS = st.dates(date(1901, 1, 1), date(2099, 12, 31))
MONTHS = st.one_of(
    *(DAYS.map(lambda d, form=f: f"{d:{form}}") for f in ("%Y-%m", "%b %Y", "%m/%Y", "%YM%m")),
    DAYS.map(lambda day: f"{day.year}Q{(day.month + 2) // 3}"),
    DAYS.map(lambda day: f"Q{(day.month + 2) // 3} {day.year}"),
)
COLUMNS = {
    "numbers": ("number", lists_of(FINITE)),
    "integers": ("number", lists_of(st.integers(-(2**53), 2**53))),
    "numbers as text": (
        "number",
        # the last one shows that a point separates decimals
        lists_of(NUMBERS.map(lambda x: f" {x!r}")).map(lambda values: [*values, "+0.5"]),
    ),
    "numbers with thousands": ("number", lists_of(ROUND.map(lambda x: f"{x:,.2f}"))),
    "numbers with points of thousands": ("number", lists_of(ROUND.map(german))),
    "numbers with spaces": (
        "number",
        lists_of(ROUND.map(lambda x: f"{x:,.1f}".replace(",", "\u202f"))),
    ),
    "numbers with units": ("number", lists_of(ROUND.map(lambda x: f"{x:,.2f} %"))),
    "prices": ("number", lists_of(ROUND.map(lambda x: f"€ {german(x)}"))),
    "booleans": ("boolean", lists_of(st.booleans())),
    "bits": ("boolean", lists_of(st.integers(0, 1))),
    "booleans as text": ("boolean", lists_of(BOOLEAN_WORDS)),
    "categories": ("category", lists_of(WORDS)),
    "categories of integers": ("category", lists_of(st.integers(-1000, 1000))),
    "categories of booleans": ("category", lists_of(st.booleans())),
    "categories of dates": ("category", lists_of(MOMENTS.map(datetime.date))),
    "dates": ("date", lists_of(MOMENTS)),
    "dates as text": ("date", lists_of(WRITTEN)),
    "dates with names": ("date", lists_of(NAMED)),
    "months and quarters": ("date", lists_of(MONTHS)),
    "dates as numbers": ("date", lists_of(DAYS.map(lambda day: int(f"{day:%Y%m%d}")))),
    "dates of digits": ("date", lists_of(DAYS.map(lambda day: f"{day:%Y%m%d}"))),
}


def kinds_of(parsed):
    """Return kinds and levels, which are the same in every format."""
    return [(column.kind, column.levels) for column in parsed.columns or ()]


def columns_of(parsed):
    """Return the columns as estimators have them."""
    return parsed.columns or (Column("x", numbers=parsed.numbers.of("x")),)


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
@pytest.mark.quick(7)
def test_values_are_the_same_numbers_in_training_and_in_calls_in_every_format(name, data):
    kind, columns = COLUMNS[name]
    values = data.draw(columns)
    expected, described = train(PARQUET, as_parquet(values), kind)
    for media_type, write in WRITERS.items():
        body = write(values)
        trained, own = train(media_type, body, kind)
        assert kinds_of(own) == kinds_of(described), media_type
        assert_array_equal(trained, expected, err_msg=f"training with {media_type}")
        called = call(media_type, body, own)[:, 0]
        assert_array_equal(called, expected, err_msg=f"call with {media_type}")
    assert_array_equal(call_v2(values, described)[:, 0], expected)
    table = pa.table({"x": pa.array(values)})
    assert_array_equal(
        read_new_table(table, columns_of(described), allows_others=False)[:, 0], expected
    )


# --- Arrow and Python ----------------------------------------------------------------------------

RNG = np.random.default_rng(0)
INSTANTS = [
    datetime.fromtimestamp(int(us) / 1e6, UTC) for us in RNG.integers(-(10**15), 4 * 10**15, 300)
]
MANY = {
    "numbers": ("number", DateWriting(), [repr(float(x)) for x in RNG.normal(size=300) * 1e5]),
    "signs and exponents": ("number", DateWriting(), [f"+{k}.e-{k % 30}" for k in range(300)]),
    "ISO dates": ("date", DateWriting(), [f"{t:%Y-%m-%dT%H:%M:%S.%f}" for t in INSTANTS]),
    "zones": ("date", DateWriting(), [f"{t:%Y-%m-%d %H:%M}+05:30" for t in INSTANTS]),
    "points": ("date", DateWriting(), [f"{t:%d.%m.%Y %H:%M:%S}" for t in INSTANTS]),
    "month first": ("date", DateWriting(day_first=False), [f"{t:%m/%d/%Y}" for t in INSTANTS]),
    "short": (
        "date",
        DateWriting(day_first=True, has_short_years=True),
        [f"{t:%d-%m-%y %I:%M %p}" for t in INSTANTS],
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_texts_are_read_by_arrow_as_by_the_rules(name):
    kind, dates, texts = MANY[name]
    column = Column("x", kind, dates=dates)
    found = Texts.of(pa.chunked_array([[*texts, None, " "]]), "x")
    plain = plain_numbers(found, PLAIN_NUMBERS) if kind == "number" else plain_dates(found, dates)
    assert plain is not None  # Arrow reads them
    one_by_one = [encode([text], column)[0] for text in texts]
    assert_array_equal(encode(found, column), [*one_by_one, np.nan, np.nan])
    german = [text.replace(".", ",") for text in texts]
    if kind == "number":
        cells = Texts.of(pa.chunked_array([german]), "x")
        assert_array_equal(encode(cells, column, decimal=","), one_by_one)
        written = Column("x", numbers=NumberWriting(","))
        assert_array_equal(encode(cells, written), one_by_one)


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        *(("number", type_) for type_ in (pa.int8(), pa.uint64(), pa.float32(), pa.float64())),
        *(("boolean", pa.bool_()), ("boolean", pa.int64())),
        *(("date", pa.timestamp(unit)) for unit in ("s", "ms", "us")),
        *(("date", pa.timestamp("us", "UTC")), ("date", pa.date32())),
    ],
)
def test_long_columns_of_arrow_are_the_numbers_of_short_ones(kind, type_):
    whole = RNG.integers(0, 2, 300)
    values = [None if w and k % 3 else w for k, w in enumerate(whole.tolist())]
    if kind == "date":
        values = [t if pa.types.is_timestamp(type_) else t.date() for t in INSTANTS]
        values = [t.replace(microsecond=0) if isinstance(t, datetime) else t for t in values]
    array = pa.chunked_array([pa.array(values, pa.int64() if kind != "date" else None)])
    array = array.cast(type_)
    column = Column("x", kind)
    one_by_one = [encode([value], column)[0] for value in array.to_pylist()]
    assert_array_equal(encode(array, column), one_by_one)
    short = [encode(array.slice(k, 1), column)[0] for k in range(len(array))]
    assert_array_equal(short, one_by_one)


@pytest.mark.parametrize("n", [1, 60])
@pytest.mark.parametrize(
    ("value", "code"),
    [(2**53 + 1, "inexact-integer"), (math.inf, "not-finite"), (True, "not-of-kind")],
)
def test_a_value_that_is_no_number_has_its_row_in_short_and_long_columns(n, value, code):
    columns = [[value] * n, pa.chunked_array([[value] * n])]
    columns += [] if value is True else [np.array([value] * n)]
    for values in columns:
        with pytest.raises(InvalidColumn) as caught:
            encode(values, Column("x"))
        first = caught.value.problems[0]
        assert (first.code, first.column) == (code, "x")
        assert first.row == (0 if code != "not-of-kind" or isinstance(values, list) else None)
