"""Real servers for the tests: a process, a socket, a database on disk, a pool of workers."""

import atexit
import contextlib
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import sqlalchemy as sa

from service import cli
from service.access.keys import new_key
from service.jobs.worker.tls import make_certificates
from service.storage.database import Database
from service.storage.tables import BlobChunkRow, BlobRow, DatasetRow
from sibling import Client, Dataset, RemoteModel
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 240
#: SIGTERM lets open streams end and running jobs go back to the queue; seconds are enough.
STOP_TIMEOUT_S = 120
LEFT_TIMEOUT_S = 60
#: With SIBLING_TEST_PROXY=nginx, all servers are behind the block of the guide: TLS and a prefix.
IS_BEHIND_NGINX = os.environ.get("SIBLING_TEST_PROXY") == "nginx"
PREFIX = "/ml"


@dataclass(frozen=True, slots=True)
class Service:
    """A server that runs in a process of its own.

    Attributes
    ----------
    url
        Its address, or that of a proxy in front of it.
    port
        Its own port, for a server that follows it.
    """

    url: str
    port: int
    process: "ServerProcess | subprocess.Popen[str]"
    data_dir: Path
    log_path: Path
    database_url: str

    def command_env(self) -> dict[str, str]:
        """Return what a command needs in its environment to work on the data of this server."""
        return {
            "PATH": "",
            "SIBLING_DATA_DIR": str(self.data_dir),
            "SIBLING_DATABASE_URL": self.database_url,
        }

    @contextmanager
    def open_database(self) -> Iterator[Database]:
        """Open the database beside the server."""
        database = Database(self.database_url)
        yield database
        database.close()

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")


class ServerProcess:
    """A server that was forked, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, output: int, exit_code: int) -> None:
        self.pid = pid
        self.stdout = os.fdopen(output, encoding="utf-8")
        self.returncode: int | None = None
        self._exit_code = exit_code

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._exit_code], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("sibling serve", timeout or 0)
            self.returncode = int(os.read(self._exit_code, 100))
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.stdout.close()
        os.close(self._exit_code)


class ServerTemplate:
    """A process that starts servers: see ``server_template.py``."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        command = [sys.executable, str(Path(__file__).with_name("server_template.py"))]
        # the thread of pyarrow's memory pool would not be in a fork
        env = clean_environment(JE_ARROW_MALLOC_CONF="background_thread:false")
        self._process = subprocess.Popen(command, stdin=theirs, cwd=ROOT, env=env)
        theirs.close()
        self._responses = self._requests.makefile()

    @contextmanager
    def start(
        self,
        module: str,
        arguments: list[str],
        *,
        env: dict[str, str],
        log: io.TextIOWrapper,
        n_files: int | None = None,
    ) -> Iterator[ServerProcess]:
        """Run ``python -m module`` with these arguments until the end of the block."""
        (output, its_output), (exit_code, its_exit_code) = os.pipe(), os.pipe()
        request = {"module": module, "arguments": arguments, "env": env, "n_files": n_files}
        files = [its_output, log.fileno(), its_exit_code]
        socket.send_fds(self._requests, [json.dumps(request).encode()], files)
        pid = int(self._responses.readline())
        os.close(its_output)
        os.close(its_exit_code)
        with contextlib.closing(ServerProcess(pid, output, exit_code)) as process:
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def close(self) -> None:
        self._responses.close()
        self._requests.close()
        assert self._process.wait(STOP_TIMEOUT_S) == 0


Launch = Callable[..., AbstractContextManager[Service]]
Guard = Callable[..., AbstractContextManager[None]]


