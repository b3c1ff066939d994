"""Every body format has the same result as the offline model, bit for bit."""

import gzip
import io
import zlib

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from algorithms.registry import load_model
from service.settings import MIB
from sibling import Client, ServiceError
from tests.written import parquet_of, written

JSON = "application/json"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
ARROW_FILE = "application/vnd.apache.arrow.file"
PARQUET = "application/vnd.apache.parquet"
CSV = "text/csv"
NAMES = ("reading", "writing", "maths")


@pytest.fixture(scope="module")
def named(client, tmp_path_factory):
    """Offline copy of a model that was trained on named columns."""
    rng = np.random.default_rng(1)
    lines = [",".join(("task", *NAMES))]
    lines += [f"{t},{','.join(map(repr, rng.standard_normal(3).tolist()))}" for t in "aabbabab"]
    path = tmp_path_factory.mktemp("named") / "pupils.csv"
    path.write_text("\n".join(lines))
    model = client.train(client.upload(path), "pca", model="named-columns", k=2).wait()
    return load_model(model.download(path.with_suffix(".safetensors")))


@pytest.fixture(scope="module")
def http(http, named):
    """Client of the shared server, which has that model."""
    del named
    return http


@pytest.fixture(scope="module")
def X():  # noqa: N802 - the letter of the rows
    return np.random.default_rng(3).standard_normal((7, 3)) * 10.0 ** np.arange(-1, 2)


def call(http, content, content_type, *, accept=NPY, method="transform", params=None, **headers):
    return http.post(
        f"/v1/models/named-columns/{method}",
        params={"task": "a"} if params is None else params,
        content=content,
        headers={"Content-Type": content_type, "Accept": accept, **headers},
    )


def outputs(response):
    assert response.status_code == 200, response.text
    kind, content = response.headers["content-type"], response.content
    if kind == JSON:
        return np.array(response.json()["outputs"])
    if kind == NPY:
        return np.load(io.BytesIO(content), allow_pickle=False)
    if kind == CSV:
        return np.loadtxt(io.StringIO(content.decode()), delimiter=",", skiprows=1, ndmin=2)
    table = (
        pa.ipc.open_stream(content).read_all()
        if kind == ARROW
        else pq.read_table(io.BytesIO(content))
    )
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def as_table(columns):
    return pa.table(columns)


def as_arrow(columns, **options):
    sink = io.BytesIO()
    table = as_table(columns)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return sink.getvalue()


def as_arrow_file(columns, **options):
    sink = io.BytesIO()
    table = as_table(columns)
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return sink.getvalue()


def as_parquet(columns, **options):
    return parquet_of(as_table(columns), **options)


def as_csv(columns):
    lines = [",".join(columns)]
    rows = zip(*(list(values) for values in columns.values()), strict=True)
    lines += [",".join(v if isinstance(v, str) else repr(float(v)) for v in row) for row in rows]
    return "\r\n".join(lines).encode()


TABLES = {ARROW: as_arrow, ARROW_FILE: as_arrow_file, PARQUET: as_parquet, CSV: as_csv}
tables = pytest.mark.parametrize("kind", TABLES)


def columns_of(X, names=NAMES):
    return {name: X[:, j] for j, name in enumerate(names)}


def assert_rejected(response, status, code, *words):
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code), body
    for word in words:
        assert word in body["detail"], body
    return body


# --- same result as offline ----------------------------------------------------------------------


@tables
@pytest.mark.parametrize("accept", [JSON, NPY, ARROW, PARQUET, CSV])
def test_every_table_format_equals_the_offline_model_bit_for_bit(http, named, X, kind, accept):
    result = outputs(call(http, TABLES[kind](columns_of(X)), kind, accept=accept))
    assert result.tobytes() == named.transform(X, task="a").tobytes()


@tables
def test_columns_are_matched_by_name_in_any_order(http, named, X, kind):
    shuffled = {name: X[:, NAMES.index(name)] for name in ("maths", "reading", "writing")}
    result = outputs(call(http, TABLES[kind](shuffled), kind))
    np.testing.assert_array_equal(result, named.transform(X, task="a"))


