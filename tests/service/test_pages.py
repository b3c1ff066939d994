"""Pages show what the API has, to whoever may read it."""

import html
import json
import re
from datetime import timedelta
from urllib.parse import quote_plus, unquote

import httpx
import numpy as np
import pytest

from algorithms.registry import ALGORITHMS, paper_code
from service.datasets.formats.options import ReadOptions
from service.errors.codes import ERRORS
from service.storage.database import now
from service.storage.job_states import ShownJobState
from service.ui import formats
from service.ui.api_examples import listing
from service.ui.views.comparison import _ComparedVersion, _sentence
from service.ui.views.curves import curves_of
from service.ui.views.datasets import _balance, _classes, one_sided
from service.ui.views.jobs import progress_cell, state_cell
from service.ui.views.lists import PAGE_SIZE
from service.ui.views.overview import machine_facts, overview_sentence
from service.ui.views.words import GroupWords, name_of
from sibling import Client


def text_of(page):
    """Return what a page says, without its tags."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text)))


def links_of(page):
    return {html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]*)"', page.text)}


@pytest.fixture(scope="module")
def paths(http, dataset, model):
    """A path of each kind of page."""
    job = http.get(f"/v1/models/{model.name}").json()["lineage"]["job_id"]
    return {
        "overview": "/",
        "datasets": "/datasets",
        "dataset": f"/datasets/{dataset.id}",
        "rows": f"/datasets/{dataset.id}/rows?task={quote_plus(dataset.tasks[0])}",
        "jobs": "/jobs",
        "job": f"/jobs/{job}",
        "models": "/models",
        "model": f"/models/{model.name}",
        "version": f"/models/{model.name}/1",
        "algorithms": "/algorithms",
        "algorithm": "/algorithms/mtfl",
    }


@pytest.mark.slow
def test_a_page_of_older_versions_leads_to_the_latest_also_if_they_are_gone(http, client):
    dataset = client.upload({"a": np.eye(3), "b": 2 * np.eye(3)})
    for _ in range(2):
        client.train(dataset, "pca", model="unnamed").wait()
    first = http.get("/v1/models/unnamed/versions", params={"page_size": 1}).json()
    older = {"page_token": first["next_page_token"]}
    watched = "/models/unnamed/aliases/production/monitor?version=2"
    assert watched in links_of(http.get("/models/unnamed", params=older))
    assert http.delete("/v1/models/unnamed/versions/1").status_code == 204
    gone = http.get("/models/unnamed", params=older)
    assert (gone.status_code, watched in links_of(gone)) == (200, True)


@pytest.mark.slow
@pytest.mark.sql
def test_every_link_of_every_page_leads_somewhere(http, paths):
    found = {link for path in paths.values() for link in links_of(http.get(path))}
    found = {link for link in found if not link.startswith(("?", "#", "/v1/"))}
    assert all(link.startswith("/") and not link.startswith("//") for link in found), found
    assert set(paths.values()) <= found | {"/"}
    broken = {link for link in found if http.get(link).status_code != 200}
    # other tests may have deleted what was shown
    assert broken & {link for path in paths.values() for link in links_of(http.get(path))} == set()


@pytest.mark.parametrize("name", ["rmt-pca", "mtda", "fmtl", "mtfl", "tlvm", "ridge"])
def test_the_page_of_an_algorithm_shows_it_as_its_paper_states_it(http, name):
    page = http.get(f"/algorithms/{name}").text
    shown = re.findall(r"<details><summary>([^<]*)</summary><pre[^>]*><code>([^<]*)</code>", page)
    code = paper_code(name)
    expected = [] if code is None else [("The algorithm as the paper states it", code)]
    assert [(caption, html.unescape(text)) for caption, text in shown] == expected


def test_the_reference_has_every_request_and_links_to_every_error(http):
    page = http.get("/docs")
    document = http.get("/openapi.json").json()
    said = " ".join(text_of(page).split())
    for path, operations in document["paths"].items():
        assert all(f"{method.upper()} {path}" in said for method in operations)
    assert all(f'id="schema-{name}"' in page.text for name in document["components"]["schemas"])
    codes = {link.partition("#")[2] for link in links_of(page) if "errors.html#" in link}
    assert {"in-use", "not-found", "quota-exceeded"} <= codes <= set(ERRORS)
    targets = {link[1:] for link in links_of(page) if link.startswith("#")}
    assert {target for target in targets if f'id="{target}"' not in page.text} == set()


@pytest.mark.slow
def test_algorithms_are_found_by_question_and_by_family(http):
    page = http.get("/algorithms")
    cards = re.findall(r'<li><h3>[^<]*</h3><p><a href="([^"]*)"', page.text)
    start = page.text.partition("<h2>Other data</h2>")[0]
    assert start.count("<li><h3>") == 4
    assert cards[0] == "/jobs/new?algorithm=auto"
    described = http.get("/v1/algorithms?page_size=200").json()["items"]
    asked = {f"/algorithms/{a['name']}" for a in described if a["question"]}
    assert set(cards[1:]) == asked
    assert {f"/algorithms/{name}" for name in ALGORITHMS} <= links_of(page)
    assert all(a["family"] in text_of(page) for a in described)


@pytest.mark.slow
def test_a_form_offers_compare_only_where_there_is_something_to_compare_with(http, dataset):
    for name, algorithm in ALGORITHMS.items():
        described = http.get(f"/v1/algorithms/{name}").json()
        assert set(described["baselines"]) == {one.algorithm for one in algorithm.baselines}
    offered = {
        name: 'data-group="compare"'
        in http.get(f"/jobs/new?dataset={dataset.id}&algorithm={name}").text
        for name in ("mean-regularised", "fmtl", "ridge", "auto")
    }
    assert offered == {"mean-regularised": True, "fmtl": True, "ridge": False, "auto": False}


def test_the_page_of_a_dataset_says_where_the_rarer_of_two_classes_does_not_occur():
    def said(*counts):
        tasks = [{"target_summary": {"counts": of_task}} for of_task in counts]
        return one_sided(tasks, GroupWords.of("hospital"))

    events, none = {"no": 9, "yes": 2}, {"no": 8}
    assert said(events, none, none) == "2 of 3 hospitals have no row with “yes”."
    assert said(events, none) == "1 of 2 hospitals has no row with “yes”."
    assert said(events, events) == said(none, none) == said({"a": 1, "b": 2, "c": 3}, none) == ""
    assert one_sided([{"target_summary": None}], GroupWords.of("hospital")) == ""


def test_the_share_of_a_class_is_of_all_rows_though_not_all_classes_are_listed():
    counts = {f"class {i}": 1 for i in range(50)}
    task = {"name": "a", "n_samples": 100}
    assert _balance({**task, "target_summary": {"kind": "classes", "counts": counts}})[:12] == (
        "class 0: 1 %"
    )
    assert _classes(task, counts).rows[0].cells[1].value == 0.01


@pytest.mark.slow
def test_all_rows_of_a_task_are_reached_and_downloaded(http, service):
    rng = np.random.default_rng(0)
    X = {"a & b": rng.normal(size=(120, 3)), "c": rng.normal(size=(7, 3))}
    y = {name: np.arange(len(rows)) for name, rows in X.items()}
    with Client(service.url) as client:
        dataset = client.upload(X, y, name="all rows")
    page = http.get(f"/datasets/{dataset.id}")
    (first,) = (link for link in links_of(page) if link.endswith("/rows?task=a+%26+b"))
    targets, path = [], first
    while path:
        page = http.get(path)
        assert page.status_code == 200
        targets += [int(n) for n in re.findall(r'data-label="Target"[^>]*>\s*([0-9]+)', page.text)]
        following = re.search(r'href="([^"]*)" rel="next"', page.text)
        path = f"{first.partition('?')[0]}{html.unescape(following[1])}" if following else None
    assert targets == list(range(120))
    assert "Rows 101 to 120 of 120." in text_of(page)
    (download,) = (link for link in links_of(page) if "/table?" in link)
    assert len(http.get(download).text.splitlines()) == 121
    other = http.get(f"/datasets/{dataset.id}/rows", params={"task": "c"})
    assert "Rows 1 to 7 of 7." in text_of(other)
    assert http.get(f"/datasets/{dataset.id}/rows?task=none").status_code == 422
    assert http.get(f"/datasets/{dataset.id}/rows?first_row=x").status_code == 422
    assert http.get(f"/datasets/{dataset.id}/rows?first_row=5.0").status_code == 200
    assert http.get("/datasets/none/rows").status_code == 404


@pytest.mark.slow
def test_pages_have_landmarks_one_heading_and_nothing_inline(http, paths):
    for path in paths.values():
        page = http.get(path)
        assert page.status_code == 200
        assert [page.text.count(tag) for tag in ("<main ", "<h1", "<header>")] == [1, 1, 1]
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?! (type|src))", page.text)
        policy = page.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy


def test_assets_are_cached_for_ever_at_addresses_of_their_contents(http, paths):
    assets = {link for link in links_of(http.get(paths["overview"])) if "/assets/" in link}
    assert len(assets) >= 3
    for link in assets:
        asset = http.get(link)
        assert "immutable" in asset.headers["cache-control"]
        assert asset.headers["content-type"].startswith(("text/", "image/svg"))


def test_a_dataset_shows_columns_kinds_classes_and_what_can_be_trained(http, dataset, paths):
    said = text_of(http.get(paths["dataset"]))
    assert "3 groups with 36 rows and 5 columns to predict from." in said
    assert "süd: 12 rows, 5 columns to predict from" in said
    assert "blue: 33 %" in said
    preview = http.get(f"/v1/datasets/{dataset.id}/preview").json()
    assert {a["algorithm"] for a in preview["algorithms"]} == set(ALGORITHMS)
    assert all(a["algorithm"] in said for a in preview["algorithms"])


def test_a_dataset_shows_columns_over_all_rows_and_what_was_left_out(http, uploads_of):
    lines = ["hospital,patient,age,days"]
    lines += [f"H{i % 3},P-{i},{'' if i > 30 else i},{2 * i}.5" for i in range(40)]
    dataset = uploads_of("\n".join(lines), task_column="hospital", target_column="days")
    preview = http.get(f"/v1/datasets/{dataset}/preview?tasks=1").json()
    (age,) = preview["columns"]
    assert (age["name"], age["missing"], age["min"], age["max"]) == ("age", 9 / 40, 0, 30)
    assert sum(age["counts"]) == 31
    target = preview["target"]
    assert (target["name"], target["kind"], target["max"]) == ("days", "number", 78.5)
    page = http.get(f"/datasets/{dataset}")
    said = text_of(page)
    assert "3 hospitals with 13 to 14 rows each" in said
    assert "hospital which rows belong together category 0 % 3 most often H0 (35 %)" in said
    assert re.search("What was left out, and why .*Column 'patient' has 40 different texts", said)
    assert "23 %" in said  # of all rows, not of the first group
    notes = re.findall(r"<li>([^<]*)</li>", page.text)
    assert [text for text in notes if not text.endswith(".")] == []
    assert notes
    best = f"/jobs/new?dataset={dataset}&algorithm=auto"
    assert best in links_of(page)
    # methods are behind a choice, after the data
    assert said.index("Columns over all rows") < said.index("Choose a method yourself")


def test_classes_of_all_tasks_are_one_column_and_different_columns_are_none(http, dataset, client):
    preview = http.get(f"/v1/datasets/{dataset.id}/preview").json()
    assert preview["target"]["counts"] == [12, 12, 12]
    assert preview["target"]["values"] == ["blue", "green", "red"]
    uneven = client.upload({"a": [[1.0, 2.0], [3.0, 5.0]], "b": [[1.0], [2.0]]}, name="uneven")
    preview = http.get(f"/v1/datasets/{uneven.id}/preview").json()
    assert (preview["columns"], preview["target"]) == ([], None)
    assert "Columns over all rows" not in http.get(f"/datasets/{uneven.id}").text
    http.delete(f"/v1/datasets/{uneven.id}")


@pytest.fixture
def uploads_of(http):
    """``uploads_of(text, **options)``: the id of a dataset, which is deleted after the test."""
    ids = []

    def upload(text, **options):
        headers, query = {"Content-Type": "text/csv"}, {"name": "of a test", **options}
        found = http.post("/v1/datasets", params=query, content=text, headers=headers).json()
        ids.append(found["id"])
        return found["id"]

    yield upload
    for ident in ids:
        http.delete(f"/v1/datasets/{ident}")


def test_an_algorithm_shows_every_parameter(http, paths):
    said = text_of(http.get(paths["algorithm"]))
    for name, field in ALGORITHMS["mtfl"].Params.model_fields.items():
        assert name in said
        assert field.title in said


@pytest.mark.sql
def test_lists_are_filtered_and_paged_as_the_api_does(http, model, paths):
    assert model.name in text_of(http.get("/models?text=SHAR"))
    assert "No model matches." in text_of(http.get("/models?algorithm=mtfl&text=shared"))
    said = text_of(http.get("/datasets?text=nothing-has-this-name"))
    assert "No dataset matches." in said
    found = http.get("/v1/jobs?algorithm=pca&text=shared&page_size=1").json()["items"]
    assert [(job["algorithm"], job["model"]) for job in found] == [("pca", "shared")]
    assert http.get("/v1/datasets?state=rejected&text=shared by").json()["items"] == []
    assert http.get("/v1/datasets?text=%25").json()["items"] == []  # no wildcard
    assert http.get(paths["jobs"], params={"state": "lost"}).status_code == 422


@pytest.mark.slow
def test_the_newest_come_first_and_every_page_is_reached(client, http):
    n = PAGE_SIZE + 2
    names = [f"paged {i:02}" for i in range(n)]
    made = [client.upload({"a": [[float(i)], [1.0]]}, name=name) for i, name in enumerate(names)]
    path, found = "/datasets?text=paged", []
    while path:
        page = http.get(path).text
        found.append(re.findall(r">(paged \d+)</a>", page))
        following = re.search(r'href="([^"]*)" rel="next"', page)
        path = following and html.unescape(following[1])
    assert [len(of_page) for of_page in found] == [PAGE_SIZE, 2]
    assert [name for of_page in found for name in of_page] == names[::-1]
    for dataset in made:
        http.delete(f"/v1/datasets/{dataset.id}")


@pytest.mark.slow
def test_every_plot_of_a_page_is_there_in_every_form(client, http):
    rng = np.random.default_rng(0)
    rows = {name: rng.standard_normal((20, 2)) for name in "ab"}
    targets = {name: x @ [1, 1] for name, x in rows.items()}
    data = client.upload(rows, targets, name="for plots")
    search = {"space": {"gamma": [0.1, 1.0], "features": ["learned", "selected"]}, "n_folds": 2}
    client.train(data, "mtfl", model="plots", search=search, evaluate=True).wait()
    client.train(data, "ridge", model="plots", evaluate=True).wait()
    pages = [http.get(path) for path in ("/models/plots/1", "/compare?models=plots/1,plots/2")]
    shown = {
        html.unescape(p) for page in pages for p in re.findall(r'data-href="([^"]*)"', page.text)
    }
    assert {"search", "parallel", "relations"} <= {re.split(r"[/?]", p)[-2] for p in shown}
    for path in shown:
        for accept in ("application/json", "image/svg+xml", "image/png"):
            plot = http.get(path, headers={"Accept": accept})
            assert (plot.status_code, plot.headers["content-type"]) == (200, accept), path


def test_the_curves_of_a_job_show_the_last_loop():
    values = [
        ("first", 9.0, 1.0),
        ("first", 1.0, 0.0),
        ("second", 80.0, 1.0),
        ("second", 60.0, 1e-2),
        ("second", 70.0, 1e-4),
        ("second", None, 0.0),  # a log scale cannot show it
    ]
    events = [
        {"kind": "progress", "data": {"loop": loop, "objective": objective, "residual": residual}}
        for loop, objective, residual in values
    ]
    events.insert(2, {"kind": "state", "data": {"state": "running"}})
    objective, residual = curves_of(events)
    assert objective.points == "0.0,5.0 300.0,115.0 600.0,60.0"
    expected = "The objective (second) went from 80 to 70 in 3 reports of progress."
    assert objective.label == expected
    assert residual.points == "0.0,5.0 300.0,60.0 600.0,115.0"
    assert "went from 1 to 0.0001 in 3 reports" in residual.label
    for few in (events[:1], []):
        assert [(curve.points, curve.label) for curve in curves_of(few)] == [("", "")] * 2


def test_the_overview_has_workers_and_disk(http):
    said = text_of(http.get("/"))
    assert "1 responding" in said
    assert re.search(r"Free disk [\d.]+ \wiB of [\d.]+ \wiB", said)
    assert machine_facts("") == []  # of a key that may not read metrics
    silent = 'sibling_workers{state="responding"} 0.0\nsibling_workers{state="silent"} 2.0\n'
    assert [cell.text for _, cell in machine_facts(silent)] == ["2 silent"]


def test_times_are_relative_in_both_directions():
    found = [
        formats.ago((now() + timedelta(**distance)).isoformat())
        for distance in ({"days": 90, "hours": 1}, {"hours": 3, "minutes": 1}, {"seconds": 0})
    ]
    assert found == ["in 90 days", "in 3 hours", "just now"]
    assert formats.ago((now() - timedelta(minutes=5)).isoformat()) == "5 minutes ago"


def test_an_unknown_resource_is_a_page_that_says_so(http):
    page = http.get("/jobs/job_unknown")
    assert page.status_code == 404
    assert "There is no job 'job_unknown'." in text_of(page)
    assert page.headers["content-type"].startswith("text/html")


def test_a_browser_gets_a_page_where_there_is_none_and_a_program_a_problem(http):
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nothing", "/models/a/1/nothing"):
        page = http.get(path, headers=browser)
        assert page.status_code == 404
        assert page.headers["content-type"].startswith("text/html")
        assert f"There is no page at {path}." in text_of(page)
        assert http.get(path).json()["code"] == "not-found"
    invalid = http.get("/compare", params={"models": "a" * 1001}, headers=browser)
    assert invalid.status_code == 422
    assert "at most 1000 characters" in text_of(invalid)
    assert http.get("/v1/nothing", headers=browser).json()["code"] == "not-found"
    refused = http.post("/jobs/new", headers=browser)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert refused.headers["content-type"].startswith("text/html")
    assert http.post("/jobs/new").json()["code"] == "method-not-allowed"


@pytest.mark.slow  # a service of its own
def test_pages_without_anything_lead_to_the_first_steps_and_to_sample_data(launch_service):
    with launch_service() as empty, httpx.Client(base_url=empty.url, timeout=60) as http:
        steps = {"/datasets": "/datasets/new", "/jobs": "/jobs/new", "/models": "/jobs/new"}
        for path, step in (steps | {"/jobs/new": "/datasets/new", "/": "/datasets/new"}).items():
            page = http.get(path)
            assert step in links_of(page)
            assert 'class="filters"' not in page.text
            assert re.search(rf'<a (class="[^"]*" )?href="{step}"', page.text)
        assert "No job matches." in text_of(http.get("/jobs?state=failed"))
        assert "No job matches." in text_of(http.get("/jobs?state=cancelling"))
        sample = r'id="sample" data-href="([^"]*)" data-query="([^"]*)"'
        (table, query), other = (
            map(html.unescape, re.search(sample, http.get(path).text).groups())
            for path in ("/", "/datasets")
        )
        assert [table, query] == list(other)
        csv = {"Content-Type": "text/csv"}
        sent = http.post(f"/v1/datasets?{query}", content=http.get(table).content, headers=csv)
        stored = http.get(f"/v1/datasets/{sent.json()['id']}?wait=50").json()
        assert (stored["state"], stored["n_tasks"], stored["n_samples"]) == ("ready", 42, 504)
        assert 'id="sample"' not in http.get("/").text


def test_names_of_users_are_shown_as_text(http, client):
    uploaded = client.upload({"<b>": [[1.0, 2.0], [3.0, 5.0]]}, name="<script>alert(1)</script>")
    page = http.get(f"/datasets/{uploaded.id}")
    assert "<script>alert" not in page.text
    assert "<script>alert(1)</script>" in html.unescape(page.text)
    http.delete(f"/v1/datasets/{uploaded.id}")


@pytest.fixture(scope="module")
def guarded(keyed_service, first_key):
    with httpx.Client(base_url=keyed_service.url, timeout=240) as http:
        yield http, first_key


def test_a_key_opens_a_session_that_only_pages_of_the_service_can_use(guarded):
    http, key = guarded
    origin = {"Origin": str(http.base_url).rstrip("/")}
    sent = http.get("/jobs?state=running")
    assert (sent.status_code, sent.headers["location"]) == (
        303,
        "/login?next=%2Fjobs%3Fstate%3Drunning",
    )
    wrong = http.post("/login", data={"key": "sib_x", "next": "/"}, headers=origin)
    assert (wrong.status_code, 'role="alert"' in wrong.text) == (401, True)
    assert "The API key is not of the form sib_&lt;id&gt;_&lt;secret&gt;" in wrong.text
    assert not http.cookies

    done = http.post("/login", data={"key": key, "next": "//evil.example"}, headers=origin)
    assert (done.status_code, done.headers["location"]) == (303, "/")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert key.split("_", 2)[2] not in cookie  # a session, not the key
    token = http.cookies["sibling_session"]
    assert http.get("/jobs").status_code == 200
    assert http.get("/v1/jobs").status_code == 200

    cancel = "/v1/jobs/job_1:cancel"
    assert http.post(cancel).json()["code"] == "foreign-origin"  # a browser always sends Origin
    foreign = http.post(cancel, headers={"Origin": "http://evil.example"})
    assert foreign.json()["code"] == "foreign-origin"
    assert http.post(cancel, headers=origin).json()["code"] == "not-found"

    http.post("/logout", headers=origin)
    assert not http.cookies
    assert http.get("/v1/jobs").status_code == 401
    kept = http.get("/v1/jobs", headers={"Cookie": f"sibling_session={token}"})
    assert kept.status_code == 401  # the session itself has ended


def test_pages_of_keys_and_of_the_audit_log_are_for_those_who_may(guarded):
    http, key = guarded
    made = http.post(
        "/v1/keys",
        json={"name": "reader of jobs", "scopes": ["jobs:read"]},
        headers={"Authorization": f"Bearer {key}"},
    ).json()
    admin, reader = ({"Authorization": f"Bearer {k}"} for k in (key, made["key"]))
    page = http.get("/keys", headers=admin)
    assert "reader of jobs" in text_of(page)
    assert f'data-path="/v1/keys/{made["id"]}"' in page.text
    assert made["key"] not in page.text
    assert {"/keys", "/audit"} <= links_of(page)
    events = http.get("/audit", params={"operation": "create_key"}, headers=admin)
    assert f"/v1/keys/{made['id']}" in text_of(events)
    assert "No event matches." in text_of(http.get("/audit?owner=nobody", headers=admin))
    jobs = http.get("/jobs", headers=reader)
    assert not {"/keys", "/audit"} & links_of(jobs)
    for path in ("/keys", "/audit", "/datasets"):
        assert http.get(path, headers=reader).status_code == 403
    assert "Newest datasets" not in text_of(http.get("/", headers=reader))


@pytest.mark.slow
def test_pages_offer_what_the_key_may_do(guarded):
    http, key = guarded
    admin = {"Authorization": f"Bearer {key}"}
    with Client(str(http.base_url), api_key=key) as client:
        data = client.upload({"a": [[1.0], [2.0]], "b": [[3.0], [5.0]]})
        model = client.train(data, "constant", model="watched").wait()
    job = model.info["lineage"]["job_id"]
    scopes = ["datasets:read", "jobs:read", "models:read"]
    made = http.post("/v1/keys", json={"name": "watcher", "scopes": scopes}, headers=admin).json()
    watcher = {"Authorization": f"Bearer {made['key']}"}
    changes = r'data-method="|href="/(?:jobs|datasets)/new|id="alias"'
    version = "/models/watched/1"
    for path in ("/", "/datasets", f"/datasets/{data.id}", "/jobs", f"/jobs/{job}", version):
        assert re.search(changes, http.get(path, headers=admin).text), path
        assert not re.search(changes, http.get(path, headers=watcher).text), path
    assert "scope infer" in text_of(http.get(version, headers=watcher))
    assert "scope infer" not in text_of(http.get(version, headers=admin))


def test_pages_are_there_without_the_parts_that_the_key_may_not_read(guarded):
    http, key = guarded
    admin = {"Authorization": f"Bearer {key}"}
    with Client(str(http.base_url), api_key=key) as client:
        data = client.upload({"ward  3": [[1.0], [2.0]]}, {"ward  3": [1.0, 2.0]}, name="unread")
        client.train(data, "constant", model="unread").wait()
    version = "/models/unread/1"
    for scopes, path in (
        (["datasets:read"], f"/datasets/{data.id}"),
        (["models:read", "infer"], version),
        (["models:read", "infer"], f"{version}/predict"),
        (["models:read", "infer"], "/v1/models/unread/report.html"),
    ):
        made = http.post("/v1/keys", json={"name": "few", "scopes": scopes}, headers=admin).json()
        reader = {"Authorization": f"Bearer {made['key']}"}
        page = http.get(path, headers=reader)
        assert page.status_code == 200, path
        assert "Jobs on this dataset" not in page.text
    # an option without a value has its text, in which browsers join spaces
    for path in (version, f"{version}/predict"):
        assert '<option value="ward  3">ward  3</option>' in http.get(path, headers=admin).text


def test_a_comparison_without_common_scores_has_no_sentence_on_the_objective():
    scored, not_scored = (
        _ComparedVersion({"name": name, "version": 1}, "", scores, {})
        for name, scores in (("a", {"mean": {"rmse": 1.0}}), ("b", None))
    )
    assert _sentence([scored, not_scored], None).startswith("Fewer than two of them were scored")
    assert "cannot be compared" in _sentence([scored, scored], None)


@pytest.mark.slow
def test_a_comparison_suggests_versions_of_the_same_data_once(http, client):
    datasets = [client.upload({"a": [[1.0], [n]]}, name=f"suggested {n}") for n in (2.0, 3.0)]
    for data, name in zip(datasets * 2, ("same-1", "other-1", "same-2", "other-2"), strict=True):
        client.train(data, "constant", model=f"suggested-{name}").wait()
    one = "suggested-same-1/1"
    page = http.get("/compare", params={"models": f"{one},{one}"})
    assert "Choose at least two versions" in text_of(page)  # it is one
    (more,) = re.findall(r"(?s)<p>Compare with .*?</p>", page.text)
    assert re.findall(r">([^<]+)</a>", more) == ["suggested-same-2/1"]


def test_the_audit_log_links_to_what_is_there(http, client):
    data = client.upload({"a": [[1.0], [4.0]]}, name="deleted soon")
    client.delete_dataset(data.id)
    rows = re.findall(r"(?s)<tr data-key.*?</tr>", http.get("/audit").text)
    (deleted,) = (row for row in rows if "delete a dataset" in row and data.id in row)
    assert f'href="/datasets/{data.id}"' not in deleted
    assert 'data-label="Client"' in deleted
    put = http.put("/v1/models/gone/aliases/live", json={"version": 1})
    assert put.status_code == 404
    rows = re.findall(r"(?s)<tr data-key.*?</tr>", http.get("/audit?operation=put_alias").text)
    assert "set an alias to a version" in rows[0]
    assert re.search(r'href="/models\?text=gone"[^>]*>gone@live<', rows[0])


def test_the_navigation_has_what_the_key_may_see(guarded):
    http, key = guarded
    admin = {"Authorization": f"Bearer {key}"}
    origin = {"Origin": str(http.base_url).rstrip("/")}
    for scope, start, others in (
        ("models:read", "/models", {"/algorithms"}),
        ("metrics:read", "/algorithms", set()),
        ("jobs:read", "/", {"/jobs", "/algorithms"}),
    ):
        spec = {"name": scope, "scopes": [scope]}
        reader = http.post("/v1/keys", json=spec, headers=admin).json()["key"]
        with httpx.Client(base_url=http.base_url) as browser:
            done = browser.post("/login", data={"key": reader, "next": "/"}, headers=origin)
            assert (done.status_code, done.headers["location"]) == (303, start)
            page = browser.get(start)
            assert page.status_code == 200
            (nav,) = re.findall(r"(?s)<nav aria-label=\"Main\">.*?</nav>", page.text)
            expected = {start, "/docs", "/help/"} | others
            assert set(re.findall(r'href="([^"]*)"', nav)) == expected
            refused = browser.get("/audit")
            assert refused.status_code == 403
            assert f'<p><a href="{start}">Back to' in refused.text


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_the_form_of_a_job_has_every_parameter_of_every_algorithm(http, dataset, name):
    page = http.get("/jobs/new", params={"dataset": dataset.id, "algorithm": name})
    assert page.status_code == 200
    fields = ALGORITHMS[name].Params.model_fields
    assert re.findall(r'data-path="/params/(\w+)"', page.text) == list(fields)


@pytest.mark.slow
def test_the_form_offers_what_suits_the_dataset_and_the_algorithm(http, dataset):
    def form(**query):
        page = http.get("/jobs/new", params=query).text
        groups = re.findall(r'<optgroup label="([^"]*)">(.*?)</optgroup>', page)
        names = {title: re.findall(r'value="([^"]*)"', options) for title, options in groups}
        return page, names

    page, names = form()
    assert len(names["Algorithms"]) == len(ALGORITHMS) + 1
    assert 'value="auto" selected' in page
    page, names = form(dataset=dataset.id)
    found = http.get(f"/v1/datasets/{dataset.id}/preview").json()["algorithms"]
    fits = {a["algorithm"] for a in found if a["can_train"]}
    assert set(names["Suit the dataset"]) == fits | {"auto"}
    assert set(names.get("Do not suit the dataset", ())) == set(ALGORITHMS) - fits
    page, _ = form(dataset=dataset.id, algorithm="auto")
    # the automatic choice compares and evaluates in any case
    assert re.findall(r'data-group="(\w+)"', page) == ["calibration", "preparation"]
    assert "Budget, in seconds" in page
    page, _ = form(dataset=dataset.id, algorithm="mtfl")
    assert "Number of folds" in page


@pytest.mark.slow
def test_the_programs_of_a_model_run_as_they_stand(http, model, capsys):
    page = http.get(f"/models/{model.name}/1")
    programs = dict(
        re.findall(r"<summary>(\w+)</summary><pre[^>]*><code>(.*?)</code>", page.text, re.DOTALL)
    )
    assert set(programs) == {"curl", "Python", "JavaScript", "tritonclient"}
    for name in ("Python", "tritonclient"):
        exec(html.unescape(programs[name]), {})
        assert re.search(r"\[\s*\[.*\d.*\]\s*\]", capsys.readouterr().out, re.DOTALL)


@pytest.mark.slow
def test_every_page_shows_its_request_as_curl_and_as_python(http, paths, capsys):
    paths = {**paths, "failed jobs": "/jobs?state=failed&text=it%27s", "audit": "/audit?owner=x"}
    paths["dated"] = "/datasets?since=2024-01-01&until=2024-01-31"
    for path in paths.values():
        page = http.get(path).text.partition("This page from the API")[2]
        codes = [html.unescape(code) for code in re.findall(r"<code>(.*?)</code>", page, re.DOTALL)]
        for url in re.findall(r"curl '([^']*)'", codes[0]):
            assert http.get(url).status_code == 200, url
        exec(codes[1], {})
    assert "/v1/jobs?state=failed&text=it%27s" in html.unescape(http.get(paths["failed jobs"]).text)
    capsys.readouterr()


def test_the_example_of_a_list_is_a_request_that_the_api_takes():
    days = {"since": "2024-02-01", "until": "2024-02-29"}
    (path,) = listing("jobs", days).paths
    assert unquote(path) == "/v1/jobs?since=2024-02-01T00:00:00Z&until=2024-03-01T00:00:00Z"
    assert listing("audit", {"owner": "x"}).python
    for filters in (days, {"outcome": "refused"}):  # the client has another form of these, or none
        assert not listing("audit", filters).python


def test_a_job_shows_the_request_that_submitted_it(http, model):
    job = http.get(f"/v1/models/{model.name}").json()["lineage"]["job_id"]
    spec = http.get(f"/v1/jobs/{job}/spec").json()
    page = http.get(f"/jobs/{job}").text.partition("From a program")[2]
    codes = [html.unescape(code) for code in re.findall(r"<code>(.*?)</code>", page, re.DOTALL)]
    sent = json.loads(re.search(r"--data '(.*)'", codes[0])[1])
    assert sent == {
        name: value for name, value in spec.items() if not (value is None or value is False)
    }
    calls = []
    program = codes[1].replace("client.submit", "submit").replace("job.wait()", "job")
    exec(program, {"submit": lambda *given, **options: calls.append((given, options))})
    ((given, options),) = calls
    assert given == (spec["dataset_id"], spec["algorithm"], spec["params"])
    assert options["model"] == spec["model"]


@pytest.mark.slow
def test_a_comparison_shows_its_parts_as_a_grid_of_methods_and_splits(client, http):
    rng = np.random.default_rng(0)
    rows = {name: rng.standard_normal((20, 2)) for name in "ab"}
    targets = {name: x @ [1, 1] for name, x in rows.items()}
    splits = {"scheme": "holdout", "n_splits": 2}
    data = client.upload(rows, targets, name="for a grid")
    job = client.train(data, "mtfl", model="grid", compare={"splits": splits})
    job.wait()
    parts = http.get("/v1/jobs", params={"parent_id": job.id, "page_size": 200}).json()["items"]
    assert {part["part"]["purpose"] for part in parts} == {"comparison"}
    assert {split for part in parts for split in part["part"]["splits"]} == {0, 1}
    page = http.get(f"/jobs/{job.id}")
    found = re.findall(r'class="square state succeeded" href="/jobs/(\w+)"', page.text)
    assert set(found) == {part["id"] for part in parts}
    assert len(found) == sum(len(part["part"]["splits"]) for part in parts)
    assert "succeeded" in text_of(page)
    assert "Ridge regression, one model for all" in text_of(page)
    said = text_of(http.get(f"/jobs/{parts[0]['id']}"))
    assert f"A part of the comparison, {name_of(parts[0])}, succeeded." in said
    version = text_of(http.get("/models/grid/1"))
    assert re.search(r"Predictions are typically off by [\d.]+", version)
    # the scores of a comparison are comparable with those of an evaluation
    client.train(data, "constant", model="grid", evaluate={"splits": splits}).wait()
    compared = text_of(http.get("/compare?models=grid/1,grid/2"))
    assert "left out for checking, best of 2 groups: grid/1 in 2, grid/2 in 0." in compared


def test_a_job_of_inference_leads_to_its_outputs(client, http, dataset, model):
    job = client.infer(model, "transform", dataset, name="projected")
    job.wait()
    page = http.get(f"/jobs/{job.id}")
    assert "succeeded. It has the outputs for 36 rows of 3 groups." in text_of(page)
    assert "<h2>Parameters</h2>" not in page.text
    outputs = http.get(f"/v1/jobs/{job.id}").json()["result"]["dataset_id"]
    assert {f"/v1/jobs/{job.id}/output", f"/datasets/{outputs}"} <= links_of(page)
    assert http.get(f"/v1/jobs/{job.id}/output").status_code == 200


def test_a_job_runs_while_its_parts_run():
    job = {"state": "waiting", "child_jobs": {"running": 1, "queued": 3}}
    assert (state_cell(job).text, state_cell(job).value) == ("running parts", "running")
    done = job | {"child_jobs": {"succeeded": 6, "running": 1, "queued": 33}}
    progress = progress_cell(done | {"error": None, "is_final": False, "progress": None})
    assert (progress.text, progress.value) == ("6 of 40 parts done", 0.15)
    none = {str(state): [] for state in ShownJobState}
    assert overview_sentence(none | {"waiting": [job]}) == "1 job runs its parts."
    assert overview_sentence(none | {"cancelling": [job, job]}) == "2 jobs are being cancelled."


def test_the_numbers_of_a_column_have_equally_many_decimals():
    assert formats.column([0.18666, -0.036, 4.2e-18, None]) == [
        "0.1867",
        "-0.0360",
        "0.0000",
        formats.NONE,
    ]
    assert formats.column([12345.678, 1.5]) == ["12\u202f346", "1.5"]
    assert formats.column([3.01, 0.000224, 0.0002]) == ["3.01", "0.000224", "0.0002"]
    assert formats.column([3, 40]) == ["3", "40"]
    assert formats.column([1e-9, 2.5e-9]) == ["1e-09", "2.5e-09"]


def test_models_are_compared_by_scores_and_by_parameters_that_differ(client, http, dataset, model):
    client.train(dataset, "pca", model="compared", k=1).wait()
    page = http.get("/compare", params={"models": f"{model.name}/1, compared"})
    rows = re.findall(r"<tr data-key=\"([^\"]+)\">(.*?)</tr>", page.text, re.DOTALL)
    found = {key: re.sub(r"<[^>]*>|\s+", " ", text).split() for key, text in rows}
    assert found["param-k"] == ["k", "2", "1"]
    assert not any(key in found for key in ("param-algorithm", "param-standardise"))
    assert any(key.startswith("score-") for key in found)
    assert http.get("/compare?models=nothing").status_code == 404
    # one more is added by a link
    client.train(dataset, "pca", model="compared-third", k=2).wait()
    page = http.get("/compare", params={"models": f"{model.name}/1, compared"})
    (link,) = [link for link in links_of(page) if link.endswith("compared-third/1")]
    assert {"/models/compared/1", "/models/compared-third/1"} <= links_of(http.get(link))


def test_the_upload_page_has_a_field_for_each_option_of_reading(http):
    page = http.get("/datasets/new").text
    fields = set(re.findall(r'<(?:input|select)[^>]* name="([a-z_]+)"', page))
    roles = set(re.findall(r'<option value="([a-z_]+_column)"', page))
    assert ReadOptions.model_fields.keys() - fields - roles == set()


@pytest.mark.slow
def test_a_name_is_filled_in_for_the_model_of_a_dataset(http, client):
    uploaded = client.upload({"a": [[1.0, 2.0], [3.0, 5.0]]}, name=" Köln, 2024 (neu)")
    page = http.get("/jobs/new", params={"dataset": uploaded.id, "algorithm": "pca"}).text
    assert re.search(r'id="/model"[^>]* value="Koln-2024-neu"', page)
    http.delete(f"/v1/datasets/{uploaded.id}")
