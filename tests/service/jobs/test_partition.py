"""A network partition between two hosts, each a network namespace.

API, scheduler and PostgreSQL are on one host, a worker on the other. Needs root, to make networks.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
import sqlalchemy as sa

from service.jobs.worker.tls import make_certificates
from sibling import Client
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
STALE_S = 3
CLONE_NEWNET = 0x40000000
HERE, THERE = "10.213.7.1", "10.213.7.2"


class Hosts:
    """Two network namespaces with a cable between them."""

    def __init__(self):
        self.names = [f"sib{os.getpid()}{side}" for side in "ab"]
        self.near, self.far = self.names
        self.processes = []

    def make(self):
        for name in self.names:
            ip("netns", "add", name)
        cable = [f"{name}v" for name in self.names]
        ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for name, end, address in zip(self.names, cable, (HERE, THERE), strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")

    def plug(self, state):
        """Set the cable ``up`` or ``down``."""
        ip("-n", self.far, "link", "set", f"{self.far}v", state)

    def run(self, host, command, log, **env):
        """Start a command on a host, with a host name of its own."""
        enter = ["ip", "netns", "exec", host, "unshare", "--uts", "--", "sh", "-c"]
        script = f'hostname {host} && exec "$@"'
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*enter, script, "sh", *command],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def remove(self):
        for process in reversed(self.processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                root = psutil.Process(process.pid)
                for member in [*root.children(recursive=True), root]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.kill()
            process.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def hosts():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("network namespaces need root, ip (of iproute2) and unshare")
    hosts = Hosts()
    try:
        try:
            hosts.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be created here: {error.stderr.decode()}")
        yield hosts
    finally:
        hosts.remove()


@pytest.fixture
def served_postgres(hosts, postgres, tmp_path):
    """A PostgreSQL database that is reachable over TCP on the near host."""
    url = sa.make_url(postgres.create())
    unix = next(Path(str(url.query["host"])).glob(".s.PGSQL.*[0-9]"))
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)
    command = [sys.executable, str(relay), HERE, "5432", str(unix)]
    hosts.run(hosts.near, command, tmp_path / "relay.log")
    return url.set(host=HERE, port=5432, query={}).render_as_string(hide_password=False)


#: A TCP proxy in front of the Unix socket of the test server.
RELAY = """
import asyncio, sys

host, port, unix = sys.argv[1:]

async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def serve(reader, writer):
    there = await asyncio.open_unix_connection(unix)
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

async def main():
    server = await asyncio.start_server(serve, host, int(port))
    await server.serve_forever()

asyncio.run(main())
"""


@contextlib.contextmanager
def open_client(hosts, url):
    """Yield a client whose connections are made on the near host."""
    with open(f"/var/run/netns/{hosts.near}") as near, open("/proc/self/ns/net") as own:  # noqa: PTH123
        _enter(near)
        try:
            with Client(url) as client:
                yield client
        finally:
            _enter(own)


def _enter(network):
    assert ctypes.CDLL(None).setns(network.fileno(), CLONE_NEWNET) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)  # five processes on two hosts, and a partition
def test_a_partitioned_worker_is_replaced_and_its_late_result_discarded(
    hosts, served_postgres, tmp_path
):
    make_certificates(tmp_path / "tls")
    env = {
        "SIBLING_DATABASE_URL": served_postgres,
        "SIBLING_SCHEDULER_URL": f"tls://{HERE}:8786",
        "SIBLING_TLS_DIR": str(tmp_path / "tls"),
        "SIBLING_WORKER_SLOTS": "1",
        "SIBLING_HEARTBEAT_TIMEOUT_S": str(STALE_S),
        "SIBLING_CHECKPOINT_INTERVAL_S": "0.3",
    }

    def start(host, name, *command):
        log = tmp_path / f"{name}.log"
        folder = str(tmp_path / name)
        service = [sys.executable, "-m", "sibling", *command]
        return hosts.run(host, service, log, SIBLING_DATA_DIR=folder, **env)

    start(hosts.near, "scheduler", "scheduler", "--host", HERE, "--port", "8786")
    far_worker = start(hosts.far, "far", "worker")
    start(hosts.near, "api", "serve", "--port", "8000")
    rng = np.random.default_rng(0)
    rows = {f"task {t}": rng.normal(size=(40, 24)) for t in range(50)}
    with open_client(hosts, "http://127.0.0.1:8000") as client:
        wait_for(lambda: is_ready("http://127.0.0.1:8000"))
        job = client.train(client.upload(rows), "rmt-pca", model="m", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        hosts.plug("down")
        start(hosts.near, "near", "worker")
        job.wait()
        hosts.plug("up")
        attempt = job.info["attempt"]
        outcomes = [(a["outcome"], a["worker"].rpartition(":")[0]) for a in job.info["attempts"]]
        assert outcomes == [("lost", hosts.far), ("succeeded", hosts.near)]
        # the far worker is fenced out, and leaves neither a file nor a version
        wait_for(lambda: not [p for p in (tmp_path / "far" / "work").rglob("*") if p.is_file()])
        wait_for(lambda: '"outcome": "fenced"' in (tmp_path / "far.log").read_text())
        assert job.refresh().info["attempt"] == attempt
        assert [m["version"] for m in client.models] == [1]
    assert far_worker.poll() is None or far_worker.returncode == 0


def is_ready(url):
    with contextlib.suppress(httpx.TransportError, socket.timeout):
        return httpx.get(f"{url}/v2/health/ready", timeout=2).status_code == 200
    return False
