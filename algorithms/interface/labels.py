"""Texts that can be class labels, levels of categories and names."""

import unicodedata
from typing import Final

MAX_LABEL_LENGTH: Final = 200
#: Unicode categories not allowed in names: control characters and surrogates.
_FORBIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cs"})
_MAX_SHOWN: Final = 40


def label_problem(label: str) -> str | None:
    """Return why a text cannot be a label, or None if it can."""
    if len(label) > MAX_LABEL_LENGTH:
        return f"a label of {len(label)} characters is longer than {MAX_LABEL_LENGTH}"
    if has_forbidden_character(label):
        return f"the label {label[:_MAX_SHOWN]!r} has a control character; remove it"
    return None


def has_forbidden_character(text: str) -> bool:
    """Return whether a text has control characters or surrogates."""
    return any(unicodedata.category(character) in _FORBIDDEN_CATEGORIES for character in text)
