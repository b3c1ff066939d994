"""Resumable uploads to a real server, by its own client and by one that nobody here wrote."""

import hashlib

import httpx
import numpy as np
import pytest
from tusclient.client import TusClient

from sibling import Client, ServiceError
from sibling.client import datasets, resumable
from sibling.client.transport import BlockingTransport
from tests.service.raw import Raw, head

pytestmark = pytest.mark.slow  # other clients, and kills

HEADERS = {"Tus-Resumable": "1.0.0"}


@pytest.fixture
def table(tmp_path):
    """A table of some hundred kilobytes."""
    rng = np.random.default_rng(5)
    path = tmp_path / "table.csv"
    rows = [
        f"{'ab'[i % 2]},{x:.17g},{y:.17g}"
        for i, (x, y) in enumerate(rng.standard_normal((8000, 2)))
    ]
    path.write_text("\n".join(["task,x,y", *rows]))
    return path


@pytest.fixture
def small_parts(monkeypatch):
    """Let the client send this table in parts."""
    monkeypatch.setattr(datasets, "MIN_BYTES", 1000)
    monkeypatch.setattr(resumable, "PART_BYTES", 50_000)


def test_another_client_of_the_protocol_uploads_and_resumes(service, table):
    url = f"{service.url}/v1/uploads?name=by+tus"
    with table.open("rb") as file:
        sent = {"file_stream": file, "metadata": {"filetype": "text/csv"}}
        uploader = TusClient(url).uploader(chunk_size=70_000, **sent)
        uploader.upload(stop_at=150_000)
        again = TusClient(url).uploader(chunk_size=90_000, url=uploader.url, **sent)
        assert again.offset >= 140_000
        again.upload()
    with httpx.Client(timeout=60) as http:
        head = http.head(uploader.url, headers=HEADERS)
        assert head.headers["upload-offset"] == str(table.stat().st_size)
        dataset_id = http.get(uploader.url).json()["dataset_id"]
    with Client(service.url) as client:
        assert client.upload(table, name="by tus").id == dataset_id


def test_the_client_continues_an_interrupted_upload(service, table, small_parts):
    del small_parts
    seen = []

    def interrupt(sent, size):
        seen.append(sent)
        if sent > size // 2:
            raise KeyboardInterrupt

    with Client(service.url) as client:
        with pytest.raises(KeyboardInterrupt):
            client.upload(table, name="interrupted", on_progress=interrupt)
        later = []
        found = client.upload(table, name="interrupted", on_progress=lambda *at: later.append(at))
    size = table.stat().st_size
    assert seen[0] == 0
    assert later[0][0] == seen[-1]
    assert later[-1] == (size, size)
    assert found.info["n_samples"] == 8000


def uploads_of(service):
    """Return the ids of the uploads that are not complete."""
    uploads = httpx.get(f"{service.url}/v1/uploads?page_size=200", timeout=240).json()["items"]
    return {upload["id"] for upload in uploads if upload["dataset_id"] is None}


def test_a_file_that_changes_is_not_mixed_with_what_was_sent_before(service, table, small_parts):
    del small_parts
    before = table.read_bytes()

    def interrupt(sent, size):
        if sent > size // 2:
            raise KeyboardInterrupt

    changed = before[:20_000] + before[20_000:].replace(b"1", b"2")
    with Client(service.url) as client:
        with pytest.raises(KeyboardInterrupt):
            client.upload(table, name="changed", on_progress=interrupt)
        unfinished = uploads_of(service)
        table.write_bytes(changed)
        found = client.upload(table, name="changed")
        assert found.info["upload_sha256"] == hashlib.sha256(changed).hexdigest()
        table.write_bytes(before.replace(b"3", b"4"))
        with pytest.raises(ValueError, match="has changed during the upload"):
            client.upload(table, on_progress=lambda *_: table.write_bytes(before[:60_000]))
        table.write_bytes(before)
        mixed = iter([*[before] * 3, *[changed] * 99])
        with pytest.raises(ValueError, match="has changed during the upload"):
            client.upload(
                table, name="mixed", on_progress=lambda *_: table.write_bytes(next(mixed))
            )
        assert "mixed" not in {dataset["name"] for dataset in client.datasets}
    assert uploads_of(service) == unfinished


