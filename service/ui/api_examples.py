"""API requests behind a page, or for submitting a job, as curl and as Python."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.ui.api import in_utc

#: Parts of a specification that are limits, in the client.
_LIMITS: Final = ("priority", "timeout_s", "memory_mb", "max_attempts", "threads")
_OPTIONS: Final = ("model", "seed", "search", "compare", "evaluate", "preparation", "calibration")
_POSITIONAL: Final = ("dataset_id", "algorithm", "params")
#: Filters of the audit log that the client takes as they are.
_OF_AUDIT: Final = {"object", "owner", "key_id", "operation"}


@dataclass(frozen=True, slots=True)
class ApiExample:
    """Requests to the API.

    Parameters
    ----------
    paths
        Paths with queries, of GET requests.
    python
        Statements with a client of the service that is called ``client``.
    body, file
        Body of a POST request, or the file with the body; a GET request has neither.
    """

    paths: Sequence[str]
    python: str = ""
    body: str = ""
    file: str = ""

    def curl(self, origin: str, *, needs_key: bool) -> str:
        """Return the commands."""
        key = ' -H "Authorization: Bearer $SIBLING_API_KEY"' if needs_key else ""
        data = ""
        if self.body:
            quoted = self.body.replace("'", "'\\''")
            data = f" -H 'Content-Type: application/json' \\\n  --data '{quoted}'"
        if self.file:
            data = f" -H 'Content-Type: text/csv' --data-binary @{self.file}"
        return "\n".join(f"curl '{origin}{path}'{key}{data}" for path in self.paths)

    def program(self, origin: str) -> str:
        """Return the program; empty if there is none."""
        if not self.python:
            return ""
        lines = "\n".join(f"    {line}" for line in self.python.splitlines())
        return f"from sibling import Client\n\nwith Client({origin!r}) as client:\n{lines}"


def listing(collection: str, query: Mapping[str, str]) -> ApiExample:
    """Return the requests for a list with the filters of its page."""
    filters = in_utc({name: value for name, value in query.items() if name != "page_token"})
    path = f"/v1/{collection}" + (f"?{urlencode(filters)}" if filters else "")
    arguments = ", ".join(f"{name}={value!r}" for name, value in filters.items())
    item = collection.removesuffix("s") if collection != "audit" else "event"
    python = f"for {item} in client.{collection}({arguments}):\n    print({item})"
    if collection == "audit" and not filters.keys() <= _OF_AUDIT:
        python = ""
    return ApiExample([path], python)


def submission(spec: Mapping[str, Any]) -> ApiExample:
    """Return the request that submits a job, without fields that have no value."""
    fields = {name: value for name, value in spec.items() if not (value is None or value is False)}
    body = json.dumps(fields, ensure_ascii=False)
    return ApiExample(["/v1/jobs"], _submit(fields), body)


def _submit(spec: Mapping[str, Any]) -> str:
    """Return the call of ``client.submit``; empty for other jobs, such as inference."""
    if set(spec) - {*_POSITIONAL, *_OPTIONS, *_LIMITS}:
        return ""
    options = {name: spec[name] for name in _OPTIONS if name in spec}
    limits = {name: spec[name] for name in _LIMITS if name in spec}
    if limits:
        options["limits"] = limits
    arguments = [repr(spec["dataset_id"]), repr(spec["algorithm"]), repr(spec.get("params", {}))]
    arguments += [f"{name}={value!r}" for name, value in options.items()]
    return "job = client.submit(\n    " + ",\n    ".join(arguments) + ",\n)\nprint(job.wait())"
