"""Servers of one projection, each in processes of its own: ours, a bare application, and MLServer.

MLServer is installed on demand into an environment of its own. Each answers in one process, in the
way that is fastest for it here.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from benchmarks import servers
from benchmarks.serving_calls import KEY

ROOT = Path(__file__).parents[1]

ECHO = """
import os
ANSWERS = {size: os.urandom(size) for size in SIZES}
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    size = int(dict(scope["headers"]).get(b"x-size", 0))
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWERS[size]})
"""

MLSERVER_MODEL = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Projection(MLModel):
    async def load(self):
        arrays = np.load("projection.npz")
        self.mean, self.basis = arrays["mean"], arrays["basis"]
        return True

    async def predict(self, payload):
        rows = NumpyCodec.decode_input(payload.inputs[0])
        outputs = (rows - self.mean) @ self.basis
        output = NumpyCodec.encode_output("output", outputs)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""


@contextmanager
def process(command: list[str], folder: Path, **env: str) -> Iterator[None]:
    """Run a command and its child processes until the end of the block."""
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **env},
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as running,
    ):
        try:
            yield
        finally:
            running.terminate()
            running.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


@contextmanager
def sibling(folder: Path) -> Iterator[int]:
    """Run our service; yield its port."""
    folder.mkdir()
    settings = {
        "PYTHONPATH": str(ROOT),
        "SIBLING_DATA_DIR": str(folder / "data"),
        "SIBLING_REQUIRE_KEYS": "true",
        "SIBLING_BOOTSTRAP_KEY": KEY,
        "SIBLING_WORKER_SLOTS": "1",
    }
    port = servers.free_port()
    command = [sys.executable, "-m", "sibling", "serve", "--port", str(port)]
    with process(command, folder, **settings):
        servers.wait_ready(f"http://127.0.0.1:{port}")
        yield port


@contextmanager
def echo(folder: Path, sizes: list[int]) -> Iterator[int]:
    folder.mkdir()
    (folder / "echo.py").write_text(ECHO.replace("SIZES", repr([0, *sizes])))
    port = servers.free_port()
    command = [sys.executable, "-m", "uvicorn", "echo:app", "--port", str(port)]
    with process([*command, "--no-access-log", "--log-level", "error"], folder):
        servers.wait_ready(f"http://127.0.0.1:{port}")
        yield port


def environment_of(name: str, environments: Path) -> Path:
    """Return the environment of a package, in which it is installed once, with extras if named."""
    package = name.partition("[")[0]
    environment = environments / package
    if not list(environment.glob(f"lib/*/site-packages/{package}")):
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", name]
        subprocess.run(pip, check=True)
    return environment


@contextmanager
def mlserver(folder: Path, environments: Path, arrays: dict[str, np.ndarray]) -> Iterator[int]:
    """Run MLServer without a process for each model, which is its faster way here."""
    bin_ = environment_of("mlserver", environments) / "bin"
    folder.mkdir()
    np.savez(folder / "projection.npz", **arrays)
    (folder / "projection.py").write_text(MLSERVER_MODEL)
    port, grpc, metrics = servers.free_port(), servers.free_port(), servers.free_port()
    ports = {"http_port": port, "grpc_port": grpc, "metrics_port": metrics}
    quiet = {"parallel_workers": 0, "debug": False, "host": "127.0.0.1"}
    (folder / "settings.json").write_text(json.dumps({**ports, **quiet}))
    model = {"name": "projection", "implementation": "projection.Projection"}
    (folder / "model-settings.json").write_text(json.dumps(model))
    with process([str(bin_ / "mlserver"), "start", "."], folder, PYTHONPATH=str(folder)):
        servers.wait_ready(f"http://127.0.0.1:{port}", "/v2/models/projection/ready")
        yield port
