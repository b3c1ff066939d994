"""The settings that are in effect, without secrets."""

import os
import re
from typing import Any, Final

from pydantic import SecretStr

from service.settings import PREFIX, Settings
from sibling.client.environment import DEFAULT_URL

HIDDEN: Final = "***"
#: Variables that the client and its commands read, with their defaults.
CLIENT_VARIABLES: Final = {"SIBLING_URL": DEFAULT_URL, "SIBLING_API_KEY": ""}
_HIDDEN_VARIABLES: Final = frozenset({"SIBLING_API_KEY"})
#: Passwords of URLs: before the host, and in the query.
_PASSWORDS: Final = (
    re.compile(r"(?<=://)([^/?#@]*?:)[^/?#]*(?=@)"),
    re.compile(r"([?&][^=&#]*password=)[^&#]*", re.IGNORECASE),
)


def effective_settings(settings: Settings) -> list[dict[str, Any]]:
    """Return variable, value and source (default or environment) of every setting.

    Settings of the server come first, then settings of the client.
    """
    return [*_of_server(settings), *_of_client()]


def _of_server(settings: Settings) -> list[dict[str, Any]]:
    return [
        {
            "variable": f"{PREFIX}{name.upper()}",
            "value": _shown(getattr(settings, name)),
            "source": "environment" if name in settings.model_fields_set else "default",
        }
        for name in Settings.model_fields
    ]


def _of_client() -> list[dict[str, Any]]:
    return [
        {
            "variable": name,
            "value": _shown(SecretStr(value) if name in _HIDDEN_VARIABLES else value),
            "source": "environment" if name in os.environ else "default",
        }
        for name, default in CLIENT_VARIABLES.items()
        for value in [os.environ.get(name, default)]
    ]


def _shown(value: Any) -> Any:
    """Return a value without passwords."""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    for pattern in _PASSWORDS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text
