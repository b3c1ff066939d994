"""``python -m service`` is the command ``sibling``."""

from service.cli import main

main()
