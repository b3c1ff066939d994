"""What the client reaches, with and without asyncio, and what notebooks show."""

import asyncio
import base64
import gc
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

import sibling
from algorithms.interface.methods import METHODS
from algorithms.registry import load_model
from sibling import AsyncClient, Client, Dataset, JobFailed, ServiceError, ServiceUnreachable
from sibling.client import datasets as dataset_module
from sibling.client import display, resumable
from sibling.client.modes import remote_method

RNG = np.random.default_rng(11)

#: Operations without a method of the client, and why.
EXCEPTIONS = {
    r".*_of_latest|.*_latest": "a model has the number of its version, and its methods use it",
    r"get_upload|continue_upload|create_upload": "Client.upload uses them for large files only; "
    "tests/service/datasets/test_resumable_clients.py",
    r"get_delivery": "Client.test_webhook reads the delivery that it has made; "
    "tests/service/webhooks/test_routes.py",
    r"stream_changes": "for pages that show lists; RemoteJob.wait waits for a job",
    r"live": "whether the process runs is for supervisors; Client.health says if it is ready",
    r"v2_(infer|configuration|ready|index|load|unload).*": "for clients of the Open Inference "
    "Protocol; predictions are methods of a model",
}


@pytest.fixture
def requested(client):
    """The requests of the shared client until the end of the test, as (method, path)."""
    found = []
    hooks = client._http._transport._client.event_hooks
    hooks["request"].append(lambda request: found.append((request.method, request.url.raw_path)))
    client._http._transport._client.event_hooks = hooks
    yield found
    client._http._transport._client.event_hooks = {}


def use_keys(client):
    """Call the methods for keys, of a service that needs none."""
    assert list(client.keys) == []
    with pytest.raises(ServiceError, match="needs no keys"):
        client.create_key(["models:read"])
    with pytest.raises(ServiceError, match="not-found"):
        client.keys["k1"]
    with pytest.raises(ServiceError, match="not-found"):
        client.revoke_key("k1")


def use_webhooks(client):
    """Call the methods for webhooks, of a service that allows none."""
    assert list(client.webhooks) == []
    with pytest.raises(ServiceError, match="sends no webhooks"):
        client.create_webhook("https://example.com")
    with pytest.raises(ServiceError, match="sends no webhooks"):
        client.test_webhook("w1")
    with pytest.raises(ServiceError, match="not-found"):
        client.webhooks["w1"]
    with pytest.raises(ServiceError, match="not-found"):
        list(client.webhook_deliveries("w1"))
    with pytest.raises(ServiceError, match="not-found"):
        client.delete_webhook("w1")


def use_comparison(client, dataset, model):
    other = client.train(dataset, "lda-rt", model="other", d=1, evaluate=True).wait()
    versions = [f"{one.name}/{one.version}" for one in (model, other)]
    assert "scores" in [one["name"] for one in client.compared_plots(versions)]
    client.compared_plot("scores", versions)


def download_rows(client, dataset, tmp_path):
    file = client.download_dataset(dataset, tmp_path / "everything.csv", ["a"])
    assert client.inspect(file)["target_column"] == "target"
    again = client.upload(file, target_column="target")
    assert client.preview(again)["tasks"][0]["rows"] == client.preview(dataset)["tasks"][0]["rows"]
    with pytest.raises(ValueError, match=r"expected a file \.csv or \.arrows, got 'a\.parquet'"):
        client.download_dataset(dataset, tmp_path / "a.parquet")


def predict_file(client, model, tmp_path):
    use_monitor(client)
    rows = tmp_path / "rows.csv"
    rows.write_text("task,0,1,2\na,1,2,3\n")
    predicted = model.predictions(rows, rows.with_name("predicted.csv"))
    assert "prediction" in predicted.read_text().splitlines()[0]


def use_monitor(client):
    client.set_monitor("everything@production")
    monitor = client.monitor("everything@production")
    assert monitor.refresh()["days"] == 90
    assert monitor.feedback([{"row_id": "r", "target": "x"}])["n_unknown"] == 1
    assert monitor.report()["verdict"] == "nothing"
    assert monitor.delete_rows("r") == 1
    use_renewal(client)
    monitor.delete()


def use_renewal(client):
    client.set_renewal("everything@production", cron="0 3 1 1 *", promote="hand")
    renewal = client.renewal("everything@production")
    assert renewal.refresh()["state"] == "waiting"
    with pytest.raises(ServiceError, match="no challenger is on trial"):
        renewal.promote()
    with pytest.raises(ServiceError, match="nothing was promoted"):
        renewal.put_back()
    renewal.delete()


