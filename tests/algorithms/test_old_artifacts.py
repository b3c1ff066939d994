"""Models that an earlier version trained load, and answer as they did then.

``tests/data/models_of_9dda7f7.zip`` has models of every algorithm, as ``NAME.model``, with rows and
the answers of all methods to them, as ``NAME.npz``. This file made it, at commit 9dda7f7, before
datasets could have categories and missing values::

    git worktree add /tmp/old 9dda7f7
    PYTHONPATH=/tmp/old:/tmp/old/tests/algorithms \\
        python tests/algorithms/test_old_artifacts.py tests/data/models_of_9dda7f7.zip
"""

import io
import platform
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy
from threadpoolctl import threadpool_info

from algorithms.interface.artifact import read_arrays
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from tests.written import written

STORED = Path(__file__).parent.parent / "data" / "models_of_9dda7f7.zip"
#: On another kind of CPU or with another BLAS, sums have other rounding errors.
RTOL = 1e-9
#: Projections of latent models are minimised iteratively; rounding moves their end by this much.
ITERATIVE_TOL = 1e-5
ITERATIVE = {"gp-lvm", "tlvm"}
N_ROWS = 2
_PLATFORM = "platform"


def environment() -> str:
    """Return what the last bits of products of matrices depend on."""
    blas = sorted({str(one.get("architecture")) for one in threadpool_info()})
    versions = np.__version__, scipy.__version__, platform.machine(), *blas
    return " ".join(versions)


def make(path: Path) -> None:
    """Train a model of every algorithm on the problems of the contract, and store the answers."""
    from test_contract import PROBLEMS, kinds_of_targets

    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(_PLATFORM, environment())
        for name, algorithm in ALGORITHMS.items():
            needs = algorithm.needs
            problems = ["shared" if needs.shared_rows else "related"]
            problems += ["covariances"] * needs.covariances
            problems += ["heterogeneous"] * (not needs.same_features)
            field = algorithm.Params.model_json_schema()["properties"].get("kernel", {})
            kernels = [kernel for kernel in ("linear", "rbf") if kernel in field.get("enum", ())]
            for problem in problems:
                for target in kinds_of_targets(algorithm):
                    for kernel in kernels or (None,):
                        tasks = PROBLEMS[problem](target)
                        params = algorithm.Params(**({"kernel": kernel} if kernel else {}))
                        model = algorithm.fit(tasks, params, trace=Trace(), rng=rng)
                        parts = (name, problem, target, *([kernel] if kernel else []))
                        _store(archive, ".".join(parts), model, rng)


def _store(archive, name, model, rng) -> None:
    arrays = {}
    for task in model.tasks[:2]:
        for method in model.available_methods():
            rows = rng.standard_normal((N_ROWS, model.width(method, task=task)))
            arrays[f"{task}/{method}/rows"] = rows
            arrays[f"{task}/{method}/answer"] = getattr(model, method)(rows, task=task)
    file = Path(archive.filename).with_suffix(".part")
    save_model(model, file)
    archive.write(file, f"{name}.model")
    file.unlink()
    archive.writestr(f"{name}.npz", written(np.savez, **arrays))


def names() -> list[str]:
    if not STORED.exists():
        return []
    with zipfile.ZipFile(STORED) as archive:
        return [name[: -len(".npz")] for name in archive.namelist() if name.endswith(".npz")]


@pytest.mark.parametrize("name", names())
def test_an_old_model_gives_its_old_answers(name, tmp_path) -> None:
    path = tmp_path / "model"
    with zipfile.ZipFile(STORED) as archive:
        path.write_bytes(archive.read(f"{name}.model"))
        stored = dict(np.load(io.BytesIO(archive.read(f"{name}.npz"))))
        is_same = archive.read(_PLATFORM).decode() == environment()
    model = load_model(path)
    assert model.algorithm == name.partition(".")[0]
    arrays, _ = read_arrays(path)
    for key, array in model.to_arrays().items():
        if key in arrays:
            np.testing.assert_array_equal(array, arrays[key])
    assert stored
    for key, expected in stored.items():
        if key.endswith("/answer"):
            task, method, _ = key.rsplit("/", 2)
            found = getattr(model, method)(stored[f"{task}/{method}/rows"], task=task)
            if model.algorithm in ITERATIVE:
                np.testing.assert_allclose(found, expected, rtol=0, atol=ITERATIVE_TOL)
            elif is_same or expected.dtype.kind != "f":
                np.testing.assert_array_equal(found, expected)
            else:
                np.testing.assert_allclose(found, expected, rtol=RTOL, atol=RTOL)


def test_models_of_every_algorithm_of_that_version_are_stored() -> None:
    assert {name.partition(".")[0] for name in names()} >= {
        "constant", "fmtl", "mtda", "mtfl", "ridge", "rmt-pca", "tlvm"
    }  # fmt: skip


if __name__ == "__main__":
    make(Path(sys.argv[1]))
