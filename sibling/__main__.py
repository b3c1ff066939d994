"""``python -m sibling`` is the command ``sibling``.

Python imports the main module again in each process of a pool of workers, which needs no command.
"""

import signal

from sibling import check_not_hidden


def main() -> None:
    """Run the command."""
    check_not_hidden("service")
    interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)  # imports would print a traceback
    from service.cli import main as run

    signal.signal(signal.SIGINT, interrupt)
    run()


if __name__ == "__main__":
    main()
