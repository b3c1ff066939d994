"""Which clients and proxies were run against the service, and with what result.

Each row is what tests run: programs of the guide, clients that nobody here wrote, and generated
ones. They run twice, straight and behind the nginx block of the guide with TLS and a path prefix
(``SIBLING_TEST_PROXY=nginx``). What is not installed is ``not run``, with the reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from benchmarks.fault_matrix import cases
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table

_TESTS: Final = "tests/service"
_EXAMPLES: Final = (
    f"{_TESTS}/test_documentation.py::test_the_examples_of_a_page_run_and_print_what_is_shown"
)
_PROGRAMS: Final = (
    f"{_TESTS}/test_documentation.py::test_a_program_in_another_language_prints_what_is_shown"
)
_GENERATED: Final = f"{_TESTS}/test_generated_clients.py::"
_PREFIX: Final = f"{_TESTS}/test_path_prefix.py::test_every_link_behind"
_MAX_REASON: Final = 80


@dataclass(frozen=True, slots=True)
class Subject:
    """A client or proxy.

    Attributes
    ----------
    tests
        Files, or file and start of the name, of what runs it.
    is_proxy
        Whether it is run by itself only, not behind nginx.
    """

    name: str
    what: str
    tests: tuple[str, ...]
    is_proxy: bool = False


SUBJECTS: Final = (
    Subject(
        "`sibling.Client` and `AsyncClient`",
        "uploads, jobs, models, calls, errors",
        (f"{_TESTS}/test_client.py", f"{_TESTS}/test_client_methods.py"),
    ),
    Subject("the command `sibling`", "all groups of commands", (f"{_TESTS}/test_commands.py",)),
    Subject(
        "curl, httpx, JavaScript (fetch)",
        "the examples of the guide",
        (f"{_EXAMPLES}[sqlite-how-to/call-a-model.md]",),
    ),
    *(
        Subject(name, "the program of the guide", (f"{_PROGRAMS}[sqlite-{key}]",))
        for name, key in (
            ("Go", "go"),
            ("Java", "java"),
            ("C#", "csharp"),
            ("R (httr2)", "r"),
            ("Julia", "julia"),
        )
    ),
    Subject(
        "openapi-python-client",
        "all operations; upload, train, predict",
        (
            f"{_GENERATED}test_openapi_python_client",
            f"{_GENERATED}test_the_client_of_openapi_python",
        ),
    ),
    Subject(
        "openapi-fetch (TypeScript)",
        "strict types; upload, train, predict",
        (f"{_GENERATED}test_openapi_fetch",),
    ),
    Subject(
        "openapi-generator",
        "validation of the document",
        (f"{_GENERATED}test_openapi_generator",),
    ),
    Subject("tritonclient", "protocol V2, JSON and binary", (f"{_TESTS}/test_v2_clients.py",)),
    Subject("Chromium", "all pages", (f"{_TESTS}/test_browser.py",)),
    Subject("MLflow", "exported models, loaded and served", (f"{_TESTS}/test_mlflow.py",)),
    Subject("onnxruntime", "exported graphs", (f"{_TESTS}/test_exports.py",)),
    *(
        Subject(name, "every link below a prefix, with TLS", (f"{_PREFIX}_{test}",), is_proxy=True)
        for name, test in (
            ("nginx", "nginx_leads_somewhere"),
            ("Caddy", "another_proxy_leads_somewhere[sqlite-caddy]"),
            ("Traefik", "another_proxy_leads_somewhere[sqlite-traefik]"),
        )
    ),
)


def run(context: Context) -> Iterator[Block]:
    """Yield the table, and whether all that ran has passed."""
    subjects = [one for one in SUBJECTS if not context.is_quick or "program" in one.what]
    straight = _results(subjects)
    behind = _results([one for one in subjects if not one.is_proxy], SIBLING_TEST_PROXY="nginx")
    rows = [
        (one.name, one.what, _cell(straight, one), _cell(behind, one, is_proxy=one.is_proxy))
        for one in subjects
    ]
    yield Table(
        columns=("client or proxy", "what was run", "result", "behind nginx"), rows=tuple(rows)
    )
    yield Claim(
        text="Every client and proxy that is installed passes, also behind nginx.",
        is_confirmed=not any("failed" in cell for row in rows for cell in row),
    )


def _results(subjects: list[Subject], **env: str) -> dict[str, ET.Element]:
    """Return the report of each test by its file and name."""
    tests = {test for one in subjects for test in one.tests}
    # a whole name is run alone; of the start of a name, its file
    targets = {test if test.endswith("]") else test.partition("::")[0] for test in tests}
    return cases(sorted(targets), n_processes=2, **env)


def _cell(results: dict[str, ET.Element], subject: Subject, *, is_proxy: bool = False) -> str:
    """Return the outcome of the tests of a subject."""
    if is_proxy:
        return "-"
    found = [case for name, case in results.items() if name.startswith(subject.tests)]
    if not found:
        raise LookupError(f"no test is called {subject.tests}")
    failed = [case for case in found if {child.tag for child in case} & {"failure", "error"}]
    skipped = [case.find("skipped") for case in found if case.find("skipped") is not None]
    n_passed = len(found) - len(failed) - len(skipped)
    if failed:
        return f"failed: {len(failed)} of {len(found)}"
    if n_passed:
        return f"passed ({n_passed})"
    (reason, *_) = (one.get("message", "") for one in skipped if one is not None)
    return f"not run: {re.sub('^Skipped: ', '', reason).splitlines()[0][:_MAX_REASON]}"
