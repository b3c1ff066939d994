"""The process that trains. It knows the algorithms and nothing of web or database.

Started as ``python -m service.jobs.worker.child FD PARENT``: FD is its end of a socket pair,
PARENT the pid of its supervisor. The kernel kills it when its supervisor dies.
"""

import signal
import socket
import sys

from service.jobs.worker.wire import Wire
from service.processes import kill_with_parent


def main() -> None:
    """Train what is ordered, one after another, until the supervisor is gone."""
    wire_fd, parent = int(sys.argv[1]), int(sys.argv[2])
    kill_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor to decide on
    # only now: these imports take a second and more, in which it would outlive its supervisor
    from service.jobs.worker.training import answer

    wire = Wire(socket.socket(fileno=wire_fd))
    wire.send({"type": "ready"})
    while not wire.is_closed:
        order = wire.receive(None)
        if order is not None and order["type"] == "train":  # a late cancel is passed over
            wire.send(answer(order, wire))


if __name__ == "__main__":
    main()
