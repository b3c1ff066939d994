"""The exponential function of an array, compiled so that it is vectorised.

numba calls the exponential of the C library for one number at a time, unless a library that not
every platform has is installed. This takes a third of the time, and differs by one unit in the last
place at most.
"""

import math
from typing import Final

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.kernels.compiled import exact_kernel

#: Smaller arguments count as this: their exponentials are less than every normal number.
MIN_ARGUMENT: Final = -708.0
LOG2_E: Final = 1.0 / math.log(2.0)
#: ln 2 in two parts; products of the first with integers up to 2^11 are exact.
LN2_HIGH: Final = 6.93147180369123816490e-01
LN2_LOW: Final = 1.90821492927058770002e-10
#: Added to a number, it leaves the nearest integer in the last bits of the sum.
ROUNDER: Final = 1.5 * 2.0**52
N_MANTISSA_BITS: Final = 52
#: Coefficients 1/n! of the Taylor series for |x| <= ln(2)/2, from n = 13 down to 2.
_C: Final = tuple(1.0 / math.factorial(n) for n in range(13, 1, -1))


@exact_kernel
def exponentials(x: Array, out: Array) -> None:
    """Write exp(x) into ``out``; ``x`` (n,) is at most 0, and is overwritten.

    With the integer n nearest to x / ln 2 and the rest r = x - n ln 2, exp(x) = 2^n exp(r).
    """
    for i in range(x.size):
        v = max(x[i], MIN_ARGUMENT)
        shifted = v * LOG2_E + ROUNDER
        n = shifted - ROUNDER
        r = (v - n * LN2_HIGH) - n * LN2_LOW
        x[i] = shifted
        low = ((_C[0] * r + _C[1]) * r + _C[2]) * r + _C[3]
        middle = (((low * r + _C[4]) * r + _C[5]) * r + _C[6]) * r + _C[7]
        high = (((middle * r + _C[8]) * r + _C[9]) * r + _C[10]) * r + _C[11]
        out[i] = (high * r + 1.0) * r + 1.0
    # the last bits of x are n, which is added to the exponent
    exponents, results = x.view(np.int64), out.view(np.int64)
    for i in range(x.size):
        results[i] += exponents[i] << N_MANTISSA_BITS
