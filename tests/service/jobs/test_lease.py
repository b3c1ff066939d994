import os
import subprocess
import sys
import time

import pytest

from service.jobs.queue.lease import Lease
from service.jobs.queue.liveness import Silence
from service.processes import ProcessIdentity, identity_of, this_process
from service.rows import LeaseRow

TAKE = """
import sys, time
from service.database import Database
from service.jobs.queue.lease import Lease
print(Lease(Database(sys.argv[1]), "l", lease_s=60).hold(), flush=True)
time.sleep(60)
"""


def test_a_lease_is_held_by_one_and_renewed_no_more_often_than_it_must_be(database):
    lease = Lease(database, "l", lease_s=10)
    for pause_s, renewals in ((0, 1), (0, 1), (1.1, 2)):
        time.sleep(pause_s)
        assert lease.hold()
        with database.read() as session:
            assert session.get_one(LeaseRow, "l").renewals == renewals


def test_a_lease_that_another_took_meanwhile_is_noticed(database):
    lease = Lease(database, "l", lease_s=0.5)
    assert lease.hold()
    far = ProcessIdentity("far", "boot", "pid:[1]", 1, 0)
    with database.write() as session:
        session.get_one(LeaseRow, "l").holder = far.to_text()
    time.sleep(0.1)
    assert not lease.hold()
    assert not lease.hold()


def test_a_living_holder_keeps_it_and_a_killed_one_is_replaced_at_once(database):
    other = subprocess.Popen(
        [sys.executable, "-c", TAKE, database.url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "True\n"
        lease = Lease(database, "l", lease_s=60)
        assert not lease.hold()
        other.kill()
        other.wait()
        assert lease.hold()
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_holder_elsewhere_is_replaced_when_its_renewals_stop(database):
    far = ProcessIdentity("far", "boot", "pid:[1]", 1, 0)
    with database.write() as session:
        session.add(LeaseRow(name="l", holder=far.to_text(), renewals=7))
    patient, hasty = Lease(database, "l", lease_s=60), Lease(database, "l", lease_s=0.2)
    assert not patient.hold()
    assert not hasty.hold()  # it has only now begun to watch
    time.sleep(0.3)
    assert not patient.hold()
    assert hasty.hold()


def test_a_released_lease_is_free(database):
    first = Lease(database, "l", lease_s=60)
    first.hold()
    first.release()
    with database.read() as session:
        assert session.get(LeaseRow, "l") is None


def test_an_identity_survives_its_text_and_tells_life_from_death():
    me = this_process()
    assert ProcessIdentity.from_text(me.to_text()) == me
    assert not me.is_certainly_dead()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    gone = identity_of(process.pid)
    assert not gone.is_certainly_dead()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert gone.is_certainly_dead()  # a zombie, which nobody has asked about yet
    process.wait()
    assert gone.is_certainly_dead()
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
            from service.processes import identity_of
            print(identity_of(int(sys.argv[1])).to_text())
    """
    told = subprocess.run(
        [sys.executable, "-c", code, str(os.getpid())], capture_output=True, check=True, text=True
    )
    assert told.stdout.strip() == this_process().to_text()


def test_silence_counts_only_where_somebody_listens(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    silence = Silence()

    def listen(seconds):
        for _ in range(int(seconds / 0.25)):
            clock[0] += 0.25
            silence.look()
        return silence.of("job", 7)

    listen(5)
    assert silence.of("job", 7) == 0  # first heard of
    assert listen(3) == 3
    clock[0] += 600  # frozen, or without a database
    assert 3 < listen(1) <= 5
    assert silence.of("job", 8) == 0
    assert listen(1) == 0  # its counter went back: somebody else's
    silence.forget_all_but([])
    assert silence.of("job", 7) == 0


def test_a_pid_used_again_is_another_process_and_another_host_is_unknown():
    me = this_process()
    earlier = ProcessIdentity(me.host, me.boot_id, me.pid_namespace, me.pid, me.started - 100)
    assert earlier.is_certainly_dead()
    rebooted = ProcessIdentity(me.host, "other", me.pid_namespace, me.pid, me.started)
    assert rebooted.is_certainly_dead()
    for elsewhere in (
        ProcessIdentity("far", me.boot_id, me.pid_namespace, 2**22, 0),
        ProcessIdentity(me.host, me.boot_id, "pid:[1]", 2**22, 0),
    ):
        assert not elsewhere.is_certainly_dead()
