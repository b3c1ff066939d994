"""Traces lead from a request through the job to its child process, and cost nothing when off."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.storage.tables import JobRow
from sibling import Client

pytestmark = pytest.mark.slow  # jobs with traces

ROOT = Path(__file__).parents[2]
TRACE, SPAN = "1234567890abcdef1234567890abcdef", "fedcba0987654321"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE[::-1]}-{SPAN}-00"
ROWS = {"a": np.arange(20.0).reshape(5, 4) ** 1.5, "b": np.arange(20.0).reshape(5, 4) ** 1.2}


class Collector(ThreadingHTTPServer):
    """A collector of OpenTelemetry, which keeps the spans that it receives."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self, trace=None):
        """Return the spans of a trace with the attributes of their processes."""
        return [
            (span, attributes_of(group.resource))
            for request in list(self.received)
            for group in request.resource_spans
            for scoped in group.scope_spans
            for span in scoped.spans
            if trace in (None, span.trace_id.hex())
        ]

    def names(self, trace=None):
        return sorted(span.name for span, _ in self.spans(trace))


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def attributes_of(of):
    values = {a.key: a.value for a in of.attributes}
    return {key: value.string_value or value.int_value for key, value in values.items()}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def traced(launch_service, collector):
    collector.received.clear()  # spans of the service on another database
    with launch_service(
        SIBLING_WORKER_SLOTS=1,
        SIBLING_TRACING="true",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY=50,
    ) as service:
        yield service


def train(http, dataset_id, traceparent):
    spec = {"dataset_id": dataset_id, "algorithm": "pca", "model": "m", "params": {"k": 1}}
    sent = http.post("/v1/jobs", json=spec, headers={"traceparent": traceparent})
    assert sent.status_code == 202, sent.text
    job_id = sent.json()["id"]
    job = sent.json()
    while job["state"] not in ("succeeded", "failed"):
        job = http.get(f"/v1/jobs/{job_id}", params={"wait": 60}).json()
    assert job["state"] == "succeeded"
    return job_id


def test_one_job_gives_one_trace_with_the_right_parents(traced, collector, wait_until):
    with Client(traced.url, timeout_s=240) as client:
        dataset = client.upload(ROWS)
    with httpx.Client(base_url=traced.url, timeout=240) as http:
        job_id = train(http, dataset.id, TRACEPARENT)
    expected = ["POST /v1/jobs", "attempt", "fit", "publication", "queue wait", "read"]
    wait_until(lambda: len(collector.names(TRACE)) >= len(expected), seconds=120)
    assert collector.names(TRACE) == expected
    found = {span.name: (span, process) for span, process in collector.spans(TRACE)}
    request, _ = found["POST /v1/jobs"]
    attempt, worker = found["attempt"]
    fit, child = found["fit"]
    parents = {name: span.parent_span_id.hex() for name, (span, _) in found.items()}
    assert parents == {
        "POST /v1/jobs": SPAN,
        "queue wait": request.span_id.hex(),
        "attempt": request.span_id.hex(),
        "read": attempt.span_id.hex(),
        "fit": attempt.span_id.hex(),
        "publication": attempt.span_id.hex(),
    }
    components = {name: process["sibling.component"] for name, (_, process) in found.items()}
    assert components == {
        "POST /v1/jobs": "server",
        "queue wait": "worker",
        "attempt": "worker",
        "read": "training",
        "fit": "training",
        "publication": "worker",
    }
    assert worker["process.pid"] != child["process.pid"]
    assert worker["service.name"] == "sibling"
    assert attributes_of(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/jobs",
        "http.response.status_code": 202,
    }
    described = {"sibling.job_id": job_id, "sibling.attempt": 1, "sibling.outcome": "succeeded"}
    assert attributes_of(attempt) == described
    assert attempt.start_time_unix_nano <= fit.start_time_unix_nano
    assert fit.end_time_unix_nano <= attempt.end_time_unix_nano
    assert found["queue wait"][0].start_time_unix_nano <= attempt.start_time_unix_nano


