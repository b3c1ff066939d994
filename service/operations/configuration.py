"""The settings that are in effect, without secrets."""

import re
from typing import Any, Final

from pydantic import SecretStr

from service.settings import PREFIX, Settings

HIDDEN: Final = "***"
#: Passwords of URLs: before the host, and in the query.
_PASSWORDS: Final = (
    re.compile(r"(?<=://)([^/?#@]*?:)[^/?#]*(?=@)"),
    re.compile(r"([?&][^=&#]*password=)[^&#]*", re.IGNORECASE),
)


def effective_settings(settings: Settings) -> list[dict[str, Any]]:
    """Return variable, value and source (default or environment) of every setting."""
    return [
        {
            "variable": f"{PREFIX}{name.upper()}",
            "value": _shown(getattr(settings, name)),
            "source": "environment" if name in settings.model_fields_set else "default",
        }
        for name in Settings.model_fields
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
