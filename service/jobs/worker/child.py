"""The child process, which trains. It imports the algorithms, but no web framework or database.

Started as ``python -m service.jobs.worker.child FD PARENT``: FD is its end of a socket pair,
PARENT the pid of its supervisor. The kernel kills it when its supervisor dies.
"""

import signal
import socket
import sys

from service.jobs.worker.wire import Wire
from service.processes.lifetime import kill_with_parent


def main() -> None:
    """Run one request after another until the supervisor closes the connection."""
    wire_fd, parent = int(sys.argv[1]), int(sys.argv[2])
    kill_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the supervisor
    # imported late: it takes more than a second, in which the process could outlive its supervisor
    from algorithms.registry import preload
    from service.jobs.worker.training import run_request

    preload()
    wire = Wire(socket.socket(fileno=wire_fd))
    wire.send({"type": "ready"})
    while not wire.is_closed:
        request = wire.receive(None)
        if request is not None and request["type"] == "train":  # a late cancel is ignored
            wire.send(run_request(request, wire))


if __name__ == "__main__":
    main()
