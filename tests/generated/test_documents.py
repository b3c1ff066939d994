"""Generated pages are up to date, and no other file lists the algorithms."""

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

import service
from algorithms.interface.errors import AlgorithmError
from algorithms.registry import ALGORITHMS
from service.errors.codes import ERRORS, JOB_CODES
from service.errors.patterns import EXPECTED
from service.storage.job_states import JobState
from service.tools.generate import DOCS, pages

SERVICE = Path(service.__file__).parent
#: Scripts that use algorithms by name, like a program of a user.
SHOWS_ALGORITHMS = {"demo.py"}


@pytest.fixture(scope="session")
def generated():
    """Every generated page by its name."""
    return pages()


@pytest.fixture(scope="session")
def document(generated):
    """The OpenAPI document."""
    return json.loads(generated["reference/openapi.json"])


def test_committed_pages_equal_the_generated_ones(generated):
    for name, text in generated.items():
        path = DOCS / name
        assert path.exists(), f"docs/{name} is missing; run `make docs`"
        is_same = path.read_text(encoding="utf-8") == text
        assert is_same, f"docs/{name} is out of date; run `make docs`"


def test_every_error_code_of_jobs_is_documented():
    sources = [*(SERVICE / "jobs").rglob("*.py"), *(SERVICE / "batch").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    found = set(
        re.findall(r'(?:AttemptFailure\(|Outcome\(\s*"[a-z_]+",\s*|"code": )"([a-z_-]+)"', text)
    )
    assert {"worker-lost", "base-model-deleted", "internal-error", "timed-out"} <= found
    known = set(JOB_CODES) | set(ERRORS)
    assert found - {"invalid", "unknown-task", "invalid-data"} <= known
    codes = {kind.code for kind in _kinds_of(AlgorithmError)}
    assert "invalid-artifact" in codes
    assert codes <= known


def _kinds_of(error):
    """Return the classes of errors that are derived from one, also indirectly."""
    return {kind for own in error.__subclasses__() for kind in (own, *_kinds_of(own))}


def test_the_page_on_jobs_lists_every_state():
    text = (DOCS / "explanation" / "jobs.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| `(\w+)` \|", text) == list(JobState)


def test_the_page_on_the_architecture_names_every_package_and_module_of_the_service():
    page = (DOCS / "architecture.md").read_text("utf-8")
    parts = [path for path in SERVICE.iterdir() if (path / "__init__.py").exists()]
    parts += [path for path in SERVICE.glob("*.py") if not path.stem.startswith("__")]
    missing = {path.stem for path in parts if not re.search(rf"service/{path.stem}\b", page)}
    assert not missing


@pytest.mark.slow
def test_generation_is_deterministic(generated):
    assert pages() == generated


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_has_its_section_with_every_parameter(generated, name):
    pages = [text for page, text in generated.items() if page.startswith("reference/algorithms/")]
    (page,) = [text for text in pages if f"(`{name}`)\n" in text]
    before, _, after = page.partition(f"(`{name}`)\n")
    section = re.split(r"(?m)^## ", after)[0]
    shared = "".join(part for part in before.split("\n## ") if part.startswith("Parameters of"))
    for parameter in ALGORITHMS[name].Params.model_fields:
        row = f"| `{parameter}` |"
        assert section.count(row) + shared.count(row) == 1, parameter
    for method in ALGORITHMS[name].Model.methods():
        assert f"`{method}`" in section


def test_every_error_code_has_its_section_with_cause_and_remedy(generated):
    found = re.findall(r"(?ms)^### `([^`]+)`\n(.*?)(?=^##|\Z)", generated["reference/errors.md"])
    sections = dict(found)
    known = {code: (spec.cause, spec.remedy) for code, spec in ERRORS.items()} | JOB_CODES
    assert sections.keys() == known.keys()
    for code, text in sections.items():
        cause, remedy = known[code]
        assert cause in text
        assert remedy in text


@pytest.mark.slow
def test_every_error_code_is_raised_somewhere():
    code = "\n".join(path.read_text(encoding="utf-8") for path in SERVICE.rglob("*.py"))
    code += "\n".join(
        p.read_text(encoding="utf-8") for p in (DOCS.parent / "algorithms").rglob("*.py")
    )
    table = (SERVICE / "errors" / "codes.py").read_text(encoding="utf-8")
    unused = [name for name in ERRORS if f'"{name}"' not in code.replace(table, "")]
    assert unused == []


def test_every_route_documents_its_errors_as_problems(document):
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                if status >= "400" and not path.startswith("/v2/health"):
                    (media_type,) = response["content"]
                    # the headers are refused before the path is known
                    is_v2 = path.startswith("/v2") and status != "431"
                    expected = "application/json" if is_v2 else "application/problem+json"
                    assert media_type == expected, (method, path)
                    named = response["content"][media_type]["schema"]["$ref"].rpartition("/")[2]
                    assert named == ("V2Error" if is_v2 else "Problem")


def test_every_reference_in_the_openapi_document_resolves(generated, document):
    text = generated["reference/openapi.json"]
    schemas = document["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', text)) <= schemas.keys()
    assert "#/$defs" not in text


def test_operation_ids_are_unique(document):
    ids = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    assert len(ids) == len(set(ids))


def test_every_operation_has_a_summary_and_a_description(document):
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            summary = operation["summary"]
            generated = {
                " ".join(name.split("_")).title()
                for name in (operation["operationId"], operation["operationId"].removeprefix("v2_"))
            }
            assert summary not in generated, (method, path)
            first, *others = summary.replace(",", "").split()
            assert first[0].isupper(), (method, path)
            assert [word for word in others if word[0].isupper()] == [], (method, path)
            assert len(operation["description"]) > 15, (method, path)


def test_each_title_in_the_openapi_document_is_of_one_schema(document):
    """Generators of clients name classes by them, and leave out the second one of a name."""
    titles = [schema["title"] for schema in document["components"]["schemas"].values()]
    assert sorted(set(titles)) == sorted(titles)
    operations = [
        operation["operationId"]
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert sorted(set(operations)) == sorted(operations)


def test_no_schema_in_the_openapi_document_is_called_as_the_constructor_of_another(document):
    """``openapi-generator`` writes a function ``NewWebhook`` for a type ``Webhook`` of Go."""
    names = document["components"]["schemas"].keys()
    assert [name for name in names if f"New{name}" in names] == []


def test_every_parameter_and_field_in_the_openapi_document_has_a_description(document):
    missing = [
        f"{method} {path}: {parameter['name']}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    missing += [
        f"{schema}.{field}"
        for schema, spec in document["components"]["schemas"].items()
        for field, described in spec.get("properties", {}).items()
        if not described.get("description")
    ]
    assert missing == []


def test_every_pattern_in_the_openapi_document_has_a_message(document):
    def patterns(part):
        values = part.values() if isinstance(part, dict) else part
        found = {part["pattern"]} if isinstance(part, dict) and "pattern" in part else set()
        nested = (patterns(value) for value in values if isinstance(value, dict | list))
        return found.union(*nested)

    assert patterns(document) == EXPECTED.keys()


@pytest.mark.slow
def test_no_part_of_the_service_names_an_algorithm():
    named = [
        f"{path.relative_to(SERVICE)}: {text}"
        for path in sorted(SERVICE.rglob("*.py"))
        if path.name not in SHOWS_ALGORITHMS
        for text in _texts(path)
        if text in ALGORITHMS
    ]
    pages = (path.read_text(encoding="utf-8") for path in (SERVICE / "ui").rglob("*.html"))
    named += [name for page in pages for name in ALGORITHMS if f'"{name}"' in page]
    assert named == []


def _texts(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]


@pytest.mark.slow  # imports all algorithms
def test_members_that_the_notation_names_exist():
    notation = (DOCS.parent / "algorithms" / "NOTATION.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z]\w+)\.(\w+)", notation))
    assert len(named) > 20
    members = {}
    for path in (DOCS.parent / "algorithms").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                members.setdefault(node.name, set()).update(_members(node))
    assert {(name, member) for name, member in named if member not in members[name]} == set()


def _members(node):
    """Return the names of the annotated attributes and methods of a class."""
    fields = {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
    return fields | {n.name for n in node.body if isinstance(n, ast.FunctionDef)}


PAGES = sorted([*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")])


@pytest.mark.parametrize("page", PAGES)
def test_anchors_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", _without_code(page))
    for target, anchor in links:
        if not target.startswith(("http://", "https://")):
            linked = page.parent / target if target else page
            assert anchor in _anchors(linked), f"{page.name} links to {target}#{anchor}"


def _without_code(page):
    return re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))


def _anchors(page):
    """Return the anchors of the headings of a Markdown page, as GitHub generates them."""
    anchors, counts = set(), Counter()
    for heading in re.findall(r"(?m)^#{1,6} +(.+?) *$", _without_code(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        anchors.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return anchors


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    if page.name == "CHANGELOG.md":  # mentions files of earlier versions
        return
    text = page.read_text(encoding="utf-8")
    folders = "service|algorithms|tests|docs|benchmarks|docker"
    named = set(re.findall(rf"`((?:{folders})/[\w/.-]+)`", text))
    linked = {
        target
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text)
        if not target.startswith(("http://", "https://", "mailto:"))
    }
    missing = {name for name in named if not (DOCS.parent / name).exists()}
    missing |= {target for target in linked if not (page.parent / target).exists()}
    assert missing == set()
