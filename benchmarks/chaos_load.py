"""The jobs of the chaos: several owners, priorities, kinds; each is sent until it is accepted."""

import io
import random
import time
from collections import Counter
from typing import Any

import httpx
import numpy as np

from service.access import store
from service.access.keys import new_key
from service.storage.database import Database

#: Part of the jobs that are cancelled, and how long after they were accepted.
CANCELLED = 0.08
CANCEL_AFTER_S = (0.0, 5.0)
#: The last job is sent at this part of the time.
LAST = 0.85
#: Jobs with one of so many seeds, so that many have the same specification.
N_SEEDS = 3
SHORT = {"algorithm": "pca", "params": {"k": 2}}
LONG = {"algorithm": "rmt-pca", "params": {"k": 5, "selection": "cv", "n_folds": 3}}
SEARCH = {"algorithm": "pca", "search": {"space": {"k": [1, 2, 3]}, "n_folds": 2}}


def make_owners(database: Database, names: list[str]) -> dict[str, str]:
    """Return a key for each owner."""
    keys = {name: new_key() for name in names}
    with database.write() as session:
        for name, key in keys.items():
            scopes = ["datasets:read", "datasets:write", "jobs:read", "jobs:write"]
            store.create(session, key, owner=name, scopes=scopes, expires_at=None)
    return {name: key.text() for name, key in keys.items()}


class Load:
    """Submits jobs at random times, and cancels some.

    Attributes
    ----------
    accepted
        Ids of the jobs that the service said it has.
    answers
        How often each error was answered, and how often nothing was.
    """

    def __init__(
        self, url: str, keys: dict[str, str], n_jobs: int, seconds: float, rng: random.Random
    ) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)
        self._keys = keys
        self._rng = rng
        self._times = sorted(rng.uniform(0, LAST * seconds) for _ in range(n_jobs))
        self._datasets: dict[tuple[str, str], str] = {}
        self._to_cancel: list[tuple[float, str, str]] = []
        self.accepted: list[str] = []
        self.answers: Counter[str] = Counter()

    def upload(self) -> None:
        """Upload a small and a larger dataset for every owner."""
        rng = np.random.default_rng(0)
        for size, shape, n_tasks in (("small", (12, 5), 3), ("large", (40, 24), 40)):
            body = io.BytesIO()
            np.savez(body, **{f"t{t}/X": rng.normal(size=shape) for t in range(n_tasks)})
            for owner in self._keys:
                headers = {"Content-Type": "application/x-npz"}
                made = self._send(
                    owner, "POST", "/v1/datasets?name=rows", content=body.getvalue(), **headers
                )
                address = f"/v1/datasets/{made['id']}?wait=20"
                assert self._send(owner, "GET", address)["state"] == "ready"
                self._datasets[owner, size] = made["id"]

    def run(self) -> None:
        """Submit all, in time."""
        began = time.monotonic()
        for due in self._times:
            self._cancel_until(began + due)
            time.sleep(max(0.0, began + due - time.monotonic()))
            self._submit()
        self._cancel_until(time.monotonic() + CANCEL_AFTER_S[1])

    def train_each_once_more(self) -> None:
        """Submit every specification once, to compare its bytes with those of the chaos."""
        for kind in (SHORT, LONG, SEARCH):
            for seed in range(N_SEEDS):
                owner = next(iter(self._keys))
                spec = self._spec(owner, kind, seed) | {"model": "undisturbed"}
                self.accepted.append(self._send(owner, "POST", "/v1/jobs", json=spec)["id"])

    def _spec(self, owner: str, kind: dict[str, Any], seed: int) -> dict[str, Any]:
        dataset = self._datasets[owner, "large" if kind is LONG else "small"]
        return {**kind, "dataset_id": dataset, "seed": seed}

    def _submit(self) -> None:
        owner = self._rng.choice(list(self._keys))
        kind = self._rng.choices((SHORT, LONG, SEARCH), (70, 22, 8))[0]
        spec = {
            **self._spec(owner, kind, self._rng.randrange(N_SEEDS)),
            "model": f"model-{self._rng.randrange(10)}",
            "priority": self._rng.choice((0, 0, 0, 10, -10)),
            "max_attempts": 20,
        }
        key = f"{self._rng.getrandbits(64):x}"  # sent again, it is the same job
        job = self._send(owner, "POST", "/v1/jobs", json=spec, **{"Idempotency-Key": key})
        self.accepted.append(job["id"])
        if self._rng.random() < CANCELLED:
            due = time.monotonic() + self._rng.uniform(*CANCEL_AFTER_S)
            self._to_cancel.append((due, owner, job["id"]))

    def _cancel_until(self, deadline: float) -> None:
        for entry in sorted(self._to_cancel):
            due, owner, job_id = entry
            if due <= deadline:
                time.sleep(max(0.0, due - time.monotonic()))
                self._send(owner, "POST", f"/v1/jobs/{job_id}:cancel")
                self._to_cancel.remove(entry)

    def _send(
        self,
        owner: str,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: Any = None,
        **headers: str,
    ) -> dict[str, Any]:
        """Return the response, with as many retries as necessary; 4xx is a response."""
        headers["Authorization"] = f"Bearer {self._keys[owner]}"
        while True:
            try:
                response = self._http.request(
                    method, path, json=json, content=content, headers=headers
                )
            except httpx.TransportError:
                self.answers["none"] += 1
            else:
                if response.status_code < 400 or response.status_code == 409:
                    return dict(response.json())
                self.answers[str(response.status_code)] += 1
                assert response.status_code >= 500, response.text
            time.sleep(0.2)
