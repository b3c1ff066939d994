"""Speed of MTDA's cross-validation on faces, compared with a separate fit of every candidate.

    python benchmarks/mtda_selection.py [--data FOLDER] [--images 5]

"Separate" fits every candidate of the default grids to every fold by ``MTDA().fit``, with singular
value decompositions of its own. Both are medians of CPU time in one process, taken in turn, with
BLAS on one thread. "SVD" is the time of one decomposition of every task. If FOLDER or a file is
missing, the faces are synthetic.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from faces import load_faces, missing_files, synthetic_faces
from threadpoolctl import threadpool_limits

from algorithms.evaluation import stratified_split
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.trace import Trace
from algorithms.mtda import MTDA, MTDAParams

WANTED = 10.0
N_TIMES = 3


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result, and the CPU time in seconds."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with orl_32x32.npz and the others")
    parser.add_argument("--images", type=int, default=5, help="training images of each person")
    args = parser.parse_args()
    is_synthetic = bool(missing_files(args.data))
    faces = synthetic_faces(np.random.default_rng(0)) if is_synthetic else load_faces(args.data)
    rng = np.random.default_rng(args.images)
    tasks = stratified_split(faces, n_train=args.images, rng=rng).train
    print("synthetic faces" if is_synthetic else "faces", {t.name: t.X.shape for t in tasks})
    params = MTDAParams(selection="cv", n_folds=min(args.images, 3))

    def select() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        model = MTDA().fit(tasks, params, trace=Trace(), rng=rng)
        return {"cv_error": model.fit_info["cv_error"], **model.fit_info["params"]}

    def decompose() -> None:
        for task in tasks:
            np.linalg.svd(task.X - task.X.mean(axis=0), full_matrices=False)

    times = []
    for _ in range(N_TIMES):
        ours, prepared = timed(select)
        with patch.object(MTDA, "prepare_fold", Algorithm.prepare_fold):
            plain, separate = timed(select)
        _, once = timed(decompose)
        times.append((separate, prepared, once))
    separate, prepared, once = np.median(times, axis=0)
    print(f"separate {separate:.3f} s, prepared {prepared:.3f} s, SVD {once:.4f} s")
    print(f"same errors of all {len(ours['cv_error'])} candidates and choice: {ours == plain}")
    verdict = "reached" if separate / prepared >= WANTED else "missed"
    print(f"{separate / prepared:.1f} times as fast; target {WANTED:.0f}: {verdict}")


if __name__ == "__main__":
    main()
