"""The day of a person in a real browser: from the upload to the prediction."""

import contextlib
import os
import shutil
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from service.access.keys import new_key

#: The browser of the machine; Playwright would have to download its own.
CHROMIUM = os.environ.get("SIBLING_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TIMEOUT_MS = 240_000  # only ends a hang
#: What readers search for in the documentation, and the page that answers it.
QUERIES = {
    "upload parquet": "how-to/upload-data.html#parquet-arrow-and-feather",
    "Excel": "how-to/upload-data.html#excel",
    "decimal comma": "how-to/upload-data.html#csv",
    "backup": "how-to/back-up.html",
    "docker compose": "how-to/deploy.html#docker-compose-with-postgresql",
    "prediction intervals": "how-to/intervals.html",
    "add task": "how-to/add-a-task.html",
    "rotate key": "how-to/secure.html#rotate-keys",
    "out of memory": "how-to/failed-jobs.html#out-of-memory",
    "feature importance": "how-to/importance.html",
    "golang": "how-to/call-a-model.html#go",
    "own algorithm": "how-to/add-an-algorithm.html",
    "transfer": "how-to/judge-sharing.html",
}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here; install the package chromium")
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}
        with playwright.chromium.launch(**options) as running:
            yield running


@pytest.fixture
def visit(browser):
    """``visit(url)``: a page of a new browser; reports console errors and other hosts."""
    wrong = []
    with contextlib.ExitStack() as stack:

        def visit(url):
            context = stack.enter_context(browser.new_context(base_url=url))
            context.set_default_timeout(TIMEOUT_MS)
            opened = context.new_page()
            opened.on("console", lambda m: is_error(m) and wrong.append(m.text))
            opened.on("pageerror", lambda error: wrong.append(str(error)))
            host = urlsplit(url).netloc
            opened.on("request", lambda r: is_elsewhere(r.url, host) and wrong.append(r.url))
            return opened

        yield visit
    assert wrong == []


@pytest.fixture
def page(visit, service):
    return visit(service.url)


def is_error(message):
    """Return whether a message is an error, other than the browser's own of refused requests.

    An open page of one whose key is revoked has a request refused with 401.
    """
    wanted = ("status of 422", "status of 401", "ERR_CONNECTION_RESET")
    return message.type == "error" and not any(text in message.text for text in wanted)


def is_elsewhere(url, host):
    """Return whether a page asks another host; a blob is of the page itself."""
    return urlsplit(url.removeprefix("blob:")).netloc != host


def train_for_minutes(client, model):
    """Submit a job that a test cancels long before its end."""
    rng = np.random.default_rng(0)
    dataset = client.upload({name: rng.standard_normal((400, 6)) for name in ("a", "b")})
    return client.train(dataset, "tlvm", model=model, L=5, r=400, max_iter=100_000, tolerance=1e-12)


def check_accessibility(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["target"]) for v in found if v["impact"] != "minor"] == []


def table(rng):
    lines = ["task,age,dose,target"]
    for task, slope in (("north", 1.0), ("south", 1.2)):
        for age, dose in rng.standard_normal((30, 2)).round(3):
            lines.append(f"{task},{age},{dose},{slope * age - dose:.3f}")
    return "\n".join(lines).encode()


def test_a_day_from_the_upload_to_the_comparison(page, client, http, tmp_path):
    dataset = upload_after_a_mistake(page)
    train_by_keyboard(page)
    follow_and_cancel(page, client)
    page.goto("/models/browser-day/1")
    assert "rmse on held-out rows" in page.locator("table").first.inner_text()
    check_accessibility(page)
    look_at_plots(page)
    predict(page, http, tmp_path)
    set_alias(page, http)
    compare(page, client, dataset)


def upload_after_a_mistake(page):
    """Upload a table, look at it, and return its id."""
    page.goto("/datasets/new")
    check_accessibility(page)
    file = {"name": "patients.csv", "mimeType": "text/csv"}
    page.set_input_files("#file", {**file, "buffer": b"task,age\nnorth,1,2\n"})
    # a rejected file: what is wrong with it stands on the page
    with page.expect_response("**/v1/datasets?*") as refused:
        page.get_by_role("button", name="Upload").click()
    assert refused.value.status == 422
    page.locator("#errors p").first.wait_for()
    page.set_input_files("#file", {**file, "buffer": table(np.random.default_rng(1))})
    page.get_by_label("Target columns").fill("target")
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("2 tasks with 60 rows and 2 columns.").wait_for()
    check_accessibility(page)
    return page.url.rpartition("/")[2]


