"""Speed of MTDA's cross-validation on faces, compared with a separate fit of every candidate.

The data are ``orl_32x32.npz``, ``yale_32x32.npz`` and ``pie10_32x32.npz``. "Separate" fits every
candidate of the default grids to every one of three folds by ``MTDA().fit``, with singular value
decompositions of its own. Both are medians of CPU time in one process, taken in turn, with BLAS on
one thread. "times SVD" is relative to one decomposition of every task.
"""

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.evaluation import stratified_split
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.trace import Trace
from algorithms.mtda import MTDA, MTDAParams
from benchmarks.faces import FILES, load_faces
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table

N_TIMES = 3


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result, and the CPU time in seconds."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


@threadpool_limits.wrap(limits=1)
def run(context: Context) -> list[Block]:
    """Return the table, and whether both select the same by the same errors."""
    faces = load_faces(context.folder(*FILES.values()))
    n_images = 3 if context.is_quick else 5
    tasks = stratified_split(faces, n_train=n_images, rng=np.random.default_rng(n_images)).train
    params = MTDAParams(selection="cv", n_folds=3)

    def select() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        model = MTDA().fit(tasks, params, trace=Trace(), rng=rng)
        return {"cv_error": model.fit_info["cv_error"], **model.fit_info["params"]}

    def decompose() -> None:
        for task in tasks:
            np.linalg.svd(task.X - task.X.mean(axis=0), full_matrices=False)

    times = []
    for _ in range(1 if context.is_quick else N_TIMES):
        ours, prepared = timed(select)
        with patch.object(MTDA, "prepare_fold", Algorithm.prepare_fold):
            plain, separate = timed(select)
        _, once = timed(decompose)
        times.append((separate, prepared, once))
    separate, prepared, once = (float(one) for one in np.median(times, axis=0))
    row = (str(n_images), separate, prepared, separate / prepared, prepared / once)
    return [
        Table(
            columns=("images", "separate, s", "prepared, s", "ratio", "times SVD"),
            rows=(row,),
            higher_is_better=("ratio",),
        ),
        Claim(
            text=f"All {len(ours['cv_error'])} candidates have the same errors in both, and both"
            " make the same choice.",
            is_confirmed=ours == plain,
        ),
    ]
