"""Bodies whose numbers are read where they stand say what a parser of JSON says they say."""

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


def put_back(value, numbers):
    """Return a document with the numbers where the token stands, and how often it stands there."""
    if value == PLACEHOLDER:
        return numbers, 1
    if isinstance(value, dict):
        found = {key: put_back(item, numbers) for key, item in value.items()}
        return {key: item for key, (item, _) in found.items()}, sum(n for _, n in found.values())
    if isinstance(value, list):
        found = [put_back(item, numbers) for item in value]
        return [item for item, _ in found], sum(n for _, n in found)
    return value, 0


@settings(deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, min_size=1),
    st.sampled_from([None, 1]),
    st.sampled_from([bytes, bytearray]),
)
@example({"data": "\\", "b": {"data": [1, 2]}}, None, bytes)
@example({"b": '"data":[1]', "data": [[1.5], [2]]}, None, bytearray)
def test_the_rest_with_the_numbers_in_it_is_the_body(document, indent, kind):
    text = json.dumps(document, indent=indent).encode()
    extracted = extract_number_array(kind(text), DATA)
    if extracted is not None:
        rest, n_tokens = put_back(json.loads(extracted.rest), extracted.numbers.tolist())
        # within a text it would not have been JSON, or not the same
        assert (rest, n_tokens) == (json.loads(text), 1)


def test_every_plain_body_is_cut():
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
def test_small_and_large_bodies_are_read_alike(n_rows, indent, is_nested):
    """Large ones are read by two threads."""
    rows = np.random.default_rng(0).standard_normal((n_rows, 2))
    data = rows.tolist() if is_nested else rows.ravel().tolist()
    extracted = extract_number_array(
        json.dumps({"data": data, "more": [1, [2]]}, indent=indent).encode(), DATA
    )
    assert extracted.numbers.tolist() == data
    assert extracted.is_integer is False
    assert json.loads(extracted.rest) == {"data": PLACEHOLDER, "more": [1, [2]]}


@pytest.mark.parametrize("place", [0.01, 0.3, 0.499, 0.5, 0.501, 0.75, 0.999])
@pytest.mark.parametrize("odd", [b"x", b"[", b"]", b",", b'"', b"}", b"\\", b"1e999,"])
@pytest.mark.parametrize("is_nested", [True, False])
def test_an_odd_place_anywhere_in_a_large_body_is_found(place, odd, is_nested):
    rows = np.full((60_000, 4), 0.125)
    data = rows.tolist() if is_nested else rows.ravel().tolist()
    body = json.dumps({"data": data}).encode()
    assert extract_number_array(body, DATA) is not None
    at = body.index(b" ", int(place * len(body)) - 50)
    extracted = extract_number_array(body[:at] + odd + body[at:], DATA)
    if extracted is not None:  # a list that ends early has more behind it, which is no JSON
        with pytest.raises(json.JSONDecodeError):
            json.loads(extracted.rest)


def test_rows_of_one_length_in_each_half_but_not_in_both_are_odd():
    body = json.dumps({"data": [[1.5] * 4] * 50_000 + [[1.5] * 5] * 40_000}).encode()
    assert extract_number_array(body, DATA) is None


@pytest.mark.parametrize(
    "body", [b"", b"}", b'{"data":[1]', b'{"data":[', b'{"data":[1e999]}', b"{}"]
)
def test_what_cannot_be_cut_is_left(body):
    assert extract_number_array(body, DATA) is None


def test_a_token_that_is_sent_stands_for_nothing(http):
    """It is made anew by each process; even the right one is but a text."""
    tensor = {"name": "rows", "shape": [1, 5], "datatype": "FP64", "data": PLACEHOLDER}
    body = {"inputs": [tensor], "parameters": {"task": "north"}}
    response = http.post("/v2/models/shared/infer", json=body)
    assert response.status_code == 400
    assert "needs data" in response.json()["error"]
