"""The option that says which equal rows are held out together.

Without imports of what finds them (:mod:`algorithms.interface.equal_rows`), which clients lack.
"""

from typing import Final, Literal, TypeAlias

#: Which equal rows are held out together: the same samples, all ('values'), or none.
Ties: TypeAlias = Literal["auto", "values", "none"]
DEFAULT_TIES: Final = "auto"
TIES_DESCRIPTION: Final = (
    "Which rows of equal values are held out together, if they have no group: `auto`, those that "
    "are the same sample, in a design that comes again in several tasks or as copies; all "
    "(`values`), as for copies in tables of one or two columns; or `none`, as for answers of many "
    "persons to the same items."
)