@tables
def test_columns_of_inverse_transform_are_matched_by_position(http, named, X, kind):
    Z = X[:, :2]
    body = TABLES[kind](columns_of(Z, ("transform_0", "transform_1")))
    result = outputs(call(http, body, kind, method="inverse-transform"))
    np.testing.assert_array_equal(result, named.inverse_transform(Z, task="a"))


def test_csv_without_a_header_is_matched_by_position(http, named, X):
    body = "\n".join(",".join(map(repr, row)) for row in X.tolist()).encode()
    np.testing.assert_array_equal(outputs(call(http, body, CSV)), named.transform(X, task="a"))


@tables
def test_a_task_column_has_the_task_of_each_row(http, named, X, kind):
    tasks = ["a", "b", "a", "a", "b", "b", "a"]
    body = TABLES[kind]({"task": tasks, **columns_of(X)})
    result = outputs(call(http, body, kind, params={}))
    expected = np.stack(
        [named.transform(row[None], task=t)[0] for row, t in zip(X, tasks, strict=True)]
    )
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_json_may_have_a_task_per_row(http, named, X):
    tasks = ["b", "a"] * 3 + ["b"]
    body = orjson.dumps({"task": tasks, "inputs": X.tolist()})
    response = call(http, body, JSON, accept=JSON, params={})
    assert response.json()["task"] == tasks
    by_row = [named.transform(row[None], task=t)[0] for row, t in zip(X, tasks, strict=True)]
    np.testing.assert_allclose(outputs(response), by_row, rtol=1e-12)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32()])
def test_every_numeric_type_of_arrow_is_accepted(http, named, kind):
    X = np.array([[1, 2, 3], [4, 5, 6]])
    body = as_arrow({name: pa.array(X[:, j]).cast(kind) for j, name in enumerate(NAMES)})
    result = outputs(call(http, body, ARROW))
    np.testing.assert_array_equal(result, named.transform(X.astype(float), task="a"))


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
def test_common_compressions_of_parquet_are_accepted(http, named, X, compression):
    body = as_parquet(columns_of(X), compression=compression)
    np.testing.assert_array_equal(outputs(call(http, body, PARQUET)), named.transform(X, task="a"))


# --- invalid tables ------------------------------------------------------------------------------


@tables
def test_a_missing_or_unknown_column_is_named(http, X, kind):
    lacking = TABLES[kind](columns_of(X[:, :2], NAMES[:2]))
    assert_rejected(call(http, lacking, kind), 422, "invalid-data", "'maths'", "task 'a'")
    more = TABLES[kind]({**columns_of(X), "age": X[:, 0]})
    assert_rejected(call(http, more, kind), 422, "invalid-data", "'age'")


@tables
def test_a_table_needs_its_task_exactly_once(http, X, kind):
    assert_rejected(
        call(http, TABLES[kind](columns_of(X)), kind, params={}), 422, "invalid-request"
    )
    both = TABLES[kind]({"task": ["a"] * 6 + ["b"], **columns_of(X)})
    rejected = assert_rejected(call(http, both, kind), 422, "invalid-request", "'a'", "'b'")
    assert rejected["errors"][0]["parameter"] == "query:task"


@tables
def test_an_unknown_task_in_a_row_lists_the_known_ones(http, X, kind):
    body = TABLES[kind]({"task": ["a"] * 6 + ["z"], **columns_of(X)})
    assert_rejected(call(http, body, kind, params={}), 422, "unknown-task", "'z'", "'a', 'b'")


@tables
def test_a_non_finite_value_is_located_by_its_row_in_the_table(http, X, kind):
    X = X.copy()
    X[5, 1] = np.nan
    body = TABLES[kind]({"task": ["b", "a"] * 3 + ["b"], **columns_of(X)})
    assert_rejected(call(http, body, kind, params={}), 422, "invalid-data", "'a', row 5, column 1")