@contextmanager
def running_service(
    database_url: str,
    folder: Path,
    *,
    guard: Guard,
    template: ServerTemplate,
    data_dir: Path | None = None,
    port: int = 0,
    n_files: int | None = None,
    is_forked: bool = True,
    **env: Any,
) -> Iterator[Service]:
    """Run a server until the end of the block, then stop it and look for what it left behind.

    Parameters
    ----------
    database_url
        Address of a database with its schema; none: a new file of SQLite in the data.
    guard
        Ends the server also where the tests are killed.
    folder
        Where log and, unless ``data_dir`` is given, data go.
    template
        Forks it with its imports done, which take most of the time of a start.
    port
        That of an earlier server whose clients go on; 0 for any.
    n_files
        Limit of the open files of a fork, if any.
    is_forked
        Whether ``template`` starts it; otherwise the command does, with an interpreter of its own.
        A server whose own modules are others, by ``PYTHONPATH``, needs that; those of its workers
        and their children do not.
    env
        Settings by their names in the environment: ``SIBLING_MAX_BODY_BYTES=1000``.
    """
    data_dir = data_dir or folder / "data"
    log_path = folder / "service.log"
    arguments = ["serve", "--port", str(port), "--data-dir", str(data_dir)]
    if IS_BEHIND_NGINX:
        env = {"SIBLING_TRUSTED_PROXIES": "127.0.0.1", "SIBLING_ROOT_PATH": PREFIX, **env}
    environment = clean_environment(SIBLING_DATABASE_URL=database_url, **env)
    with (
        log_path.open("a", encoding="utf-8") as log,
        template.start("sibling", arguments, env=environment, log=log, n_files=n_files)
        if is_forked
        else subprocess.Popen(
            [sys.executable, "-m", "sibling", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env=environment,
        ) as process,
        guard(process.pid),
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"the service did not start:\n{log_path.read_text(encoding='utf-8')}"
            url = line.split()[3]
            own_port = int(url.rpartition(":")[2])
            with behind_nginx(url, folder) if IS_BEHIND_NGINX else nullcontext(url) as url:
                service = Service(url, own_port, process, data_dir, log_path, database_url)
                _wait_ready(service)
                yield service
            _stop(process)
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def behind_nginx(url: str, folder: Path) -> Iterator[str]:
    """Run the block of the guide for a server; yield the address of the server behind it."""
    for name, file in zip(("cert.pem", "key.pem"), certificate(), strict=True):
        shutil.copy(file, folder / name)
    with running_nginx(folder, nginx_block(port := free_port(), f"proxy_pass {url};")):
        yield f"https://127.0.0.1:{port}{PREFIX}"


def nginx_block(port: int, proxy_pass: str) -> str:
    """Return the block of the guide at a port, with a line for another address of the service."""
    guide = (ROOT / "docs/how-to/proxies.md").read_text(encoding="utf-8")
    block = guide.partition("```nginx\n")[2].partition("```")[0]
    for line, ours in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("proxy_pass http://127.0.0.1:8000;", proxy_pass),
    ):
        assert line in block
        block = block.replace(line, ours)
    return block


@contextmanager
def running_nginx(folder: Path, servers: str) -> Iterator[None]:
    """Run nginx with blocks ``server``, whose files are in a folder."""
    temporary = " ".join(
        f"{kind}_temp_path {kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi")
    )
    http = f"access_log off; client_body_temp_path body; {temporary}\n{servers}"
    (folder / "nginx.conf").write_text(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ {http} }}\n",
        encoding="utf-8",
    )
    command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    with (
        (folder / "nginx.log").open("wb") as errors,
        subprocess.Popen(command, stderr=errors) as nginx,
    ):
        try:
            while not (folder / "nginx.pid").exists():
                assert nginx.poll() is None, (folder / "nginx.log").read_text()
                time.sleep(0.02)
            yield
        finally:
            nginx.terminate()


