"""``sibling doctor`` on installations that work, and on broken ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.database import Database
from service.operations import doctor
from service.operations.doctor import examine
from service.settings import Settings

ROOT = Path(__file__).parents[3]


@pytest.fixture
def settings(database, tmp_path, monkeypatch):
    """``settings(**fields)``: settings on a real database, and nothing from the environment."""
    for name in doctor.environment_names():
        monkeypatch.delenv(name)
    return lambda **fields: Settings(
        **{"database_url": database.url, "data_dir": tmp_path / "data", **fields}
    )


def findings(settings):
    """Return the level and detail of each check but the kernels, which take seconds."""
    return {f.check: (f.level, f.detail) for f in examine(settings, has_kernels=False)}


def test_nothing_is_wrong_with_a_new_installation(settings):
    (settings().data_dir).mkdir()
    found = findings(settings())
    assert {level for level, _ in found.values()} == {"ok"}, found
    assert set(found) == {"settings", "database", "schema", "keys", "data directory", "scheduler"}


@pytest.mark.timeout(180)  # the kernels may have to be compiled first
def test_the_command_finds_the_kernels_that_the_installation_compiled(tmp_path):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SIBLING_")}
    environment = kept | {"SIBLING_DATA_DIR": str(tmp_path)}
    for module, *words in (("service.warm",), ("service", "doctor")):
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


def test_contradictory_settings_are_an_error(settings):
    level, detail = findings(settings(heartbeat_interval_s=90))["settings"]
    assert level == "error"
    assert "SIBLING_HEARTBEAT_TIMEOUT_S" in detail


def test_a_database_of_an_unknown_schema_is_an_error_and_stays_as_it_is(settings, database):
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    level, detail = findings(settings())["schema"]
    assert level == "error"
    assert "from-the-future" in detail


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
    from service.schema import migrate

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


def test_a_full_disk_is_an_error(settings, monkeypatch):
    settings().data_dir.mkdir()
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 1 << 62)
    level, detail = findings(settings())["data directory"]
    assert level == "error"
    assert "MiB" in detail


def test_missing_keys_are_an_error_where_they_are_required(settings):
    level, detail = findings(settings(host="0.0.0.0"))["keys"]
    assert level == "error"
    assert "sibling keys create" in detail


def test_a_scheduler_that_does_not_respond_is_an_error(settings):
    level, detail = findings(settings(scheduler_url="tcp://127.0.0.1:1"))["scheduler"]
    assert level == "error"
    assert "127.0.0.1:1" in detail
