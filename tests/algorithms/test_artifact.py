import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from algorithms.baselines.kernels import TaskMachines
from algorithms.baselines.pca import TaskPCA
from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import load_model, save_model
from benchmarks.harness.problems import tilted_gaussians


@pytest.fixture
def model():
    tasks = tilted_gaussians(np.random.default_rng(0), n_tasks=2).tasks
    return TaskPCA().fit(tasks, TaskPCA.Params(), trace=Trace(), rng=np.random.default_rng(0))


def test_arrays_are_restored_with_shape_type_and_bits(tmp_path) -> None:
    arrays = {
        "matrix": np.random.default_rng(0).standard_normal((3, 4)).T,
        "scalar": np.asarray(1.5),
        "empty": np.zeros((0, 3)),
        "integers": np.arange(4),
        "flags": np.array([True, False]),
    }
    write_arrays(tmp_path / "file", arrays, header={"name": "Ω"})
    found, header = read_arrays(tmp_path / "file")
    assert header == {"name": "Ω"}
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_a_number_that_json_cannot_hold_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_arrays(tmp_path / "file", {}, header={"lam": float("inf")})


def test_writing_leaves_no_partial_file(tmp_path, model) -> None:
    save_model(model, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_name_of_a_file_may_be_as_long_as_the_system_allows(tmp_path, model) -> None:
    path = tmp_path / ("é" * 127)
    save_model(model, path)
    assert load_model(path).algorithm == model.algorithm


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_reported(tmp_path, model, part) -> None:
    save_model(model, tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(InvalidArtifact, match="'model' is not a readable"):
        load_model(tmp_path / "model")


def test_a_file_of_another_type_is_reported(tmp_path) -> None:
    (tmp_path / "model").write_bytes(b"PK\x03\x04 this is no model" * 10)
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "model")


def test_a_foreign_safetensors_file_is_reported(tmp_path) -> None:
    save_file({"x": np.zeros(3)}, tmp_path / "model")
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "model")


def test_a_missing_file_is_reported(tmp_path) -> None:
    with pytest.raises((InvalidArtifact, FileNotFoundError)):
        load_model(tmp_path / "nowhere")


def rewritten(path, **changes) -> None:
    arrays, header = read_arrays(path)
    write_arrays(path, arrays, header={**header, **changes})


def test_an_unknown_format_version_is_reported(tmp_path, model) -> None:
    save_model(model, tmp_path / "model")
    rewritten(tmp_path / "model", format="sibling-model/99")
    with pytest.raises(InvalidArtifact, match="'sibling-model/99', expected"):
        load_model(tmp_path / "model")


def test_an_unknown_algorithm_is_reported_with_the_known_ones(tmp_path, model) -> None:
    save_model(model, tmp_path / "model")
    rewritten(tmp_path / "model", algorithm="magic")
    with pytest.raises(InvalidArtifact, match=r"unknown algorithm 'magic'.*rmt-pca"):
        load_model(tmp_path / "model")


def test_missing_or_malformed_parts_are_reported(tmp_path, model) -> None:
    save_model(model, tmp_path / "model")
    rewritten(tmp_path / "model", model={"tasks": ["one"]})
    with pytest.raises(InvalidArtifact, match="is missing or corrupt"):
        load_model(tmp_path / "model")
    save_model(model, tmp_path / "model")
    arrays, header = read_arrays(tmp_path / "model")
    write_arrays(tmp_path / "model", {**arrays, "U": arrays["U"][:, :1]}, header=header)
    with pytest.raises(InvalidArtifact, match="is missing or corrupt"):
        load_model(tmp_path / "model")


def test_a_kernel_machine_without_outputs_is_reported(tmp_path) -> None:
    rng = np.random.default_rng(0)
    tasks = TaskSet((Task("a", rng.standard_normal((8, 2)), y=np.arange(8.0)),))
    machine = TaskMachines()
    save_model(machine.fit(tasks, machine.Params(), trace=Trace(), rng=rng), tmp_path / "model")
    arrays, header = read_arrays(tmp_path / "model")
    header["model"]["targets"] = []
    write_arrays(tmp_path / "model", arrays, header=header)
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "model")


def test_the_header_is_json_without_code(model) -> None:
    json.dumps(model.header(), allow_nan=False)