@cache
def certificate() -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1, which clients of this process trust.

    So do the programs it runs in Python, C#, Go, JavaScript, R and Java, and curl.
    """
    folder = Path(tempfile.mkdtemp(prefix="sibling-tls-"))
    atexit.register(shutil.rmtree, folder)
    files = (folder / "cert.pem", folder / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc"
    names = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    target = ("-out", files[0], "-keyout", files[1])
    subprocess.run([*command.split(), *names, *target], check=True, capture_output=True)
    others = os.environ.get("SSL_CERT_FILE")  # installers need them
    trusted = folder / "trusted.pem"
    trusted.write_bytes(files[0].read_bytes() + (Path(others).read_bytes() if others else b""))
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        os.environ[name] = str(trusted)
    if shutil.which("keytool"):
        command = "keytool -importcert -noprompt -storepass changeit -keystore trusted -file"
        subprocess.run([*command.split(), files[0]], cwd=folder, check=True, capture_output=True)
        os.environ["JAVA_TOOL_OPTIONS"] = (
            f"-Djavax.net.ssl.trustStore={folder}/trusted "
            "-Djavax.net.ssl.trustStorePassword=changeit"
        )
    return files


if IS_BEHIND_NGINX:
    certificate()  # before tests import clients that read the environment only then


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def clean_environment(**env: Any) -> dict[str, str]:
    """Return the environment without settings of whoever runs the tests, but with these."""
    inherited = {n: value for n, value in os.environ.items() if not n.startswith("SIBLING_")}
    return inherited | {name: str(value) for name, value in env.items()}


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def command() -> Command:
    """``command(*arguments, **env)``: the command ``sibling``, in the process of the tests.

    This takes a fraction of the time of a process of its own, which ``serve`` and its like need.
    Its standard output can be binary; it is returned as text where it is UTF-8.
    """

    def run(
        *arguments: str, stdin: str = "", cwd: Path = ROOT, check: bool = False, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        code: Any = 0
        with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd):
            for name in set(os.environ) - set(clean_environment()):
                patch.delenv(name)
            for name, value in env.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["sibling", *map(str, arguments)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            try:
                cli.main()
            except SystemExit as end:
                code = end.code
        out, err = (stream.buffer.getvalue().decode(errors="replace") for stream in streams)
        done = subprocess.CompletedProcess(arguments, code, out, err)
        assert not check or done.returncode == 0, done
        return done

    return run


@pytest.fixture
def fails(command: Command, service: Service, tmp_path: Path) -> Callable[..., str]:
    """``fails(code, *arguments)``: standard error of a command that fails with a code."""

    def run_command(code: int, *arguments: str, **env: str) -> str:
        env = {"SIBLING_URL": service.url} | env
        end = command(*arguments, cwd=tmp_path, **env)
        assert end.returncode == code, end
        assert end.stdout == ""
        return end.stderr

    return run_command


def _wait_ready(service: Service) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    with httpx.Client(base_url=service.url, timeout=5) as http:
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if http.get("/v2/health/ready").status_code == 200:
                    return
            time.sleep(0.1)
    raise AssertionError(f"not ready after {START_TIMEOUT_S} s:\n{service.log()[-4000:]}")


def _stop(process: "ServerProcess | subprocess.Popen[str]") -> None:
    if process.poll() is not None:
        return  # the test has ended it itself
    children = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(STOP_TIMEOUT_S)
    deadline = time.monotonic() + LEFT_TIMEOUT_S
    while (left := [child for child in children if _runs(child)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    for child in left:
        child.kill()
    assert not left, f"the service left processes behind: {left}"


def _runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended; the system may take seconds to remove it then."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module", autouse=True)
def no_authorities(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """An empty folder as that of the certificate authorities, but for tests that install packages.

    Every HTTP client loads them, which takes ten times as long as a request; no test uses them.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("installs") is None and not IS_BEHIND_NGINX:
            patch.delenv("SSL_CERT_FILE", raising=False)
            patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("authorities")))
        yield


