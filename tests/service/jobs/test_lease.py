import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from service.jobs.queue.lease import Lease
from service.jobs.queue.liveness import LivenessTracker
from service.processes import lifetime as processes
from service.processes.lifetime import ProcessIdentity, identity_of, this_process
from service.storage.tables import LeaseRow

pytestmark = pytest.mark.sql

TAKE = """
import sys, time
from service.storage.database import Database
from service.jobs.queue.lease import Lease
print(Lease(Database(sys.argv[1]), "l", timeout_s=60).acquire(), flush=True)
time.sleep(60)
"""


def test_a_lease_is_renewed_no_more_often_than_necessary(database):
    for name, timeout_s, renewals in (("long", 6000, 1), ("short", 0.1, 3)):
        lease = Lease(database, name, timeout_s=timeout_s)
        for _ in range(3):
            assert lease.acquire()
            time.sleep(0.1)
        with database.read() as session:
            assert session.get_one(LeaseRow, name).renewals == renewals


def test_a_lease_that_another_took_meanwhile_is_noticed(database):
    lease = Lease(database, "l", timeout_s=5)
    assert lease.acquire()
    far = ProcessIdentity("far", "boot", "pid:[1]", 1, 0)
    with database.write() as session:
        session.get_one(LeaseRow, "l").holder = far.to_text()
    time.sleep(0.6)  # until it is renewed
    assert not lease.acquire()
    assert not lease.acquire()


def test_a_living_holder_keeps_the_lease_and_a_killed_one_is_replaced_at_once(database):
    other = subprocess.Popen(
        [sys.executable, "-c", TAKE, database.url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "True\n"
        lease = Lease(database, "l", timeout_s=60)
        assert not lease.acquire()
        other.kill()
        other.wait()
        assert lease.acquire()
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_holder_on_another_machine_is_replaced_when_its_renewals_stop(database):
    far = ProcessIdentity("far", "boot", "pid:[1]", 1, 0)
    with database.write() as session:
        session.add(LeaseRow(name="l", holder=far.to_text(), renewals=7))
    slow, fast = Lease(database, "l", timeout_s=60), Lease(database, "l", timeout_s=0.2)
    assert not slow.acquire()
    assert not fast.acquire()  # it has just begun to watch
    time.sleep(0.3)
    assert not slow.acquire()
    assert fast.acquire()


def test_a_released_lease_is_free(database):
    first = Lease(database, "l", timeout_s=60)
    first.acquire()
    first.release()
    with database.read() as session:
        assert session.get(LeaseRow, "l") is None


def test_an_identity_survives_its_text_and_knows_whether_its_process_lives():
    me = this_process()
    assert ProcessIdentity.from_text(me.to_text()) == me
    assert not me.is_certainly_dead()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    dead = identity_of(process.pid)
    assert not dead.is_certainly_dead()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert dead.is_certainly_dead()  # a zombie, not yet reaped
    process.wait()
    assert dead.is_certainly_dead()
    with pytest.raises(ProcessLookupError):
        identity_of(process.pid)


def test_an_identity_stays_the_same_when_the_clock_is_set():
    code = """if True:
        import sys, psutil, time
        from unittest import mock
        hour = 3600
        clock = time.time
        with mock.patch("time.time", lambda: clock() + hour), mock.patch(
            "psutil._pslinux.boot_time", return_value=psutil.boot_time() + hour
        ):
            from service.processes.lifetime import identity_of
            print(identity_of(int(sys.argv[1])).to_text())
    """
    found = subprocess.run(
        [sys.executable, "-c", code, str(os.getpid())], capture_output=True, check=True, text=True
    )
    assert found.stdout.strip() == this_process().to_text()


def test_silence_counts_only_while_the_counters_are_read(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    liveness = LivenessTracker()

    def watch(seconds):
        for _ in range(int(seconds / 0.25)):
            clock[0] += 0.25
            liveness.tick()
        return liveness.silent_for("job", 7)

    watch(5)
    assert liveness.silent_for("job", 7) == 0  # first seen
    assert watch(3) == 3
    clock[0] += 600  # frozen, or without a database
    assert 3 < watch(1) <= 5
    assert liveness.silent_for("job", 8) == 0
    assert watch(1) == 0  # its counter went back: it is another attempt
    liveness.retain([])
    assert liveness.silent_for("job", 7) == 0


def test_a_pid_used_again_is_another_process_and_another_host_is_unknown(monkeypatch):
    me = this_process()
    earlier = ProcessIdentity(me.host, me.boot_id, me.pid_namespace, me.pid, me.started - 100)
    assert earlier.is_certainly_dead()
    rebooted = replace(me, boot_id="other", machine_id="m")
    monkeypatch.setattr(processes, "_machine_id", lambda: "m")
    assert rebooted.is_certainly_dead()
    for elsewhere in (
        ProcessIdentity("far", me.boot_id, me.pid_namespace, 2**22, 0),
        ProcessIdentity(me.host, me.boot_id, "pid:[1]", 2**22, 0),
        # another machine with the same host name, and one that does not know its identity
        replace(rebooted, machine_id="another"),
        replace(rebooted, machine_id=""),
    ):
        assert not elsewhere.is_certainly_dead()


def test_a_machine_without_an_identity_is_like_no_other(monkeypatch):
    unknown = replace(this_process(), boot_id="other", machine_id="")
    monkeypatch.setattr(processes, "_machine_id", lambda: "")
    assert not unknown.is_certainly_dead()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"uuid": "u", "machine-id": "m"}, "u"),
        ({"machine-id": "m"}, "m"),
        ({"machine-id": "m", "mark": ""}, ""),  # it may be the one of the image
        ({"uuid": "u", "machine-id": "m", "mark": ""}, "u"),
        ({}, ""),
    ],
)
def test_containers_do_not_take_the_identity_of_their_image(tmp_path, monkeypatch, files, expected):
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(processes, "_HARDWARE_UUID", str(tmp_path / "uuid"))
    monkeypatch.setattr(processes, "_MACHINE_ID", str(tmp_path / "machine-id"))
    monkeypatch.setattr(processes, "_CONTAINER_MARKS", (str(tmp_path / "mark"),))
    monkeypatch.setattr(processes, "_CONTAINER_ROOTS", ())
    assert processes._machine_id.__wrapped__() == expected


def test_a_lease_of_another_machine_with_the_same_name_is_not_taken(database, monkeypatch):
    monkeypatch.setattr(processes, "_machine_id", lambda: "here")
    holder = replace(this_process(), boot_id="other", machine_id="there")
    with database.write() as session:
        session.add(LeaseRow(name="l", holder=holder.to_text(), renewals=7))
    assert not Lease(database, "l", timeout_s=60).acquire()


def test_the_text_of_an_earlier_version_has_no_machine():
    text = json.loads(this_process().to_text())
    del text["machine_id"]
    assert ProcessIdentity.from_text(json.dumps(text)).machine_id == ""
