"""``python -m service`` is the command ``sibling``.

Python imports the main module again in each process of a pool of workers, which needs no command.
"""


def main() -> None:
    """Run the command."""
    from service.cli import main as run

    run()


if __name__ == "__main__":
    main()
