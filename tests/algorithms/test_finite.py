"""Numbers are finite by the sum of their squares, or one by one."""

import numpy as np
import pytest

from algorithms.numerics.finite import all_finite


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 300), (2, 2, 2)])
def test_a_non_finite_number_is_found_at_any_position(bad, shape):
    for scale in (0.0, 1.0, 1e200):
        values = np.full(shape, scale)
        assert all_finite(values)
        for place in np.ndindex(shape):
            values[place] = bad
            assert not all_finite(values)
            assert not all_finite(values.T)
            values[place] = scale


def test_finite_arrays_of_any_memory_layout_are_accepted():
    values = np.arange(60.0).reshape(6, 10)
    for view in (values, values.T, values[::2, ::3], values[:0], np.asfortranarray(values)):
        assert all_finite(view)
    assert all_finite(np.array([1e308, -1e308]))
    assert all_finite(np.array([3e38], dtype=np.float32))
