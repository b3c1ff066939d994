"""The day of a person in a real browser: from the upload to the prediction."""

import contextlib
import os
import re
import runpy
import shutil
import socket
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from service.access.keys import new_key
from sibling import Client, NewTasksWarning

pytestmark = pytest.mark.slow  # a browser

#: The browser of the machine; Playwright would have to download its own. Without windows it takes
#: half of the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("SIBLING_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
TIMEOUT_MS = 240_000  # only ends a hang
#: What readers search for in the documentation, and the page that answers it.
QUERIES = {
    "upload parquet": "how-to/upload-data.html#parquet-arrow-and-feather",
    "Excel": "how-to/upload-data.html#excel",
    "decimal comma": "how-to/upload-data.html#csv",
    "upload size": "how-to/upload-data.html#large-files-and-limits-of-size",
    "how do I upload an Excel file": "how-to/upload-data.html",
    "sample weights": "how-to/weights.html",
    "scikit-learn": "how-to/python.html",
    "training time": "how-to/training-time.html",
    "my job failed, why": "how-to/failed-jobs.html",
    "restrict access": "how-to/secure.html",
    "delete data": "how-to/delete.html",
    "how long will training take": "how-to/training-time.html",
    "how do I run it with Docker Compose and Postgres": "how-to/deploy.html",
    "how do I retrain with new rows": "how-to/update-a-model.html",
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
    "which patients are risky": "questions.html",
    "how do I add a new hospital": "how-to/add-a-task.html",
    "my file is refused": "questions.html",
    "why is it wrong": "questions.html",
    "who is a risky wombat": "questions.html",  # one word is on no page
    "does our hospital gain or lose": "questions.html",
}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here; install the package chromium")
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox", "--disable-gpu"]}
        with playwright.chromium.launch(**options) as running:
            yield running


@pytest.fixture
def expected():
    """Parts of errors of the console that a test causes on purpose: the browser's own of requests.

    An open page of one whose key is revoked has a request refused with 401.
    """
    return ["status of 422", "status of 401", "ERR_CONNECTION_RESET"]


@pytest.fixture
def visit(browser, expected):
    """``visit(url)``: a page of a new browser; reports console errors and other hosts."""
    wrong = []

    def is_error(message):
        return message.type == "error" and not any(text in message.text for text in expected)

    with contextlib.ExitStack() as stack:

        def visit(url):
            options = {"base_url": url, "ignore_https_errors": url.startswith("https:")}
            context = stack.enter_context(browser.new_context(**options))
            context.set_default_timeout(TIMEOUT_MS)
            opened = context.new_page()
            opened.on("console", lambda m: is_error(m) and wrong.append(m.text))
            opened.on("pageerror", lambda error: wrong.append(str(error)))
            host, go = urlsplit(url).netloc, opened.goto
            # as links of the page do, whatever the prefix
            opened.goto = lambda path: go(f"{url}{path}" if path.startswith("/") else path)
            opened.on("request", lambda r: is_elsewhere(r.url, host) and wrong.append(r.url))
            return opened

        yield visit
    assert wrong == []


@pytest.fixture
def page(visit, service):
    return visit(service.url)


def is_elsewhere(url, host):
    """Return whether a page asks another host; a blob is of the page itself."""
    return urlsplit(url.removeprefix("blob:")).netloc != host


def train_for_minutes(client, model):
    """Submit a job that a test cancels long before its end."""
    rng = np.random.default_rng(0)
    dataset = client.upload({name: rng.standard_normal((400, 6)) for name in ("a", "b")})
    return client.train(dataset, "tlvm", model=model, L=5, r=400, max_iter=100_000, tolerance=1e-12)


def check_accessibility(page, *, only=None):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": [only]} if only else None).response["violations"]
    assert [(v["id"], v["nodes"][0]["target"]) for v in found if v["impact"] != "minor"] == []


def table(rng):
    lines = ["task,age,dose,target"]
    for task, slope in (("north", 1.0), ("south", 1.2)):
        for age, dose in rng.standard_normal((30, 2)).round(3):
            lines.append(f"{task},{age},{dose},{slope * age - dose:.3f}")
    return "\n".join(lines).encode()


@pytest.mark.seconds("starts a browser, and shows once that the pages work in one")
def test_a_table_is_uploaded_and_a_model_trained(page):
    upload_after_a_mistake(page)
    train_by_keyboard(page, "browser-first")


def test_a_day_from_the_upload_to_the_comparison(page, client, http, tmp_path):
    spend_a_day(page, client, http, tmp_path)


def test_the_day_is_the_same_behind_nginx_below_a_prefix(
    visit, start_service, start_nginx, tmp_path
):
    service = start_service(SIBLING_ROOT_PATH="/ml", SIBLING_INGEST_WAIT_S=40)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*probe.getsockname())
    proxy = f"proxy_pass {service.url}/; proxy_set_header Host $http_host;"
    start_nginx(f"server {{ listen {address}; location /ml/ {{ {proxy} }} }}")
    page = visit(f"http://{address}/ml")
    with Client(service.url) as client, httpx.Client(base_url=service.url, timeout=240) as http:
        spend_a_day(page, client, http, tmp_path)


def spend_a_day(page, client, http, tmp_path):
    dataset = upload_after_a_mistake(page)
    train_by_keyboard(page, "browser-day")
    follow_and_cancel(page, client)
    page.goto("/models/browser-day/1")
    assert "RMSE of target on rows left out" in page.locator("table").first.inner_text()
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
    # a file that cannot be read: what is wrong with it stands on the page
    with page.expect_response("**/v1/datasets:inspect?*") as refused:
        page.set_input_files("#file", {**file, "buffer": b"task,age\nnorth,1,2\n"})
    assert refused.value.status == 422
    page.locator("#errors p").first.wait_for()
    page.set_input_files("#file", {**file, "buffer": table(np.random.default_rng(1))})
    page.locator("#rows tbody tr").first.wait_for()
    assert page.locator("[name=target_column]").input_value() == "target"
    check_accessibility(page)
    page.get_by_role("button", name="Only store the data").click()
    page.get_by_text("2 groups with 60 rows and 2 columns to predict from.").wait_for()
    check_accessibility(page)
    return page.url.rpartition("/")[2]


