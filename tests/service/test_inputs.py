"""The specifications of inputs are found once for a version, a method and a task."""

from types import SimpleNamespace

import pytest

from algorithms.interface.errors import UnknownTask
from algorithms.interface.tasks import unknown_task
from service.datasets.number_writings import NumberWritings
from service.inference import inputs
from service.inference.inputs import InputSpecs
from service.models.store import ServableVersion


class Model:
    """Fake model that counts how often it is asked for its width."""

    takes_missing = frozenset({"predict"})
    tasks = ("a", "b")

    def __init__(self):
        self.n_asked = 0

    def width(self, method, *, task):
        if task not in self.tasks:
            raise unknown_task(task, self.tasks)
        self.n_asked += 1
        return 3 if method == "predict" else 2


def version(id_):
    return ServableVersion("m", 1, id_, "pca", ["predict"], "ds", "b", "s", 1)


@pytest.fixture
def specs():
    names = SimpleNamespace(
        of=lambda _: {"a": ("x", "y"), "b": None},
        ignored=lambda _: frozenset(),
        numbers=lambda _: NumberWritings(),
    )
    return InputSpecs(names)


def test_each_version_method_and_task_has_its_own_specification(specs):
    model = Model()
    for _ in range(3):
        spec = specs.of_task(version("v1"), model, "predict", "a")
        assert (spec.task, spec.width, spec.allow_missing) == ("a", 3, True)
        assert spec.columns() == ("x", "y")
        spec = specs.of_task(version("v1"), model, "inverse_transform", "a")
        assert (spec.width, spec.allow_missing, spec.columns()) == (2, False, None)
        assert specs.of_task(version("v1"), model, "predict", "b").columns() is None
    assert model.n_asked == 3
    specs.of_task(version("v2"), model, "predict", "a")
    assert model.n_asked == 4


def test_unknown_tasks_are_refused_each_time(specs):
    for _ in range(2):
        with pytest.raises(UnknownTask, match="none"):
            specs.of_task(version("v"), Model(), "predict", "none")


def test_the_cache_is_bounded(specs, monkeypatch):
    monkeypatch.setattr(inputs, "_MAX_CACHED", 4)
    for i in range(10):
        specs.of_task(version(f"v{i}"), Model(), "predict", "a")
        assert 1 <= len(specs._cache) <= 4
