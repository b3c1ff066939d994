"""Regular expressions of names in requests, and descriptions of the names that they match."""

from typing import Final

#: Name of a model; see also ``service.models.names``.
MODEL_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
#: An existing model: NAME, or NAME@ALIAS.
MODEL_REFERENCE: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(@[A-Za-z][A-Za-z0-9_-]{0,63})?$"
#: A version of a model: NAME, NAME/VERSION or NAME@ALIAS.
VERSION_REFERENCE: Final = r"^[^/]+(/[0-9]{1,9})?$"
#: No dot, since it separates the method in model names of the Open Inference Protocol.
ALIAS: Final = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
#: Text of any script on one line.
TEXT_LINE: Final = r"^[^\x00-\x1f\x7f]*$"

#: The message for a value that does not match, by pattern.
EXPECTED: Final = {
    MODEL_NAME: "a model name has 1 to 100 characters: letters a to z and A to Z, digits, '.', '_' "
    "or '-', beginning with a letter or digit",
    MODEL_REFERENCE: "expected a model name, or NAME@ALIAS; names have up to 100 letters, digits, "
    "'.', '_' or '-' and begin with a letter or digit, and aliases have up to 64 letters, digits, "
    "'_' or '-' and begin with a letter",
    VERSION_REFERENCE: "expected NAME, NAME/VERSION or NAME@ALIAS",
    ALIAS: "an alias has 1 to 64 characters: letters a to z and A to Z, digits, '_' or '-', "
    "beginning with a letter",
    TEXT_LINE: "a name cannot have line breaks, tabs or other control characters",
}
