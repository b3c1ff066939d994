import os
import subprocess
from uuid import uuid4

from service.processes.lifetime import identity_of, kill_marked


def test_a_process_is_killed_while_it_replaces_its_program(tmp_path):
    """Its environment is empty for a moment, in which one of ten outlived the kill."""
    script = tmp_path / "again"
    script.write_text("#!/bin/sh\nexec $0\n")
    script.chmod(0o700)
    for _ in range(50):
        mark = uuid4().hex
        with subprocess.Popen([script], env={**os.environ, "MARK": mark}) as process:
            kill_marked(mark)
            try:
                assert process.wait(20) < 0
            finally:
                process.kill()


def test_processes_without_an_environment_do_not_delay_a_kill(stopwatch):
    mark = uuid4().hex
    with subprocess.Popen(["sleep", "60"], env={}) as other:
        elapsed_s = stopwatch()
        kill_marked(mark)
        assert elapsed_s() < 4
        assert other.poll() is None
        other.kill()


def test_a_process_whose_name_is_not_text_neither_stops_a_kill_nor_hides_its_start():
    named = r"printf '\377' > /proc/$$/comm; echo; read _"
    with subprocess.Popen(
        ["/bin/sh", "-c", named], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline()
        kill_marked(uuid4().hex)
        assert identity_of(other.pid).started > 0
        other.kill()