def train_by_keyboard(page, model):
    """Submit a job with the keyboard alone: the name, then Enter; its page follows it."""
    page.locator("#methods > summary").click()
    page.locator("#methods").get_by_role("link", name="ridge", exact=True).click()
    check_accessibility(page)
    page.get_by_label("Name of the model").focus()
    page.keyboard.press("Control+A")  # a name is filled in
    page.keyboard.type(model)
    page.get_by_label("Evaluate").focus()
    page.keyboard.press("Space")
    page.get_by_label("Name of the model").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name=f"{model} / 1").wait_for()


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
    page.get_by_text(f"The values are copied from {job.id}.").wait_for()
    assert page.locator("[data-path='/params/L']").input_value() == "5"
    # an error of the service opens and marks its field
    page.get_by_label("Random seed").fill("03")  # a number, though no JSON
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
    page.get_by_label("Group", exact=True).select_option("south")
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
    assert "on rows left out for checking" in said
    assert "cannot be compared" not in said
    assert page.locator("figure img").count() >= 4  # the same plots of both, side by side
    check_accessibility(page)


class Keys:
    """The keyboard of a page, which is all that a person uses."""

    def __init__(self, page, wait_until):
        self.page = page
        self.wait_until = wait_until
        self.press = page.keyboard.press
        self.type = page.keyboard.type

    def to(self, locator, *, key="Tab"):
        """Press Tab until an element has the focus, which is visible at each step."""
        locator.wait_for()
        wanted = locator.element_handle()
        for _ in range(MAX_TABS):
            self.press(key)
            # the browser scrolls to it, and pictures above it may come later
            self.wait_until(lambda: self.page.evaluate(HAS_VISIBLE_FOCUS))
            if self.page.evaluate("wanted => wanted === document.activeElement", wanted):
                return
        raise AssertionError(f"{locator} cannot be reached with {key}")

    def use(self, role, name, key="Enter"):
        """Press a key on what has a role and a name."""
        self.to(self.page.get_by_role(role, name=name, exact=True).first)
        self.press(key)

    def write(self, label, text, *, exact=True):
        self.to(self.page.get_by_label(label, exact=exact))
        self.press("Control+A")
        self.type(text)


MAX_TABS = 200
#: Whether the focus can be seen.
HAS_VISIBLE_FOCUS = """() => {
  const focused = document.activeElement, style = getComputedStyle(focused);
  const box = focused.getBoundingClientRect();
  const isShown = box.bottom > 0 && box.top < innerHeight && box.right > 0;
  const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return focused === document.body || isShown && hasOutline;
}"""


def test_a_day_with_the_keyboard_alone(page, client, http, wait_until):
    keys = Keys(page, wait_until)
    page.goto("/")
    dataset = upload_by_keys(page, keys)
    train_by_keys(page, keys)
    cancel_by_keys(page, keys, train_for_minutes(client, "keyboard-slow"))
    client.train(dataset, "constant", model="keyboard-other", evaluate=True).wait()
    keys.use("link", "Models")
    page.wait_for_url("**/models")
    keys.write("Search", "keyboard-day")
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/models\?text=keyboard-day"))
    keys.use("link", "keyboard-day")
    page.wait_for_url("**/models/keyboard-day")
    keys.use("link", "1")
    page.wait_for_url("**/models/keyboard-day/1")
    use_a_model_by_keys(page, keys)
    keys.use("link", "Compare")
    keys.write("Models, as NAME", "keyboard-day@production, keyboard-other", exact=False)
    keys.press("Enter")
    page.get_by_role("heading", name="All of them in one plot").wait_for()
    keys.use("link", "keyboard-other / 1")
    page.wait_for_url("**/models/keyboard-other/1")
    keys.use("button", "Delete")
    keys.to(page.get_by_role("button", name="Yes"))
    keys.press("Enter")
    page.wait_for_url("**/models")
    assert http.get("/v1/models/keyboard-other").status_code == 404


def upload_by_keys(page, keys):
    """Upload a table, look at the columns of its second task, and return its id."""
    keys.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    keys.press("Enter")
    keys.use("link", "Upload a dataset")
    page.wait_for_url("**/datasets/new")
    keys.to(page.locator("#file"))
    with page.expect_file_chooser() as chooser:
        keys.press("Space")
    content = table(np.random.default_rng(2))
    chooser.value.set_files({"name": "keys.csv", "mimeType": "text/csv", "buffer": content})
    page.locator("#rows tbody tr").first.wait_for()
    keys.use("button", "age number")
    keys.press("ArrowDown")  # the first field of the question has the focus
    page.locator("[data-column='age'] .target_column").wait_for()
    keys.press("ArrowUp")
    keys.press("Escape")
    assert page.evaluate("document.activeElement.dataset.column") == "age"
    page.locator("[name=target_column]").select_option("target")
    keys.use("button", "Only store the data", "Space")
    page.get_by_text("2 groups with 60 rows and 2 columns to predict from.").wait_for()
    keys.to(page.locator("summary", has_text="south: 30 rows"))
    keys.press("Enter")
    page.get_by_text("Columns of south").wait_for()
    return page.url.rpartition("/")[2]


