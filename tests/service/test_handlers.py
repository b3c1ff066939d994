"""Handlers of calls, and what they compute, without a server."""

import gzip
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from algorithms.interface.errors import InvalidData, rows_at
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.calibration.algorithm import calibrated
from service.datasets.formats.options import ReadOptions
from service.datasets.number_writings import NumberWritings
from service.inference.call import ArrayRows, Call
from service.inference.compute import compute
from service.inference.handler import ParsedCall
from service.inference.inputs import InputSpecs
from service.inference.prediction_routes import PredictionHandler
from service.inference.statistics import Clock
from service.models.latency import LatencyEstimator
from service.models.resolver import ResolvedModel
from service.models.store import ServableVersion

METHODS = ["predict", "predict_interval"]


def trained(algorithm, *, shift=0.0, calibration=None):
    rng = np.random.default_rng(0)
    tasks = []
    for name in ("a", "b"):
        X = rng.normal(size=(30, 2))
        tasks.append(Task.from_rows(name, X, y=X.sum(axis=1) + shift, feature_names=("x", "z")))
    algorithm = calibrated(ALGORITHMS[algorithm], calibration)
    return algorithm.fit(TaskSet(tuple(tasks)), algorithm.parse({}), trace=Trace(), rng=rng)


def services(find, models):
    names = SimpleNamespace(
        of=lambda _: dict.fromkeys("ab", ("x", "z")),
        ignored=lambda _: frozenset(),
        numbers=lambda _: NumberWritings(),
        has=lambda _, name: name in ("x", "z"),
        options=lambda _: ReadOptions(),
        ranges=lambda _: {},
    )
    settings = SimpleNamespace(
        max_inference_rows=100,
        max_response_bytes=10**6,
        max_body_bytes=10**6,
        max_decompression_ratio=10,
    )
    resolver = SimpleNamespace(find=find, resolve=lambda _, found: found())
    cache = SimpleNamespace(
        get=lambda version: models[version.version - 1], estimator=lambda _: LatencyEstimator()
    )
    return SimpleNamespace(
        inputs=InputSpecs(names), settings=settings, resolver=resolver, models=cache
    )


def version(number):
    return ServableVersion("m", number, f"v{number}", "ridge", METHODS, "ds", "b", "s", 1)


def predicted(parts, body, *, accept):
    headers = {"content-type": "text/csv", "accept": accept}
    parsed = ParsedCall("/v1/models/{name}/predictions", "ada", "m@live", None, "a", headers)
    return PredictionHandler(parts, parsed, body, Clock(), n_shown=None)._compute().body


def test_an_error_names_the_row_of_the_request_and_not_of_its_task():
    parts = services(None, [trained("nearest-neighbours")])
    rows = ArrayRows(np.array([[0, 0], [0, 0], [0, 0], [1e300, 1e300]]))
    with pytest.raises(InvalidData, match="task 'b', row 3 has values so large") as caught:
        compute(parts, ResolvedModel(version(1), "predict"), Call([*"abab"], rows))
    assert caught.value.row == 3


def test_an_error_changes_the_number_of_a_row_only_and_not_the_name_of_its_task():
    message = r"task 'row 0', row 2 has only missing values; remove it"
    with pytest.raises(InvalidData, match=message), rows_at([2]):
        raise InvalidData(message.replace("row 2", "row 0"), task="row 0", row=0)


def test_all_columns_of_an_answer_are_of_one_version_while_an_alias_moves():
    numbers = iter((1, 2, 2, 2))
    models = [trained("ridge", shift=shift, calibration={}) for shift in (0.0, 1000.0)]
    parts = services(lambda *_: version(next(numbers)), models)
    found = orjson.loads(predicted(parts, b"x,z\n1,2\n", accept="application/json"))
    _, _, _, prediction, low, high, _ = found["rows"][0]
    assert (found["version"], low < prediction < high) == (1, True)


@pytest.mark.parametrize("delimiter", [b",", b";"])
def test_a_compressed_table_comes_back_in_the_manner_of_its_text(delimiter):
    parts = services(lambda *_: version(1), [trained("ridge", calibration={})])
    text = b"x,z\n1,2\n3,4\n".replace(b",", delimiter)
    for time in (b",,,,", b";;;;"):  # bytes of the file that mean nothing
        packed = gzip.compress(text, mtime=int.from_bytes(time, "little"))
        found = predicted(parts, packed, accept="text/csv")
        assert found == predicted(parts, text, accept="text/csv")
