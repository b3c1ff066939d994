"""Folders of dead processes are removed when another process starts; those of live ones stay."""

import signal
import subprocess
import sys

from service.jobs.worker.scratch import make_scratch, sweep_scratch

_HOLD = """
import sys, time
from pathlib import Path
from service.jobs.worker.scratch import make_scratch
folder = make_scratch(Path(sys.argv[1]))
(folder / "a.checkpoint").write_text("state")
print(folder, flush=True)
time.sleep(60)
"""


def test_the_files_of_a_killed_process_are_removed_and_those_of_a_frozen_one_kept(tmp_path):
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as frozen,
    ):
        folders = [process.stdout.readline().strip() for process in (killed, frozen)]
        try:
            frozen.send_signal(signal.SIGSTOP)
            killed.kill()
            killed.wait()
            own = make_scratch(tmp_path)
            assert sorted(map(str, tmp_path.iterdir())) == sorted([folders[1], str(own)])
            assert [p.name for p in tmp_path.rglob("*.checkpoint")] == ["a.checkpoint"]
        finally:
            frozen.kill()


def test_a_live_process_removes_the_files_of_one_that_is_killed_later(tmp_path):
    own = make_scratch(tmp_path)
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        folder = other.stdout.readline().strip()
        sweep_scratch(tmp_path)
        assert sorted(map(str, tmp_path.iterdir())) == sorted([folder, str(own)])
        other.kill()
    sweep_scratch(tmp_path)
    assert list(tmp_path.iterdir()) == [own]


def test_a_process_may_have_several_folders(tmp_path):
    first, second = make_scratch(tmp_path), make_scratch(tmp_path)
    assert first.is_dir()
    assert second.is_dir()
