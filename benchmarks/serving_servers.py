"""Servers of one projection, each in processes of its own: ours, a bare application, and peers.

Peers are installed on demand, each into an environment of its own. Each answers in one process,
in the way that is fastest for it here.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np

from benchmarks.serving_calls import KEY

ROOT = Path(__file__).parents[1]
START_S = 120

ECHO = """
import os
ANSWERS = {size: os.urandom(size) for size in SIZES}
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    size = int(dict(scope["headers"])[b"x-size"])
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

BENTO = """
import bentoml
import numpy as np

@bentoml.service(workers=1)
class Projection:
    def __init__(self):
        arrays = np.load("projection.npz")
        self.mean, self.basis = arrays["mean"], arrays["basis"]

    @bentoml.api
    def transform(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.mean) @ self.basis
"""

MLFLOW_MODEL = """
import mlflow
import numpy as np

class Projection(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        arrays = np.load(context.artifacts["arrays"])
        self.mean, self.basis = arrays["mean"], arrays["basis"]

    def predict(self, context, model_input, params=None):
        return (np.asarray(model_input) - self.mean) @ self.basis

mlflow.pyfunc.save_model(
    "model", python_model=Projection(), artifacts={"arrays": "projection.npz"}, pip_requirements=[]
)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(command: list[str], folder: Path, **env: str) -> Iterator[int]:
    """Run a command and its child processes until the end of the block; yield the process id."""
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
            yield running.pid
        finally:
            running.terminate()
            running.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"{url} does not answer")


@contextmanager
def sibling(folder: Path, **env: str) -> Iterator[tuple[int, int]]:
    """Run our service; yield its port and process id."""
    folder.mkdir()
    keys = {
        "SIBLING_REQUIRE_KEYS": "true",
        "SIBLING_BOOTSTRAP_KEY": KEY,
        "SIBLING_WORKER_SLOTS": "1",
    }
    paths = {"PYTHONPATH": str(ROOT), "SIBLING_DATA_DIR": str(folder / "data")}
    port = free_port()
    command = [sys.executable, "-m", "sibling", "serve", "--port", str(port)]
    with process(command, folder, **{**keys, **paths, **env}) as pid:
        wait_for(f"http://127.0.0.1:{port}/v2/health/ready")
        yield port, pid


@contextmanager
def echo(folder: Path, sizes: list[int]) -> Iterator[int]:
    folder.mkdir()
    (folder / "echo.py").write_text(ECHO.replace("SIZES", repr(sizes)))
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "echo:app", "--port", str(port)]
    with process([*command, "--no-access-log", "--log-level", "error"], folder):
        wait_for_port(port)
        yield port


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens at {port}")


# --- peers ---------------------------------------------------------------------------------------


def environment_of(name: str, environments: Path) -> Path:
    """Return the environment of a package, in which it is installed once."""
    environment = environments / name
    if not list(environment.glob(f"lib/*/site-packages/{name}")):
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", name]
        subprocess.run(pip, check=True)
    return environment


def prepared(folder: Path, environments: Path, name: str, arrays: dict[str, np.ndarray]) -> Path:
    """Write the arrays; return the folder with the commands of a peer."""
    environment = environment_of(name, environments)
    folder.mkdir()
    np.savez(folder / "projection.npz", **arrays)
    return environment / "bin"


@contextmanager
def mlserver(folder: Path, environments: Path, arrays: dict[str, np.ndarray]) -> Iterator[int]:
    """Run MLServer without a process for each model, which is its faster way here."""
    bin_ = prepared(folder, environments, "mlserver", arrays)
    (folder / "projection.py").write_text(MLSERVER_MODEL)
    port, grpc, metrics = free_port(), free_port(), free_port()
    ports = {"http_port": port, "grpc_port": grpc, "metrics_port": metrics}
    quiet = {"parallel_workers": 0, "debug": False, "host": "127.0.0.1"}
    (folder / "settings.json").write_text(json.dumps({**ports, **quiet}))
    model = {"name": "projection", "implementation": "projection.Projection"}
    (folder / "model-settings.json").write_text(json.dumps(model))
    with process([str(bin_ / "mlserver"), "start", "."], folder, PYTHONPATH=str(folder)):
        wait_for(f"http://127.0.0.1:{port}/v2/models/projection/ready")
        yield port


@contextmanager
def bentoml(folder: Path, environments: Path, arrays: dict[str, np.ndarray]) -> Iterator[int]:
    bin_ = prepared(folder, environments, "bentoml", arrays)
    (folder / "projection.py").write_text(BENTO)
    port = free_port()
    command = [str(bin_ / "bentoml"), "serve", "projection:Projection", "--host", "127.0.0.1"]
    home = {"BENTOML_HOME": str(folder), "BENTOML_DO_NOT_TRACK": "true", "PYTHONPATH": str(folder)}
    with process([*command, "--port", str(port)], folder, **home):
        wait_for(f"http://127.0.0.1:{port}/readyz")
        yield port


@contextmanager
def mlflow(folder: Path, environments: Path, arrays: dict[str, np.ndarray]) -> Iterator[int]:
    bin_ = prepared(folder, environments, "mlflow", arrays)
    (folder / "save.py").write_text(MLFLOW_MODEL)
    path = {"PATH": f"{bin_}:{os.environ['PATH']}", "MLFLOW_DISABLE_TELEMETRY": "true"}
    subprocess.run(
        [bin_ / "python", "save.py"], cwd=folder, env={**os.environ, **path}, check=True,
        capture_output=True,
    )  # fmt: skip
    port = free_port()
    command = [str(bin_ / "mlflow"), "models", "serve", "-m", "model", "--env-manager", "local"]
    with process([*command, "--workers", "1", "--port", str(port)], folder, **path):
        wait_for(f"http://127.0.0.1:{port}/ping")
        yield port
