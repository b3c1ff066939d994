"""Integers that floats hold exactly."""

from typing import Final

#: Largest integer up to which float64 represents every integer. The next one is rounded to this, so
#: that a float of this size may have been another integer.
MAX_EXACT_INTEGER: Final = 2**53