def train_by_keyboard(page):
    """Submit a job with the keyboard alone: the name, then Enter; its page follows it."""
    page.get_by_role("link", name="ridge", exact=True).click()
    check_accessibility(page)
    page.get_by_label("Name of the model").focus()
    page.keyboard.type("browser-day")
    page.get_by_label("Evaluate").focus()
    page.keyboard.press("Space")
    page.get_by_label("Name of the model").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="browser-day / 1").wait_for()


def follow_and_cancel(page, client):
    """See a long job go on, cancel it, and correct what is repeated with changes."""
    job = train_for_minutes(client, "browser-slow")
    page.goto(f"/jobs/{job.id}")
    page.locator("main .state.running").first.wait_for()
    caption = page.locator("[data-key='curve'] figcaption")
    before = caption.inner_text()
    caption.filter(has_not_text=before).wait_for()  # live: the page was not loaded again
    check_accessibility(page)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Yes").click()
    page.locator("main .state.cancelled").first.wait_for()
    page.get_by_role("link", name="Repeat with changes").click()
    page.get_by_text(f"The values are those of {job.id}.").wait_for()
    assert page.locator("[data-path='/params/L']").input_value() == "5"
    # an error of the service opens and marks its field
    page.get_by_label("Random seed").fill("3")
    page.locator("[data-path='/params/L']").evaluate(
        "field => { field.type = 'text'; field.value = '-7'; }"
    )
    page.get_by_role("button", name="Check").click()
    page.locator("[data-path='/params/L'][aria-invalid='true']").wait_for()
    check_accessibility(page)


def look_at_plots(page):
    """Make the plot of the predictions interactive, under the strict policy."""
    assert {"Predicted against true", "Residuals"} <= set(
        page.locator("figure h3").all_inner_texts()
    )
    buttons = page.get_by_role("button", name="Interactive")
    n_plots = buttons.count()
    page.get_by_role("button", name="Interactive: Predicted against true").click()
    page.locator(".vega svg.marks").wait_for()
    assert buttons.count() == n_plots - 1
    assert page.locator(".vega svg.marks path").count() > 5
    check_accessibility(page)


def predict(page, http, tmp_path):
    """Call the model with rows by hand, rows of the dataset, and a file in two formats."""
    path = "/v1/models/browser-day/versions/1/predict"
    page.get_by_label("Method", exact=True).select_option("predict")

    def shown():
        with page.expect_response(f"**{path}?*"):
            page.get_by_role("button", name="Run").click()
        page.locator("#try-answer").wait_for()
        return [float(line) for line in page.locator("#try-answer").inner_text().split()]

    def expected(rows, task="north"):
        body = {"task": task, "inputs": rows}
        return pytest.approx(http.post(path, json=body).json()["outputs"])

    page.get_by_label("Rows as CSV").fill("age,dose\n1,0\n0,1")
    assert shown() == expected([[1, 0], [0, 1]])
    page.get_by_label("Task", exact=True).select_option("south")
    page.get_by_role("button", name="Take 5 rows").click()
    page.locator("#try-take:enabled").wait_for()
    written = page.get_by_label("Rows as CSV").input_value().splitlines()
    assert written[0] == "age,dose"
    rows = [[float(value) for value in line.split(",")] for line in written[1:]]
    assert shown() == expected(rows, "south")
    numbers = np.arange(240.0).reshape(120, 2)
    columns = pa.table({"age": numbers[:, 0], "dose": numbers[:, 1]})
    pq.write_table(columns, tmp_path / "rows.parquet")
    csv.write_csv(columns, tmp_path / "rows.csv")
    for name in ("rows.csv", "rows.parquet"):
        page.get_by_label("or a file").set_input_files(tmp_path / name)
        assert page.get_by_label("Rows as CSV").input_value() == ""
        assert shown() == expected(numbers[:100].tolist(), "south")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save all 120 rows as CSV").click()
    assert len(saved.value.path().read_text().splitlines()) in (120, 121)
    check_accessibility(page)


def set_alias(page, http):
    page.get_by_label("Point this alias").fill("production")
    page.get_by_role("button", name="Set").click()
    page.locator(".state.alias", has_text="production").wait_for()
    assert http.get("/v1/models/browser-day@production").json()["version"] == 1