def train_by_keys(page, keys):
    """Choose an algorithm in the list, and train it with an evaluation."""
    keys.use("link", "Train a model")
    page.wait_for_url("**/jobs/new?*")
    keys.to(page.get_by_label("Algorithm"))
    keys.type("ridge")
    keys.use("button", "Continue")
    keys.write("Name of the model", "keyboard-day")
    keys.use("checkbox", "Evaluate on rows left out for checking", "Space")
    keys.use("button", "Train")
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="keyboard-day / 1").wait_for()


def cancel_by_keys(page, keys, job):
    """Cancel a running job, after a change of mind: the question returns the focus."""
    keys.use("link", "Jobs")
    page.wait_for_url("**/jobs")
    keys.to(page.locator(f"a[href$='/jobs/{job.id}']").first)
    keys.press("Enter")
    page.locator("main .state.running").first.wait_for()
    cancel = page.get_by_role("button", name="Cancel")
    keys.to(cancel)
    keys.press("Enter")
    question = page.get_by_role("dialog")
    question.wait_for()
    for _ in range(5):  # the rest of the page cannot be reached
        keys.press("Tab")
        assert page.evaluate("document.activeElement.closest('dialog, body > *')?.id ?? 'question'")
        assert not page.evaluate("document.querySelector('main').contains(document.activeElement)")
    keys.press("Escape")
    question.wait_for(state="hidden")
    assert cancel.evaluate("button => button === document.activeElement")
    keys.press("Enter")
    keys.to(page.get_by_role("button", name="Yes"))
    keys.press("Enter")
    page.locator("main .state.cancelled").first.wait_for()
    # what took the place of the button is the next thing to reach
    keys.to(page.get_by_role("button", name="Delete"))


def use_a_model_by_keys(page, keys):
    """Make a plot interactive, predict rows of the dataset, and set an alias."""
    keys.use("button", "Interactive: Predicted against true")
    page.locator(".vega svg.marks").wait_for()
    page.locator(".vega.scroll:focus").wait_for()
    keys.to(page.get_by_label("Group", exact=True))
    keys.press("ArrowDown")
    assert page.get_by_label("Group", exact=True).input_value() == "south"
    take = page.get_by_role("button", name="Take 5 rows of the group")
    keys.to(take)
    with page.expect_response("**/preview?*"):
        keys.press("Enter")
    page.locator("#try-take:focus").wait_for()  # it keeps the focus
    keys.use("button", "Run")
    page.locator("#try-answer").wait_for()
    assert len(page.locator("#try-answer").inner_text().split()) == 5
    keys.write("Point this alias at version 1", "production")
    keys.press("Enter")
    page.locator(".state.alias", has_text="production").wait_for()


def test_the_files_of_a_tutorial_are_those_of_its_notebook():
    kept = {path.stem: path.read_text() for path in (TUTORIALS / "files").iterdir()}
    assert kept == runpy.run_path(str(TUTORIALS / "browser.py"))["tables"]()


@pytest.mark.parametrize("name", ["browser", "watch"])
def test_a_tutorial_leads_through_an_empty_service(visit, launch_service, name):
    walk = runpy.run_path(str(TUTORIALS / "browser.py"))["WALKS"][name]
    with launch_service() as empty:
        page, taken = visit(empty.url), []

        def take(picture):
            check_accessibility(page)
            taken.append(f"{name}-{picture}.png")

        walk(page, take)
    shown = re.findall(r"pictures/([^)]*)", (TUTORIALS / f"{name}.md").read_text())
    assert taken == shown
    assert all((TUTORIALS / "pictures" / name).exists() for name in taken)


def test_sample_data_lead_to_a_job_with_one_click(visit, launch_service):
    with launch_service() as empty, Client(empty.url) as client:
        page = visit(empty.url)
        page.goto("/")
        page.get_by_role("button", name="Try it with sample data").click()
        page.wait_for_url("**/jobs/job_*")
        (job,) = client.jobs(algorithm="auto")
        assert (job["model"], page.url.rpartition("/")[2]) == ("patients", job["id"])
        page.goto("about:blank")  # the page would follow the job of a service that has ended
        client.job(job["id"]).cancel()


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
        "calibration": {"n_folds": 3},
        "class_weight": "none",
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


def test_a_selection_stays_while_the_page_changes(page, client):
    job = train_for_minutes(client, "browser-selection")
    page.goto(f"/jobs/{job.id}")
    page.locator("main .state.running").first.wait_for()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('main code'))")
    sentence = page.locator("[data-key='sentence']")
    sentence.evaluate("element => { element.marked = true; }")
    job.cancel()
    sentence.filter(has_text="was cancelled").wait_for()
    assert sentence.evaluate("element => element.marked")  # the page was not loaded again
    assert page.evaluate("`${getSelection()}`") == job.id


def test_a_button_in_use_is_replaced_once_the_focus_has_left_it(page, client):
    job = train_for_minutes(client, "browser-focus")
    page.goto(f"/jobs/{job.id}")
    page.locator("main .state.running").first.wait_for()
    button = page.get_by_role("button", name="Cancel")
    button.focus()
    job.cancel()
    page.locator("main .state.cancelled").first.wait_for()
    assert button.evaluate("button => button === document.activeElement")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Delete").wait_for()
    assert button.count() == 0


def test_a_page_goes_on_after_a_restart_of_the_service(visit, launch_service, expected):
    expected += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
    expected += ["status of 502", "status of 503"]  # 502 is of a proxy
    with launch_service() as first, Client(first.url) as client:
        page = visit(first.url)
        job = train_for_minutes(client, "browser-restart")
        page.goto(f"/jobs/{job.id}")
        page.locator("main .state.running").first.wait_for()
        page.evaluate("document.body.marked = true")
        first.process.terminate()
        first.process.wait()
        page.get_by_text("The service does not respond.").wait_for()
        check_accessibility(page)
        with launch_service(data_dir=first.data_dir, port=first.port):
            page.get_by_text("The service does not respond.").wait_for(state="hidden")
            # the stream is a new one: what happens from now on is seen
            job.cancel()
            page.locator("main .state.cancelled").first.wait_for()
            assert page.evaluate("document.body.marked")  # the page was not loaded again
            page.goto("about:blank")


