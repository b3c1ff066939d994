"""The client with a real service, and with servers that fail temporarily."""

import asyncio
import contextlib
import json
import pickle
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from algorithms.registry import load_model
from service.errors.codes import ERRORS, JOB_CODES
from service.jobs.worker.tls import make_certificates
from sibling import AsyncClient, Client, JobFailed, ServiceError, ServiceUnreachable

RNG = np.random.default_rng(1)


def tasks(seed, n_features=3):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((8, n_features)) for name in ("one", "two")}


# --- uploads -------------------------------------------------------------------------------------


def test_arrays_with_targets_become_a_dataset(client):
    data = tasks(1)
    targets = {"one": np.arange(8.0), "two": np.linspace(0, 1, 8)}
    dataset = client.upload(data, targets, name="with targets")
    assert set(dataset.tasks) == {"one", "two"}
    assert (dataset.name, dataset.info["state"], dataset.info["n_samples"]) == (
        "with targets", "ready", 16,
    )  # fmt: skip
    assert client.dataset(dataset.id).tasks == dataset.tasks
    assert dataset.id in [item["id"] for item in client.datasets]


def test_a_csv_file_becomes_a_dataset(client, tmp_path):
    path = tmp_path / "schools.csv"
    rows = [f"{school},{a},{a * a}" for school in ("a", "b") for a in range(4)]
    path.write_text("\n".join(["school,age,score", *rows]), encoding="utf-8")
    dataset = client.upload(path, task_column="school", target_column="score")
    assert (dataset.name, set(dataset.tasks)) == ("schools", {"a", "b"})


def test_an_npz_file_becomes_a_dataset(client, tmp_path):
    path = tmp_path / "tasks.npz"
    np.savez(path, **{f"{name}/X": X for name, X in tasks(2).items()})
    assert set(client.upload(str(path), name="n").tasks) == {"one", "two"}


def test_uploading_the_same_bytes_twice_returns_one_dataset(client):
    assert client.upload(tasks(3)).id == client.upload(tasks(3)).id


def test_invalid_data_is_rejected_before_it_is_sent(client, tmp_path):
    with pytest.raises(ValueError, match=r"one of \.csv, \.npz, .*, got 'data\.pdf'"):
        client.upload(tmp_path / "data.pdf")
    with pytest.raises(ValueError, match="targets for tasks without rows: three"):
        client.upload(tasks(1), {"three": [1.0]})
    with pytest.raises(ValueError, match="targets of task 'one' to be all numbers or all text"):
        client.upload(tasks(1), {"one": np.array([1, "a", None], dtype=object)})
    with pytest.raises(FileNotFoundError):
        client.upload(tmp_path / "none.csv")


def test_tasks_whose_names_are_the_same_text_are_refused(client):
    rows = tasks(4)["one"]
    with pytest.raises(ValueError, match="two tasks have the name '1'; rename one of them"):
        client.upload({1: rows, "1": rows + 1})
    frame = pd.DataFrame({"sex": ["F", "M"] * 4})
    with pytest.raises(ValueError, match="two tasks have the name '1'"):
        client.upload({1: frame, "1": frame})
    by_number = client.upload({1: rows, 2: rows}, {1: rows[:, 0], 2: rows[:, 1]}, name="numbered")
    assert by_number.tasks == ("1", "2")


def test_a_rejected_upload_raises_with_its_issues(client):
    data = tasks(4)
    data["two"][3, 1] = np.inf
    with pytest.raises(ServiceError, match="two") as caught:
        client.upload(data)
    assert (caught.value.status, caught.value.code) == (422, "invalid-dataset")
    assert caught.value.errors[0]["task"] == "two"


# --- jobs ----------------------------------------------------------------------------------------


