"""``python -m sibling`` is the command ``sibling``.

Python imports the main module again in each process of a pool of workers, which needs no command.
"""

from sibling import check_not_hidden


def main() -> None:
    """Run the command."""
    check_not_hidden("service")
    from service.cli import main as run

    run()


if __name__ == "__main__":
    main()
