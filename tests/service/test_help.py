"""The documentation that the service has at /help."""

import asyncio
import re
import runpy
from collections import Counter
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from service.access.authenticator import Authenticator
from service.settings import Settings
from service.ui import help_routes
from service.ui.rendering import POLICY

IS_INLINE = re.compile(r"<script>|<style|\sstyle=|\son[a-z]+=[\"']|javascript:")
IS_ELSEWHERE = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"'](?:https?:)?//"
)
STYLE_IS_ELSEWHERE = re.compile(r"@import|url\([\"']?(?:https?:)?//")


DOCS = Path(__file__).parents[2] / "docs"
SEARCH_WORDS = runpy.run_path(str(DOCS / "_site" / "search_words.py"))["SEARCH_WORDS"]


@pytest.fixture(scope="module")
def site():
    assert (help_routes.SITE / "index.html").exists(), "run `make site`"
    return help_routes.SITE


def test_no_page_has_inline_scripts_or_styles_or_uses_another_host(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        html = page.read_text(encoding="utf-8")
        text = re.sub(r"(?s)<(code|pre)\b.*?</\1>", "", html)
        assert IS_INLINE.findall(text) == [], page
        assert IS_ELSEWHERE.findall(html) == [], page
    for sheet in site.rglob("*.css"):
        assert STYLE_IS_ELSEWHERE.findall(sheet.read_text(encoding="utf-8")) == [], sheet


def test_words_of_the_search_lead_to_one_page_that_exists():
    words = Counter(w.strip() for line in SEARCH_WORDS.values() for w in line.split(","))
    assert [word for word, n in words.items() if n > 1] == []
    pages = {place.partition("#")[0] for place in SEARCH_WORDS}
    assert [name for name in pages if not (DOCS / f"{name}.md").exists()] == []


def test_its_pages_have_the_policy_of_all_pages(site, http):
    assert http.get("/help").headers["location"] == "/help/"
    first = http.get("/help/")
    assert first.text == (site / "index.html").read_text(encoding="utf-8")
    assert first.headers["content-security-policy"] == POLICY
    again = http.get("/help/", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    style = http.get("/help/_static/styles/furo.css")
    assert style.headers["content-type"].startswith("text/css")


@pytest.mark.parametrize("path", ["none.html", "..%2f..%2fsettings.py", "%2e%2e/settings.py"])
def test_what_is_not_there_or_outside_is_not_found(site, http, path):
    assert site
    assert http.get(f"/help/{path}").status_code == 404


def test_an_installation_without_it_says_how_to_build_it(tmp_path, monkeypatch, database):
    monkeypatch.setattr(help_routes, "SITE", tmp_path)
    app = FastAPI()
    app.include_router(help_routes.router)
    app.state.settings = Settings()
    app.state.authenticator = Authenticator(
        database, is_open=True, session_lifetime=timedelta(hours=1)
    )

    async def ask(path):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            return await http.get(path)

    first, other = (asyncio.run(ask(path)) for path in ("/help/", "/help/start.html"))
    app.state.authenticator.close()
    assert (first.status_code, other.status_code) == (200, 404)
    assert "make site" in first.text
    assert "docs/index.md" in first.text
