"""Face databases as tasks, or synthetic faces if the files are missing."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom

from algorithms.interface.tasks import Task, TaskSet

Array = NDArray[np.float64]

FILES = {"orl": "orl_32x32.npz", "yale": "yale_32x32.npz", "pie": "pie10_32x32.npz"}
#: Size of the ORL images in the paper. The other databases keep their size, so that the numbers of
#: features differ between tasks.
ORL_SHAPE = (28, 23)


def missing_files(folder: Path | None) -> list[str]:
    """Return the names of the files that are not in the folder."""
    return [name for name in FILES.values() if folder is None or not (folder / name).exists()]


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


def synthetic_faces(rng: np.random.Generator, *, n_images: int = 6) -> TaskSet:
    """Return smooth random images with random lighting.

    They have as many persons and pixels as ORL and Yale.
    """
    tasks = []
    for name, n_persons, shape in (("orl", 40, ORL_SHAPE), ("yale", 15, (32, 32))):
        persons = np.repeat(np.arange(n_persons), n_images)
        faces = _smooth(rng, n_persons, shape)[persons]
        light = _smooth(rng, len(persons), shape)
        noise = 0.1 * rng.standard_normal(faces.shape)
        tasks.append(Task.from_rows(name, faces + 1.5 * light + noise, y=persons))
    return TaskSet(tuple(tasks))


def _smooth(rng: np.random.Generator, n: int, shape: tuple[int, int]) -> Array:
    """Return n random smooth images, (n, pixels)."""
    small = rng.standard_normal((n, 7, 7))
    factors = (1.0, shape[0] / 7, shape[1] / 7)
    return np.asarray(zoom(small, factors, order=3).reshape(n, -1))
