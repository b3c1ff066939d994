"""Readiness checks in the background, so that no request waits for a check."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from service.observability.logs import log

_INTERVAL_S: Final = 1.0
#: Between checks while one fails, so that a recovery is noticed soon.
_RECOVERY_INTERVAL_S: Final = 0.25
#: A check that takes longer counts as failed.
_TIMEOUT_S: Final = 1.0

CheckFunction = Callable[[], str | None]


class ReadinessMonitor:
    """Monitor that repeats checks, each in its own thread.

    Parameters
    ----------
    checks
        Functions by name, such as "the database". Each returns an error message or None, and may
        hang or raise an exception, which counts as an error.
    warnings
        Checks for problems that limit the service but do not make it unready.
    """

    def __init__(
        self, checks: Mapping[str, CheckFunction], *, warnings: Mapping[str, CheckFunction]
    ) -> None:
        self._checks = [_Check(name, find_error) for name, find_error in checks.items()]
        self._warnings = [_Check(name, find, is_ok=True) for name, find in warnings.items()]

    def start(self) -> None:
        """Start the checks."""
        for check in (*self._checks, *self._warnings):
            check.start()

    def stop(self) -> None:
        """Stop the checks, without waiting for one that hangs."""
        for check in (*self._checks, *self._warnings):
            check.stop()

    def reasons(self) -> list[str]:
        """Return the reasons why the service is not ready, without waiting; empty if it is."""
        return _reasons(self._checks)

    def warnings(self) -> list[str]:
        """Return problems that do not prevent readiness, such as a lost worker, without waiting."""
        return _reasons(self._warnings)


class _Check:
    """One check, repeated in a thread."""

    def __init__(self, name: str, find_error: CheckFunction, *, is_ok: bool = False) -> None:
        self._name = name
        self._find_error = find_error
        self._error: str | None = None if is_ok else f"{name} has not been checked yet"
        self._started_at: float | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"check {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()

    def reason(self) -> str | None:
        started_at = self._started_at
        if started_at is not None and time.monotonic() - started_at > _TIMEOUT_S:
            return f"{self._name} has not responded for {time.monotonic() - started_at:.0f} s"
        return self._error

    def _run(self) -> None:
        while not self._end.is_set():
            self._run_once()
            self._end.wait(_INTERVAL_S if self._error is None else _RECOVERY_INTERVAL_S)

    def _run_once(self) -> None:
        self._started_at = time.monotonic()
        try:
            self._error = self._find_error()
        except Exception as error:  # noqa: BLE001 - the thread must survive any failed check
            log.error("readiness.check_failed", check=self._name, exc_info=error)
            self._error = f"{self._name} could not be checked ({type(error).__name__})"
        finally:
            self._started_at = None


def _reasons(checks: Sequence[_Check]) -> list[str]:
    reasons = [check.reason() for check in checks]
    return [reason for reason in reasons if reason is not None]
