"""Limits of a job: defaults, and the maxima of the operator."""

from typing import Any

from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.jobs.spec_schemas import JobLimits
from service.settings import Settings


def limits_of(spec: JobLimits, settings: Settings) -> dict[str, Any]:
    """Return priority and limits of a job by column name, with defaults up to the maxima."""
    return {
        "priority": min(spec.priority, settings.max_priority),
        "timeout_s": spec.timeout_s or min(settings.default_timeout_s, settings.max_timeout_s),
        "memory_mb": spec.memory_mb or min(settings.default_memory_mb, settings.max_memory_mb),
        "max_attempts": spec.max_attempts or min(settings.max_attempts, settings.max_job_attempts),
        "threads": spec.threads,
    }


def check_limits(spec: JobLimits, settings: Settings) -> None:
    """Raise a Problem if a limit that the job sets exceeds the maximum of the operator."""
    for name, maximum in (
        ("timeout_s", settings.max_timeout_s),
        ("memory_mb", settings.max_memory_mb),
        ("threads", settings.max_threads),
        ("max_attempts", settings.max_job_attempts),
        ("priority", settings.max_priority),
    ):
        value = getattr(spec, name) if name in spec.model_fields_set else None
        if value is not None and value > maximum:
            detail = f"{name} is {value:g}; the maximum is {maximum:g}"
            raise Problem("invalid-request", detail, errors=[entry_at(f"/{name}", detail)])