@pytest.mark.parametrize("kind", [ARROW, PARQUET])
def test_columns_of_strings_and_unknown_tasks_are_rejected(http, X, kind):
    wrong = {**columns_of(X), "maths": ["one"] * 7}
    words = "row 0, column 'maths': expected a number, got 'one'"
    assert_rejected(call(http, TABLES[kind](wrong), kind), 422, "invalid-data", words)
    numbered = {"task": list(range(7)), **columns_of(X)}
    response = call(http, TABLES[kind](numbered), kind, params={})
    assert_rejected(response, 422, "unknown-task", "'0'")
    # the task in the query contradicts it
    response = call(http, TABLES[kind](numbered), kind)
    assert_rejected(response, 422, "invalid-request", "row 0", "'a'")


@pytest.mark.parametrize("cell", ["x", "1_000", "٣", "0x1", "1,000", '"', "true"])
def test_a_csv_cell_that_is_not_a_number_is_located(http, cell):
    body = f"reading,writing,maths\r\n1,2,3\r\n4,{cell},6\r\n".encode()
    response = call(http, body, CSV)
    assert response.status_code in (400, 422), response.text
    if response.json()["errors"]:
        assert response.json()["errors"][0]["row"] == 1


def test_integers_that_are_inexact_as_float64_are_rejected_with_their_location(http):
    X = np.array([[1, 2, 3], [4, 2**53 + 1, 6]])
    for kind, content in ((NPY, written(np.save, X)), (ARROW, as_arrow(columns_of(X)))):
        problem = assert_rejected(
            call(http, content, kind), 422, "invalid-data", "2**53", str(2**53 + 1)
        )
        assert problem["errors"][0]["row"] == 1


# --- truncated, corrupt and highly compressed bodies ---------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", [ARROW, PARQUET])
def test_a_truncated_table_never_causes_an_internal_error(http, X, kind):
    body = TABLES[kind](columns_of(X))
    for end in range(0, len(body) - 1, 7):
        response = call(http, body[:end], kind)
        # a truncated IPC stream is valid if it ends after a message
        assert response.status_code in (200, 400, 422), (end, response.text)


@pytest.mark.parametrize("kind", [ARROW, PARQUET])
@pytest.mark.quick(1)
def test_a_corrupt_table_never_crashes_the_service(http, X, kind):
    body = bytearray(TABLES[kind]({"task": ["a", "b"] * 3 + ["a"], **columns_of(X)}))
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(body)
        for place in rng.integers(0, len(body), 3):
            damaged[place] = rng.integers(0, 256)
        response = call(http, bytes(damaged), kind, params={})
        assert response.status_code in (200, 400, 413, 422), response.text
    assert http.get("/v2/health/live").status_code == 200


def test_a_stream_that_is_sent_as_an_arrow_file_is_rejected(http, X):
    body = as_arrow(columns_of(X))
    assert_rejected(call(http, body, ARROW_FILE), 400, "malformed-body", "ARROW1")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_arrow_buffers_count_with_their_decompressed_size(http, codec):
    plain, packed = (as_arrow(columns_of(np.ones((1000, 3))), compression=c) for c in (None, codec))
    assert call(http, packed, ARROW).content == call(http, plain, ARROW).content
    body = as_arrow(dict.fromkeys(NAMES, np.zeros(30_000_000)), compression=codec)
    assert_rejected(call(http, body, ARROW), 413, "body-too-large", "bytes")


