"""Plots of models over HTTP: as specifications and as images, of stored results."""

import os
import re
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

import altair as alt
import numpy as np
import psutil
import pytest

from service.errors.problems import Problem
from service.models import images as images_module
from service.models.images import MAX_WAITING, ImageProcess
from service.processes import supervision
from sibling import ServiceError
from tests.service.raw import Raw, head

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("<b>&", "south", "b\x01\ufffe")


@pytest.fixture(scope="module")
def named(client):
    """Three tasks with unusual names."""
    rng = np.random.default_rng(5)
    X = {name: rng.standard_normal((24, 4)) for name in NAMES[:2]} | {
        "west": rng.standard_normal((24, 4))
    }
    w = rng.standard_normal(4)
    y = {name: X[name] @ w + 0.1 * rng.standard_normal(24) for name in X}
    return client.upload(X, y, name="plotted")


@pytest.fixture(scope="module")
def plotted(client, named):
    """A model without a report."""
    return client.train(named, "mtfl", model="plotted", selection="given").wait()


@pytest.fixture(scope="module")
def reported(client, named):
    """A model with a search, a comparison and an evaluation."""
    return client.train(
        named,
        "mtfl",
        model="plotted-report",
        selection="given",
        search={"method": "grid", "space": {"gamma": [0.01, 1.0]}, "n_folds": 2},
        compare=True,
        evaluate=True,
    ).wait()


@pytest.mark.slow
def test_every_listed_plot_is_a_valid_specification(reported):
    listed = reported.plots()
    names = {"gains", "scores", "relations", "spectrum", "objective", "search"}
    names |= {"importance", "predictions", "residuals"}  # of the rows that the evaluation held out
    assert {one["name"] for one in listed} == names
    for one in listed:
        chart = reported.plot(one["name"], theme="dark")
        spec = chart.to_dict()  # checks it against the schema
        assert isinstance(chart, alt.TopLevelMixin)
        assert spec["description"].startswith(one["sentence"])
        assert spec["title"]["text"] == one["title"]


@pytest.mark.slow
def test_the_numbers_are_those_that_the_service_has_stored(reported, http):
    relations = reported.relations()
    drawn = reported.plot("relations").to_dict()["datasets"]["cells"]
    cells = {(cell["row"], cell["column"]): cell["strength"] for cell in drawn}
    for i, a in enumerate(relations["names"]):
        for j, b in enumerate(relations["names"]):
            assert cells[a, b] == pytest.approx(relations["strength"][i][j])
    report = reported.report()
    gains = reported.plot("gains").to_dict()["datasets"]["gains"]
    single = [one for one in report["comparison"]["overall"] if one["role"] == "single_task"]
    worst = min(single, key=lambda one: one["gain"])
    for row in gains:
        own = report["comparison"]["by_task"][row["task"]]
        same = ("baseline", "role", "variant")
        stored = next(one for one in own if all(one[key] == worst[key] for key in same))
        assert (row["gain"], row["low"], row["high"]) == tuple(
            stored[name] for name in ("gain", "low", "high")
        )
    assert len(gains) == 3
    job = http.get(f"/v1/jobs/{reported.info['lineage']['job_id']}").json()
    assert job["result"]["verdict"] == report["comparison"]["verdict"]
    scores = reported.plot("scores").to_dict()["datasets"]["scores"]
    by_task = report["evaluation"]["by_task"]
    assert all(row["score"] == by_task[row["metric"]][row["task"]] for row in scores)
    points = reported.plot("predictions").to_dict()["datasets"]["points"]
    tasks = report["predictions"]["tasks"]
    assert len(points) == report["predictions"]["n_rows"] == 72
    for task, own in tasks.items():
        assert sorted(own["rows"]) == list(range(24))
        drawn = [(p["true"], p["predicted"]) for p in points if p["task"] == task]
        assert drawn == list(zip(own["true"], own["predicted"], strict=True))
    tried = reported.plot("search").to_dict()["datasets"]["parameter 0"]
    assert sorted(row["value"] for row in tried) == [0.01, 1.0]
    steps = reported.plot("objective").to_dict()["datasets"]["steps"]
    assert steps[-1]["objective"] == reported.history()["steps"]["objective"][-1]


