"""The demo: start a service, train three models on real data, and compare them."""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sibling.client import Client, RemoteModel, ServiceError

#: Rows of each digit to learn from: too few for a PCA of 64 pixels on its own.
N_TRAIN: Final = 6
N_DIMENSIONS: Final = 8
#: Parameters of RMT-PCA.
COUPLED: Final = {"selection": "cv", "n_folds": 3, "starts": "many"}
_DIGITS: Final = Path(__file__).parent / "data" / "digits.npz"
_START_TIMEOUT_S: Final = 60
_STOP_TIMEOUT_S: Final = 15

Rows = dict[str, NDArray[np.float64]]

_out = Console(highlight=False)


def run() -> None:
    """Train and compare models over HTTP, then keep the service running until Ctrl-C."""
    # stop the service also when the terminal or the container closes
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with contextlib.suppress(KeyboardInterrupt), _service() as url, Client(url) as client:
        _wait_ready(client)
        train, test = digits()
        _out.print(
            f"Ten related tasks: the digits 0 to 9, each with {N_TRAIN} training images of 64 "
            f"pixels.\nGoal: {N_DIMENSIONS} dimensions that retain the variance of unseen images."
        )
        dataset = client.upload(train, name="digits")
        models = {
            "separate: PCA per task": _train(client, dataset.id, "pca", {}),
            "pooled: one PCA for all": _train(client, dataset.id, "common-pca", {}),
            "together: RMT-PCA": _train(client, dataset.id, "rmt-pca", COUPLED),
        }
        _report({label: _retained(model, test) for label, model in models.items()})
        _out.print(f"Pages: {url}/   API reference: {url}/docs   Stop with Ctrl-C.")
        while True:
            time.sleep(3600)
    _out.print("Stopped.")


@contextmanager
def _service() -> Iterator[str]:
    """Run a service in a temporary directory; yield its URL."""
    with tempfile.TemporaryDirectory(prefix="sibling-demo-") as folder:
        command = [sys.executable, "-P", "-m", "sibling", "serve", "--data-dir", folder]
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops it
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            if not line:
                raise OSError("the service did not start; run 'sibling serve' to see the error")
            yield line.split()[3]
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _wait_ready(client: Client) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    with _out.status("Starting the service ..."):
        while time.monotonic() < deadline:
            with contextlib.suppress(ServiceError):
                client.health()
                return
            time.sleep(0.2)
    raise OSError(f"the service was not ready within {_START_TIMEOUT_S} s")


def digits() -> tuple[Rows, Rows]:
    """Return training and test rows of each digit."""
    with np.load(_DIGITS) as data:
        X, y = data["X"].astype(np.float64), data["y"]
    rng = np.random.default_rng(0)
    train, test = {}, {}
    for digit in range(10):
        rows = rng.permutation(np.flatnonzero(y == digit))
        train[f"digit {digit}"] = X[rows[:N_TRAIN]]
        test[f"digit {digit}"] = X[rows[N_TRAIN:]]
    return train, test


def _train(
    client: Client, dataset_id: str, algorithm: str, params: Mapping[str, Any]
) -> RemoteModel:
    job = client.train(dataset_id, algorithm, k=N_DIMENSIONS, **params)
    return job.wait(progress=True)


def _retained(model: RemoteModel, test: Rows) -> dict[str, float]:
    """Return the fraction of the variance of unseen rows that the projection retains, per task."""
    scores = {}
    for task, X in test.items():
        Z = model.transform(X, task=task)
        scores[task] = float(Z.var(axis=0).sum() / X.var(axis=0).sum())
    return scores


def _report(scores: dict[str, dict[str, float]]) -> None:
    means = {label: float(np.mean(list(by_task.values()))) for label, by_task in scores.items()}
    *baselines, together = scores
    table = Table("Retained variance of unseen images", "mean", "RMT-PCA is better in", box=None)
    for label, by_task in scores.items():
        wins = sum(scores[together][task] > score for task, score in by_task.items())
        note = "" if label == together else f"{wins} of {len(by_task)} tasks"
        table.add_row(label, f"{means[label]:.1%}", note)
    _out.print(table)
    best = max(baselines, key=means.__getitem__)
    gain = means[together] - means[best]
    verdict = "helps" if gain > 0 else "does not help"
    _out.print(
        f"Learning together {verdict}: {gain:+.1%} compared with the better baseline ({best})."
    )
