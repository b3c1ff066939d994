"""The decimal parser agrees with the constructor of float and with the grammar of JSON."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.inference.formats.decimals import TO_END, UNSUPPORTED, parse_lists

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
#: Fragments of valid and invalid JSON.
PIECES = st.sampled_from([*'[]]],,,.-+eE01907 \n\t"{}x', "1.5", "-2e3", "null", ", ", "0.1"])


def parse(text, max_unparsed=100, stop=TO_END):
    """Return the end of the list in a text, its values, and (n_unparsed, is_integer)."""
    data = (text + "}").encode()
    values = np.full(len(data) + 1, np.nan)
    unparsed, counts = np.empty((max_unparsed, 3), np.uint64), np.empty(4, np.uint64)
    array = np.frombuffer(data, np.uint8)
    end = parse_lists(array, np.uint64(1), values, unparsed, counts, stop)
    if end == UNSUPPORTED:
        return None, None, None
    n, n_rows, n_unparsed, is_integer = counts.tolist()
    for i, first, last in unparsed[:n_unparsed].tolist():
        values[i] = float(data[first:last])
    assert np.isnan(values[n:]).all()
    found = values[:n]
    return int(end), found.reshape(n_rows, -1) if n_rows else found, (n_unparsed, bool(is_integer))


def check_as_float(texts):
    """Check that numbers are parsed like JSON, bit by bit; return the number left unparsed."""
    text = f"[{','.join(texts)}]"
    end, values, (n_unparsed, _) = parse(text, max_unparsed=len(texts))
    assert end == len(text)
    expected = np.array([float(json.loads(one)) for one in texts])
    assert values.tobytes() == expected.tobytes()
    return n_unparsed


@settings(deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=50))
@example([0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e22, 1e23])
def test_shortest_representations_are_parsed_exactly(values):
    check_as_float([repr(value) for value in values])


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=50))
@example(
    [
        "0e400",
        "-0",
        "0",
        "-0.0",
        "-0e0",
        "-0.0e-400",
        "0." + "0" * 30,
        "0." + "0" * 30 + "1",
        "1e400",
        "1e-400",
    ]
)
@example(["9007199254740993", "9007199254740992.5", "18446744073709551615", "9999999999999999999"])
def test_any_decimal_is_parsed_to_the_nearest_float(texts):
    check_as_float(texts)


@settings(deadline=None)
@given(FLOATS.filter(lambda x: 1e-280 < abs(x) < 1e280), st.integers(1, 17))
def test_decimals_of_up_to_18_digits_are_never_left_unparsed(value, n_digits):
    assert check_as_float([f"{value:.{n_digits}e}", f"{value:.{n_digits}E}"]) == 0


def test_decimals_halfway_between_two_floats_round_to_even():
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(20_000):
        odd = 2 * int(rng.integers(2**52, 2**53)) + 1
        middle = Fraction(odd) * Fraction(2) ** int(rng.integers(-12, 10))
        k = middle.denominator.bit_length() - 1
        digits = middle.numerator * 5**k
        texts += [f"{digits + d}e-{k}" for d in (-1, 0, 1) if digits < 10**18]
    assert len(texts) > 10_000
    assert check_as_float(texts) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]", [1]),
        (" [ 1 ,\t2\r\n, 3.5 ] ".strip(), [1, 2, 3.5]),
        ("[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ("[ [ 1 ] , [ 2 ] ]", [[1], [2]]),
        ("[1], [2]", [1]),
    ],
)
def test_lists_and_rows_are_parsed_up_to_the_closing_bracket(text, expected):
    end, values, _ = parse(text)
    assert values.tolist() == expected
    assert json.loads(text[:end]) == expected


INVALID = (
    "[] [[]] [1,] [,1] [1,,2] [01] [-01] [1.] [.5] [+1] [-] [1e] [1e+] [1.e1] [0x1] [1_0] [NaN] "
    "[Infinity] [-inf] [null] [true] ['1'] [1 [1,2 [1}2] [[1,2],[3]] [[1],2] [1,[2]] [[1],[]] "
    "[[[1]]] [[1][2]] [[1],] [{}] [1;2]"
)


@pytest.mark.parametrize("text", [*INVALID.split(), "[1\x0b]", "[1 2]", "[\x00]"])
def test_anything_but_a_list_of_numbers_is_unsupported(text):
    assert parse(text)[0] is None
    assert parse(text.replace("[1", '["a",1'))[0] is None


def test_integers_are_distinguished_from_other_numbers():
    assert parse("[1,-20,0]")[2] == (0, True)
    for other in ("1.0", "1e0", "0.5"):
        assert parse(f"[1,{other},3]")[2] == (0, False)


def test_a_list_with_too_many_unparsed_numbers_is_unsupported():
    text = "[" + ",".join(["0.12345678901234567890123"] * 5) + "]"
    assert parse(text, max_unparsed=5)[2] == (5, False)
    assert parse(text, max_unparsed=4)[0] is None


@pytest.mark.slow  # many examples
@settings(max_examples=1000, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_only_valid_json_is_parsed_and_never_beyond_the_end(inside):
    text = f"[{inside}"
    end, values, _ = parse(text)
    if end is not None:
        assert end <= len(text)
        assert json.loads(text[:end]) == values.tolist()


@pytest.mark.parametrize("text", ["[1, 2.5 ,3]", "[[1, 2], [3, 4] ,[5,6]]"])
def test_parsing_can_stop_at_a_comma_and_continue_after_it(text):
    whole = parse(text)[1]
    for stop in (i for i, byte in enumerate(text) if byte == ","):
        end, first, _ = parse(text, stop=np.uint64(stop))
        if end == stop + 1:
            rest = "[" + text[end:]
            assert np.concatenate([first, parse(rest)[1]]).tolist() == whole.tolist()


@pytest.mark.parametrize("text", ["[1.25e-3, -17, 0.1]", "[[1, 2], [3, 4]]"])
def test_a_truncated_list_is_unsupported(text):
    for i in range(1, len(text)):
        assert parse(text[:i])[0] is None
