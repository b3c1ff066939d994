"""Processes import only what they need: a client may not have the rest, and starts take time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What the extras install, and the client and its commands do without.
EXTRAS = ("scipy", "numba", "sklearn", "pandas", "fastapi", "uvicorn", "sqlalchemy", "distributed")


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("sibling.client.client, sibling.commands.app", (*EXTRAS, "pydantic_settings")),
        # workers import the main module again
        ("sibling.__main__", ("service.cli", "typer")),
        # FastAPI imports the interface of tracing, but neither SDK nor exporter
        pytest.param(
            "service.server.serve, service.server.app",
            ("opentelemetry.sdk", "opentelemetry.exporter"),
            marks=pytest.mark.slow,
        ),
        # scipy would take a third of the start of workers
        pytest.param(
            "service.jobs.worker.attempt", ("opentelemetry", "scipy"), marks=pytest.mark.slow
        ),
        pytest.param(
            "service.jobs.worker.training", ("opentelemetry", "structlog"), marks=pytest.mark.slow
        ),
    ],
)
def test_what_is_not_needed_is_not_imported(modules, unwanted) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        cwd=ROOT,
        env={**os.environ, "SIBLING_TRACING": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    assert not [name for name in done.stdout.split() if name.startswith(unwanted)]
