"""Compiled kernel that parses JSON lists of decimal numbers into floats.

A number w · 10^q of up to 19 digits is rounded to the nearest float with one or two 64-bit
products: D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience
51, 2021, Algorithm 1. N. Mushtak and D. Lemire, "Fast number parsing without fallback", 2023, prove
that this is sufficient. Longer numbers, and numbers near the limits of the range, are left to the
caller, which uses the constructor of :class:`float`. Tests compare the kernel with it too.
"""

# ruff: noqa: C901, PLR0912, PLR0915, PLR0917  the compiler needs positional arguments

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.kernels.compiled import exact_kernel

Bytes = NDArray[np.uint8]
Signed: TypeAlias = int | np.int64

#: Range of exponents q in the table; it covers all normal floats.
MIN_POWER: Final = -325
MAX_POWER: Final = 308
#: Returned instead of a position if the kernel cannot parse the list.
UNSUPPORTED: Final = np.uint64(0)
#: Value of ``stop`` that parses the whole list.
TO_END: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_MAX_DIGITS: Final = 19
_MAX_EXPONENT: Final = 100_000

# all indices are unsigned: signed ones are checked for negative values at every access, and mixing
# signed and unsigned integers gives floats
_u: Final = np.uint64
_0, _1, _8, _10 = _u(0), _u(1), _u(8), _u(10)
_TAB, _LF, _CR, _SPACE = 9, 10, 13, 32
_COMMA, _MINUS, _PLUS, _POINT, _DIGIT_0, _DIGIT_9 = 44, 45, 43, 46, 48, 57
_OPEN, _CLOSE, _E_LARGE, _E_SMALL = 91, 93, 69, 101
_UNPARSED: Final = _u(0xFFFFFFFFFFFFFFFF)
_HIGH_NIBBLES: Final = _u(0xF0F0F0F0F0F0F0F0)