def use_everything(client, tmp_path):
    """Call every method of the client that sends requests."""
    rows = {name: RNG.standard_normal((8, 3)) for name in ("a", "b")}
    y = {name: np.tile(["x", "y"], 4) for name in rows}
    dataset = client.upload(rows, y, name="everything")
    client.health(), client.server(), client.statistics(), client.metrics()
    assert client.algorithms["pca"] in list(client.algorithms)
    assert client.datasets[dataset.id] == client.dataset(dataset.id)
    assert dataset.id in [item["id"] for item in client.datasets]
    assert [task["name"] for task in client.manifest(dataset)["tasks"]] == ["a", "b"]
    client.preview(dataset)
    download_rows(client, dataset, tmp_path)
    combined = client.combine(dataset, dataset, name="twice")
    client.delete_dataset(combined.id)
    list(client.uploads)
    with pytest.raises(ServiceError, match="not-found"):
        client.delete_upload("upl_1")
    list(client.audit()), list(client.quotas())
    use_keys(client), use_webhooks(client)

    assert client.validate(dataset, "lda-rt", {"d": 1})["params"]["d"] == 1
    job = client.train(dataset, "lda-rt", model="everything", d=1, evaluate=True)
    model = job.wait()
    assert job.id in [item["id"] for item in client.jobs(state="succeeded")]
    assert list(job.events())
    assert job.spec()["params"] == {"d": 1}
    client.retrain(model).wait().delete()
    for change in (job.cancel, job.finish):
        with pytest.raises(ServiceError, match="wrong-state"):
            change()
    model.set_alias("production")
    assert client.models["everything@production"].version == model.version
    assert client.aliases("everything") == {"production": model.version}
    assert [item["version"] for item in client.versions("everything")] == [model.version]
    assert "everything" in [item["name"] for item in client.models]
    predict_file(client, model, tmp_path)
    model.history(), model.report(), model.signature(), model.statistics()
    model.download(tmp_path / "m.safetensors"), model.save_report(tmp_path / "report.html")
    for method in METHODS:
        try:
            getattr(model, method)(rows["a"], task="a")
        except ServiceError as error:
            assert error.code == "unsupported-method"  # noqa: PT017 - most models have a few
    with pytest.raises(ServiceError, match="no-relations"):
        model.relations()
    assert set(model.importance()["tasks"]) == {"a", "b"}
    assert "scatter" in [one["name"] for one in model.plots()]
    model.plot("scatter")
    use_comparison(client, dataset, model)
    outputs = client.infer(model, "predict", dataset).wait()
    outputs.download(tmp_path / "outputs.parquet")
    outputs.delete()
    client.delete_alias("everything", "production")
    client.delete_job(
        client.infer(model, "predict", dataset, makes_dataset=False).wait().info["id"]
    )


@pytest.mark.slow  # every operation
@pytest.mark.sql
def test_the_client_reaches_every_operation(client, service, requested, tmp_path):
    document = httpx.get(f"{service.url}/openapi.json", timeout=240).json()
    operations = {
        (method.upper(), re.sub(r"\{\w+\}", "[^/:]+", path)): found["operationId"]
        for path, methods in document["paths"].items()
        for method, found in methods.items()
    }
    use_everything(client, tmp_path)
    client.model("everything").delete()
    reached = set()
    for method, raw_path in requested:
        path = raw_path.decode().partition("?")[0].removeprefix(urlsplit(service.url).path)
        fitting = [
            (pattern.count("["), name)
            for (verb, pattern), name in operations.items()
            if verb == method and re.fullmatch(pattern, path)
        ]
        if fitting:  # not the requests of the protocol of uploads
            reached.add(min(fitting)[1])
    missing = set(operations.values()) - reached
    excepted = {n for n in operations.values() if any(re.fullmatch(e, n) for e in EXCEPTIONS)}
    assert missing - excepted == set()
    assert reached & {n for n in excepted if not n.endswith("latest")} == set()


# --- without blocking ----------------------------------------------------------------------------


def test_both_clients_have_the_same_methods():
    def methods(of):
        return {name for name in dir(of) if not name.startswith("_")}

    assert methods(AsyncClient) == methods(Client)
    assert "self" not in inspect.signature(Client().train).parameters
    assert str(inspect.signature(Client().train)) == str(inspect.signature(AsyncClient().train))
    assert inspect.getdoc(Client.train) == inspect.getdoc(AsyncClient().train)
    assert inspect.iscoroutinefunction(Client.train)  # the only implementation