def test_the_page_of_a_job_that_was_deleted_says_so(page, client, http, expected):
    expected += ["ERR_INTERNET_DISCONNECTED", "status of 404"]
    job = train_for_minutes(client, "browser-deleted")
    page.goto(f"/jobs/{job.id}")
    page.locator("main .state.running").first.wait_for()
    page.context.set_offline(True)
    page.get_by_text("The service does not respond.").wait_for()
    job.cancel().wait_for_end()
    assert http.delete(f"/v1/jobs/{job.id}").status_code == 204
    page.context.set_offline(False)
    page.get_by_text(f"There is no job '{job.id}'").wait_for()
    check_accessibility(page)
    page.get_by_role("link", name="All jobs").click()
    page.get_by_role("heading", level=1, name="Jobs").wait_for()


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
    page.locator("summary", has_text="Name, and how").click()
    page.get_by_label("Cells are separated by").select_option("semicolon")
    page.get_by_label("Decimal separator").select_option("comma")
    check_accessibility(page)
    page.set_input_files("#file", {"name": "large.csv", "mimeType": "text/csv", "buffer": content})
    page.locator("#rows tbody tr").first.wait_for()
    page.get_by_role("button", name="Only store the data").click()
    page.wait_for_url("**/datasets/ds_*")
    assert refused == ["0", str(8 * 2**20)]
    # the page follows the reading of the file
    page.get_by_text("2 groups with 700").wait_for()
    found = http.get(f"/v1/datasets/{page.url.rpartition('/')[2]}").json()
    assert (found["n_samples"], found["size_bytes"]) == (n_rows, len(content))
    http.delete(f"/v1/datasets/{found['id']}")


def test_the_reference_of_the_api_works_under_its_policy(page):
    page.goto("/docs#list_models")  # the link opens what it leads to
    page.locator("#list_models").get_by_text("List the latest version of each model").wait_for()
    assert page.locator("main section").first.get_attribute("id") == "datasets"
    check_accessibility(page)
    page.locator("a[href$='errors.html#in-use']").first.wait_for(state="attached")
    page.get_by_role("link", name="Try requests").click()
    page.locator("#operations-models-list_models .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status", has_text="200").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_help_is_found_by_navigation_and_search(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto("/algorithms")
    page.get_by_role("link", name="Help", exact=True).click()
    page.get_by_role("heading", level=1, name="Sibling").wait_for()
    check_accessibility(page)
    page.get_by_role("link", name="Overview", exact=True).click()
    page.get_by_role("heading", level=1, name="Overview").wait_for()
    page.go_back()
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


def test_a_double_click_submits_one_job(page, client, dataset):
    page.goto(f"/jobs/new?dataset={dataset.id}&algorithm=constant")
    page.get_by_label("Name of the model").fill("clicked-twice")
    page.get_by_role("button", name="Train").dblclick()
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="clicked-twice / 1").wait_for()
    page.go_back()  # the form can be sent again
    page.get_by_role("button", name="Train").click()
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="clicked-twice / 2").wait_for()
    assert len(list(client.jobs(text="clicked-twice"))) == 2


def test_a_search_without_usable_values_says_what_to_write(page, dataset):
    page.goto(f"/jobs/new?dataset={dataset.id}&algorithm=ridge")
    page.get_by_label("Name of the model").fill("searched")
    page.locator("[data-group='search']").check()
    field = page.locator("[data-search='gamma']")
    for text, message in (
        ("", "A search needs values of at least one parameter."),
        ("{bad", "or write a range, as in"),
        ("0.1;1", "Separate values by commas"),
    ):
        field.fill(text)
        page.get_by_role("button", name="Check").click()
        page.locator("#errors").get_by_text(message).wait_for()
    assert field.get_attribute("aria-invalid") == "true"


def test_the_file_of_the_training_can_be_tried(page, client, tmp_path, wait_until):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.standard_normal((8, 2)), columns=["age", "dose"])
    frame = frame.assign(target=frame.age - frame.dose, **{"Köln, Ort": ["north", "south"] * 4})
    text = frame.to_csv(index=False)
    files = {
        "training.csv": text.encode(),
        "spreadsheet.csv": f"sep=,\n{text}".encode("windows-1252"),
        "wide.csv": text.encode("utf-16"),
        "training.parquet": frame.to_parquet(),
    }
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    options = {"task_column": "Köln, Ort", "target_column": "target"}
    data = client.upload(tmp_path / "training.csv", **options)
    model = client.train(data, "ridge", model="tried-file").wait()
    expected = model.predict(frame)
    page.goto("/models/tried-file/1")
    answer, run = page.locator("#try-answer"), page.get_by_role("button", name="Run")
    for name in files:
        page.get_by_label("Group", exact=True).select_option("south")
        page.set_input_files("#try-file", tmp_path / name)
        wait_until(lambda: page.get_by_label("Group", exact=True).input_value() == "")
        run.click()
        answer.wait_for()
        outputs = [float(line) for line in answer.inner_text().split()]
        np.testing.assert_allclose(outputs, expected)
    page.locator("#try-take").click()  # the rows of one task again
    wait_until(lambda: page.input_value("#try-rows"))
    run.click()
    answer.wait_for()
    assert len(answer.inner_text().split()) == 4


