"""Face databases as tasks."""

from pathlib import Path

import numpy as np
from scipy.ndimage import zoom

from algorithms.interface.tasks import Task, TaskSet

FILES = {"orl": "orl_32x32.npz", "yale": "yale_32x32.npz", "pie": "pie10_32x32.npz"}
#: Size of the ORL images in the paper. The other databases keep their size, so that the numbers of
#: features differ between tasks.
ORL_SHAPE = (28, 23)


def load_faces(folder: Path) -> TaskSet:
    """Return ORL at 28×23 (40 persons), Yale at 32×32 (15) and PIE at 32×32 (10)."""
    tasks = []
    for name, file_name in FILES.items():
        with np.load(folder / file_name, allow_pickle=False) as file:
            X, y = file["X"].astype(np.float64), file["y"].astype(np.int64)
        if name == "orl":
            factors = (ORL_SHAPE[0] / 32, ORL_SHAPE[1] / 32)
            X = np.stack([zoom(x.reshape(32, 32), factors, order=1).ravel() for x in X])
        tasks.append(Task.from_rows(name, X, y=y))
    return TaskSet(tuple(tasks))