def powers_of_five() -> NDArray[np.uint64]:
    """Return the 128 most significant bits of 5^q, as high and low words (n, 2)."""
    table = []
    for q in range(MIN_POWER, MAX_POWER + 1):
        if q >= 0:
            value = 5**q << 128 >> (5**q).bit_length()
        else:
            # as the proofs require, negative powers are rounded up, the others truncated
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
    """Return the bits of the float nearest to w · 10^q; ``_UNPARSED`` if it is not normal."""
    w <<= _u(n_zeros)
    row = _u(q - MIN_POWER)
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
        return _UNPARSED
    is_tie = low <= _1 and -4 <= q <= 23 and mantissa & _u(3) == _1
    if is_tie and mantissa << shift == high:
        mantissa &= ~_1
    mantissa = (mantissa + (mantissa & _1)) >> _1
    # rounding up to the next power of two carries into the exponent
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
def _parse_digits(text: Bytes, at: np.uint64, w: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Append digits to w, modulo 2^64; return the position after them, and w."""
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
        # combine pairs, fours and all eight digits with one product each
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
def _parse_exponent(text: Bytes, at: np.uint64) -> tuple[np.uint64, Signed]:
    """Return the position after an exponent, and its value; ``UNSUPPORTED`` if it is invalid."""
    is_negative = text[at] == _MINUS
    if is_negative or text[at] == _PLUS:
        at += _1
    if not _is_digit(text[at]):
        return UNSUPPORTED, 0
    power: Signed = 0
    while _is_digit(text[at]):
        if power < _MAX_EXPONENT:
            power = 10 * power + np.int64(text[at]) - _DIGIT_0
        at += _1
    return at, -power if is_negative else power


@exact_kernel
def _parse_row(
    text: Bytes,
    at: np.uint64,
    values: NDArray[np.float64],
    bits: NDArray[np.uint64],
    unparsed: NDArray[np.uint64],
    counts: NDArray[np.uint64],
    stop: np.uint64,
) -> np.uint64:
    """Parse numbers up to the bracket or the comma at ``stop``; return the position after it."""
    n, n_unparsed, is_integer = counts[0], counts[2], counts[3]
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
        else:  # usually few digits
            while _is_digit(text[at]):
                w = w * _10 + (_u(text[at]) - _u(_DIGIT_0))
                at += _1
        if at == begin:
            return UNSUPPORTED
        n_digits = at - begin
        if text[at] == _POINT:
            point = at + _1
            at, w = _parse_digits(text, point, w)
            if at == point:
                return UNSUPPORTED
            n_digits += at - point
            q, is_integer = -np.int64(at - point), _0
        if n_digits > _u(_MAX_DIGITS):
            place = begin
            while text[place] == _DIGIT_0 or text[place] == _POINT:
                n_digits -= _u(text[place] == _DIGIT_0)
                place += _1
        if text[at] == _E_SMALL or text[at] == _E_LARGE:
            at, power = _parse_exponent(text, at + _1)
            if at == UNSUPPORTED:
                return UNSUPPORTED
            q, is_integer = q + power, _0
        values[n] = float(w)
        if n_digits > _u(_MAX_DIGITS):
            found = _UNPARSED
        elif w == _0:
            found = bits[n]
            is_negative &= at - begin > _1  # "-0" is the integer 0, "-0.0" a number with a sign
        elif w <= _u(1 << 53) and -22 <= q <= 22:
            values[n] = (
                values[n] / _EXACT_POWERS[_u(-q)] if q < 0 else values[n] * _EXACT_POWERS[_u(q)]
            )
            found = bits[n]
        elif MIN_POWER <= q <= MAX_POWER:
            n_bits = np.int64(bits[n] >> _u(52)) - 1022
            # float(w) may be rounded up to the next power of two
            n_bits -= np.int64(w >> _u(n_bits - 1) == _0)
            found = _nearest(w, 64 - n_bits, q)
        else:
            found = _UNPARSED
        bits[n] = found | (_u(is_negative) << _u(63))
        if found == _UNPARSED:
            if n_unparsed == _u(unparsed.shape[0]):
                return UNSUPPORTED
            unparsed[n_unparsed, _0], unparsed[n_unparsed, _1], unparsed[n_unparsed, _u(2)] = (
                n,
                first,
                at,
            )
            n_unparsed += _1
        n += _1
        at = _skip_space(text, at)
        if text[at] != _COMMA:
            counts[0], counts[2], counts[3] = n, n_unparsed, is_integer
            return at + _1 if text[at] == _CLOSE else UNSUPPORTED
        at += _1
        if at > stop:
            counts[0], counts[2], counts[3] = n, n_unparsed, is_integer
            return at


@exact_kernel
def count_byte(text: Bytes, byte: int) -> int:
    """Return the number of occurrences of a byte."""
    n = 0
    for i in range(text.size):
        n += text[i] == byte
    return n


@exact_kernel
def parse_lists(
    text: Bytes,
    start: np.uint64,
    values: NDArray[np.float64],
    unparsed: NDArray[np.uint64],
    counts: NDArray[np.uint64],
    stop: np.uint64,
) -> np.uint64:
    """Parse a list of numbers, or of rows of equal length; return the position after it.

    Parameters
    ----------
    text
        JSON text. Its last byte must be a closing brace, where every list ends at the latest.
    start
        Position after the opening bracket of the list.
    values
        Output: the numbers, in order. Its size must exceed the number of commas.
    unparsed : (n, 3)
        Output: index in ``values``, start and end of each number that is left to the caller.
    counts : (4,)
        Output: number of values, number of rows (0 for a flat list), number of entries in
        ``unparsed``, and whether all numbers are written as integers.
    stop
        Position of a comma between two numbers or rows at which to stop, or ``TO_END``. The text
        after that comma can be parsed as another list.

    Returns
    -------
    ``UNSUPPORTED`` if the list contains anything else, is empty, has rows of different lengths, or
    has more numbers for the caller than ``unparsed`` has room for.
    """
    bits = values.view(np.uint64)
    counts[0], counts[1], counts[2], counts[3] = _0, _0, _0, _1
    at = _skip_space(text, start)
    if text[at] != _OPEN:
        return _parse_row(text, at, values, bits, unparsed, counts, stop)
    width = _0
    while text[at] == _OPEN:
        n = counts[0]
        at = _parse_row(text, at + _1, values, bits, unparsed, counts, TO_END)
        if at == UNSUPPORTED or (n > _0 and counts[0] - n != width):
            return UNSUPPORTED
        width = counts[0] - n
        counts[1] += _1
        at = _skip_space(text, at)
        if text[at] == _CLOSE:
            return at + _1
        if text[at] != _COMMA:
            return UNSUPPORTED
        if at >= stop:
            return at + _1
        at = _skip_space(text, at + _1)
    return UNSUPPORTED
