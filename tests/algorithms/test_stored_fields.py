import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from algorithms.interface.stored_fields import (
    NOT_STORED,
    MaybeInfinite,
    arrays_of,
    header_of,
    read_fields,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Form:
    kernel: Literal["linear", "rbf"]
    degrees: tuple[int, ...]


@dataclass(frozen=True)
class Scaling:
    mean: Array
    how: str = "features"


@dataclass(frozen=True)
class Part:
    W: Array
    labels: NDArray[np.int64]
    classes: tuple[str, ...] | tuple[int, ...]
    ratio: float
    bias: NDArray[Any] | None = None


@dataclass(frozen=True)
class Whole:
    tasks: tuple[str, ...]
    scaling: Scaling
    parts: tuple[Part, ...]
    forms: tuple[Form, ...]
    scores: Mapping[str, Mapping[str, MaybeInfinite]]
    fit_info: Mapping[str, Any]
    P: Array | None
    warnings: tuple[str, ...] = ()
    cache: Mapping[int, Array] = field(default_factory=dict, metadata=NOT_STORED)


def whole(**changes: Any) -> Whole:
    values: dict[str, Any] = {
        "tasks": ("a", "b"),
        "scaling": Scaling(np.arange(3.0)),
        "parts": (
            Part(np.ones((3, 1)), np.array([0, 1]), ("x", "y"), 0.25, np.zeros(1)),
            Part(np.zeros((3, 2)), np.array([1, 0]), (1, 2), 0.5),
        ),
        "forms": (Form("rbf", (1, 2)),),
        "scores": {"gap": {"a": 0.5, "b": np.inf}},
        "fit_info": {"params": {"k": 2}, "grid": (0.1, 1.0)},
        "P": None,
        "cache": {0: np.ones(1)},
    }
    return Whole(**(values | changes))


def test_fields_are_stored_by_their_types() -> None:
    arrays, header = arrays_of(whole(P=np.eye(2))), header_of(whole())
    assert set(arrays) == {
        "mean", "W.0", "W.1", "labels.0", "labels.1", "bias.0", "ratio", "P"
    }  # fmt: skip
    assert arrays["ratio"].tolist() == [0.25, 0.5]
    assert json.loads(json.dumps(header, allow_nan=False)) == {
        "tasks": ["a", "b"],
        "scaling": {"how": "features"},
        "classes": [["x", "y"], [1, 2]],
        "forms": [{"kernel": "rbf", "degrees": [1, 2]}],
        "scores": {"gap": {"a": 0.5, "b": None}},
        "fit_info": {"params": {"k": 2}, "grid": [0.1, 1.0]},
        "warnings": [],
    }


@pytest.mark.parametrize("P", [None, np.eye(2)])
def test_what_is_stored_is_read_again(P) -> None:
    model = whole(P=P, warnings=("few rows",))
    header = json.loads(json.dumps(header_of(model)))
    again = read_fields(Whole, arrays_of(model), header)
    assert header_of(again) == header
    assert again.forms == model.forms
    assert again.scores == model.scores
    assert [part.classes for part in again.parts] == [("x", "y"), (1, 2)]
    assert again.cache == {}
    arrays = arrays_of(model)
    assert arrays.keys() == arrays_of(again).keys()
    for name, array in arrays_of(again).items():
        np.testing.assert_array_equal(array, arrays[name])


def test_labels_that_look_like_numbers_stay_text() -> None:
    part = Part(np.ones((3, 1)), np.array([0, 1]), ("1", "2"), 0.25)
    model = whole(parts=(part,))
    assert read_fields(Whole, arrays_of(model), header_of(model)).parts[0].classes == ("1", "2")


def test_a_member_that_is_missing_takes_the_default() -> None:
    header = header_of(whole(warnings=("few rows",)))
    del header["warnings"], header["scaling"]
    again = read_fields(Whole, arrays_of(whole()), header)
    assert (again.warnings, again.scaling.how) == ((), "features")


def test_the_first_name_of_the_results_of_a_fit_is_read() -> None:
    header = header_of(whole())
    header["facts"] = header.pop("fit_info")
    assert read_fields(Whole, arrays_of(whole()), header).fit_info["params"] == {"k": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": np.arange(3)},
        {"labels.1": np.zeros(2)},
        {"ratio": np.zeros(3)},
        {"ratio": np.array(["a", "b"])},
    ],
    ids=str,
)
def test_an_array_of_another_type_or_number_is_refused(changes) -> None:
    with pytest.raises(ValueError, match=r"expected|shorter|longer|valid"):
        read_fields(Whole, arrays_of(whole()) | changes, header_of(whole()))


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": "a"},
        {"tasks": [1, 2]},
        {"classes": [["x", "y"]]},
        {"forms": [{"kernel": "cubic", "degrees": [1]}]},
        {"scores": {"gap": {"a": "large"}}},
        {"fit_info": None},
    ],
    ids=str,
)
def test_json_of_another_type_is_refused(changes) -> None:
    with pytest.raises(ValueError, match=r"valid|shorter|longer|linear"):
        read_fields(Whole, arrays_of(whole()), header_of(whole()) | changes)


@pytest.mark.parametrize("name", ["mean", "W.1", "labels.0", "ratio"])
def test_a_missing_array_is_refused(name) -> None:
    arrays = arrays_of(whole())
    del arrays[name]
    with pytest.raises(KeyError):
        read_fields(Whole, arrays, header_of(whole()))
