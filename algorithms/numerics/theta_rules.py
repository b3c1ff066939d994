"""The functions θ of output-kernel learning, as the compiled kernels take them."""

from typing import Final

#: The function θ: its kind, its power, the scale s or ν of its argument, its factor.
Rule = tuple[int, int, float, float]

#: Kinds of θ.
FIXED: Final = 0
POWER: Final = 1
EXP: Final = 2
COSH: Final = 3
#: Arguments of exp and cosh are clipped to this, because the search tries points far out. No step
#: ends there: each step increases the dual, and at this value the penalty far exceeds all gains.
MAX_ARGUMENT: Final = 600.0
