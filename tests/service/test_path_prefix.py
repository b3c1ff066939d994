"""Behind a proxy that offers the service below a path, everything that a browser follows has it."""

import html
import os
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from service.access.keys import new_key
from service.jobs.worker.tls import make_certificates
from sibling import Client

GUIDE = Path(__file__).parents[2] / "docs/how-to/proxies.md"
LINK = re.compile(r'\s(?:href|src|srcset|action)="([^"]*)"')


def get(url, **options):
    return httpx.get(url, timeout=240, **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def crawl(http, start):
    """Return the status of all pages of the service that are linked from a page, by their kind."""
    waiting, seen = [start], {}
    while waiting:
        url = waiting.pop()
        kind = re.sub(r"(ds|job)_\w+|\?.*|(?<=/algorithms/).*|(?<=/help/).*", "", url)
        if kind in seen:
            continue
        response = http.get(url)
        seen[kind] = response.status_code
        if "text/html" in response.headers.get("content-type", ""):
            links = (html.unescape(link) for link in LINK.findall(response.text))
            links = {urljoin(url, link) for link in links if not link.startswith(("#", "data:"))}
            waiting += [link for link in links if urlsplit(link).netloc == urlsplit(url).netloc]
    return seen


@pytest.fixture
def behind_nginx(start_replica, start_nginx, guide_block, model, tmp_path):
    """``http = behind_nginx(proxy_pass, **env)``: HTTPS to the block of the guide.

    ``{url}`` in ``proxy_pass`` is the service.
    """
    del model
    clients = []

    def start(proxy_pass, more="", **env):
        service = start_replica(SIBLING_TRUSTED_PROXIES="127.0.0.1", **env)
        make_certificates(tmp_path)
        port = free_port()
        start_nginx(guide_block(port, f"proxy_pass {proxy_pass.format(url=service.url)};{more}"))
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        context.check_hostname = False  # the certificate has no name
        url = f"https://127.0.0.1:{port}/ml"
        clients.append(httpx.Client(base_url=url, verify=context, timeout=240))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("proxy_pass", "more", "root"),
    [
        ("{url}", "", "/ml"),  # as in the guide
        ("{url}/", "", "/ml"),
        ("{url}/", "proxy_set_header X-Forwarded-Prefix /ml;", ""),
    ],
    ids=["kept", "removed", "header"],
)
def test_every_link_behind_nginx_leads_somewhere(behind_nginx, proxy_pass, more, root):
    http = behind_nginx(proxy_pass, more, SIBLING_ROOT_PATH=root)
    seen = crawl(http, f"{http.base_url}")
    assert set(seen.values()) == {200}, seen
    outside = [url for url in seen if not urlsplit(url).path.startswith("/ml/")]
    assert outside == []
    assert len(seen) > 30


#: Proxies of the guide besides nginx: the language of their block, what becomes local in it, and
#: the command.
CADDY = "{{\nadmin off\n}}\nhttps://127.0.0.1:{port} {{\ntls cert.pem key.pem"
TRAEFIK = """
tls: {{stores: {{default: {{defaultCertificate: {{certFile: cert.pem, keyFile: key.pem}}}}}}}}
http:
  routers:"""
STATIC = "--global.checknewversion=false --global.sendanonymoususage=false"
OTHERS = {
    "caddy": (
        "text",
        {"data.example.org {": CADDY},
        "caddy run --adapter caddyfile --config config.yml",
    ),
    "traefik": (
        "yaml",
        {"data.example.org": "127.0.0.1", "http:\n  routers:": TRAEFIK},
        f"traefik --entrypoints.all.address=:PORT --providers.file.filename=config.yml {STATIC}",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_link_behind_another_proxy_leads_somewhere(
    start_replica, model, tmp_path, guard, wait_until, name
):
    del model
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    service, port = start_replica(SIBLING_TRUSTED_PROXIES="127.0.0.1"), free_port()
    make_certificates(tmp_path)
    language, local, command = OTHERS[name]
    title = f"## {name.title()}\n\n```{language}\n"
    block = GUIDE.read_text(encoding="utf-8").partition(title)[2].partition("```")[0]
    address = urlsplit(service.url).netloc
    for text, ours in {"127.0.0.1:8000": address, **local}.items():
        assert text in block
        block = block.replace(text, ours.format(port=port))
    (tmp_path / "config.yml").write_text(block, encoding="utf-8")
    command = command.replace(":PORT", f"127.0.0.1:{port}").split()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log) as proxy,
        guard(proxy.pid),
        httpx.Client(base_url=f"https://127.0.0.1:{port}/ml", verify=False, timeout=240) as http,
    ):

        def is_ready():
            assert proxy.poll() is None, (tmp_path / "log").read_text()
            try:
                return http.get("v2/health/live").is_success
            except httpx.TransportError:
                return False

        wait_until(is_ready)
        seen = crawl(http, f"{http.base_url}")
        proxy.terminate()
    assert set(seen.values()) == {200}, seen
    assert [url for url in seen if not urlsplit(url).path.startswith("/ml/")] == []
    assert len(seen) > 30


