"""``sibling doctor`` on installations that work, and on broken ones."""

import os
import re
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from service.access import store
from service.access.keys import new_key
from service.operations import doctor, surroundings
from service.operations.doctor import examine
from service.settings import Settings
from service.storage.database import Database
from service.storage.tables import BlobRow, ModelRow
from tests.service.stored import dataset_row, job_row, version_row

ROOT = Path(__file__).parents[3]


@pytest.fixture
def no_environment(monkeypatch):
    for name in doctor.environment_names():
        monkeypatch.delenv(name)


@pytest.fixture
def settings(database, tmp_path, no_environment):
    """``settings(**fields)``: settings on a real database, and nothing from the environment."""
    del no_environment
    return lambda **fields: Settings(
        **{"database_url": database.url, "data_dir": tmp_path / "data", "port": 0, **fields}
    )


def findings(settings):
    """Return the level and detail of each check but the kernels, which take seconds."""
    return {f.check: (f.level, f.detail) for f in examine(settings, has_kernels=False)}


@pytest.mark.sql
def test_nothing_is_wrong_with_a_new_installation(settings):
    (settings().data_dir).mkdir()
    found = findings(settings())
    assert {level for level, _ in found.values()} == {"ok"}, found
    checked = {"versions", "settings", "database", "schema", "keys", "clock", "data directory"}
    assert set(found) == checked | {"model names", "scheduler", "port"}
    assert f"numpy {np.__version__}" in found["versions"][1]


@pytest.mark.slow
@pytest.mark.timeout(180)  # the kernels may have to be compiled first
def test_the_command_finds_the_kernels_that_the_installation_compiled(tmp_path):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SIBLING_")}
    environment = kept | {"SIBLING_DATA_DIR": str(tmp_path), "SIBLING_PORT": "0"}
    for module, *words in (("service.operations.warm",), ("sibling", "doctor")):
        end = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    lines = end.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * len(lines), end.stdout
    assert "kernels" in lines[-1]


def test_an_unknown_variable_is_reported_with_a_suggestion(settings, monkeypatch):
    monkeypatch.setenv("SIBLING_WORKER_SLOT", "3")
    level, detail = findings(settings())["settings"]
    assert level == "warning"
    assert "SIBLING_WORKER_SLOT " in detail
    assert "SIBLING_WORKER_SLOTS" in detail


def test_variables_of_the_client_are_known(settings, monkeypatch):
    monkeypatch.setenv("SIBLING_URL", "http://127.0.0.1:8000")
    monkeypatch.setenv("SIBLING_API_KEY", "secret")
    assert findings(settings())["settings"][0] == "ok"


def test_every_unknown_variable_is_reported(settings, monkeypatch):
    monkeypatch.setenv("SIBLING_WORKER_SLOT", "3")
    monkeypatch.setenv("SIBLING_XYZZY", "3")
    level, detail = findings(settings())["settings"]
    assert level == "warning"
    assert "SIBLING_WORKER_SLOT " in detail
    assert "SIBLING_XYZZY " in detail


@pytest.mark.slow
def test_the_service_does_not_start_with_contradictory_settings(forked_command):
    for command in ("serve", "doctor"):
        end = forked_command(command, SIBLING_HEARTBEAT_INTERVAL_S=90)
        assert end.returncode == 1
        expected = "error: SIBLING_HEARTBEAT_TIMEOUT_S (60) must be at least twice SIBLING_HEART"
        assert end.stderr.startswith(expected)


def test_a_default_time_limit_above_the_maximum_is_no_error(settings):
    assert findings(settings(max_timeout_s=60))["settings"][0] == "ok"


@pytest.mark.sql
def test_a_database_of_an_unknown_schema_is_an_error_and_stays_as_it_is(settings, database):
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    level, detail = findings(settings())["schema"]
    assert level == "error"
    assert "from-the-future" in detail


@pytest.mark.sql
def test_models_named_like_calls_of_others_are_reported(settings, database):
    with database.write() as session:
        session.add_all([dataset_row(), BlobRow(id="blob_1")])
        session.flush()
        names = ("shops.predict", "shops.predict_proba", "shops.7", "deleted.predict")
        states = ("succeeded", "queued", "queued", "succeeded")
        for number, (name, state) in enumerate(zip(names, states, strict=True)):
            session.add(job_row(f"job_{number}", model_name=name, state=state))
            session.add(ModelRow(id=f"mod_{number}", owner="ada", name=name, latest_version=1))
        session.flush()
        session.add(version_row(model_id="mod_0", job_id="job_0", artifact_blob_id="blob_1"))
    level, detail = findings(settings())["model names"]
    assert level == "warning"
    named = re.findall(r"'(shops[^']*|deleted[^']*)' of", detail)
    assert named == ["shops.predict", "shops.predict_proba"]