def test_train_wait_and_use(client, dataset, tmp_path):
    seen = []
    job = client.train(dataset, "rmt-pca", model="client", k=2, limits={"priority": 1})
    model = job.wait(on_change=seen.append)
    assert (model.name, job.state, job.info["priority"]) == ("client", "succeeded", 1)
    assert seen[-1]["is_final"]
    X = RNG.standard_normal((4, 5))
    Z = model.transform(X, task="north")
    offline = load_model(model.download(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(Z, offline.transform(X, task="north"))
    back = model.inverse_transform(Z, task="north")
    np.testing.assert_array_equal(back, offline.inverse_transform(Z, task="north"))
    assert model.metrics.keys() == {"rvr"}
    assert model.history()["stop_reason"] == model.info["stop_reason"]
    assert job.id in [item["id"] for item in client.jobs]
    assert "client" in [item["name"] for item in client.models]
    assert client.job(job.id).wait().version == model.version
    with pytest.raises(ServiceError, match="does not support predict"):
        model.predict(X, task="north")


def test_events_are_in_order_from_queued_to_succeeded(client, dataset):
    job = client.train(dataset, "pca", model="client-events")
    job.wait()
    events = list(job.events())
    states = [event["data"]["state"] for event in events if event["kind"] == "state"]
    assert states == ["queued", "submitted", "running", "succeeded"]
    assert [event["id"] for event in events] == sorted({event["id"] for event in events})


#: Parameters with which a fit takes long.
LONG = {"k": 10, "selection": "cv", "n_folds": 20, "starts": "many", "rtol": 1e-13}


def long_to_train(client):
    rng = np.random.default_rng(0)
    return client.upload({f"t{i}": rng.standard_normal((60, 40)) for i in range(12)})


def test_a_job_that_takes_longer_is_a_timeout_and_can_be_waited_for_again(client, dataset):
    job = client.train(dataset, "pca", model="waited")
    if not job.info["is_final"]:
        with pytest.raises(TimeoutError, match=rf"job {job.id} is .*client.job\('{job.id}'\)"):
            job.wait(timeout_s=0)
    assert job.wait(timeout_s=120).name == "waited"


@pytest.mark.slow
def test_a_service_that_goes_while_a_job_is_waited_for_leaves_its_id():
    job = {"id": "job_1", "state": "running", "is_final": False}
    responses = ((200, {}, json.dumps(job).encode()), (None, {}, b""))
    resume = r"job job_1 goes on .*client\.job\('job_1'\)\.wait\(\)"
    with server_with_responses(*responses) as (url, _), Client(url) as client:
        job = client.job("job_1")
        with pytest.raises(ServiceUnreachable, match=resume):
            job.wait()


def test_a_cancelled_job_raises_job_failed(client):
    job = client.train(long_to_train(client), "rmt-pca", model="cancelled", **LONG)
    job.cancel()
    with pytest.raises(JobFailed, match=f"{job.id} ended as cancelled") as caught:
        job.wait()
    assert caught.value.job["state"] == "cancelled"
    assert caught.value.job["version"] is None
    assert (caught.value.code, caught.value.remedy) == ("cancelled", None)


def test_a_job_that_failed_says_why_and_what_to_do(client):
    job = client.train(
        long_to_train(client), "rmt-pca", model="timed-out", limits={"timeout_s": 0.1}, **LONG
    )
    with pytest.raises(JobFailed) as caught:
        job.wait()
    error = caught.value
    assert (error.code, error.remedy) == ("timed-out", JOB_CODES["timed-out"][1])
    assert error.detail in str(error)
    assert error.remedy in error.__notes__


def test_only_unused_datasets_can_be_deleted(client, dataset, model):
    assert model.info["lineage"]["dataset_id"] == dataset.id
    with pytest.raises(ServiceError) as caught:
        client.delete_dataset(dataset.id)
    assert (caught.value.status, caught.value.code) == (409, "in-use")
    unused = client.upload(tasks(99))
    client.delete_dataset(unused.id)
    with pytest.raises(ServiceError, match="not-found"):
        client.dataset(unused.id)


def test_an_error_has_status_code_detail_and_locations(client, dataset):
    with pytest.raises(ServiceError) as caught:
        client.train(dataset, "pca", k=0, unheard_of=1)
    error = caught.value
    assert (error.status, error.code) == (422, "invalid-params")
    assert {place["pointer"] for place in error.errors} == {"/params/k", "/params/unheard_of"}
    assert error.remedy == ERRORS["invalid-params"].remedy
    assert error.remedy in error.__notes__
    assert all(f"{e['pointer']}: {e['detail']}" in str(error) for e in error.errors)
    assert all(str(error).count(e["detail"]) == 1 for e in error.errors)


def test_a_parameter_may_have_any_name(client, dataset):
    with pytest.raises(ServiceError, match="/params/model"):
        client.submit(dataset, "pca", {"model": 1, "seed": 2})


@pytest.mark.parametrize("name", ["a?b", "ü %", "#"])
def test_names_may_have_any_characters(client, name):
    with pytest.raises(ServiceError) as caught:
        client.model(name)
    assert (caught.value.status, caught.value.code) == (404, "not-found")


# --- transient failures --------------------------------------------------------------------------


@contextmanager
def server_with_responses(*responses):
    """Serve these responses in order, repeating the last one; yield URL and requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append((self.command, self.path, dict(self.headers), body))
            status, headers, content = responses[min(len(requests), len(responses)) - 1]
            if status is None:  # close the connection
                self.close_connection = True
                return
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = respond  # noqa: N815 - names of the base class

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


JOB = (202, {}, json.dumps({"id": "job_1", "state": "queued"}).encode())
BUSY = (503, {"Retry-After": "0"}, b"{}")


def test_a_submission_is_retried_with_the_same_key_after_503_and_a_lost_connection():
    responses = (BUSY, (None, {}, b""), BUSY, JOB)
    with server_with_responses(*responses) as (url, requests), Client(url) as client:
        assert client.train("ds_1", "pca").id == "job_1"
    assert len(requests) == 4
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in requests}) == 1
    assert len({body for *_, body in requests}) == 1


NOT_FOUND = (404, {}, b'{"code": "not-found", "detail": "there is no job", "errors": []}')


@pytest.mark.parametrize("first", [BUSY, (None, {}, b"")])
def test_a_deletion_whose_response_was_lost_succeeds(first):
    with server_with_responses(first, NOT_FOUND) as (url, requests), Client(url) as client:
        client.delete_job("job_1")
    assert [method for method, *_ in requests] == ["DELETE"] * 2


def test_a_deletion_of_what_does_not_exist_is_an_error():
    with (
        server_with_responses(NOT_FOUND) as (url, _),
        Client(url) as client,
        pytest.raises(ServiceError, match="there is no job"),
    ):
        client.delete_job("job_1")


def test_retry_after_is_honoured():
    wait = (503, {"Retry-After": "1"}, b"{}")
    with server_with_responses(wait, JOB) as (url, _), Client(url) as client:
        began = time.monotonic()
        client.job("job_1")
        assert time.monotonic() - began >= 1


@pytest.mark.parametrize("given", ["Fri, 31 Dec 1999 23:59:59 GMT", "soon", "-1", "1e9", "nan"])
def test_a_retry_after_that_is_not_a_number_is_ignored(stopwatch, given):
    odd = (503, {"Retry-After": given}, b"{}")
    with server_with_responses(odd, JOB) as (url, _), Client(url) as client:
        elapsed_s = stopwatch()
        assert client.job("job_1").id == "job_1"
        assert elapsed_s() < 5


@pytest.mark.slow  # waits between retries
def test_the_last_error_is_raised_after_all_retries():
    with (
        server_with_responses(BUSY) as (url, requests),
        Client(url) as client,
        pytest.raises(ServiceError) as caught,
    ):
        list(client.jobs)
    assert caught.value.status == 503
    assert len(requests) == 5


def test_a_client_error_is_not_retried():
    with (
        server_with_responses(NOT_FOUND) as (url, requests),
        Client(url) as client,
        pytest.raises(ServiceError, match="there is no job"),
    ):
        client.job("job_1")
    assert len(requests) == 1


@pytest.mark.parametrize(
    "content", [b"<html>Bad Gateway</html>", b"[]", b'{"code": 1}', b"", b"\xff"]
)
def test_an_error_page_of_a_proxy_is_a_service_error(content):
    with (
        server_with_responses((500, {}, content)) as (url, _),
        Client(url) as client,
        pytest.raises(ServiceError) as caught,
    ):
        list(client.jobs)
    assert (caught.value.status, caught.value.code) == (500, "unexpected")


@pytest.mark.parametrize(("status", "named"), [(413, "limit"), (502, "reach"), (504, "time")])
def test_the_errors_of_a_proxy_are_named_as_such(status, named):
    page = b"<html><style>p {}</style><title>Entity Too Large</title><hr>nginx</html>"
    with (
        server_with_responses((status, {"Server": "nginx/1", "Retry-After": "0"}, page)) as (
            url,
            _,
        ),
        Client(url) as client,
        pytest.raises(ServiceError) as caught,
    ):
        client.create_key(["infer"], name="mine")  # not repeated
    assert caught.value.status == status
    assert re.search(r"not of the service, but of '.*nginx/1'", caught.value.detail)
    assert "Entity Too Large nginx" in caught.value.detail
    assert named in caught.value.remedy


@pytest.mark.parametrize("response", [(200, {}, b"<html>"), (302, {"Location": "/in"}, b"")])
def test_a_page_of_a_proxy_in_place_of_json_is_an_error(response):
    with server_with_responses(response) as (url, _), Client(url) as client:
        for ask in (lambda: client.job("job_1"), client.health, lambda: list(client.jobs)):
            with pytest.raises(ServiceError, match=r"not of the service") as caught:
                ask()
            assert caught.value.status == response[0]


@pytest.mark.parametrize(
    ("env", "url", "named"),
    [
        ({}, "localhost:8000", "http://HOST"),
        ({}, "127.0.0.1:8000", "http://HOST"),
        ({}, "ftp://localhost", "http://HOST"),
        ({}, "http://", "http://HOST"),
        ({}, "http://[::bad", "Invalid"),
        ({"SSL_CERT_FILE": "/nowhere.pem"}, "https://localhost", "correct SSL_CERT_FILE"),
        ({"SSL_CERT_FILE": __file__}, "https://localhost", "correct SSL_CERT_FILE"),
        ({"ALL_PROXY": "socks5://localhost:1"}, "http://a.example", "correct ALL_PROXY"),
        ({"all_proxy": "socks4://localhost:1"}, "http://a.example", "correct all_proxy"),
        ({"HTTP_PROXY": "http://::1:3128"}, "http://a.example", "correct HTTP_PROXY"),
        ({"NO_PROXY": "[::1]:80"}, "http://localhost", "correct NO_PROXY"),
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_cannot_be_used_of_the_environment_is_named(monkeypatch, env, url, named, kind):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServiceUnreachable) as caught:
        kind(url)
    assert named in str(caught.value)
    assert "sibling serve" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_proxy_that_does_not_respond_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://user:secret@127.0.0.1:1")
    with Client("http://a.example") as client, pytest.raises(ServiceUnreachable) as caught:
        client.create_key(["infer"], name="mine")
    assert "through the proxy http://127.0.0.1:1; correct http_proxy" in str(caught.value)


def test_a_certificate_that_is_not_trusted_has_another_remedy(tmp_path):
    make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "https://{}:{}".format(*server.getsockname())
        accept = threading.Thread(target=lambda: _refuse_tls(context, server))
        accept.start()
        with Client(address) as client, pytest.raises(ServiceUnreachable) as caught:
            client.create_key(["infer"], name="mine")
        accept.join()
    assert "set SSL_CERT_FILE" in str(caught.value)


def _refuse_tls(context, server):
    with contextlib.suppress(ssl.SSLError), server.accept()[0] as connection:
        context.wrap_socket(connection, server_side=True)


def test_blanks_around_a_key_are_left_out_and_other_characters_named(monkeypatch):
    with server_with_responses(JOB) as (url, requests):
        with Client(url, api_key="sib_a_b\r\n") as client:
            client.job("job_1")
        monkeypatch.setenv("SIBLING_API_KEY", "sib_a_b\n")
        with Client(f"{url}\n") as client:
            client.job("job_1")
        assert [headers["Authorization"] for _, _, headers, _ in requests] == ["Bearer sib_a_b"] * 2
        for key, char in (("sib_a\nb", "\\n"), ("sib_ä", "ä")):
            with pytest.raises(ValueError, match="which no key has") as caught:
                Client(url, api_key=key)
            assert f"'{char}'" in str(caught.value)


def test_no_service_is_an_error_with_its_url_and_what_to_do():
    with server_with_responses(JOB) as (url, _):
        pass
    with (
        Client(url) as client,
        pytest.raises(ServiceUnreachable, match="start it with 'sibling serve'") as caught,
    ):
        client.health()
    assert caught.value.url == url
    assert url in str(caught.value)


def test_in_tells_whether_a_collection_has_a_name(client, dataset, model):
    assert model.name in client.models
    assert f"{model.name}/1" in client.models
    assert next(iter(client.models)) in client.models
    assert "mtfl" in client.algorithms
    assert dataset.id in client.datasets
    ended = client.train(dataset, "pca", model="ended")
    ended.wait()
    assert ended.id in client.jobs
    assert ended.id in client.jobs(state="succeeded")
    assert ended.id not in client.jobs(state="failed")
    for collection in (client.models, client.algorithms, client.datasets, client.jobs):
        for name in ("absent", "", "a/b/c"):
            assert name not in collection


@pytest.mark.parametrize("index", [0, slice(2)])
def test_collections_have_no_positions(client, index):
    with pytest.raises(TypeError, match="expected a name or an id"):
        client.models[index]
    with pytest.raises(TypeError, match=r"the items have no names.* use list\(\.\.\.\)"):
        client.audit()[index]
    with pytest.raises(TypeError, match=r"the items have no names.* 'async for'"):
        asyncio.run(AsyncClient().audit()[index])


def test_a_model_may_be_named_with_its_version(client, model):
    assert client.models[f"{model.name}/1"].info == client.model(model.name, 1).info


@pytest.mark.parametrize("name", ["a/b", "pupils/plots", "a/1/2", "", "/1"])
def test_names_of_another_form_are_refused_by_the_client(client, name):
    for find in (client.model, client.models.__getitem__):
        with pytest.raises(ValueError, match="expected NAME, NAME@ALIAS or NAME/VERSION, got"):
            find(name)


@pytest.mark.parametrize("name", ["", "..", "job_1/events"])
def test_names_that_are_another_path_are_refused(client, name):
    finders = (
        client.job,
        client.dataset,
        client.algorithm,
        client.datasets.__getitem__,
        client.jobs.__getitem__,
        client.aliases,
    )
    for find in finders:
        with pytest.raises(ValueError, match="expected a name or an id without '/', got"):
            find(name)