@pytest.mark.slow
def test_redirects_locations_and_documents_have_the_prefix(behind_nginx, dataset):
    http = behind_nginx("{url}", SIBLING_ROOT_PATH="/ml/")
    assert http.get("help").headers["location"] == "/ml/help/"
    spec = {"dataset_id": dataset.id, "algorithm": "pca", "model": "behind-nginx"}
    job = http.post("v1/jobs?wait=50", json=spec)
    assert job.headers["location"] == f"/ml/v1/jobs/{job.json()['id']}"
    assert http.get("openapi.json").json()["servers"] == [{"url": "/ml"}]
    with http.stream("GET", "v1/jobs:changes", headers={"Accept": "text/event-stream"}) as stream:
        assert any("start" in line for line in stream.iter_lines())
    page = http.get("models/behind-nginx/1").text
    assert str(http.base_url) in page  # in the examples
    deleted = http.delete("v1/models/behind-nginx/versions/1", headers={"Origin": origin(http)})
    assert deleted.status_code == 204


def origin(http):
    return f"https://{http.base_url.netloc.decode()}"


def test_a_session_below_a_prefix_has_a_cookie_of_its_own(start_service):
    key = new_key().text()
    service = start_service(
        SIBLING_REQUIRE_KEYS="true",
        SIBLING_BOOTSTRAP_KEY=key,
        SIBLING_TRUSTED_PROXIES="127.0.0.0/8",
        SIBLING_ROOT_PATH="/ml",
    )
    with httpx.Client(base_url=service.url, timeout=240) as http:
        asked = http.get("/ml/jobs?text=a", headers={"Accept": "text/html"})
        assert asked.headers["location"] == "/ml/login?next=%2Fjobs%3Ftext%3Da"
        for scheme, name in (("http", "sibling_session"), ("https", "__Secure-sibling_session")):
            headers = {"X-Forwarded-Proto": scheme, "Origin": service.url}
            form = {"key": key, "next": "/jobs?text=a"}
            answer = http.post("/login", data=form, headers=headers)
            assert (answer.status_code, answer.headers["location"]) == (303, "/ml/jobs?text=a")
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"{name}=")
            assert "Path=/ml;" in cookie
            headers["Cookie"] = cookie.partition(";")[0]
            page = http.get("/jobs", headers=headers)
            assert page.status_code == 200
            ended = http.post("/logout", headers=headers)
            assert ended.headers["location"] == "/ml/login"
            assert any(
                text.startswith(f"{name}=") and "Max-Age=0" in text and "Path=/ml;" in text
                for text in ended.headers.get_list("set-cookie")
            )


@pytest.mark.slow
def test_a_prefix_that_is_a_path_of_the_service_is_not_removed(start_replica, model):
    del model
    service = start_replica(SIBLING_ROOT_PATH="/models")
    page = get(f"{service.url}/models/shared")
    assert page.status_code == 200
    assert 'href="/models/models/shared"' in page.text
    # the proxy has to remove the prefix: this is version 'shared' of the model 'models'
    assert get(f"{service.url}/models/models/shared").status_code == 422


def test_only_trusted_proxies_name_a_prefix(start_replica, service):
    headers = {"X-Forwarded-Prefix": "/a/, /b"}
    assert get(f"{service.url}/help", headers=headers).headers["location"] == "/help/"
    trusting = start_replica(SIBLING_TRUSTED_PROXIES="10.0.0.0/8, 127.0.0.1")
    assert get(f"{trusting.url}/help", headers=headers).headers["location"] == "/a/b/help/"
    forwarded = headers | {"X-Forwarded-For": "192.0.2.1"}
    assert get(f"{trusting.url}/help", headers=forwarded).headers["location"] == "/a/b/help/"
    for bad in ('/"><script>', "//evil.example", "ml", "/ä"):
        answer = get(f"{trusting.url}/help", headers={"X-Forwarded-Prefix": bad.encode()})
        assert answer.headers["location"] == "/help/"


@pytest.mark.slow
def test_the_client_takes_a_url_with_the_prefix(start_replica, model):
    service = start_replica(SIBLING_ROOT_PATH="/ml")
    with Client(f"{service.url}/ml/") as client:
        assert client.model(model.name).info["name"] == model.name
        assert list(client.jobs())


@pytest.mark.parametrize("path", ["ml", "/a b", '/"', "/a//b", "/ä", "//x"])
def test_a_prefix_that_is_no_path_is_refused(forked_command, path):
    done = forked_command("serve", "--port", "0", SIBLING_ROOT_PATH=path)
    assert done.returncode != 0
    assert "SIBLING_ROOT_PATH" in done.stderr
