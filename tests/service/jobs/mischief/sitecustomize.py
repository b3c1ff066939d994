"""Fault injection into the processes of the service; Python runs this file at every start.

Child processes misbehave for jobs with certain seeds, or from their start if ``$MISCHIEF/start``
exists. The clock of the API is set forward once ``$MISCHIEF/clock`` exists.
"""

import os
import sys
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

FOLDER = Path(os.environ.get("MISCHIEF", "/nowhere"))
SEGFAULT, FLOOD, SWALLOW, NATIVE, NUL, SLOW = 9001, 9002, 9003, 9004, 9005, 9006
STEP_S = 0.008
HOUR_S = 3600


def misbehave(seed):
    if seed == SEGFAULT:
        import ctypes

        os.write(2, b"." * 10_000 + b"these are its last words\n")
        ctypes.string_at(0)
    elif seed == NUL:
        os.write(2, b"\0\xff\xed\xa0\x80 odd bytes")
        os.abort()
    elif seed == FLOOD:
        for fd in (1, 2) * 5:
            os.write(fd, b"so many words " * 100_000)
    elif seed == SWALLOW:
        import numpy as np

        held = []
        while True:
            held.append(np.ones(2**22))
    elif seed == NATIVE:
        import numpy as np
        import scipy.linalg

        A = np.random.default_rng(0).normal(size=(4000, 4000))
        (FOLDER / "native").touch()
        scipy.linalg.svd(A)


def arm_child():
    start = FOLDER / "start"
    how = start.read_text() if start.exists() else ""
    if how == "raise":
        sys.modules["algorithms.registry"] = None
    from service.datasets import canonical
    from service.processes.wire import Wire

    receive, read_tasks = Wire.receive, canonical.read_tasks
    seeds = [0]

    def receive_and_remember(self, timeout_s):
        if timeout_s == 0 and seeds[-1] == SLOW:  # a step checks for a cancel message
            time.sleep(STEP_S)
        message = receive(self, timeout_s)
        if message is not None and message["type"] == "run":
            seeds.append(message["request"]["seed"])
        return message

    def misbehave_and_read(*arguments):
        misbehave(seeds[-1])
        return read_tasks(*arguments)

    Wire.receive = receive_and_remember
    canonical.read_tasks = misbehave_and_read


def set_clock_forward_on_request():
    while not (FOLDER / "clock").exists():
        time.sleep(0.1)
    import psutil

    import service.storage.database

    clock, booted, real = time.time, psutil.boot_time(), datetime

    class Ahead:
        @staticmethod
        def now(zone):
            return real.now(zone) + timedelta(seconds=HOUR_S)

    service.storage.database.datetime = Ahead
    for module in list(sys.modules.values()):  # modules that imported it under any name
        for name, value in list(vars(module).items()):
            if value is clock:
                setattr(module, name, lambda: clock() + HOUR_S)
    psutil._pslinux.BOOT_TIME = booted + HOUR_S
    psutil._pslinux.boot_time = lambda: booted + HOUR_S
    (FOLDER / "clock is set").touch()


if "service.jobs.worker.child" in sys.orig_argv:
    arm_child()
elif "serve" in sys.orig_argv:
    threading.Thread(target=set_clock_forward_on_request, daemon=True).start()