def test_a_file_with_outcomes_says_whether_a_model_is_still_right(page, client):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"shop": ["a", "b", "c"] * 20, "price": rng.normal(size=60)})
    rows["sales"] = 2 * rows.price + 0.1 * rng.normal(size=60)
    data = client.upload(rows, task_column="shop", target_column="sales")
    client.train(data, "ridge", model="still-right", evaluate=True).wait()
    page.goto("/models/still-right/1")
    page.get_by_role("link", name="Is it still right?").click()
    page.get_by_role("button", name="Start watching").click()
    field = page.get_by_label("File with known sales")
    field.wait_for()
    check_accessibility(page)
    rows.loc[0, "sales"] = np.nan
    file = {"name": "may.csv", "mimeType": "text/csv", "buffer": rows.to_csv(index=False).encode()}
    field.set_input_files(file)
    page.get_by_text("59 rows taken: 59 new, 0 corrected, 0 known before.").wait_for()
    page.get_by_text("Not taken: 1 row without sales.").wait_for()
    page.locator("#report").get_by_text("(RMSE) on rows whose true value is known").wait_for()
    check_accessibility(page)
    field.set_input_files(file)
    page.get_by_text("59 rows taken: 0 new, 0 corrected, 59 known before.").wait_for()
    page.locator("#numbers tbody tr", has_text="19").first.wait_for()  # without a reload
    file["buffer"] = b"row_id,sales\nnever-predicted,1\n"
    field.set_input_files(file)
    page.get_by_text("Of 1 id no row is kept, such as never-predicted").wait_for()


def test_what_is_wrong_with_a_rule_stands_at_its_form(page, client):
    rows = {"a": np.eye(4), "b": np.eye(4)[::-1]}
    data = client.upload(rows, {name: np.arange(4.0) for name in rows})
    client.train(data, "ridge", model="renewed-by-rule").wait().set_alias("production")
    client.set_monitor("renewed-by-rule@production")
    page.goto("/models/renewed-by-rule/aliases/production/monitor")
    rule = page.locator("#renewal-rule")
    start = rule.get_by_role("button", name="Start renewing")
    start.click()
    rule.get_by_text("Fill in at least one of the first three fields").wait_for()
    rule.get_by_label("Times").fill("every Monday")
    start.click()
    rule.get_by_text("Times: expected five fields").wait_for()
    check_accessibility(page)


