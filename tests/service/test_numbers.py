"""Extraction of numbers from JSON bodies agrees with a JSON parser."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.inference.formats.numbers import PLACEHOLDER, array_pattern, extract_number_array

DATA = array_pattern("data")
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
LISTS = st.lists(NUMBERS, max_size=4) | st.lists(st.lists(NUMBERS, max_size=2), max_size=3)
KEYS = st.sampled_from(["data", "datum", 'a"data', "b"])
VALUES = st.recursive(
    LISTS | st.text(max_size=4) | st.none() | st.sampled_from(['"data": [1]', '\\"data":[1,']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def insert_numbers(value, numbers):
    """Return a document with numbers in place of the placeholder, and how often it occurs."""
    if value == PLACEHOLDER:
        return numbers, 1
    if isinstance(value, dict):
        found = {key: insert_numbers(item, numbers) for key, item in value.items()}
        return {key: item for key, (item, _) in found.items()}, sum(n for _, n in found.values())
    if isinstance(value, list):
        found = [insert_numbers(item, numbers) for item in value]
        return [item for item, _ in found], sum(n for _, n in found)
    return value, 0


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, min_size=1),
    st.sampled_from([None, 1]),
    st.sampled_from([bytes, bytearray]),
)
@example({"data": "\\", "b": {"data": [1, 2]}}, None, bytes)
@example({"b": '"data":[1]', "data": [[1.5], [2]]}, None, bytearray)
def test_rest_and_numbers_together_are_the_body(document, indent, kind):
    text = json.dumps(document, indent=indent).encode()
    extracted = extract_number_array(kind(text), DATA)
    if extracted is not None:
        rest, n_inserted = insert_numbers(json.loads(extracted.rest), extracted.numbers.tolist())
        # a list within a string would give invalid or different JSON
        assert (rest, n_inserted) == (json.loads(text), 1)


def test_numbers_of_ordinary_bodies_are_extracted():
    rows = np.random.default_rng(0).standard_normal((7, 3))
    for data in (rows.tolist(), rows.ravel().tolist()):
        for separators in ((",", ":"), (", ", ": ")):
            extracted = extract_number_array(
                json.dumps({"a": 1, "data": data}, separators=separators).encode(), DATA
            )
            assert extracted.numbers.tolist() == data


@pytest.mark.parametrize("n_rows", [10, 5_000, 60_000])
@pytest.mark.parametrize("indent", [None, 0])
@pytest.mark.parametrize("is_nested", [True, False])
@pytest.mark.quick(5)
def test_small_and_large_bodies_are_parsed_the_same_way(n_rows, indent, is_nested):
    """Large bodies are parsed by two threads."""
    rows = np.random.default_rng(0).standard_normal((n_rows, 2))
    data = rows.tolist() if is_nested else rows.ravel().tolist()
    extracted = extract_number_array(
        json.dumps({"data": data, "more": [1, [2]]}, indent=indent).encode(), DATA
    )
    assert extracted.numbers.tolist() == data
    assert extracted.is_integer is False
    assert json.loads(extracted.rest) == {"data": PLACEHOLDER, "more": [1, [2]]}


@pytest.fixture(scope="module", params=[True, False], ids=["nested", "flat"])
def large_body(request):
    rows = np.full((60_000, 4), 0.125)
    body = json.dumps({"data": (rows if request.param else rows.ravel()).tolist()}).encode()
    assert extract_number_array(body, DATA) is not None
    return body


@pytest.mark.slow
@pytest.mark.parametrize("place", [0.01, 0.499, 0.501, 0.999])
@pytest.mark.parametrize("odd", [b"x", b"]", b'"', b"1e999,"])
def test_a_syntax_error_anywhere_in_a_large_body_is_found(large_body, place, odd):
    at = large_body.index(b" ", int(place * len(large_body)) - 50)
    extracted = extract_number_array(large_body[:at] + odd + large_body[at:], DATA)
    if extracted is not None:  # the list ended early, so the rest is not JSON
        with pytest.raises(json.JSONDecodeError):
            json.loads(extracted.rest)


def test_rows_of_different_lengths_in_the_two_halves_are_not_extracted():
    body = json.dumps({"data": [[1.5] * 4] * 50_000 + [[1.5] * 5] * 40_000}).encode()
    assert extract_number_array(body, DATA) is None


@pytest.mark.parametrize(
    "body", [b"", b"}", b'{"data":[1]', b'{"data":[', b'{"data":[1e999]}', b"{}"]
)
def test_incomplete_bodies_are_not_extracted(body):
    assert extract_number_array(body, DATA) is None


def test_a_placeholder_sent_by_a_client_is_rejected(http):
    """The placeholder is random per process; the right one would be rejected as a string."""
    tensor = {"name": "rows", "shape": [1, 5], "datatype": "FP64", "data": PLACEHOLDER}
    body = {"inputs": [tensor], "parameters": {"task": "north"}}
    response = http.post("/v2/models/shared/infer", json=body)
    assert response.status_code == 400
    assert "needs data" in response.json()["error"]
