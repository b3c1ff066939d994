"""The report to read: one file with everything inside."""

import html
import re

import pytest

from service.ui.views.words import GroupWords
from sibling import Client


@pytest.fixture(scope="module")
def compared(client, dataset):
    return client.train(dataset, "fmtl", model="reported", compare=True).wait()


@pytest.mark.slow  # a comparison
def test_the_report_of_a_version_is_one_file_with_answer_sources_and_versions(http, compared):
    response = http.get("/v1/models/reported/versions/1/report.html")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "unsafe" not in response.headers["content-security-policy"]
    page = response.text
    sources = re.findall(r'(?:src|srcset)="([^"]{0,30})', page)
    assert len(sources) == 2 * len(compared.plots())  # one for phones
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "<script" not in page
    assert "<link" not in page
    said = html.unescape(page)
    words = GroupWords.of(compared.info["task_column"])
    sentences = compared.report()["comparison"]["sentences"]
    assert all(words.said(sentence) in said for sentence in sentences)
    assert all(version in said for version in compared.info["lineage"]["software"].values())
    assert http.get("/v1/algorithms/fmtl").json()["reference"].split(",")[0] in said
    assert " ago" not in said  # it is read later
    links = set(re.findall(r'href="([^"]*)"', page))
    assert links
    assert all(link.startswith(("http://", "https://")) for link in links)


@pytest.mark.slow
def test_the_latest_version_and_an_alias_have_a_report_and_others_are_not_found(http, compared):
    compared.set_alias("shown")
    for name in ("reported", "reported@shown"):
        text = http.get(f"/v1/models/{name}/report.html").text
        assert "<h1>Report on reported, version 1</h1>" in text
    for path in ("none/report.html", "reported/versions/9/report.html"):
        refused = http.get(f"/v1/models/{path}")
        assert (refused.status_code, refused.json()["code"]) == (404, "not-found")


@pytest.mark.slow
def test_the_command_and_the_client_write_the_report(service, compared, command, tmp_path):
    with Client(service.url) as client:
        saved = client.model(compared.name).save_report(tmp_path / "a.html")
    out = str(tmp_path / "b.html")
    command("models", "report", "reported/1", "-o", out, "--url", service.url, check=True)
    for text in (saved.read_text(), (tmp_path / "b.html").read_text()):
        assert "<h1>Report on reported, version 1</h1>" in text


def test_a_model_without_a_comparison_has_a_report(http, model):
    text = http.get(f"/v1/models/{model.name}/versions/1/report.html").text
    assert f"<h1>Report on {model.name}, version 1</h1>" in text
    assert "How to cite" in text
    ways = dict(re.findall(r'<a href="([^"]*)"[^>]*>(Back to the model|Save this report)<', text))
    assert sorted(ways.values()) == ["Back to the model", "Save this report"]
    assert all(http.get(address).is_success for address in ways)