@pytest.mark.parametrize(
    ("made", "name"),
    [("plotted", "relations"), pytest.param("reported", "gains", marks=pytest.mark.slow)],
)
def test_an_image_has_every_name_and_nothing_active(request, http, made, name):
    url = f"/v1/models/{request.getfixturevalue(made).name}/plots/{name}"
    response = http.get(url, headers={"Accept": "image/svg+xml"})
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["content-security-policy"] == "default-src 'none'"
    assert response.headers["vary"] == "Accept"
    root = ET.fromstring(response.content)
    assert root.tag == f"{SVG}svg"
    texts = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    assert {"<b>&", "south", "west"} <= texts
    assert not list(root.iter(f"{SVG}script"))
    png = http.get(url, headers={"Accept": "image/png"})
    assert png.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len({response.headers["etag"], png.headers["etag"], http.get(url).headers["etag"]}) == 3
    for accept in ("image/svg+xml", "image/png"):
        tag = http.get(url, headers={"Accept": accept}).headers["etag"]
        again = http.get(url, headers={"Accept": accept, "If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.slow
@pytest.mark.usefixtures("plotted")
def test_images_that_nobody_waits_for_are_not_drawn(plotted, service, http, wait_until):
    """Such as those of a page that a browser has left."""
    path = f"/v1/models/{plotted.name}/plots/relations?theme=dark"

    def n_dropped():
        route = 'route="/v1/models/{name}/plots/{plot}",status="other"'
        pattern = rf"^\S*{re.escape(route)}\S* (\S+)$"
        found = re.search(pattern, http.get("/metrics").text, re.MULTILINE)
        return 0 if found is None else float(found[1])

    before = n_dropped()
    for _ in range(5):
        with Raw(service.url) as connection:
            connection.send(head("GET", path, "Accept: image/png"))
    wait_until(lambda: n_dropped() >= before + 4)  # the first may be drawn by then
    assert http.get(path, headers={"Accept": "image/png"}).content.startswith(b"\x89PNG")


def test_a_plot_that_there_is_not_names_those_that_there_are(plotted, client, http):
    model = client.model(plotted.name)
    with pytest.raises(ServiceError, match=r"no-plot: there is no plot 'angles'.*relations"):
        model.plot("angles")
    with pytest.raises(ServiceError, match="no-plot: unknown plot 'relation'; did you mean"):
        model.plot("relation")
    refused = http.get("/v1/models/plotted/plots/relations", headers={"Accept": "text/html"})
    assert (refused.status_code, refused.json()["code"]) == (406, "not-acceptable")
    assert http.get("/v1/models/plotted/plots/relations?theme=pink").status_code == 422
    for path in ("plots", "versions/1/plots"):
        unknown = http.get(f"/v1/models/plotted/{path}/relations?them=dark")
        assert unknown.status_code == 422
        assert "unknown query parameter 'them'" in unknown.json()["detail"]


def test_pages_list_every_plot_once(plotted, http):
    found, query = [], {"page_size": 2}
    while "page_token" not in query or query["page_token"] is not None:
        page = http.get("/v1/models/plotted/plots", params=query).json()
        assert len(page["items"]) <= 2
        found += page["items"]
        query["page_token"] = page["next_page_token"]
    assert found == plotted.plots()


def test_a_file_gets_the_format_of_its_name(plotted, tmp_path):
    assert plotted.save_plot("spectrum", tmp_path / "a.svg").read_bytes().startswith(b"<svg")
    assert plotted.save_plot("spectrum", tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"ends in one of \.svg, \.png, \.json"):
        plotted.save_plot("spectrum", tmp_path / "a.gif")
    assert not (tmp_path / "a.gif").exists()


SPEC = {
    "data": {"values": [{"a": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}


@pytest.fixture
def images():
    process = ImageProcess()
    yield process
    process.close()


@pytest.mark.slow  # starts the process of plots twice
def test_the_process_starts_again_after_it_ended(images):
    images.convert(SPEC, "image/svg+xml", owner="a")
    os.kill(images._process._child.process.pid, signal.SIGKILL)
    assert images.convert(SPEC, "image/png", owner="a").startswith(b"\x89PNG")


@pytest.mark.slow  # starts a service of its own
def test_the_process_has_no_settings_and_ends_with_the_service():
    script = (
        "from service.models.images import ImageProcess\n"
        "images = ImageProcess()\n"
        "images.vega_bundle()\n"
        "print(images._process._child.process.pid, flush=True)\n"
        "input()\n"
    )
    secret = {"SIBLING_DATABASE_URL": "postgresql://secret@nowhere/db"}
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | secret,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        child = psutil.Process(int(parent.stdout.readline()))
        assert "secret" in str(psutil.Process(parent.pid).environ())
        assert "secret" not in str(child.environ())
        child.suspend()  # so that it cannot see the end of its input
        parent.kill()
    child.wait(timeout=60)


@pytest.mark.slow
def test_names_with_characters_invalid_in_xml_are_drawn(images):
    spec = SPEC | {
        "data": {"values": [{"a": name} for name in NAMES]},
        "encoding": {"x": {"field": "a", "type": "nominal"}},
    }
    root = ET.fromstring(images.convert(spec, "image/svg+xml", owner="a"))
    texts = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    assert {"<b>&", "b\ufffd\ufffd"} <= texts


def test_nothing_is_fetched_over_the_network(images, http):
    url = f"{http.base_url}/v1/algorithms"
    with pytest.raises(RuntimeError, match="cannot be drawn"):
        images.convert(SPEC | {"data": {"url": url}}, "image/svg+xml", owner="a")
    image = images.convert(SPEC, "image/png", owner="a")  # the process goes on
    assert image.startswith(b"\x89PNG")


def test_an_image_that_takes_too_long_is_503_and_not_tried_again(monkeypatch):
    started, start = [], supervision._start
    monkeypatch.setattr(
        supervision, "_start", lambda *args: started.append(start(*args)) or started[-1]
    )
    process = ImageProcess(timeout_s=0.01)
    with pytest.raises(Problem, match="could not be drawn within"):
        process.convert(SPEC, "image/svg+xml", owner="a")
    assert len(started) == 1
    assert started[0].poll() is not None


@pytest.fixture
def busy(images):
    """A process that draws when it may, and a function that ends its first drawing."""
    may_draw = threading.Event()

    def is_awaited():
        may_draw.wait()
        return True

    with ThreadPoolExecutor(40) as pool:

        def draw(owner, title):
            spec = SPEC | {"title": title}
            return pool.submit(
                images.convert, spec, "image/svg+xml", owner=owner, is_awaited=is_awaited
            )

        yield draw, may_draw
        may_draw.set()


@pytest.mark.slow  # draws many plots
def test_an_owner_who_asks_for_many_plots_keeps_no_other_waiting(busy):
    draw, may_draw = busy
    many = [draw("a", f"plot {i}") for i in range(MAX_WAITING + 2)]
    others = [draw(owner, "of another") for owner in "bc"]
    may_draw.set()
    assert all(b"of another" in other.result() for other in others)
    refused = [one.exception() for one in many if one.exception() is not None]
    assert len(refused) == 4
    assert all(isinstance(one, Problem) and one.code == "unavailable" for one in refused)


@pytest.mark.slow
def test_a_plot_that_has_been_drawn_is_not_drawn_again(images):
    first = images.convert(SPEC, "image/svg+xml", owner="a")
    images.close()
    assert images.convert(dict(SPEC), "image/svg+xml", owner="b") == first
    assert images._process._child is None
    assert images.convert(SPEC | {"mark": "bar"}, "image/svg+xml", owner="a") != first


@pytest.mark.slow  # draws many plots
def test_plots_are_kept_up_to_a_total_size(images, monkeypatch):
    monkeypatch.setattr(images_module, "_MAX_KEPT_BYTES", 20_000)
    for i in range(20):
        images.convert(SPEC | {"title": f"plot {i}"}, "image/svg+xml", owner="a")
    assert 10_000 < sum(map(len, images._drawn.values())) <= 20_000
