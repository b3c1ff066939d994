"""The log has the cause and location of errors, but no values of the data."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from service.observability.logs import MAX_LINE_BYTES, configure_logs, log

pytestmark = pytest.mark.slow  # many processes

ROOT = Path(__file__).parents[2]
N_PROCESSES = 8
N_EVENTS = 100
#: Writes short events, long texts, and tracebacks of any depth; waits until all have started.
WRITER = """
import sys
from service.observability.logs import configure_logs, log
writer, n_events = sys.argv[1], int(sys.argv[2])
configure_logs()
def fail(depth):
    if depth:
        fail(depth - 1)
    raise ValueError("x" * 3000)
sys.stdin.readline()
for number in range(n_events):
    key = {"writer": writer, "number": number}
    if number % 5 == 1:
        log.info("long", **key, text="\\u00e4" * 20_000)
    elif number % 5 == 2:
        log.info("many", **key, values=list(range(5000)))
    elif number % 5 == 3:
        try:
            fail(number)
        except ValueError as error:
            log.error("failed", **key, exc_info=error)
    else:
        log.info("short", **key, text="y" * 20 * number)
"""


def test_an_internal_error_is_logged_without_values(capsys):
    configure_logs()

    def read(password):
        return password / 2

    try:
        read("secret" + "-of-nobody")
    except TypeError as error:
        log.error("request.failed", exc_info=error)
    text = capsys.readouterr().err
    assert "secret-of-nobody" not in text
    (logged,) = json.loads(text)["exception"]
    assert logged["exc_type"] == "TypeError"
    assert [frame["name"] for frame in logged["frames"]][-1] == "read"


def start_writers(target):
    return [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, f"w{number}", str(N_EVENTS)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stderr=target,
        )
        for number in range(N_PROCESSES)
    ]


def run(writers):
    for writer in writers:  # all have started
        writer.stdin.write(b"\n")
        writer.stdin.close()


def check(lines):
    """Check that each line is one event, and that no event is missing."""
    events = [json.loads(line) for line in lines]
    found = sorted((event["writer"], event["number"]) for event in events)
    assert found == [(f"w{w}", n) for w in range(N_PROCESSES) for n in range(N_EVENTS)]
    assert max(map(len, lines)) <= MAX_LINE_BYTES
    assert {event["event"] for event in events} == {"long", "many", "failed", "short"}


def test_events_of_many_processes_in_one_pipe_are_one_line_each():
    """The pipe is full most of the time, so that a write which may be divided is."""
    reading, writing = os.pipe()
    writers = start_writers(writing)
    os.close(writing)
    chunks = []

    def read():
        while data := os.read(reading, 1000):
            chunks.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    run(writers)
    reader.join()
    os.close(reading)
    assert [writer.wait() for writer in writers] == [0] * N_PROCESSES
    check(b"".join(chunks).splitlines())


@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_events_of_many_processes_in_one_file_are_one_line_each(tmp_path, mode):
    path = tmp_path / "service.log"
    with path.open(mode) as file:
        writers = start_writers(file)
    run(writers)
    assert [writer.wait() for writer in writers] == [0] * N_PROCESSES
    check(path.read_bytes().splitlines())


def test_the_innermost_frames_of_a_long_traceback_are_kept(capsys):
    configure_logs()

    def deep(depth):
        if depth:
            deep(depth - 1)
        raise RuntimeError("the reason " + "y" * 5000)

    try:
        deep(200)
    except RuntimeError as error:
        log.error("request.failed", path="/v1/jobs", exc_info=error)
    line = capsys.readouterr().err
    assert len(line) <= MAX_LINE_BYTES
    event = json.loads(line)
    assert event["is_cut"]
    assert event["path"] == "/v1/jobs"
    (logged,) = event["exception"]
    assert logged["exc_value"].startswith("the reason")
    assert logged["frames"][-1]["name"] == "deep"
    assert logged["frames"][-1]["filename"].endswith("tests/service/test_logs.py")