def test_an_upload_has_its_ingestion_in_its_trace(traced, collector, wait_until):
    trace = "a" * 32
    body = "task,x1,x2\na,1,2\na,3,5\nb,2,2\nb,4,5\n"
    headers = {"Content-Type": "text/csv", "traceparent": f"00-{trace}-{SPAN}-01"}
    url = f"{traced.url}/v1/datasets"
    sent = httpx.post(url, params={"name": "d"}, content=body, headers=headers, timeout=240)
    assert sent.status_code in (201, 202), sent.text
    wait_until(lambda: collector.names(trace) == ["POST /v1/datasets", "ingestion"], seconds=120)
    found = {span.name: span for span, _ in collector.spans(trace)}
    assert found["ingestion"].parent_span_id == found["POST /v1/datasets"].span_id
    assert attributes_of(found["ingestion"]) == {"sibling.dataset_id": sent.json()["id"]}


def test_inference_is_traced_on_both_paths(traced, collector, wait_until):
    with Client(traced.url, timeout_s=240) as client:
        client.train(client.upload(ROWS), "pca", model="called", k=1).wait()
    body = {"task": "a", "inputs": [[1.0, 2, 3, 4]]}
    for number, query in enumerate(("", "?&")):  # the fast path knows no such query
        headers = {"traceparent": f"00-{str(number) * 32}-{SPAN}-01".replace("0" * 32, "b" * 32)}
        path = f"/v1/models/called/transform{query}"
        sent = httpx.post(traced.url + path, json=body, headers=headers, timeout=240)
        assert sent.status_code == 200, sent.text
    name = ["POST /v1/models/{name}/transform"]
    for trace in ("b" * 32, "1" * 32):
        wait_until(lambda trace=trace: collector.names(trace) == name, seconds=120)


def test_spans_have_no_data_and_health_checks_have_no_spans(traced, collector, wait_until):
    headers = {"traceparent": f"00-{'c' * 32}-{SPAN}-01"}
    for path in ("/v2/health/ready", "/metrics", "/v1/models/secret-name?page_token=secret"):
        httpx.get(traced.url + path, headers=headers, timeout=240)
    wait_until(lambda: collector.names("c" * 32) == ["GET /v1/models/{name}"], seconds=120)
    assert all(b"secret" not in request.SerializeToString() for request in collector.received)


def test_a_caller_decides_whether_a_request_is_sampled(traced, collector, wait_until):
    with Client(traced.url, timeout_s=240) as client:
        dataset = client.upload(ROWS)
    with httpx.Client(base_url=traced.url, timeout=240) as http:
        train(http, dataset.id, UNSAMPLED)
        http.get("/v1/jobs", headers={"traceparent": f"00-{'d' * 32}-{SPAN}-01"})
        http.get("/v1/jobs", headers={"traceparent": "no trace context"})
    wait_until(lambda: collector.names("d" * 32) == ["GET /v1/jobs"], seconds=120)
    assert collector.spans(TRACE[::-1]) == []


def test_a_collector_that_is_away_changes_no_response(start_service):
    service = start_service(
        SIBLING_TRACING="true",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_BSP_SCHEDULE_DELAY=50,
        OTEL_EXPORTER_OTLP_TIMEOUT=1,
    )
    with httpx.Client(base_url=service.url, timeout=240) as http:
        assert [http.get("/v1/jobs").status_code for _ in range(20)] == [200] * 20


def test_without_tracing_the_header_is_stored_and_no_span_sent(service, dataset):
    with httpx.Client(base_url=service.url, timeout=240) as http:
        job_id = train(http, dataset.id, TRACEPARENT)
    with service.open_database() as database, database.read() as session:
        assert session.get_one(JobRow, job_id).traceparent == TRACEPARENT


def test_it_does_not_start_without_the_packages(tmp_path):
    hide = "import sys; sys.modules['opentelemetry.sdk'] = None; sys.argv[1:] = ['serve']; "
    done = subprocess.run(
        [sys.executable, "-c", f"{hide} from service.cli import main; main()"],
        cwd=ROOT,
        env={"PATH": "", "SIBLING_DATA_DIR": str(tmp_path), "SIBLING_TRACING": "true"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "sibling[tracing]" in done.stderr
