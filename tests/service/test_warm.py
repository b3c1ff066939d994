"""Kernels are compiled before a server or worker computes with them, and never by itself."""

import os
import subprocess
import sys

import pytest

#: A step of RMT-PCA whose last bit shows whether its process compiled the kernels itself.
STEP = """
import hashlib, sys
import numpy as np
{}
from algorithms.numerics.compiled_traces import compile_for
from algorithms.numerics.covariances import from_dense
rng = np.random.default_rng(0)
digest = hashlib.sha256()
for _ in range(200):
    X = rng.normal(size=(40, 27, 24))
    C = from_dense(X.transpose(0, 2, 1) @ X / 27)
    objective = compile_for(C, lam=5.0 / 39, k=5)
    point = objective.pack(C.leading(5))
    for _ in range(12):
        value = objective.evaluate(point)
        point = objective.trial_step(point, value.F, radius=0.5, forcing=0.1).point
    digest.update(point.tobytes())
sys.stdout.write(digest.hexdigest())
"""
ENSURE = "from service.processes.kernels import ensure_compiled; ensure_compiled()"


def run(code, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_equal_work_has_equal_bits_in_the_first_process_and_in_later_ones(tmp_path):
    """A process that compiles the kernels of this step itself gets another last bit."""
    first, later = (run(STEP.format(ENSURE), tmp_path)[-1] for _ in range(2))
    assert first == later


@pytest.mark.slow
def test_kernels_are_compiled_once(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    stamp = "from service.processes import kernels; print(kernels._fingerprint())"
    (found,) = run(stamp, cache)
    (cache / "sibling-kernels").write_text(found)
    assert run(ENSURE, cache) == []
    assert [path.name for path in cache.iterdir()] == ["sibling-kernels"]