def compare(page, client, dataset):
    """Compare the model with another one of the same data."""
    client.train(dataset, "constant", model="browser-other", evaluate=True).wait()
    page.get_by_role("link", name="Compare", exact=True).click()
    page.get_by_label("Models").fill("browser-day@production, browser-other/1")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("link", name="browser-other / 1").first.wait_for()
    said = page.locator("main").inner_text()
    assert "rmse (held out)" in said
    assert "cannot be compared" not in said
    assert page.locator("figure img").count() >= 4  # the same plots of both, side by side
    check_accessibility(page)


def test_a_job_that_is_repeated_has_the_whole_specification(page, http, dataset):
    spec = {
        "dataset_id": dataset.id,
        "algorithm": "mtfl",
        "params": {"max_iter": 77, "standardise": "none"},
        "preparation": {"scale": "robust"},
        "model": "browser-twice",
        "seed": 7,
        "priority": -3,
        "timeout_s": 77,
        "search": {"space": {"gamma": [0.5, 2]}, "n_folds": 4, "repeats": 3},
        "evaluate": {"splits": {"scheme": "holdout", "n_splits": 4}},
        "compare": {"min_effect": 0.2},
    }
    submitted = http.post("/v1/jobs", json=spec)
    assert submitted.status_code == 202, submitted.text
    first = submitted.json()["id"]
    http.post(f"/v1/jobs/{first}:cancel")
    assert http.get(f"/v1/jobs/{first}/spec").json() == spec
    page.goto(f"/jobs/new?like={first}")
    check_accessibility(page)
    page.get_by_role("button", name="Train").click()
    page.wait_for_url("**/jobs/job_*")
    second = page.url.rpartition("/")[2]
    http.post(f"/v1/jobs/{second}:cancel")
    assert http.get(f"/v1/jobs/{second}/spec").json() == spec


def test_a_list_changes_in_place_and_announces_new_rows(page, client, dataset):
    job = train_for_minutes(client, "browser-list")
    page.goto("/jobs?text=browser-list")
    link = page.locator(f"tr[data-key='{job.id}'] a").first
    link.focus()
    link.evaluate("link => { link.closest('tr').marked = true; }")
    second = client.train(dataset, "pca", model="browser-list", k=1)
    page.get_by_text("1 new").wait_for()
    assert page.locator(f"tr[data-key='{second.id}']").count() == 0
    job.cancel()
    page.locator(f"tr[data-key='{job.id}'] .state.cancelled").wait_for()
    # the row is still the same element, and has the focus
    assert link.evaluate("link => link.closest('tr').marked && link === document.activeElement")
    page.get_by_role("button", name="Show").click()
    page.locator(f"tr[data-key='{second.id}']").wait_for()
    check_accessibility(page)


def test_the_overview_follows_a_job_from_the_queue_to_its_model(page, client, dataset):
    page.goto("/")
    with page.expect_event("request", lambda r: r.resource_type == "eventsource"):
        page.reload()
    job = client.train(dataset, "pca", model="browser-overview", k=1)
    page.locator(f"[data-rows='models'] tr[data-key='{job.id}']").wait_for()
    assert page.locator(f"[data-rows='unfinished'] tr[data-key='{job.id}']").count() == 0