DROP = """names => {
  const data = new DataTransfer();
  for (const name of names) data.items.add(new File(["task,x\\na,1\\na,2\\n"], name));
  document.querySelector("h1").dispatchEvent(
    new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_a_file_is_chosen_and_named_as_people_expect(page):
    page.goto("/datasets/new")
    errors, status = page.locator("#errors"), page.locator("#status")
    page.locator("summary", has_text="Name, and how").click()
    name = page.get_by_label("Name", exact=True)
    page.evaluate(DROP, ["wrong.csv"])  # beside the area
    assert name.input_value() == "wrong"
    page.evaluate(DROP, ["right.csv"])
    assert name.input_value() == "right"
    page.evaluate(DROP, ["one.csv", "two.csv"])
    errors.get_by_text("A dataset is one file, but you dropped 2.").wait_for()
    name.fill("my own")
    page.evaluate(DROP, ["table.pdf"])
    assert name.input_value() == "my own"
    errors.get_by_text("If table.pdf is such a file, rename it.").wait_for()
    assert page.locator("#found").is_hidden()
    # an option in a message is a field of the page
    file = {"name": "two.csv", "mimeType": "text/csv", "buffer": b"a b,c d\n1 2,3 4\n5 6,7 8\n"}
    page.set_input_files("#file", file)
    errors.get_by_text("delimiter is “Cells are separated by” on this page.").wait_for()
    page.get_by_label("Cells are separated by").select_option(",")  # it is read again
    page.locator("#rows tbody tr").first.wait_for()
    assert status.inner_text() == ""


def hospitals(*, n=8, rows=12):
    """Return rows of hospitals with an id, a category with gaps, and a length of stay."""
    rng = np.random.default_rng(7)
    age = rng.integers(20, 95, n * rows)
    frame = pd.DataFrame({"hospital": np.repeat([f"H{i}" for i in range(n)], rows), "age": age})
    frame["patient"] = [f"P-{i}" for i in range(len(frame))]
    frame["ward"] = rng.choice(["icu", "surgery", None], len(frame))
    return frame.assign(days=(3 + 0.05 * age + rng.normal(size=len(frame))).round(1))


def test_five_clicks_lead_from_a_file_to_the_job_without_a_typed_name(page, http, tmp_path):
    hospitals().to_csv(tmp_path / "length of stay.csv", index=False, sep=";", decimal=",")
    before = {item["id"] for item in http.get("/v1/datasets").json()["items"]}
    page.goto("/")
    page.get_by_role("link", name="Upload a dataset").first.click()
    page.set_input_files("#file", tmp_path / "length of stay.csv")
    page.locator("#advice", has_text="8 different values, with 12 rows each").wait_for()
    assert "delimiter ';', decimal ','" in page.locator("#summary").inner_text()
    assert page.locator("[data-column=ward]").inner_text().split("\n")[1].endswith("% missing")
    check_accessibility(page)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert {item["id"] for item in http.get("/v1/datasets").json()["items"]} == before
    page.get_by_role("button", name="Find the best model").click()
    page.wait_for_url("**/jobs/job_*")
    job = http.get(f"/v1/jobs/{page.url.rpartition('/')[2]}").json()
    assert (job["algorithm"], job["model"]) == ("auto", "length-of-stay")
    options = http.get(f"/v1/datasets/{job['dataset_id']}").json()["options"]
    assert (options["task_column"], options["target_column"]) == ("hospital", ["days"])
    http.post(f"/v1/jobs/{job['id']}:cancel")


def test_the_page_for_uploads_says_in_how_many_groups_an_event_never_happens(page, tmp_path):
    frame = hospitals().drop(columns="days")
    died = frame.index % 12 == 0
    died &= frame.hospital.isin(["H1", "H2", "H3"])
    frame.assign(died=np.where(died, "yes", "no")).to_csv(tmp_path / "died.csv", index=False)
    page.goto("/datasets/new")
    page.set_input_files("#file", tmp_path / "died.csv")
    said = "hospital has 8 different values, with 12 rows each."
    rare = "died is yes; for 5 of the 8 values of hospital it never is."
    page.locator("#advice", has_text=said).filter(has_text=rare).wait_for()


def test_an_automatic_choice_shows_the_best_so_far_and_leads_to_its_result(page, client):
    table = hospitals(n=20)
    data = client.upload(table, name="stays", task_column="hospital", target_column="days")
    job = client.train(data, "auto", model="browser-race")
    page.goto(f"/jobs/{job.id}")
    page.locator(".measured li", has_text="Each hospital alone").wait_for()
    heading = page.get_by_role("heading", level=1)
    said = r"So far, error of days: [\d.]+ (together|by one model for all|alone)"
    assert re.match(said, heading.inner_text())
    check_accessibility(page)
    link = page.get_by_role("link", name="See the result")
    link.wait_for()
    page.wait_for_function("document.activeElement.textContent === 'See the result'")
    assert link.bounding_box()["y"] < 400
    page.keyboard.press("Enter")
    page.wait_for_url("**/models/browser-race/1")


def test_a_group_that_was_not_trained_is_added_from_the_page(page, client, tmp_path):
    options = {"task_column": "hospital", "target_column": "days"}
    table = hospitals()
    data = client.upload(table[table.hospital != "H7"], name="extended", **options)
    client.train(data, "mixed-model", model="browser-extended").wait()
    new = table[table.hospital == "H7"]
    new.drop(columns="days").to_csv(tmp_path / "rows.csv", index=False)
    new.to_csv(tmp_path / "known.csv", index=False)
    page.goto("/models/browser-extended/1/predict")
    page.set_input_files("#file", tmp_path / "rows.csv")
    page.get_by_role("heading", name="Add “H7” to the model").wait_for()
    check_accessibility(page)
    page.set_input_files("#add-file", tmp_path / "known.csv")
    page.get_by_role("button", name="Add to the model").click()
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="See the result").click()
    page.wait_for_url("**/models/browser-extended/2")
    assert client.model("browser-extended", 2).tasks[-1] == "H7"


def test_a_file_that_is_dropped_on_any_page_is_looked_at(page):
    page.goto("/jobs")
    page.evaluate(
        """() => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File(["g,x,y\\na,1,2\\na,2,3\\nb,3,4\\n"], "dropped.csv"));
          const options = { dataTransfer, bubbles: true, cancelable: true };
          document.querySelector("h1").dispatchEvent(new DragEvent("drop", options));
        }"""
    )
    page.wait_for_url("**/datasets/new")
    page.locator("#rows tbody tr").first.wait_for()
    assert page.locator("[name=name]").input_value() == "dropped"
    page.reload()  # it is taken once
    page.get_by_label("File", exact=True).wait_for()
    assert page.locator("#file").evaluate("field => field.files.length") == 0


def test_roles_and_kinds_of_columns_are_changed_before_anything_is_stored(page, http, tmp_path):
    hospitals().to_csv(tmp_path / "roles.csv", index=False)
    page.goto("/datasets/new")
    page.set_input_files("#file", tmp_path / "roles.csv")

    def change(column, **fields):
        page.locator(f"[data-column='{column}']").click()
        for name, value in fields.items():
            page.locator(f"dialog [name={name}]").select_option(value)
        check_accessibility(page)
        page.get_by_role("button", name="Done").click()

    change("patient", column_kind="category")
    change("ward", role="ignore_column")
    change("age", role="group_column")
    page.get_by_role("button", name="1 other column").wait_for()
    page.locator("[name=task_column]").select_option("")
    page.get_by_text("These rows form one group; then nothing can be learned together.").wait_for()
    page.get_by_role("button", name="Only store the data").click()
    page.wait_for_url("**/datasets/ds_*")
    options = http.get(f"/v1/datasets/{page.url.rpartition('/')[2]}").json()["options"]
    expected = {
        "task_column": None,
        "target_column": ["days"],
        "group_column": "age",
        "ignore_column": ["ward"],
        "column_kind": ["patient:category"],
    }
    assert {name: options[name] for name in expected} == expected


def test_a_file_is_predicted_as_it_is_and_a_row_by_a_form(page, client, tmp_path):
    options = {"task_column": "hospital", "target_column": "days"}
    data = client.upload(hospitals(), name="predicted", **options)
    model = client.train(data, "mixed-model", model="browser-predicted", calibration=True).wait()
    rows = hospitals().drop(columns="days").iloc[[0, 20, 40]].fillna("icu").reset_index(drop=True)
    rows.loc[1, "ward"], rows.loc[2, "hospital"] = "martian", "New Clinic"
    rows.to_csv(tmp_path / "rows.csv", index=False, sep=";", decimal=",")
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/models/browser-predicted/1")
    page.get_by_role("link", name="Predict", exact=True).first.click()
    check_accessibility(page)
    page.set_input_files("#file", tmp_path / "rows.csv")
    page.get_by_role("heading", name="3 rows predicted").wait_for()
    assert "1 row of “New Clinic” got the common prediction" in page.locator("#lead").inner_text()
    assert "“martian” was never seen in training" in page.locator("#unknown").inner_text()
    heads = page.locator("#rows th").all_inner_texts()
    assert heads[:5] == ["row", "hospital", "days", "90 % interval", "note"]
    assert set(heads[5:]) == {"patient", "age", "ward"}
    notes = page.locator("#rows tbody tr td:nth-child(5)").all_inner_texts()
    assert notes == ["", "unknown ward", "new hospital"]
    shown = page.locator("#rows tbody tr td:nth-child(4)").first
    before = shown.inner_text()
    page.get_by_label("Intervals hold for").select_option("80 % of new rows")
    page.locator("#rows th", has_text="80 % interval").wait_for()
    assert shown.inner_text() != before
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download CSV").click()
    again = pd.read_csv(saved.value.path(), sep=";", decimal=",")
    assert list(again.patient) == list(rows.patient)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download Excel").click()
    assert saved.value.suggested_filename == "browser-predicted-predictions.xlsx"
    page.locator("summary", has_text="Type a row").click()
    page.get_by_label("age").fill("61")
    page.get_by_label("ward").select_option("icu")
    page.get_by_role("button", name="Predict this row").click()
    expected = model.predict([{"hospital": "H0", "age": 61, "ward": "icu"}])[0]
    page.locator("#row-answer", has_text=f"days: {expected:.2f}, 80 % interval").wait_for()
    check_accessibility(page)
    # what is wrong with a file stands on the page
    page.set_input_files(
        "#file", {"name": "none.csv", "mimeType": "text/csv", "buffer": b"age\n1\n2\n"}
    )
    page.locator("#error", has_text="hospital").wait_for()
    assert page.locator("#result").is_hidden()


def test_a_service_that_does_not_respond_is_called_so(page, model, expected, wait_until):
    expected.append("ERR_INTERNET_DISCONNECTED")
    page.goto(f"/models/{model.name}/1")
    page.locator("#try-take").click()
    wait_until(lambda: page.input_value("#try-rows"))
    page.context.set_offline(True)
    page.get_by_role("button", name="Run").click()
    page.locator("#try-error").get_by_text("The service does not respond. Try again.").wait_for()


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
    from playwright.sync_api import Error

    url, key = guarded
    name = f"a colleague {uuid.uuid4().hex}"
    admin, other = visit(url), visit(url)
    sign_in(admin, key)
    (cookie,) = admin.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["value"] not in key
    assert admin.evaluate("document.cookie") == ""
    admin.get_by_role("link", name="Keys").click()
    admin.get_by_label("What is it for?").fill(name)
    create = admin.get_by_role("button", name="Create")
    create.click()  # without a scope: the browser asks for one
    scope = admin.get_by_label("datasets:read")
    assert scope.evaluate("box => box.validationMessage") == "Choose at least one scope."
    admin.get_by_label("The program").select_option("calls models")
    ticked = admin.locator("[name=scopes]:checked")
    assert ticked.evaluate_all("boxes => boxes.map(box => box.value)") == ["models:read", "infer"]
    for preset in ("models:read", "infer"):
        admin.get_by_label(preset).uncheck()
    assert admin.get_by_label("The program").input_value() == ""
    admin.get_by_label("jobs:read").check()
    create.dblclick()  # makes one key
    made = admin.locator("#new-key-text")
    made.wait_for()
    listed = admin.locator("tr", has_text=name)
    listed.first.wait_for()
    assert listed.count() == 1
    check_accessibility(admin)
    sign_in(other, made.inner_text())
    assert other.get_by_role("link", name="Keys").count() == 0
    admin.get_by_role("link", name="Done").click()
    row = admin.locator("tr", has_text=name)
    row.get_by_role("button", name="Revoke").click()
    admin.get_by_role("button", name="Yes").click()
    row.locator(".state.revoked").wait_for()
    while "/login" not in other.url:  # within seconds; the time limit of the test ends it else
        with contextlib.suppress(Error):  # the page may lead there by itself meanwhile
            other.goto("/jobs")
    admin.get_by_role("link", name="Audit").click()
    admin.locator("tr", has_text="revoke a key").wait_for()
    check_accessibility(admin)
    admin.get_by_role("button", name="Sign out").click()
    admin.wait_for_url("**/login")
    admin.context.add_cookies([cookie])  # the session has ended, not only its cookie
    admin.goto("/jobs")
    admin.wait_for_url("**/login?next=*")


def test_a_page_whose_session_has_ended_asks_to_sign_in(visit, guarded):
    url, key = guarded
    page = visit(url)
    sign_in(page, key)
    other = page.context.new_page()
    other.goto(f"{url}/")
    other.get_by_role("button", name="Sign out").click()
    other.wait_for_url("**/login")
    with Client(url, api_key=key) as client:
        client.train(client.upload({"a": [[1.0], [2.0]]}), "constant", model="session").wait()
    page.wait_for_url("**/login?next=*")
    page.get_by_label("API key").wait_for()
    check_accessibility(page)


def test_signing_out_leads_to_the_sign_in_though_the_page_notices_it_first(visit, guarded):
    url, key = guarded
    page = visit(url)
    sign_in(page, key)
    noticed = []
    page.on("response", lambda r: is_refused(r) and noticed.append(r.url))

    def is_refused(response):
        return response.status == 401 or "/login?next=" in response.url

    def answer_late(route):
        route.fetch(max_redirects=0)
        while len(noticed) < 2:  # the page and its stream, or the page that was read again
            page.wait_for_timeout(50)
        route.continue_()

    page.route("**/logout", answer_late)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(re.compile("/login"))
    assert page.url == f"{url}/login"


def test_a_form_whose_session_has_ended_leads_to_the_sign_in(visit, guarded):
    url, key = guarded
    page = visit(url)
    sign_in(page, key)
    page.goto("/keys")
    page.get_by_label("What is it for?").fill("never made")
    page.get_by_label("jobs:read").check()
    page.context.clear_cookies()
    page.get_by_role("button", name="Create").click()
    page.get_by_text("Your session has ended.").wait_for()
    page.locator("#key-error").get_by_role("link", name="Sign in").click()
    page.wait_for_url("**/login?next=%2Fkeys")


def test_a_webhook_is_made_tested_and_deleted_on_its_pages(visit, launch_service):
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(503)
            self.end_headers()

        def log_message(self, *_):
            """Print nothing."""

    allowed = {"SIBLING_WEBHOOK_HOSTS": "localhost", "SIBLING_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    with launch_service(**allowed) as running, HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(running.url)
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto("/")
        page.get_by_role("link", name="Webhooks").click()
        page.get_by_label("Address").fill("http://elsewhere.example.com/")
        page.get_by_role("button", name="Create").click()
        page.get_by_text("may not be sent to the host").wait_for()
        page.get_by_label("Address").fill(f"http://localhost:{server.server_port}/hook")
        page.get_by_label("job.failed").check()
        check_accessibility(page)
        page.get_by_role("button", name="Create").click()
        page.get_by_text("whsec_").wait_for()
        page.get_by_role("link", name="Done").click()
        page.get_by_text("No event has been sent yet.").wait_for()
        page.get_by_role("button", name="Send a test event").click()
        page.get_by_text("the response has the status 503").wait_for()
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Yes").click()
        page.get_by_text("There is no webhook.").wait_for()
        server.shutdown()


@pytest.fixture
def long_names(client):
    """A model with a score; its names are as long as they may be, without a break."""
    model = uuid.uuid4().hex.rjust(100, "m")
    rng = np.random.default_rng(3)
    columns = ["c" * 200, "target" * 30]
    parts = [
        pd.DataFrame(rng.standard_normal((20, 2)), columns=columns).assign(task=name * 200)
        for name in "tu"
    ]
    dataset = client.upload(pd.concat(parts), name="d" * 200, target_column=columns[1])
    job = client.train(dataset, "ridge", model=model, evaluate=True)
    job.wait().set_alias("a" * 64)
    return SimpleNamespace(dataset=dataset.id, job=job.id, model=model)


def test_pages_are_accessible_and_as_wide_as_a_phone(page, dataset, model, long_names, expected):
    expected += ["status of 404"]
    page.set_viewport_size({"width": 390, "height": 800})
    version, long_version = f"{model.name}/1", f"{long_names.model}/1"
    drawn, widths = set(), {}
    page.on("request", lambda request: "/plots/" in request.url and drawn.add(request))

    def end(request):
        drawn.discard(request)

    page.on("requestfinished", end)
    page.on("requestfailed", end)
    for path in (
        "/",
        "/datasets",
        f"/datasets/{dataset.id}",
        f"/datasets/{long_names.dataset}",
        f"/datasets/{long_names.dataset}/rows",
        "/datasets/new",
        "/jobs",
        f"/jobs/{long_names.job}",
        "/models",
        f"/models/{long_names.model}",
        f"/models/{long_version}/predict",
        f"/models/{version}",
        f"/models/{long_version}",
        "/algorithms",
        "/algorithms/mtfl",
        f"/jobs/new?dataset={dataset.id}&algorithm=mtfl",
        f"/jobs/new?like={long_names.job}",
        "/compare",
        f"/compare?models={version}",
        f"/compare?models={version},{long_version}",
        f"/models/{'n' * 100}",
        f"/models/{long_names.model}/aliases/{'a' * 64}/monitor",
        f"/v1/models/{long_names.model}/versions/1/report.html",
        f"/jobs/new?dataset={long_names.dataset}&algorithm=auto",
        "/keys",
        "/webhooks",
        "/audit",
        "/docs",
        "/help/",
    ):
        page.goto(path)
        check_accessibility(page)
        page.emulate_media(color_scheme="dark")
        check_accessibility(page, only="color-contrast")
        page.emulate_media(color_scheme="light")
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
        while drawn:  # few images may wait at a time
            page.wait_for_timeout(50)
    assert {path: width for path, width in widths.items() if width > 390} == {}


def test_lists_show_all_columns_beside_the_longest_names(page, long_names):
    page.set_viewport_size({"width": 1280, "height": 900})
    paths = (
        "/",
        "/jobs",
        f"/models?text={long_names.model}",
        f"/compare?models={long_names.model}/1",
    )
    hidden = {}
    for path in paths:
        page.goto(path)
        page.get_by_text(long_names.model).first.wait_for()
        hidden[path] = page.locator(".scroll").evaluate_all(
            "regions => regions.filter(r => r.scrollWidth > r.clientWidth).map(r => r.ariaLabel)"
        )
    assert hidden == {path: [] for path in paths}


def test_tasks_that_were_not_trained_can_be_tried(page, client, wait_until):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"ward": ["a", "b", "c"] * 8, "age": rng.standard_normal(24)})
    frame = frame.assign(stay=frame.age + (frame.ward == "a") + 0.1 * rng.standard_normal(24))
    data = client.upload(frame, name="wards", task_column="ward", target_column="stay")
    model = client.train(data, "mixed-model", model="tried-new", new_tasks="common").wait()
    rows = pd.DataFrame({"ward": ["d", "a"], "age": [1.0, 2.0]})
    with pytest.warns(NewTasksWarning):
        expected = model.predict(rows)
    page.goto("/models/tried-new/1")
    page.get_by_label("Rows as CSV").fill(rows.to_csv(index=False))
    wait_until(lambda: page.get_by_label("Ward", exact=True).input_value() == "")
    takes, run = page.get_by_label("wards that it was not trained on"), page.locator("#try")
    assert takes.is_checked()  # the default of the model
    run.get_by_role("button", name="Run").click()
    page.locator("#try-note", has_text=": d").wait_for()
    outputs = [float(line) for line in page.locator("#try-answer").inner_text().split()]
    np.testing.assert_allclose(outputs, expected)
    takes.uncheck()
    run.get_by_role("button", name="Run").click()
    page.locator("#try-error", has_text="'d'").wait_for()
    assert page.locator("#try-note").is_hidden()
