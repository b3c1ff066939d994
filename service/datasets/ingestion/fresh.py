"""A small upload that is read from memory, and stored only once it has been read."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

from sqlalchemy.orm import Session

from service.storage.blobs import BlobWriter
from service.storage.tables import DatasetRow

#: Stores a dataset of a manifest and its bytes; returns whether it has used the bytes.
Store = Callable[[dict[str, Any], Session, BlobWriter], bool]


class FreshUpload:
    """An upload that is not stored yet.

    The thread that reads it stores its dataset. If that takes too long for the request, the request
    stores the upload, and the thread then publishes the result as for any stored upload. The first
    of both to claim the upload stores it.

    Attributes
    ----------
    row
        The row that the request has stored; None if it has stored none.
    """

    def __init__(
        self, owner: str, body: bytes, media_type: str, options: dict[str, Any], store: Store
    ) -> None:
        self.owner = owner
        self.body = body
        self.media_type = media_type
        self.options = options
        self.store = store
        self.row: Future[DatasetRow | None] = Future()
        self._lock = threading.Lock()
        self._holder: str | None = None

    def claim(self, holder: Literal["reader", "request"]) -> bool:
        """Return whether the caller stores something; the other one then does not."""
        with self._lock:
            self._holder = self._holder or holder
            return self._holder == holder