@pytest.mark.filterwarnings("ignore:unclosed")  # the first loops leave their connections open
def test_the_async_client_is_of_every_event_loop(service):
    remote = AsyncClient(service.url)

    async def ask():
        return (await remote.server())["name"]

    async def ask_twice_and_close():
        async with remote:
            return await asyncio.gather(ask(), ask())

    assert [asyncio.run(ask()) for _ in range(3)] == ["sibling"] * 3
    assert asyncio.run(ask_twice_and_close()) == ["sibling"] * 2
    gc.collect()  # the warnings are of this test


def test_the_async_client_trains_predicts_and_lists(service, client, dataset, tmp_path):
    X = RNG.standard_normal((4, 5))

    async def use():
        async with AsyncClient(service.url) as remote:
            jobs = [await remote.train(dataset, "pca", model="async", k=k) for k in (1, 2)]
            first, second = await asyncio.gather(*(job.wait() for job in jobs))
            Z = await asyncio.gather(*(m.transform(X, task="north") for m in (first, second)))
            listed = [item["name"] async for item in remote.models]
            found = await remote.models["async"]
            file = await found.download(tmp_path / "m.safetensors")
            events = [event["id"] async for event in jobs[0].events()]
            with pytest.raises(ServiceError, match="not-found"):
                await remote.jobs["job_1"]
            return Z, listed, found, file, events

    Z, listed, found, file, events = asyncio.run(use())
    assert "async" in listed
    assert events == sorted(events)
    model = client.models["async"]
    assert (found.version, found.tasks) == (model.version, model.tasks)
    expected = [client.model("async", version).transform(X, task="north") for version in (1, 2)]
    assert sorted(map(bytes, Z)) == sorted(map(bytes, expected))  # either may be the first
    np.testing.assert_array_equal(
        load_model(file).transform(X, task="north"), model.transform(X, task="north")
    )


def test_a_name_in_place_of_the_id_of_a_dataset_is_explained(client):
    dataset = client.upload({"a": RNG.standard_normal((9, 2))}, name="plain name")
    calls = (
        client.dataset,
        client.preview,
        lambda name: client.train(name, "pca", model="never", k=1),
        lambda name: client.combine(name, name="never"),
    )
    for call in calls:
        with pytest.raises(
            ServiceError, match=r"expected an id \(ds_.*client\.datasets\(text="
        ) as e:
            call("plain name")
        assert e.value.code == "not-found"
    with pytest.raises(ServiceError) as e:
        client.dataset("ds_" + "0" * 20)
    assert "expected" not in e.value.detail
    assert [item["id"] for item in client.datasets(text="plain name")] == [dataset.id]


