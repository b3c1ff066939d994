"""Folders of a user with the name of a package of ours."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("package", "program"),
    [
        ("algorithms", ["-c", "import sibling"]),
        ("algorithms", ["-m", "sibling", "algorithms"]),
        ("service", ["-m", "sibling", "doctor"]),
    ],
)
def test_a_package_that_hides_ours_is_named_with_its_file(package, program, tmp_path):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, *program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(tmp_path / package / "__init__.py") in last


@pytest.mark.slow
def test_the_client_works_beside_a_folder_called_service(tmp_path):
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").touch()
    program = "import sibling; print(sibling.Client.__name__, sibling.MTFL.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Client MTFL\n"
