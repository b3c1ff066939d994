"""A separate scheduler and workers over TLS, as on several machines."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from service.jobs.worker import engine
from service.jobs.worker.tls import find_security, make_certificates
from service.settings import Settings
from sibling import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # a cluster of its own

LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
#: Dask's client gives up for good when it has not found its scheduler for 10 s.
CLIENT_TIMEOUT_S = 12
OTHER_VERSION = "def dask_setup(s): s.handlers['sibling_version'] = lambda: '9.9.9'\n"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {f"task {t}": rng.normal(size=(40, 24)) for t in range(60)}


def test_jobs_of_remote_workers_survive_a_kill_and_a_stop(cluster, start_service, rows):
    cluster.scheduler()
    first = cluster.worker("first")
    service = start_service(
        SIBLING_SCHEDULER_URL=cluster.url, SIBLING_TLS_DIR=cluster.folder / "tls"
    )
    with Client(service.url) as client:
        dataset = client.upload(rows)
        job = client.train(dataset, "rmt-pca", model="killed", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        second = cluster.worker("second")
        for process in cluster.family(first):
            process.kill()
        job.wait()
        assert job.info["attempt"] == 2
        group = os.getpgid(second.pid)
        interrupted = [p for p in cluster.family(second) if os.getpgid(p.pid) == group]
        options = {**LONG, "n_folds": 20, "limits": {"max_attempts": 1}}
        job = client.train(dataset, "rmt-pca", model="stopped", **options)
        wait_for(lambda: (job.refresh().info["progress"] or {}).get("fraction", 0) > 0.1)
        for process in interrupted:
            process.send_signal(signal.SIGINT)  # as a terminal does
        second.wait(120)
        cluster.worker("third")  # which shares no files with the second
        job.wait()
        assert [a["outcome"] for a in job.info["attempts"]] == ["released", "succeeded"]
        # it continued from a checkpoint
        progress = [e for e in job.events() if e["kind"] == "progress"]
        before = max(e["data"]["fraction"] for e in progress if e["attempt"] == 1)
        # if little is left, the second attempt reports no progress; from the start it would
        after = min((e["data"]["fraction"] for e in progress if e["attempt"] == 2), default=1.0)
        assert after >= before
        assert sorted((m["name"], m["version"]) for m in client.models) == [
            ("killed", 1),
            ("stopped", 1),
        ]


def test_the_api_reconnects_to_a_scheduler_that_was_away_for_long(cluster, start_service, rows):
    scheduler = cluster.scheduler()
    service = start_service(
        SIBLING_SCHEDULER_URL=cluster.url, SIBLING_TLS_DIR=cluster.folder / "tls"
    )
    with Client(service.url) as client:
        wait_for(lambda: client.health()["ready"])
        scheduler.kill()
        scheduler.wait()
        time.sleep(CLIENT_TIMEOUT_S)
        job = client.train(client.upload(rows), "pca")
        cluster.scheduler()
        cluster.worker("worker")
        job.wait()
        assert client.health()["ready"]


def test_a_connection_that_dask_neither_opens_nor_closes_counts_as_closed(
    cluster, tmp_path, monkeypatch
):
    cluster.scheduler()
    tls_dir = cluster.folder / "tls"
    wait_for(lambda: _can_connect(cluster.url, find_security(cluster.url, tls_dir)))
    settings = Settings(data_dir=tmp_path, scheduler_url=cluster.url, tls_dir=tls_dir)
    pool = engine.Engine(settings, database_url="sqlite://")
    assert not pool.is_closed()
    pool._client.status = "connecting"  # as it stays where two attempts to connect meet
    assert not pool.is_closed()
    monkeypatch.setattr(engine, "_RECONNECT_TIMEOUT_S", 0.0)
    wait_for(pool.is_closed)
    pool.close()


def test_a_client_without_a_certificate_of_the_authority_is_rejected(cluster, tmp_path):
    from distributed import Client as DaskClient

    cluster.scheduler()
    ours = find_security(cluster.url, tmp_path / "tls")
    wait_for(lambda: _can_connect(cluster.url, ours))
    make_certificates(tmp_path / "other")
    other = find_security(cluster.url, tmp_path / "other")
    with pytest.raises(OSError, match=r"(?i)certificate|timed out"):
        DaskClient(cluster.url, security=other, timeout=5, set_as_default=False)


def test_a_worker_of_another_version_exits_with_that_cause(cluster, tmp_path):
    preload = tmp_path / "other.py"
    preload.write_text(OTHER_VERSION)
    files = {name: str(tmp_path / "tls" / f"{name}.pem") for name in ("ca", "cert", "key")}
    scheduler = subprocess.Popen(
        [
            *(Path(sys.executable).with_name("dask"), "scheduler", "--no-dashboard"),
            *("--host", "tls://127.0.0.1", "--port", cluster.port, "--preload", preload),
            *("--tls-ca-file", files["ca"], "--tls-cert", files["cert"], "--tls-key", files["key"]),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    cluster.processes.append(scheduler)
    worker = cluster.worker("worker")
    assert worker.wait(120) == 1
    log = (tmp_path / "worker.log").read_text()
    assert "runs version 9.9.9" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("url", "match"),
    [("tcp://10.0.0.1:8786", "does not use TLS"), ("tls://scheduler:8786", "SIBLING_TLS_DIR")],
)
def test_a_scheduler_on_another_machine_needs_tls(url, match):
    with pytest.raises(ValueError, match=match):
        find_security(url, None)


def test_a_scheduler_on_this_machine_needs_no_tls():
    assert find_security("tcp://127.0.0.1:8786", None) is None


def test_the_error_names_a_missing_certificate(tmp_path):
    make_certificates(tmp_path)
    assert not make_certificates(tmp_path)
    (tmp_path / "key.pem").unlink()
    with pytest.raises(ValueError, match=r"key\.pem is missing"):
        find_security("tls://scheduler:8786", tmp_path)


def _can_connect(url, security):
    from service.jobs.worker.cluster import check_version

    try:
        check_version(url, security)
    except OSError:
        return False
    return True
