"""Requests that Schemathesis makes from the OpenAPI document, for a while, on both databases.

    python -m benchmarks.schema_fuzzing --minutes 20

Starts a server with keys on each database, with a dataset, a model and its aliases, and runs the
phases examples, coverage, fuzzing and stateful. Checks: no 5xx, and every response as documented in
status, type, headers and schema; nothing readable after its deletion, no route without its key.
The outputs of a training job are not found, since only batch inference has outputs:
``ensure_resource_availability`` is off for ``/v1/jobs/{job_id}/output``.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks import servers
from sibling import Client

#: Long answers by design: they would spend the time waiting.
EXCLUDED = ("/v1/jobs/{job_id}/events",)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20, help="for each database")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    codes = []
    for name in options.databases:
        print(f"--- {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder, server(name, Path(folder)) as (url, key):
            codes.append(fuzz(url, key, options))
    sys.exit(max(codes))


@contextmanager
def server(database: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Run a server; return its address and a key of the scope ``admin``."""
    key = f"sib_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"
    port = servers.free_port()
    with servers.database(database, folder) as database_url:
        servers.migrate(database_url)
        programs = servers.Programs(
            folder,
            SIBLING_DATABASE_URL=database_url,
            SIBLING_DATA_DIR=folder / "data",
            SIBLING_REQUIRE_KEYS="true",
            SIBLING_BOOTSTRAP_KEY=key,
            SIBLING_LOG_LEVEL="warning",
        )
        programs.start("api", "serve", "--port", str(port))
        url = f"http://127.0.0.1:{port}"
        servers.wait_ready(url)
        with Client(url, api_key=key) as client:
            rows = np.random.default_rng(0).standard_normal((40, 4))
            model = client.train(client.upload({"a": rows}), "pca", model="model", k=2).wait()
            model.set_alias("production")
        yield url, key
        orphans = programs.stop()
        errors = [line for line in (folder / "api.log").read_text().splitlines() if "error" in line]
        print(f"{len(errors)} error lines in the log; {len(orphans)} processes left")
        print("\n".join(errors[:20]))


def fuzz(url: str, key: str, options: argparse.Namespace) -> int:
    config = Path(__file__).with_name("schema_fuzzing.toml")  # the checks
    command = ["st", "--config-file", str(config), "run", f"{url}/openapi.json", "--url", url]
    command += ["--header", f"Authorization: Bearer {key}"]
    command += ["--phases", "examples,coverage,fuzzing,stateful", "--continue-on-failure"]
    command += ["--max-time", str(round(60 * options.minutes)), "--seed", str(options.seed)]
    command += ["--request-timeout", "60", "--suppress-health-check", "all", "--warnings", "off"]
    for path in EXCLUDED:
        command += ["--exclude-path", path]
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "COLUMNS": "120"}
    return subprocess.run([bin_folder / command[0], *command[1:]], env=env, check=False).returncode


if __name__ == "__main__":
    main()
