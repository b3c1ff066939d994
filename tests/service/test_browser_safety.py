"""Pages without scripts of other sites, headers for browsers, and HTTPS."""

import base64
import hashlib
import re
import ssl

import httpx
import pytest

from service.jobs.worker.tls import make_certificates
from tests.service.conftest import IS_BEHIND_NGINX

pytestmark = pytest.mark.slow  # a browser

PAGES = ["/", "/docs", "/docs/try"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_uses_scripts_and_styles_of_this_service_only(http, path):
    page = http.get(path)
    assert page.status_code == 200
    used = re.findall(r'(?:src|href|spec-url)="([^"#]+)"', page.text)
    assert all(url.startswith(("/", "data:")) and not url.startswith("//") for url in used), used
    for url in {url for url in used if "/assets/" in url}:
        asset = http.get(page.url.join(url))
        assert (asset.status_code, len(asset.content) > 100) == (200, True)
        kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        assert asset.headers["content-type"].startswith(kinds[url.rpartition(".")[2]])


@pytest.mark.parametrize("path", PAGES)
def test_the_policy_of_a_page_allows_its_own_scripts_and_no_others(http, path):
    page = http.get(path)
    policy = page.headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in policy
    inline = re.findall(r"<script>(.*?)</script>", page.text, flags=re.DOTALL)
    expected = [hashlib.sha256(text.encode()).digest() for text in inline]
    expected = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in expected]
    assert rules["script-src"].split() == (expected or ["'self'"])


@pytest.mark.parametrize("path", [*PAGES, "/openapi.json", "/v1/jobs", "/nothing", "/v2"])
def test_headers_keep_browsers_from_guessing_framing_and_storing(http, path):
    headers = http.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers or IS_BEHIND_NGINX  # which names itself


def test_a_prediction_names_no_server(http):
    rows = {"name": "rows", "shape": [1, 5], "datatype": "FP64", "data": [0] * 5}
    body = {"inputs": [rows], "parameters": {"task": "north"}}
    for _ in range(2):
        response = http.post("/v2/models/shared/infer", json=body)
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "server" not in response.headers or IS_BEHIND_NGINX


@pytest.mark.skipif(IS_BEHIND_NGINX, reason="nginx has the certificate")
def test_https_is_served_with_a_certificate(start_service, tmp_path, monkeypatch):
    make_certificates(tmp_path)
    # the test's own client checks the chain, but not the name: the certificate has none
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.check_hostname = False
    create = httpx.Client.__init__
    monkeypatch.setattr(
        httpx.Client, "__init__", lambda self, **options: create(self, verify=context, **options)
    )
    service = start_service(
        SIBLING_TLS_CERT_FILE=tmp_path / "cert.pem", SIBLING_TLS_KEY_FILE=tmp_path / "key.pem"
    )
    assert service.url.startswith("https://")
    with httpx.Client(base_url=service.url, timeout=240) as http:
        assert http.get("/v1/jobs").status_code == 200


def test_a_certificate_that_cannot_be_used_is_named(tmp_path, database, forked_command):
    file = tmp_path / "cert.pem"
    file.write_text("no certificate")
    env = {"SIBLING_TLS_CERT_FILE": file, "SIBLING_DATABASE_URL": database.url}
    done = forked_command("serve", "--port", "0", **env)
    assert done.returncode == 1
    assert f"the certificate in {file} cannot be used" in done.stderr
