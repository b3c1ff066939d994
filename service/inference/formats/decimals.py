"""Compiled kernel that reads lists of decimal numbers, as JSON writes them, into floats.

A number of up to 19 digits, w · 10^q, becomes the nearest float by one or two products of 64 bits:
D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 51, 2021,
Algorithm 1, with the proof that nothing else is needed of N. Mushtak and D. Lemire, "Fast number
parsing without fallback", 2023. Whatever is longer, or near the ends of the range, is left to the
caller. The twin is the constructor of :class:`float`.
"""

# ruff: noqa: C901, PLR0912, PLR0915, PLR0917  by place, as it compiles

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.compiled import exact_kernel

Bytes = NDArray[np.uint8]
Signed: TypeAlias = int | np.int64

#: Powers of ten whose powers of five are tabulated; all floats of full precision lie within.
LEAST_POWER: Final = -325
MOST_POWER: Final = 308
#: The place of a list that is left to the caller.
NOT_PLAIN: Final = np.uint64(0)
TO_END: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_MOST_DIGITS: Final = 19
_MOST_EXPONENT: Final = 100_000

# an index that has a sign is tested for it at every step, and mixed with one that has none is a
# float: so all are of this type
_u: Final = np.uint64
_0, _1, _8, _10 = _u(0), _u(1), _u(8), _u(10)
_TAB, _LF, _CR, _SPACE = 9, 10, 13, 32
_COMMA, _MINUS, _PLUS, _POINT, _DIGIT_0, _DIGIT_9 = 44, 45, 43, 46, 48, 57
_OPEN, _CLOSE, _E_LARGE, _E_SMALL = 91, 93, 69, 101
_LEFT: Final = _u(0xFFFFFFFFFFFFFFFF)
_HIGH_NIBBLES: Final = _u(0xF0F0F0F0F0F0F0F0)


def powers_of_five() -> NDArray[np.uint64]:
    """Return 5^q as the 128 bits from its first one on, high and low (n, 2)."""
    table = []
    for q in range(LEAST_POWER, MOST_POWER + 1):
        if q >= 0:
            value = 5**q << 128 >> (5**q).bit_length()
        else:
            # the first ones are rounded up, which the proofs ask for; the others are cut off
            n_bits = (5**-q - 1).bit_length()
            scale = n_bits + 127 if q >= -27 else 2 * n_bits + 128
            value = (1 << scale) // 5**-q + 1
            value >>= max(0, value.bit_length() - 128)
        table.append((value >> 64, value & (2**64 - 1)))
    return np.array(table, dtype=np.uint64)


_POWERS: Final = powers_of_five()
_EXACT_POWERS: Final = np.array([10.0**q for q in range(23)])


@exact_kernel
def _high_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the upper 64 bits of a · b."""
    half, low = _u(32), _u(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


@exact_kernel
def _nearest(w: np.uint64, n_zeros: Signed, q: Signed) -> np.uint64:
    """Return the bits of the float nearest to w · 10^q; ``_LEFT`` where it is not a normal one."""
    w <<= _u(n_zeros)
    row = _u(q - LEAST_POWER)
    high, low = _high_product(w, _POWERS[row, _0]), w * _POWERS[row, _0]
    if high & _u(0x1FF) == _u(0x1FF):
        more = _high_product(w, _POWERS[row, _1])
        low += more
        if more > low:
            high += _1
    upper = high >> _u(63)
    shift = upper + _u(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - n_zeros + 1023
    if exponent <= 0 or exponent >= 0x7FE:
        return _LEFT
    is_tie = low <= _1 and -4 <= q <= 23 and mantissa & _u(3) == _1
    if is_tie and mantissa << shift == high:
        mantissa &= ~_1
    mantissa = (mantissa + (mantissa & _1)) >> _1
    # where it is rounded up to the next power of two, the exponent goes up with it
    return mantissa + (_u(exponent - 1) << _u(52))


@exact_kernel
def _skip_space(text: Bytes, at: np.uint64) -> np.uint64:
    while text[at] <= _SPACE and (
        text[at] == _SPACE or text[at] == _LF or text[at] == _CR or text[at] == _TAB
    ):
        at += _1
    return at


@exact_kernel
def _is_digit(byte: np.uint8) -> bool:
    return bool(_DIGIT_0 <= byte <= _DIGIT_9)


@exact_kernel
def _digits(text: Bytes, at: np.uint64, w: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return where digits end, and w with them behind it; modulo 2^64."""
    end = _u(text.size)
    while at + _8 < end:
        eight = (
            _u(text[at])
            | _u(text[at + _1]) << _u(8)
            | _u(text[at + _u(2)]) << _u(16)
            | _u(text[at + _u(3)]) << _u(24)
            | _u(text[at + _u(4)]) << _u(32)
            | _u(text[at + _u(5)]) << _u(40)
            | _u(text[at + _u(6)]) << _u(48)
            | _u(text[at + _u(7)]) << _u(56)
        )
        beyond = (eight + _u(0x0606060606060606)) & _HIGH_NIBBLES
        if (eight & _HIGH_NIBBLES) | (beyond >> _u(4)) != _u(0x3333333333333333):
            break
        # pairs, then fours, then all eight, each by one product
        eight -= _u(0x3030303030303030)
        eight = eight * _10 + (eight >> _8)
        pairs = _u(0x000000FF000000FF)
        first = (eight & pairs) * _u(0x000F424000000064)
        second = ((eight >> _u(16)) & pairs) * _u(0x0000271000000001)
        w = w * _u(100_000_000) + (((first + second) >> _u(32)) & _u(0xFFFFFFFF))
        at += _8
    while _is_digit(text[at]):
        w = w * _10 + (_u(text[at]) - _u(_DIGIT_0))
        at += _1
    return at, w