@pytest.mark.sql
def test_a_database_that_is_away_is_an_error(settings, tmp_path):
    (tmp_path / "file").write_text("no folder")
    found = findings(settings(database_url=f"sqlite:///{tmp_path}/file/sibling.db"))
    assert found["database"][0] == "error"


def test_the_examination_of_an_empty_sqlite_installation_creates_nothing(tmp_path, settings):
    folder = tmp_path / "new"
    found = findings(settings(database_url="", data_dir=folder))
    assert "error" not in {level for level, _ in found.values()}, found
    assert not folder.exists()


def test_a_damaged_sqlite_database_is_an_error(settings, tmp_path):
    from service.storage.migration import migrate

    path = tmp_path / "damaged.db"
    database = Database(f"sqlite:///{path}")
    migrate(database)
    database.close()
    data = bytearray(path.read_bytes())
    data[8192:40960] = b"\xff" * (40960 - 8192)
    path.write_bytes(data)
    found = findings(settings(database_url=f"sqlite:///{path}"))
    assert found["database"][0] == "error"
    assert "restore a backup" in found["database"][1]


def test_a_data_directory_that_cannot_be_written_is_an_error(settings, tmp_path):
    (tmp_path / "data").write_text("a file is in its place")
    level, detail = findings(settings())["data directory"]
    assert level == "error"
    assert str(tmp_path / "data") in detail


def test_a_full_disk_is_an_error(settings):
    settings().data_dir.mkdir()
    level, detail = findings(settings(min_free_bytes=1 << 62))["data directory"]
    assert level == "error"
    assert "MiB" in detail


def test_missing_keys_are_an_error_where_they_are_required(settings):
    level, detail = findings(settings(host="0.0.0.0"))["keys"]
    assert level == "error"
    assert "sibling keys create" in detail


def test_a_bootstrap_key_is_enough_unless_it_is_revoked(settings, database):
    key = new_key()
    guarded = settings(host="0.0.0.0", bootstrap_key=key.text())
    assert findings(guarded)["keys"][0] == "ok"
    with database.write() as session:
        store.create(session, key, owner="admin", scopes=["admin"], expires_at=None)
        store.revoke(session, key.id)
    assert findings(guarded)["keys"][0] == "error"


@pytest.mark.slow  # waits for a scheduler
@pytest.mark.usefixtures("no_environment")
def test_a_scheduler_that_does_not_respond_is_an_error(tmp_path):
    settings = Settings(data_dir=tmp_path, scheduler_url="tcp://127.0.0.1:1")
    level, detail = findings(settings)["scheduler"]
    assert level == "error"
    assert "127.0.0.1:1" in detail


@pytest.mark.usefixtures("no_environment")
def test_the_port_is_free_or_used_by_this_service_or_by_another_program(
    service, tmp_path, monkeypatch
):
    def port(number, host="127.0.0.1"):
        found = surroundings.check_port(Settings(data_dir=tmp_path, host=host, port=number))
        return found.level, found.detail

    own = urlsplit(service.url).port
    level, detail = port(own)
    assert level == "ok"
    assert "the service, in this version, runs" in detail
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        monkeypatch.setattr(surroundings, "_TIMEOUT_S", 0.1)
        level, detail = port(number)
        assert level == "error"
        assert f"{number} of 127.0.0.1 is used by another program; stop it" in detail
    assert port(number) == ("ok", f"{number} of 127.0.0.1 is free")
    assert port(number, "192.0.2.1")[0] == "error"  # an address for documentation


@pytest.mark.usefixtures("no_environment")
def test_the_service_of_the_client_is_checked_with_its_clock(service, monkeypatch):
    assert surroundings.check_running_service() is None
    monkeypatch.setenv("SIBLING_URL", "http://127.0.0.1:1")
    found = surroundings.check_running_service()
    assert (found.level, "does not respond" in found.detail) == ("warning", True)
    monkeypatch.setenv("SIBLING_URL", service.url)
    found = surroundings.check_running_service()
    assert (found.level, "agrees with" in found.detail) == ("ok", True), found
    monkeypatch.setattr(surroundings, "MAX_CLOCK_DIFFERENCE", timedelta(seconds=-1))
    found = surroundings.check_running_service()
    assert (found.level, "NTP" in found.detail) == ("warning", True), found
