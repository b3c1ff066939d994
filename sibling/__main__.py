"""``python -m sibling`` is the command ``sibling``.

Python imports the main module again in each process of a pool of workers, which needs no command.
"""

import signal
import sys
from typing import Final

from sibling import check_not_hidden

#: Commands that run until a signal stops them.
_SERVERS: Final = ("serve", "scheduler", "worker")


def main() -> None:
    """Run the command."""
    check_not_hidden("service")
    if sys.argv[1:] and sys.argv[1] in _SERVERS:
        from service.processes.stops import end_at_signals

        end_at_signals()  # also while modules are imported, which takes seconds
        from service.cli import main as run
    else:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)  # imports would print a traceback
        from service.cli import main as run

        signal.signal(signal.SIGINT, interrupt)
    run()


if __name__ == "__main__":
    main()