@pytest.mark.slow  # many rows
def test_a_small_parquet_file_with_many_rows_is_rejected(http):
    zeros = np.zeros(30_000_000)
    body = as_parquet(dict.fromkeys(NAMES, zeros), compression="zstd")
    assert len(body) < MIB
    assert_rejected(call(http, body, PARQUET), 413, "body-too-large", "bytes")


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_a_csv_with_too_many_lines_is_rejected_before_parsing(http, end):
    body = (b"," + end) * 1_000_001
    assert_rejected(call(http, body, CSV), 413, "too-many-rows", "1000001")


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "identity", "GZIP"])
def test_a_compressed_body_is_accepted(http, named, X, coding):
    body = orjson.dumps({"task": "a", "inputs": X.tolist()})
    encoders = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}
    encoded = encoders.get(coding.lower(), bytes)(body)
    response = call(http, encoded, JSON, params={}, **{"Content-Encoding": coding})
    np.testing.assert_array_equal(outputs(response), named.transform(X, task="a"))


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}], ids=["file", "coding"])
def test_a_body_of_several_compressed_parts_is_read(http, named, X, headers):
    lines = [",".join(map(repr, row)) + "\n" for row in X.tolist()]
    body = b"".join(gzip.compress(line.encode()) for line in [",".join(NAMES) + "\n", *lines])
    response = call(http, body, CSV, **headers)
    np.testing.assert_array_equal(outputs(response), named.transform(X, task="a"))


@pytest.mark.parametrize(
    ("body", "coding", "status"),
    [
        (b"not gzip", "gzip", 400),
        (gzip.compress(b"{}")[:-1], "gzip", 400),
        (gzip.compress(b"{}") + b"x", "gzip", 400),
        (b"", "deflate", 400),
        (b"{}", "br", 415),
        (gzip.compress(gzip.compress(b"{}")), "gzip, gzip", 415),
        (gzip.compress(b" " * 4 * MIB), "gzip", 413),
        (zlib.compress(bytes(range(251)) * 16_000), "deflate", 413),
    ],
    ids=range(8),
)
def test_a_corrupt_or_too_highly_compressed_body_is_rejected(http, body, coding, status):
    response = call(http, body, JSON, **{"Content-Encoding": coding})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_responses_are_compressed_if_the_client_accepts_exactly_one_encoding(http, named, coding):
    X = np.random.default_rng(0).standard_normal((500, 3))
    body = orjson.dumps({"task": "a", "inputs": X.tolist()})
    response = call(http, body, JSON, params={}, **{"Accept-Encoding": coding})
    assert response.headers["content-encoding"] == coding
    np.testing.assert_array_equal(outputs(response), named.transform(X, task="a"))
    usual = call(http, body, JSON, params={}, **{"Accept-Encoding": "gzip, deflate, br"})
    assert "content-encoding" not in usual.headers


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_too_many_rows_and_too_large_outputs_are_rejected(start_replica):
    service = start_replica(SIBLING_MAX_INFERENCE_ROWS=2000, SIBLING_MAX_RESPONSE_BYTES=50_000)
    rng = np.random.default_rng(0)
    with Client(service.url) as client:
        client.train(
            client.upload({"a": rng.standard_normal((9, 5))}), "pca", model="limited"
        ).wait()

    import httpx

    def send(method, n_rows, width):
        path = f"{service.url}/v1/models/limited/{method}?task=a"
        return httpx.post(
            path,
            content=written(np.save, np.ones((n_rows, width))),
            headers={"Content-Type": NPY},
            timeout=240,
        )

    with Client(service.url) as client:
        k = client.model("limited").transform(np.ones((1, 5)), task="a").shape[1]
    assert send("inverse-transform", 1200, k).status_code == 200
    assert_rejected(send("inverse-transform", 1500, k), 413, "too-many-rows", "50000")
    assert_rejected(send("transform", 2001, 5), 413, "too-many-rows", "2001", "2000")


@pytest.mark.slow
def test_too_large_outputs_of_few_rows_are_rejected(start_replica):
    service = start_replica(SIBLING_MAX_RESPONSE_BYTES=50_000)
    wide = np.random.default_rng(0).standard_normal((9, 500))
    with Client(service.url) as client:
        model = client.train(client.upload({"a": wide}), "pca", model="wide", k=2).wait()
        assert model.inverse_transform(np.ones((12, 2)), task="a").nbytes == 48_000
        with pytest.raises(ServiceError, match="52000 bytes") as rejected:
            model.inverse_transform(np.ones((13, 2)), task="a")
        assert rejected.value.code == "too-many-rows"
        assert model.transform(np.ones((1000, 500)), task="a").shape == (1000, 2)