def test_an_upload_shows_a_bar_on_a_terminal_and_calls_functions_too(
    service, client, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "bar.npz"
    np.savez(path, **{"a/X": RNG.standard_normal((30, 3))})
    sent = []
    client.upload(path, name="no bar", progress=True)
    assert "uploading" not in capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the captured output for a terminal
    client.upload(path, name="bar", progress=True, on_progress=lambda *at: sent.append(at))
    assert "uploading" in capsys.readouterr().err
    assert sent[-1] == (path.stat().st_size, path.stat().st_size)

    async def use():
        async with AsyncClient(service.url) as remote:
            return await remote.upload({"a": RNG.standard_normal((30, 3))}, progress=True)

    assert asyncio.run(use()).tasks == ("a",)
    shown = capsys.readouterr()
    assert "reading" in shown.err
    assert not shown.out


def test_the_async_client_uploads_arrays_and_files_whole_and_in_parts(
    service, client, tmp_path, monkeypatch
):
    X = {"a": RNG.standard_normal((30, 3)), "b": RNG.standard_normal((20, 3))}
    path = tmp_path / "async.npz"
    np.savez(path, **{f"{name}/X": rows + 1 for name, rows in X.items()})
    sent = []

    async def use():
        async with AsyncClient(service.url) as remote:
            arrays = await remote.upload(X, name="async arrays")
            small = await remote.upload(path, on_progress=lambda n, size: sent.append((n, size)))
            monkeypatch.setattr(dataset_module, "MIN_BYTES", 1)
            monkeypatch.setattr(resumable, "PART_BYTES", 500)
            np.savez(path, **{f"{name}/X": rows + 2 for name, rows in X.items()})
            return arrays, small, await remote.upload(path, name="async parts")

    arrays, small, parts = asyncio.run(use())
    assert sent[-1] == (path.stat().st_size, path.stat().st_size)
    assert {arrays.id, small.id, parts.id} <= {item["id"] for item in client.datasets}
    assert arrays.tasks == small.tasks == parts.tasks == ("a", "b")
    assert len({item.info["content_sha256"] for item in (arrays, small, parts)}) == 3


def test_waiting_does_not_block_the_event_loop(service, client):
    rng = np.random.default_rng(0)
    big = client.upload({f"t{i}": rng.standard_normal((60, 40)) for i in range(12)})
    params = {"selection": "cv", "n_folds": 20, "starts": "many", "rtol": 1e-13}

    async def use():
        async with AsyncClient(service.url) as remote:
            job = await remote.train(big, "rmt-pca", model="async-cancelled", k=10, **params)
            waiting = asyncio.create_task(job.wait())
            await asyncio.sleep(0)
            other = await remote.job(job.id)  # while the first request waits
            await other.cancel()
            with pytest.raises(JobFailed, match="ended as cancelled"):
                await waiting

    asyncio.run(use())


def test_iterating_in_the_wrong_mode_says_what_to_do():
    with pytest.raises(TypeError, match="async for"):
        list(AsyncClient().models)


def test_no_service_is_an_error_of_the_async_client_too():
    async def use():
        async with AsyncClient("http://127.0.0.1:1") as remote:
            await remote.health()

    with pytest.raises(ServiceUnreachable, match=r"http://127\.0\.0\.1:1 "):
        asyncio.run(use())


def test_a_remote_method_of_the_class_is_its_coroutine_function():
    class Either(sibling.client.modes.Remote):
        @remote_method
        async def double(self, x):
            return 2 * x

    assert Either(Client()._http).double(4) == 8
    assert asyncio.run(Either(AsyncClient()._http).double(4)) == 8


# --- lists ---------------------------------------------------------------------------------------


def test_a_list_fetches_its_pages_as_it_is_iterated(client, requested):
    names = (f"page {i}" for i in range(3))
    ids = [client.upload({"a": RNG.standard_normal((2, 2))}, name=name).id for name in names]
    requested.clear()
    some = client.datasets(page_size="1")
    assert requested == []
    first = iter(some)
    assert next(first)["id"] == ids[-1]
    assert len(requested) == 1
    assert next(first)["id"] == ids[-2]
    assert len(requested) == 2


# --- notebooks -----------------------------------------------------------------------------------


class Text(HTMLParser):
    """The text of HTML, and its tags."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.images = set(), "", []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "img":
            self.images.append(dict(attributes))

    def handle_data(self, data):
        self.text += data + "\n"


EVIL = "<script>alert(1)</script>&\"'"
TAGS = {"div", "b", "table", "tr", "th", "td", "p", "progress", "img"}


@pytest.mark.slow  # compares methods
def test_notebooks_show_the_verdict_of_a_model(client, dataset):
    compare, given = {"splits": {"n_folds": 2}}, {"selection": "given", "model": "shown"}
    job = client.train(dataset, "mtfl", compare=compare, limits={"timeout_s": 200}, **given)
    model = job.wait()
    page = Text(model._repr_html_())
    for sentence in model.report()["comparison"]["sentences"]:
        assert sentence in page.text
    assert page.tags <= TAGS
    sentences = {one["name"]: one["sentence"] for one in model.plots()}
    assert [image["alt"] for image in page.images] == [sentences["gains"], sentences["relations"]]
    for image in page.images:
        assert set(image) == {"src", "alt"}
        kind, _, content = image["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(content).startswith(b"<svg")
    assert "Model shown, version 1" in page.text
    assert "succeeded" in Text(job._repr_html_()).text
    assert "3 tasks" not in repr(model)
    assert repr(model) == "RemoteModel('shown', version=1)"


@pytest.mark.slow
def test_notebooks_show_a_model_without_a_report(model, dataset):
    assert "Model shared" in Text(model._repr_html_()).text
    assert "shared by tests" in Text(dataset._repr_html_()).text


def test_all_text_of_notebooks_is_escaped(model, client, dataset):
    info = dataset.info | {"name": EVIL, "warnings": [EVIL]}
    shown = [Dataset(EVIL, EVIL, (EVIL,), info)._repr_html_()]
    metrics = {EVIL: {EVIL: 1.0}}
    evil = {"name": EVIL, "tasks": [EVIL], "warnings": [EVIL], "metrics": metrics}
    report = {"comparison": {"sentences": [EVIL]}}
    shown.append(display.model_html(model.info | evil, report, {EVIL: EVIL.encode()}))
    job = client.job(model.info["lineage"]["job_id"]).info
    error = {"code": EVIL, "detail": EVIL}
    shown.append(display.job_html(job | {"model": EVIL, "warnings": [EVIL], "error": error}))
    for html in shown:
        page = Text(html)
        assert page.tags <= TAGS
        assert EVIL in page.text


def test_the_package_is_typed():
    assert Path(sibling.__file__).with_name("py.typed").exists()
