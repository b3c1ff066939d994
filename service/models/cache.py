"""Cache of loaded models."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.model import Model
from algorithms.registry import load_model
from service.models.latency import LatencyEstimator
from service.models.store import ServableVersion
from service.observability.metrics import Metrics
from service.storage.blobs import BlobStore
from service.storage.shortages import find_shortage


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    model: Model | None = None
    size_bytes: int = 0
    estimator: LatencyEstimator = field(default_factory=LatencyEstimator)
    #: Why the last try to load the model failed.
    error: str = ""


class ModelCache:
    """Least-recently-used cache of models; concurrent callers load a model once.

    Parameters
    ----------
    max_bytes
        Maximum size of all cached models; the most recent one is kept even if it is larger.
    """

    def __init__(self, blobs: BlobStore, metrics: Metrics, *, max_bytes: int) -> None:
        self._blobs = blobs
        self._metrics = metrics
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, version: ServableVersion) -> Model:
        """Return the model of a version. Artifacts are immutable, so entries never go stale.

        Raises
        ------
        OSError, InvalidArtifact
            Its file cannot be read, or no copy of it can be written.
        """
        with self._lock:
            entry = self._entries.get(version.artifact_sha256)
            if entry is None:
                entry = self._entries[version.artifact_sha256] = _Entry()
            self._entries.move_to_end(version.artifact_sha256)
        if entry.model is not None:
            return entry.model
        with entry.lock:
            if entry.model is None:
                entry.model = self._load(version, entry)
                entry.size_bytes = version.artifact_bytes
                self._trim()
            return entry.model

    def _load(self, version: ServableVersion, entry: _Entry) -> Model:
        try:
            path = self._blobs.path(version.artifact_blob_id, version.artifact_sha256)
            model = load_model(path)
        except (OSError, InvalidArtifact) as error:
            entry.error = f"its file cannot be read: {find_shortage(error) or 'it is corrupt'}"
            raise
        entry.error = ""
        return model

    def error_of(self, version: ServableVersion) -> str:
        """Return why this process could not load a version the last time; empty if it could."""
        entry = self._entries.get(version.artifact_sha256)
        return "" if entry is None else entry.error

    def drop(self, version: ServableVersion) -> None:
        """Remove the model of a version; calls in progress keep their reference."""
        with self._lock:
            self._entries.pop(version.artifact_sha256, None)
        self._trim()

    def estimator(self, version: ServableVersion) -> LatencyEstimator:
        """Return the latency estimator of a version; an empty one if it is not loaded."""
        entry = self._entries.get(version.artifact_sha256)
        return LatencyEstimator() if entry is None else entry.estimator

    def _trim(self) -> None:
        """Evict models until the rest fit, and update the size metric."""
        with self._lock:
            size = sum(entry.size_bytes for entry in self._entries.values())
            for key in list(self._entries)[:-1]:
                if size <= self._max_bytes:
                    break
                size -= self._entries.pop(key).size_bytes
            self._metrics.cache_bytes.set(size)
