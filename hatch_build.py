"""Writes the stub file of the estimators when the package is built or installed as editable."""

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StubHook(BuildHookInterface[Any]):
    """Makes the stub file from the source that is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file among the source, where both kinds of installation find it."""
        del version, build_data
        sys.path.insert(0, self.root)
        from service.tools.stubs import write_stub  # noqa: PLC0415 - of the source

        write_stub()