@exact_kernel
def _exponent(text: Bytes, at: np.uint64) -> tuple[np.uint64, Signed]:
    """Return where an exponent ends, and its value; ``NOT_PLAIN`` where there is none."""
    is_negative = text[at] == _MINUS
    if is_negative or text[at] == _PLUS:
        at += _1
    if not _is_digit(text[at]):
        return NOT_PLAIN, 0
    power: Signed = 0
    while _is_digit(text[at]):
        if power < _MOST_EXPONENT:
            power = 10 * power + np.int64(text[at]) - _DIGIT_0
        at += _1
    return at, -power if is_negative else power


@exact_kernel
def _row(
    text: Bytes,
    at: np.uint64,
    values: NDArray[np.float64],
    bits: NDArray[np.uint64],
    hard: NDArray[np.uint64],
    facts: NDArray[np.uint64],
    stop: np.uint64,
) -> np.uint64:
    """Read numbers to the bracket that ends them, or the comma at ``stop``; give what follows."""
    n, n_hard, is_integer = facts[0], facts[2], facts[3]
    while True:
        at = _skip_space(text, at)
        first = at
        is_negative = text[at] == _MINUS
        if is_negative:
            at += _1
        begin, w = at, _0
        q: Signed = 0
        if text[at] == _DIGIT_0:
            at += _1
        else:  # mostly few
            while _is_digit(text[at]):
                w = w * _10 + (_u(text[at]) - _u(_DIGIT_0))
                at += _1
        if at == begin:
            return NOT_PLAIN
        n_digits = at - begin
        if text[at] == _POINT:
            point = at + _1
            at, w = _digits(text, point, w)
            if at == point:
                return NOT_PLAIN
            n_digits += at - point
            q, is_integer = -np.int64(at - point), _0
        if n_digits > _u(_MOST_DIGITS):
            place = begin
            while text[place] == _DIGIT_0 or text[place] == _POINT:
                n_digits -= _u(text[place] == _DIGIT_0)
                place += _1
        if text[at] == _E_SMALL or text[at] == _E_LARGE:
            at, power = _exponent(text, at + _1)
            if at == NOT_PLAIN:
                return NOT_PLAIN
            q, is_integer = q + power, _0
        values[n] = float(w)
        if n_digits > _u(_MOST_DIGITS):
            found = _LEFT
        elif w == _0:
            found = bits[n]
        elif w <= _u(1 << 53) and -22 <= q <= 22:
            values[n] = (
                values[n] / _EXACT_POWERS[_u(-q)] if q < 0 else values[n] * _EXACT_POWERS[_u(q)]
            )
            found = bits[n]
        elif LEAST_POWER <= q <= MOST_POWER:
            n_bits = np.int64(bits[n] >> _u(52)) - 1022
            # the float may have been rounded up to the next power of two
            n_bits -= np.int64(w >> _u(n_bits - 1) == _0)
            found = _nearest(w, 64 - n_bits, q)
        else:
            found = _LEFT
        bits[n] = found | (_u(is_negative) << _u(63))
        if found == _LEFT:
            if n_hard == _u(hard.shape[0]):
                return NOT_PLAIN
            hard[n_hard, _0], hard[n_hard, _1], hard[n_hard, _u(2)] = n, first, at
            n_hard += _1
        n += _1
        at = _skip_space(text, at)
        if text[at] != _COMMA:
            facts[0], facts[2], facts[3] = n, n_hard, is_integer
            return at + _1 if text[at] == _CLOSE else NOT_PLAIN
        at += _1
        if at > stop:
            facts[0], facts[2], facts[3] = n, n_hard, is_integer
            return at


@exact_kernel
def count_of(text: Bytes, byte: int) -> int:
    """Return how often a byte comes."""
    n = 0
    for i in range(text.size):
        n += text[i] == byte
    return n


@exact_kernel
def read_lists(
    text: Bytes,
    start: np.uint64,
    values: NDArray[np.float64],
    hard: NDArray[np.uint64],
    facts: NDArray[np.uint64],
    stop: np.uint64,
) -> np.uint64:
    """Read a list of numbers, or of rows of as many numbers each, and give the place after it.

    Parameters
    ----------
    text
        Its last byte is a closing brace, which no list goes beyond.
    start
        Of the list, after its bracket.
    values
        Takes the numbers, in order; there is place for one more than there are commas.
    hard : (n, 3)
        Takes the place in ``values``, the start and the end of each number that is left.
    facts : (4,)
        Takes the number of values, of rows where there are rows, of those in ``hard``, and
        whether all are written as integers.
    stop
        Where a comma stands between two numbers, or two rows, after which reading ends; ``TO_END``
        for the whole list. What follows that comma is read as a list of its own.

    Returns
    -------
    ``NOT_PLAIN`` where there is anything else in it, a list is empty, rows have different
    lengths, or ``hard`` is full.
    """
    bits = values.view(np.uint64)
    facts[0], facts[1], facts[2], facts[3] = _0, _0, _0, _1
    at = _skip_space(text, start)
    if text[at] != _OPEN:
        return _row(text, at, values, bits, hard, facts, stop)
    width = _0
    while text[at] == _OPEN:
        n = facts[0]
        at = _row(text, at + _1, values, bits, hard, facts, TO_END)
        if at == NOT_PLAIN or (n > _0 and facts[0] - n != width):
            return NOT_PLAIN
        width = facts[0] - n
        facts[1] += _1
        at = _skip_space(text, at)
        if text[at] == _CLOSE:
            return at + _1
        if text[at] != _COMMA:
            return NOT_PLAIN
        if at >= stop:
            return at + _1
        at = _skip_space(text, at + _1)
    return NOT_PLAIN
