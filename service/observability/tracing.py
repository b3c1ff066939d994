"""Traces of requests and jobs for OpenTelemetry, off by default.

A trace follows a request into the job that it creates: the context of the request is stored with
the job, and passed to the worker and its child process. Without tracing nothing of OpenTelemetry is
imported here, and :func:`span` does nothing.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

TRACEPARENT: Final = "traceparent"
_NAME: Final = "sibling"
_MODULES: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_OFF: Final[AbstractContextManager[None]] = nullcontext()
_NANOSECONDS: Final = 1_000_000_000


class _State:
    """The tracer of this process; None while tracing is off."""

    tracer: "Tracer | None" = None
    provider: "TracerProvider | None" = None


def missing_package() -> str | None:
    """Return the packages to install for tracing, or None if all are installed."""
    try:
        is_installed = all(find_spec(name) is not None for name in _MODULES)
    except ModuleNotFoundError:
        is_installed = False
    return None if is_installed else "the packages of OpenTelemetry: pip install 'sibling[tracing]'"


def start_tracing(component: str) -> None:
    """Start the export of spans of this process; the environment variables OTEL_... configure it.

    Parameters
    ----------
    component
        Kind of this process: ``server``, ``worker`` or ``training``.

    Raises
    ------
    ImportError
        The packages are not installed; see :func:`missing_package`.
    """
    if _State.tracer is not None:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from service.observability.logs import LogRecords

    attributes: dict[str, str | int] = {
        "service.version": version(_NAME),
        "process.pid": os.getpid(),
        "sibling.component": component,
    }
    if not os.environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = _NAME
    exporter = logging.getLogger("opentelemetry")
    exporter.handlers, exporter.propagate = [LogRecords("tracing")], False
    _State.provider = TracerProvider(resource=Resource.create({**attributes}))
    _State.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _State.tracer = _State.provider.get_tracer(_NAME)


def is_tracing() -> bool:
    """Return whether this process exports spans."""
    return _State.tracer is not None


def span(
    name: str, *, parent: str | None = None, is_request: bool = False, **attributes: str | int
) -> AbstractContextManager[Any]:
    """Return a context manager that records a span; it yields the span, or None without tracing.

    Parameters
    ----------
    parent
        W3C trace context (``traceparent``) of the parent. Default: the current span.
    is_request
        Whether the span is a request to a server.
    attributes
        Ids, names of routes, and numbers; never data.
    """
    if _State.tracer is None:
        return _OFF
    return _record(_State.tracer, name, parent, attributes, is_request=is_request)


@contextmanager
def _record(
    tracer: "Tracer",
    name: str,
    parent: str | None,
    attributes: Mapping[str, str | int],
    *,
    is_request: bool,
) -> Iterator[Any]:
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        name,
        context=_context_of(parent),
        kind=SpanKind.SERVER if is_request else SpanKind.INTERNAL,
        attributes=_named(attributes),
        record_exception=False,  # the message of an exception can have data
    ) as current:
        yield current


def add_to_span(**attributes: str | int) -> None:
    """Add attributes, which are known only now, to the current span."""
    if _State.tracer is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attributes(_named(attributes))


def record_past_span(
    name: str, *, parent: str | None, started_at: datetime, **attributes: str | int
) -> None:
    """Record a span that began at a time of the clock and ends now."""
    if _State.tracer is None:
        return
    started_ns = int(started_at.timestamp() * _NANOSECONDS)
    context = _context_of(parent)
    _State.tracer.start_span(
        name, context=context, start_time=started_ns, attributes=_named(attributes)
    ).end()


def current_traceparent() -> str | None:
    """Return the W3C trace context of the current span, or None without tracing."""
    if _State.tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(TRACEPARENT)


def _context_of(parent: str | None) -> Any:
    """Return the context of a parent; None, for the current context, without a parent."""
    if parent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({TRACEPARENT: parent})


def _named(attributes: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return attributes with the names of OpenTelemetry's conventions, or our prefix."""
    return {
        name.replace("_", ".") if name.startswith("http_") else f"{_NAME}.{name}": value
        for name, value in attributes.items()
    }
