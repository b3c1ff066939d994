"""Dashboard and alert rules use metrics and labels that a running service has."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from service.access.keys import SCOPES

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
#: Labels that Prometheus adds, and its own metric.
ADDED = {"job", "instance"}
OWN = {"up": set()}
WORDS = {"and", "or", "unless", "by", "on", "without", "ignoring", "bool", "offset", "group_left"}
ALERTS = {
    "SiblingNotReady": "sibling_ready",
    "SiblingQueueWaitLong": "sibling_queue_age_seconds",
    "SiblingJobsFail": "sibling_jobs_ended",
    "SiblingDispatcherAbsent": "sibling_dispatcher_lease_renewals_total",
    "SiblingWorkerSilent": "sibling_workers",
    "SiblingDiskAlmostFull": "sibling_disk_free_bytes",
    "SiblingServerErrors": "sibling_http_requests_total",
    "SiblingInferenceSlow": "sibling_inference_seconds_bucket",
}


def rules():
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text())


def expressions():
    panels = dashboard()["panels"]
    of_panels = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*of_panels, *(rule["expr"] for rule in rules().values())]


def metrics_of(expression):
    """Return the metrics of a PromQL expression, with the labels that select them."""
    found = {}
    text = re.sub(r"\[[^\]]*\]", "", expression)
    for name, selectors in re.findall(r"\b([a-z_:][\w:]*)\b(?!\s*\()\s*({[^}]*})?", _bare(text)):
        if name not in WORDS:
            found.setdefault(name, set()).update(re.findall(r"(\w+)\s*=", selectors))
    return found


def _bare(expression):
    """Return an expression without quoted values, and without the labels of an aggregation."""
    text = re.sub(r'"[^"]*"', "", expression)
    return re.sub(r"\b(?:by|on|without|ignoring)\s*\([^)]*\)", "", text)


def grouped_labels(expression):
    groups = re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression)
    return {label.strip() for group in groups for label in group.split(",")}


@pytest.fixture(scope="module")
def exposed(http, model):
    """The labels of every sample that a service exposes, and the values of each label."""
    model.transform(np.zeros((2, 5)), task="north")
    http.post("/v1/models/shared/transform", json={"task": "none", "inputs": [[1.0] * 5]})
    http.delete("/v1/datasets/none")
    families = text_string_to_metric_families(http.get("/metrics").text)
    return [sample for family in families for sample in family.samples]


def labels_of(exposed, name):
    return {label for sample in exposed if sample.name == name for label in sample.labels}


def test_expressions_are_read_right():
    expression = 'sum by (le) (rate(a_total{b="c{", d=~"e"}[5m])) / max(f) > 0.5 and on (g) h'
    assert metrics_of(expression) == {"a_total": {"b", "d"}, "f": set(), "h": set()}
    assert grouped_labels(expression) == {"le", "g"}


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_uses_metrics_and_labels_that_exist(exposed, expression):
    found = metrics_of(expression)
    assert found
    names = {sample.name for sample in exposed}
    assert found.keys() - OWN.keys() <= names
    known = ADDED.union(*(labels_of(exposed, name) for name in found))
    for name, labels in found.items():
        assert labels <= labels_of(exposed, name) | ADDED
    assert grouped_labels(expression) <= known
    assert expression.count("(") == expression.count(")")


def test_values_of_labels_in_the_rules_exist(exposed):
    """Of labels whose values are few and known; statuses come as they come."""
    values = {(s.name, label, value) for s in exposed for label, value in s.labels.items()}
    for expression in expressions():
        found = re.findall(r'(\w+){(state|result)=~?"([^"]*)"}', expression)
        for name, label, alternatives in found:
            if (label, alternatives) == ("result", "failed"):  # none has failed here
                continue
            for value in alternatives.split("|"):
                assert (name, label, value) in values


def test_the_rules_cover_what_operators_have_to_know():
    found = rules()
    for name, metric in ALERTS.items():
        assert metric in metrics_of(found[name]["expr"])
    for rule in found.values():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_panels_do_not_overlap_and_each_has_a_title():
    taken = set()
    panels = dashboard()["panels"]
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["title"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_prometheus_scrapes_the_route_with_a_key_of_its_scope():
    text = (FOLDER / "prometheus.yaml").read_text()
    (scrape,) = yaml.safe_load(text)["scrape_configs"]
    assert scrape["metrics_path"] == "/metrics"
    assert yaml.safe_load(text)["rule_files"] == ["alerts.yaml"]
    (scope,) = re.findall(r"--scopes (\S+)", text)
    assert scope in SCOPES


def test_histograms_have_few_buckets(exposed):
    """Each bucket of each route, and of each method of each model, is a time series."""
    bounds = {}
    for sample in exposed:
        if sample.name.endswith("_bucket"):
            bounds.setdefault(sample.name, set()).add(sample.labels["le"])
    assert {name: len(of_name) for name, of_name in bounds.items()} == {
        "sibling_http_request_seconds_bucket": 11,
        "sibling_inference_seconds_bucket": 11,
    }
    assert not any(sample.name.endswith("_created") for sample in exposed)