class SmallDisk:
    """A small file system that a test can fill.

    Attributes
    ----------
    is_mounted
        False where that needs more rights: then ``folder`` is on the disk of the tests.
    """

    def __init__(self, folder: Path, size_mib: int) -> None:
        self.folder = folder
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder)]
        done = shutil.which("mount") and subprocess.run(mount, check=False, capture_output=True)
        self.is_mounted = bool(done) and done.returncode == 0

    def __str__(self) -> str:
        return str(self.folder)

    @contextmanager
    def full(self, shrink: Callable[[], None] = lambda: None, *, n_left: int = 0) -> Iterator[None]:
        """Have so many bytes left until the end of the block.

        Parameters
        ----------
        shrink
            Called before each round of filling, as files with unused space would hold more.
        """
        if not self.is_mounted:
            pytest.skip("mounting a small disk needs root")
        ballast = self.folder / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file:
                for _ in range(6):  # files in use grow while the disk is filled, less each time
                    shrink()
                    for size in (2**20, 2**12):
                        with contextlib.suppress(OSError):
                            while file.write(bytes(size)) == size:
                                pass
                file.truncate(file.tell() - n_left)
            yield
        finally:
            ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        """Remove the file system; the kernel may still be ending processes that keep it busy."""
        deadline = time.monotonic() + LEFT_TIMEOUT_S
        while (
            self.is_mounted
            and subprocess.run(["umount", self.folder], check=False, capture_output=True).returncode
        ):
            assert time.monotonic() < deadline, f"{self.folder} is busy"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def small_disk() -> Iterator[Callable[[int], SmallDisk]]:
    """``disk = small_disk(size_mib)``: a file system of its own, until the tests of a file end."""
    disks = []

    def mount(size_mib: int) -> SmallDisk:
        disks.append(SmallDisk(Path(tempfile.mkdtemp(prefix="sibling-disk-")), size_mib))
        return disks[-1]

    yield mount
    for disk in disks:
        disk.unmount()
        shutil.rmtree(disk.folder)


@pytest.fixture(scope="session")
def server_template() -> Iterator[ServerTemplate]:
    """The process that starts the servers of this test process."""
    with contextlib.closing(ServerTemplate()) as template:
        yield template


@pytest.fixture
def forked_command(
    tmp_path: Path, server_template: ServerTemplate
) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """``forked_command(*arguments, **env)``: the command in a process of its own, which ends.

    It is a fork with its imports done, and can also be a server that cannot start.
    """

    def run(*arguments: str, **env: Any) -> "subprocess.CompletedProcess[str]":
        given = [*map(str, arguments)]
        environment = clean_environment(**{"SIBLING_DATA_DIR": tmp_path / "data", **env})
        with (
            (tmp_path / "errors").open("w+", encoding="utf-8") as errors,
            server_template.start("sibling", given, env=environment, log=errors) as process,
        ):
            code = process.wait(START_TIMEOUT_S)
            errors.seek(0)
            out = process.stdout.read()
            return subprocess.CompletedProcess(given, code, out, errors.read())

    return run


@pytest.fixture(scope="session")
def worker_pool(
    tmp_path_factory: pytest.TempPathFactory, guard: Guard, server_template: ServerTemplate
) -> Iterator[str]:
    """The address of the scheduler of a worker for servers without one: see ``worker_pool.py``."""
    folder = tmp_path_factory.mktemp("pool")
    env = clean_environment(SIBLING_DATA_DIR=folder)
    with (
        (folder / "log").open("w", encoding="utf-8") as log,
        server_template.start("tests.service.worker_pool", [], env=env, log=log) as process,
        guard(process.pid),
    ):
        address = process.stdout.readline().strip()
        assert address, (folder / "log").read_text(encoding="utf-8")
        yield address
        _stop(process)


@pytest.fixture(scope="session")
def launch_on(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    guard: Guard,
    server_template: ServerTemplate,
) -> Launch:
    """``with launch_on(database_url, **env) as service``: a server on a database of the caller.

    It has workers of its own with ``SIBLING_WORKER_SLOTS=1``; otherwise ``worker_pool`` runs its
    jobs, which tests must not leave behind then.
    """

    def launch(database_url: str, **env: Any) -> AbstractContextManager[Service]:
        folder = tmp_path_factory.mktemp("service")
        if not {"SIBLING_WORKER_SLOTS", "SIBLING_SCHEDULER_URL"} & env.keys():
            env["SIBLING_SCHEDULER_URL"] = request.getfixturevalue("worker_pool")
        return running_service(database_url, folder, guard=guard, template=server_template, **env)

    return launch


@pytest.fixture(scope="session")
def launch_service(databases, launch_on: Launch) -> Launch:
    """``with launch_service(**env) as service``: for fixtures that live longer than a test.

    Each has a database of its own, but for one that is started on the data of another.
    """
    addresses: dict[Path, str] = {}

    @contextmanager
    def launch(data_dir: Path | None = None, **env: Any) -> Iterator[Service]:
        with contextlib.ExitStack() as stack:
            if data_dir is None:
                url = databases.create()
                stack.callback(databases.drop, url)
            else:
                url = addresses[data_dir]
            running = stack.enter_context(launch_on(url, data_dir=data_dir, **env))
            addresses[running.data_dir] = url
            yield running

    return launch


