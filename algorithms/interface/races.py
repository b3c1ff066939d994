"""The name of the algorithm that races others, for what must not import it."""

from typing import Final

RACE: Final = "ensemble"
