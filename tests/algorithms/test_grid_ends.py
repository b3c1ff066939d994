import pytest

from algorithms.baselines.linear.lasso import SharedLassoParams
from algorithms.interface.params import end_warnings, end_warnings_by_task
from algorithms.mtda import MTDAParams
from algorithms.rmtpca import RMTPCAParams

PARAMS = MTDAParams(d_grid=(4, 1, 2), gamma_grid=(10.0, 0.0, 0.1))


@pytest.mark.parametrize(
    ("name", "value", "direction"),
    [
        ("gamma", 10.0, "larger"),
        ("gamma", 0.1, None),
        ("gamma", 0.0, None),  # no shrinkage: nothing lies below
        ("d", 1, None),
        ("d", 2, None),
        ("d", 4, "larger"),
    ],
)
def test_a_choice_at_a_grid_end_causes_a_warning_unless_it_is_the_bound(
    name, value, direction
) -> None:
    warnings = end_warnings(PARAMS, {name: value})
    assert len(warnings) == (direction is not None)
    if direction:
        assert f"the chosen {name} = {value:g}" in warnings[0]
        assert f"add {direction} values to '{name}_grid'" in warnings[0]


def test_a_choice_at_the_smaller_end_causes_a_warning() -> None:
    (warning,) = end_warnings(RMTPCAParams(grid=(0.1, 1.0)), {"lam": 0.1})
    assert "smallest value that was tried" in warning
    assert "add smaller values to 'grid'" in warning


def test_a_largest_value_without_effect_beyond_causes_no_warning() -> None:
    assert end_warnings(PARAMS, {"d": 4}, limits={"d": 5})
    assert not end_warnings(PARAMS, {"d": 4}, limits={"d": 4})
    assert not end_warnings(SharedLassoParams(grid=(0.5, 1.0)), {"share": 1.0})


def test_a_grid_of_one_value_causes_no_warning() -> None:
    assert not end_warnings(MTDAParams(d_grid=(3, 3)), {"d": 3})


def test_choices_of_each_task_are_counted() -> None:
    chosen = {"a": {"d": 4}, "b": {"d": 4}, "c": {"d": 2}, "e": {"d": 4}}
    limits = {"a": {"d": 4}, "b": {"d": 9}, "c": {"d": 9}, "e": {"d": 9}}
    (warning,) = end_warnings_by_task(PARAMS, chosen, limits=limits)
    assert "the chosen d = 4, for 2 of 4 tasks (the first is 'b'), is the largest" in warning
