"""Starts servers in a fraction of the time: a process that has imported the service, and forks.

It gets the module, arguments, environment, limit of open files, output and error file of a server
over a socket, which is its standard input, and runs ``python -m module`` in a fork. It responds
with the process id, and writes the exit code to a pipe that it gets with them. It ends when the
socket is closed.
"""

import gc
import json
import os
import resource
import runpy
import selectors
import socket
import sys
from pathlib import Path

MAX_REQUEST_BYTES = 1_000_000


def main() -> None:
    sys.path[0] = str(Path.cwd())  # as in `python -m`
    gc.disable()
    import distributed  # noqa: F401

    import service.cli
    import service.jobs.worker.engine
    import service.server.app
    import service.server.fast_path
    import service.server.request_limits
    import service.server.traced  # noqa: F401
    from algorithms.registry import ALGORITHMS

    list(ALGORITHMS.values())  # imports them
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the memory of all that is imported
    gc.enable()
    # a fork has one thread: another one might hold a lock forever
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    request = next_server(socket.socket(fileno=os.dup(0)))
    if request is not None:
        os.environ.clear()
        os.environ.update(request["env"])
        if request["n_files"] is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (request["n_files"], request["n_files"]))
        module = request["module"]
        sys.argv = [module, *request["arguments"]]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def next_server(requests: socket.socket) -> dict | None:
    """Return the request of a server in the fork that becomes it, and None at the end."""
    with selectors.DefaultSelector() as waiting, requests:
        waiting.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is not requests:
                    waiting.unregister(key.fd)
                    report_exit(key.fd, *key.data)
                    continue
                message, files, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 3)
                if not message:
                    return None
                output, errors, exit_code = files
                pid = os.fork()
                if pid == 0:
                    become(output, errors, to_close=[exit_code, *open_files(waiting)])
                    return json.loads(message)
                os.close(output)
                os.close(errors)
                waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, exit_code))
                requests.sendall(b"%d\n" % pid)


def open_files(waiting: selectors.BaseSelector) -> list[int]:
    """Return what belongs to other servers."""
    others = [(key.fd, key.data[1]) for key in waiting.get_map().values() if key.data]
    return [file for pair in others for file in pair]


def become(output: int, errors: int, *, to_close: list[int]) -> None:
    """Redirect the output of this process, and close the files that belong to other servers."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for file, number in ((nothing, 0), (output, 1), (errors, 2)):
        os.dup2(file, number)
    for file in (nothing, output, errors, *to_close):
        os.close(file)


def report_exit(process: int, pid: int, exit_code: int) -> None:
    _, status = os.waitpid(pid, 0)
    os.write(exit_code, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(exit_code)
    os.close(process)


if __name__ == "__main__":
    main()
