"""Loaded models, kept while there is room."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from algorithms.interface.model import Model
from algorithms.registry import load_model
from service.blobs import BlobStore
from service.inference.lookup import Found
from service.metrics import Metrics
from service.models.store import Served

#: How much of a pace is left after a faster call.
_DECAY: Final = 0.8


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    model: Model | None = None
    size_bytes: int = 0
    paces_ns: dict[str, float] = field(default_factory=dict)


class ModelCache:
    """The least recently used model leaves first; each is loaded once, by whoever asks first.

    Parameters
    ----------
    max_bytes
        Bound on the bytes of all models kept; the newest is kept even where it is larger.
    """

    def __init__(self, blobs: BlobStore, metrics: Metrics, *, max_bytes: int) -> None:
        self._blobs = blobs
        self._metrics = metrics
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, version: Served) -> Model:
        """Give the model of a version; artifacts are immutable, so a copy never goes stale."""
        with self._lock:
            entry = self._entries.setdefault(version.artifact_sha256, _Entry())
            self._entries.move_to_end(version.artifact_sha256)
        with entry.lock:
            if entry.model is None:
                path = self._blobs.path(version.artifact_blob_id, version.artifact_sha256)
                entry.model = load_model(path)
                entry.size_bytes = version.artifact_bytes
                self._trim()
            return entry.model

    def drop(self, version: Served) -> None:
        """Forget the model of a version; who has it goes on with it."""
        with self._lock:
            self._entries.pop(version.artifact_sha256, None)

    def pace_ns(self, found: Found) -> float | None:
        """Give the time that a method takes for a value; None where it was not called yet."""
        entry = self._entries.get(found.served.artifact_sha256)
        return None if entry is None else entry.paces_ns.get(found.method)

    def learn(self, found: Found, n_values: int, spent_ns: int) -> None:
        """Note what a call took; one that took long is remembered for some calls."""
        entry = self._entries.get(found.served.artifact_sha256)
        if entry is not None:
            before = entry.paces_ns.get(found.method, 0.0)
            entry.paces_ns[found.method] = max(spent_ns / max(1, n_values), _DECAY * before)

    def _trim(self) -> None:
        with self._lock:
            size = sum(entry.size_bytes for entry in self._entries.values())
            for key in list(self._entries)[:-1]:
                if size <= self._max_bytes:
                    break
                size -= self._entries.pop(key).size_bytes
            self._metrics.cache_bytes.set(size)