@pytest.fixture
def start_service(launch_service: Launch) -> Iterator[Callable[..., Service]]:
    """``service = start_service(**env)``: a server with settings of its own, until the test ends.

    ``data_dir=`` starts it on the data of another one.
    """
    with contextlib.ExitStack() as stack:
        yield lambda **env: stack.enter_context(launch_service(**env))


@pytest.fixture(scope="session")
def service(launch_service: Launch) -> Iterator[Service]:
    """The server that tests share, so none may assume to be alone; ``worker_pool`` runs its jobs.

    It responds to an upload once it is parsed, however busy the machine is.
    """
    with launch_service(SIBLING_INGEST_WAIT_S=40) as running:
        yield running


@pytest.fixture(scope="session")
def first_key() -> str:
    """The first key of ``keyed_service``."""
    return new_key().text()


@pytest.fixture(scope="session")
def keyed_service(launch_service: Launch, first_key: str) -> Iterator[Service]:
    """A server that requires keys and sends webhooks to localhost; shared like ``service``."""
    allowed = {"HOSTS": "localhost", "NETWORKS": "127.0.0.0/8,::1/128"}
    env = {f"SIBLING_WEBHOOK_{name}": value for name, value in allowed.items()}
    env |= {"SIBLING_REQUIRE_KEYS": "true", "SIBLING_BOOTSTRAP_KEY": first_key}
    with launch_service(SIBLING_INGEST_WAIT_S=40, **env) as running:
        yield running


@pytest.fixture
def start_replica(launch_service: Launch, service: Service) -> Iterator[Callable[..., Service]]:
    """``replica = start_replica(**env)``: a server with settings of its own on the shared data."""
    with contextlib.ExitStack() as stack:
        yield lambda **env: stack.enter_context(launch_service(service.data_dir, **env))


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as open_client:
        yield open_client


@pytest.fixture(scope="session")
def http(service: Service, model: RemoteModel) -> Iterator[httpx.Client]:
    """Plain HTTP to the shared server, which has a model, for what the client would not send."""
    del model
    with httpx.Client(base_url=service.url, timeout=240) as open_http:
        yield open_http


@pytest.fixture(scope="session")
def dataset(client: Client) -> Dataset:
    """Three related tasks of five features and three classes: every algorithm fits them."""
    rng = np.random.default_rng(7)
    basis = rng.standard_normal((5, 2))
    tasks = {
        name: rng.standard_normal((12, 2)) @ (basis + 0.1 * rng.standard_normal((5, 2))).T
        + 0.05 * rng.standard_normal((12, 5))
        for name in ("north", "süd", "a/b")
    }
    labels = {name: np.tile(["red", "green", "blue"], 4) for name in tasks}
    return client.upload(tasks, labels, name="shared by tests")


@pytest.fixture(scope="session")
def model(client: Client, dataset: Dataset) -> RemoteModel:
    """A trained model; tests may add versions under other names, but not delete this one."""
    return client.train(dataset, "pca", model="shared", k=2).wait()


