"""Words of the API that stay on pages, with what they mean: shown on hover, and by a press."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Term:
    """A word, its plural as titles have it, and its meaning."""

    one: str
    many: str
    meaning: str


TERMS: Final = (
    Term("Group", "Groups", "Rows that belong together, as of one hospital. The API says task."),
    Term("Alias", "Aliases", "A name such as production that points to a version, and can move."),
    Term("Attempt", "Attempts", "One try at a job. A lost worker or a full disk leads to another."),
    Term("Lineage", "Lineage", "The data, the job and the earlier version that a model is from."),
    Term("Scope", "Scopes", "What a key may do, such as read datasets or call models."),
    Term("Seed", "Seed", "The number that chance starts from. The same one gives the same result."),
    Term("Split", "Splits", "One division of the rows into those to learn from and to check with."),
    Term("Child job", "Child jobs", "A part of a job, which runs as a job of its own."),
    Term("Parameters", "Parameters", "The settings of a method. Most are chosen from the data."),
    Term("Quota", "Quotas", "How much an owner may store."),
)
#: The term of each title.
GLOSSARY: Final = {form: term for term in TERMS for form in (term.one, term.many)}