@pytest.fixture
def lose_responses(monkeypatch):
    """``lose_responses(*errors)``: creations of uploads that the service receives end with these.

    An error None is no error.
    """

    def lose(*errors):
        request, left = BlockingTransport.request, list(errors)

        async def send(self, method, path, **parts):
            response = await request(self, method, path, **parts)
            if method == "POST" and path == "/v1/uploads":
                error = left.pop(0)
                if error is not None:
                    raise error
            return response

        monkeypatch.setattr(BlockingTransport, "request", send)
        return left

    return lose


@pytest.mark.usefixtures("small_parts")
def test_an_upload_whose_creation_got_no_response_is_not_created_twice(
    service, table, lose_responses
):
    before = uploads_of(service)
    lose_responses(httpx.ReadError("the connection is lost"))
    with Client(service.url) as client:
        found = client.upload(table, name="lost response")
    assert found.info["n_samples"] == 8000
    assert uploads_of(service) == before


@pytest.mark.usefixtures("small_parts")
def test_an_upload_beyond_the_quota_is_refused_at_once(start_service, table, lose_responses):
    service = start_service(SIBLING_MAX_STORED_BYTES=1000)
    attempts = lose_responses(None, None)
    with Client(service.url) as client, pytest.raises(ServiceError, match="quota-exceeded"):
        client.upload(table)
    assert len(attempts) == 1


def test_the_client_says_why_a_file_in_parts_is_rejected(service, table, small_parts):
    del small_parts
    table.write_text(table.read_text().replace("task,x,y", "task,x,x"))
    with Client(service.url) as client, pytest.raises(ServiceError, match="2 columns are named"):
        client.upload(table)


@pytest.mark.parametrize("stalls", [False, True])
def test_what_arrives_before_an_interruption_is_kept(start_service, table, wait_until, stalls):
    data = table.read_bytes()
    service = start_service(SIBLING_BODY_TIMEOUT_S=1)
    with httpx.Client(base_url=service.url, timeout=60) as http:
        begun = http.post(
            "/v1/uploads?name=cut",
            headers={
                **HEADERS,
                "Upload-Length": f"{len(data)}",
                "Upload-Metadata": "filetype dGV4dC9jc3Y=",
            },
        )
        location = begun.headers["location"]
        about = ("Content-Type: application/offset+octet-stream", "Upload-Offset: 0")
        start = head("PATCH", location, *about, f"Content-Length: {len(data)}")
        with Raw(service.url) as raw:
            raw.send(start + data[:123_456])
            if stalls:
                assert raw.response()[0] == 408
        wait_until(lambda: http.head(location).headers["upload-offset"] == "123456")
        headers = {"Upload-Offset": "123456", "Content-Type": "application/offset+octet-stream"}
        assert http.patch(location, headers=headers, content=data[123_456:]).status_code == 204


def test_an_upload_continues_after_a_kill_of_the_server(start_service, table):
    data = table.read_bytes()
    killed = start_service()
    part = {"Content-Type": "application/offset+octet-stream"}
    length = {"Upload-Length": f"{len(data)}", "Upload-Metadata": "filetype dGV4dC9jc3Y="}
    location = httpx.post(
        f"{killed.url}/v1/uploads?name=killed", headers=length, timeout=240
    ).headers["location"]
    url = killed.url + location
    httpx.patch(url, headers={**part, "Upload-Offset": "0"}, content=data[:100_000], timeout=240)
    killed.process.kill()
    killed.process.wait()
    started = start_service(data_dir=killed.data_dir)
    url = started.url + location
    with httpx.Client(timeout=60) as http:
        assert http.head(url).headers["upload-offset"] == "100000"
        http.patch(url, headers={**part, "Upload-Offset": "100000"}, content=data[100_000:])
        dataset_id = http.get(url).json()["dataset_id"]
        dataset = http.get(f"{started.url}/v1/datasets/{dataset_id}?wait=60").json()
    assert (dataset["state"], dataset["n_samples"]) == ("ready", 8000)