@pytest.fixture
def start_nginx(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """``start_nginx(servers)``: nginx with blocks ``server``, until the test ends."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    with contextlib.ExitStack() as stack:
        yield lambda servers: stack.enter_context(running_nginx(tmp_path, servers))


@pytest.fixture
def guide_block() -> Callable[[int, str], str]:
    """``block = guide_block(port, line)``: nginx of the guide, with another ``proxy_pass``."""
    return nginx_block


class Uploads:
    """A service with its HTTP client, database and files."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.http = httpx.Client(base_url=service.url, timeout=240)
        self.database = Database(service.database_url)

    def post(
        self,
        body: Any,
        media_type: str = "text/csv",
        *,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> httpx.Response:
        """Upload a dataset."""
        return self.http.post(
            "/v1/datasets",
            params={"name": "d", **query},
            content=body,
            headers={"Content-Type": media_type, **(headers or {})},
        )

    def get(self, dataset_id: str, **query: Any) -> httpx.Response:
        return self.http.get(f"/v1/datasets/{dataset_id}", params=query)

    def traces(self) -> dict[str, list[Any]]:
        """Return everything that an upload could leave behind, read beside the server."""
        columns = {
            "datasets": (DatasetRow.id, DatasetRow.state),
            "blobs": (BlobRow.id,),
            "chunks": (BlobChunkRow.blob_id, BlobChunkRow.position),
        }
        with self.database.read() as session:
            left = {
                name: [tuple(row) for row in session.execute(sa.select(*of).order_by(*of))]
                for name, of in columns.items()
            }
        scratch = self.service.data_dir / "ingest"
        return left | {"files": sorted(scratch.iterdir()) if scratch.exists() else []}


@pytest.fixture(scope="session")
def uploads_to() -> Iterator[Callable[[Service], Uploads]]:
    """``uploads = uploads_to(service)``: uploads, until the session ends."""
    with contextlib.ExitStack() as stack:

        def uploads(service: Service) -> Uploads:
            made = Uploads(service)
            stack.enter_context(made.http)
            stack.callback(made.database.close)
            return made

        yield uploads


@pytest.fixture(scope="session")
def stopwatch() -> Callable[[], Callable[[], float]]:
    """``elapsed_s = stopwatch()``: a function that returns the seconds since then.

    They are without those that threads of this process, of its servers and of their workers were
    ready to run and had to wait for a core. So limits of time hold on a busy machine, too.
    """

    def start() -> Callable[[], float]:
        began, before = time.monotonic(), _seconds_without_core()

        def elapsed_s() -> float:
            now = _seconds_without_core()
            waited = sum(max(0.0, now[thread] - before.get(thread, 0.0)) for thread in now)
            return time.monotonic() - began - waited

        return elapsed_s

    return start


def _seconds_without_core() -> dict[str, float]:
    """Return how long each thread of this process and of all below it has waited for a core."""
    found = {}
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        # Linux only: elsewhere no thread is found, and nothing is subtracted
        for file in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # it has ended
                found[str(file)] = int(file.read_text().split()[1]) / 1e9
    return found


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """``wait_until(lambda: ...)``: wait until something is so."""
    return wait_for


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator["Cluster"]:
    """A scheduler and workers of their own, over TLS, which end with the test."""
    make_certificates(tmp_path / "tls")
    port = free_port()
    cluster = Cluster(tmp_path, f"tls://127.0.0.1:{port}", str(port))
    yield cluster
    cluster.stop()


class Cluster:
    """Processes of ``sibling scheduler`` and ``sibling worker``."""

    def __init__(self, folder: Path, url: str, port: str) -> None:
        self.folder, self.url, self.port = folder, url, port
        self.processes: list[subprocess.Popen[Any]] = []
        self.checkpoint_s = 30.0

    def scheduler(self) -> "subprocess.Popen[Any]":
        return self._start("scheduler", "scheduler", "--port", self.port)

    def worker(self, name: str) -> "subprocess.Popen[Any]":
        return self._start(name, "worker")

    @staticmethod
    def family(process: "subprocess.Popen[Any]") -> list[psutil.Process]:
        """Return the process and all below it, the deepest first."""
        try:
            root = psutil.Process(process.pid)
            return [*reversed(root.children(recursive=True)), root]
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        for process in self.processes:
            for member in self.family(process):
                member.kill()
            process.wait()

    def _start(self, name: str, *command: str) -> "subprocess.Popen[Any]":
        env = {
            "PATH": "",
            "PYTHONPATH": str(ROOT),  # the processes of a worker shall run this code too
            "SIBLING_TLS_DIR": str(self.folder / "tls"),
            "SIBLING_DATA_DIR": str(self.folder / name),
            "SIBLING_WORKER_SLOTS": "1",
            "SIBLING_CHECKPOINT_INTERVAL_S": str(self.checkpoint_s),
            "SIBLING_SCHEDULER_URL": self.url,
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "sibling", *command],
                cwd=ROOT,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process