def test_a_large_file_goes_on_after_an_interruption_with_its_options(page, http):
    n_rows = 700_000
    row = b"north;1,5;2\nsouth;2,5;3\n"
    content = b"group;age;target\n" + row * (n_rows // 2)
    assert len(content) > 8 * 2**20  # more than one part
    refused = []

    def interrupt(route):
        """Cut the connection of the second part, once."""
        if route.request.method == "PATCH" and len(refused) < 2:
            refused.append(route.request.headers["upload-offset"])
            if len(refused) == 2:
                route.abort("connectionreset")
                return
        route.fallback()

    page.route("**/v1/uploads/*", interrupt)
    page.goto("/datasets/new")
    page.get_by_text("Options").click()
    page.get_by_label("Column with the task").fill("group")
    page.get_by_label("Cells are separated by").select_option("semicolon")
    page.get_by_label("Decimal separator").select_option("comma")
    page.get_by_label("Target columns").fill("target")
    check_accessibility(page)
    page.set_input_files("#file", {"name": "large.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_role("button", name="Upload").click()
    page.wait_for_url("**/datasets/ds_*")
    assert refused == ["0", str(8 * 2**20)]
    # the page follows the reading of the file
    page.get_by_text("2 tasks with 700").wait_for()
    found = http.get(f"/v1/datasets/{page.url.rpartition('/')[2]}").json()
    assert (found["n_samples"], found["size_bytes"]) == (n_rows, len(content))
    http.delete(f"/v1/datasets/{found['id']}")


def test_the_reference_of_the_api_works_under_its_policy(page):
    page.goto("/docs")
    page.locator("#operations-models-list_models .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status", has_text="200").wait_for()
    page.goto("/redoc")
    page.get_by_placeholder("Search").fill("alias")
    page.get_by_role("menuitem").filter(has_text="alias").first.wait_for()
    # the styles are there: the menu stands beside the contents
    assert page.locator(".menu-content").bounding_box()["width"] < 400


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_help_is_found_by_navigation_and_search(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto("/algorithms")
    page.get_by_role("link", name="Help", exact=True).click()
    page.get_by_role("heading", level=1, name="Sibling").wait_for()
    check_accessibility(page)
    page.get_by_role("link", name="Which method when", exact=True).first.click()
    page.get_by_role("heading", level=1, name="Which method when").wait_for()
    check_accessibility(page)
    page.get_by_placeholder("Search").fill("exit code")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="The command sibling").first.wait_for()
    page.locator("#search-results .search li").first.wait_for()
    check_accessibility(page)
    page.get_by_role("link", name="The command sibling").first.click()
    page.get_by_role("heading", level=1, name="The command sibling").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_search_of_the_help_shows_the_page_that_answers_first(page):
    found = {}
    for query in QUERIES:
        page.goto(f"/help/search.html?q={quote(query)}")
        found[query] = page.locator("#search-results li a").first.get_attribute("href")
    assert found == QUERIES


def test_two_browsers_see_the_same_job(visit, service, client):
    job = train_for_minutes(client, "browser-two")
    first, second = (visit(service.url) for _ in range(2))
    for page in (first, second):
        page.goto(f"/jobs/{job.id}")
    for page in (first, second):
        page.locator("main .state.running").first.wait_for()
    first.get_by_role("button", name="Cancel").click()
    first.get_by_role("button", name="Yes").click()
    for page in (first, second):
        page.locator("main .state.cancelled").first.wait_for()


@pytest.fixture(scope="module")
def guarded(launch_service):
    key = new_key().text()
    settings = {"SIBLING_REQUIRE_KEYS": "true", "SIBLING_BOOTSTRAP_KEY": key}
    with launch_service(**settings) as running:
        yield running.url, key


def sign_in(page, key):
    page.goto("/jobs")
    page.wait_for_url("**/login?next=*")
    check_accessibility(page)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")


def test_keys_are_made_and_revoked_by_one_who_has_signed_in(visit, guarded):
    url, key = guarded
    admin, other = visit(url), visit(url)
    sign_in(admin, key)
    (cookie,) = admin.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["value"] not in key
    assert admin.evaluate("document.cookie") == ""
    admin.get_by_role("link", name="Keys").click()
    admin.get_by_label("What is it for?").fill("a colleague")
    admin.get_by_label("jobs:read").check()
    admin.get_by_role("button", name="Create").click()
    made = admin.locator("#new-key-text")
    made.wait_for()
    check_accessibility(admin)
    sign_in(other, made.inner_text())
    assert other.get_by_role("link", name="Keys").count() == 0
    admin.get_by_role("link", name="Done").click()
    row = admin.locator("tr", has_text="a colleague")
    row.get_by_role("button", name="Revoke").click()
    admin.get_by_role("button", name="Yes").click()
    row.locator(".state.revoked").wait_for()
    while "/login" not in other.url:  # within seconds; the time limit of the test ends it else
        other.goto("/jobs")
    admin.get_by_role("link", name="Audit").click()
    admin.locator("tr", has_text="revoke key").wait_for()
    check_accessibility(admin)
    admin.get_by_role("button", name="Sign out").click()
    admin.wait_for_url("**/login")
    admin.context.add_cookies([cookie])  # the session has ended, not only its cookie
    admin.goto("/jobs")
    admin.wait_for_url("**/login?next=*")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_as_wide_as_a_phone(page, dataset, model, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    version = f"/models/{model.name}/1"
    for path in (
        "/",
        f"/datasets/{dataset.id}",
        "/jobs",
        version,
        "/algorithms",
        "/algorithms/mtfl",
        f"/jobs/new?dataset={dataset.id}&algorithm=mtfl",
        f"/compare?models={model.name}/1",
    ):
        page.goto(path)
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
