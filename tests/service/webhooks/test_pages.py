"""Pages of webhooks."""

import html
import re

import httpx

from service.webhooks.events import TYPES
from sibling import Client


def text_of(page):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text)))


def test_pages_show_webhooks_and_their_deliveries_to_those_who_may(
    keyed_service, first_key, receiver
):
    url, first = keyed_service.url, first_key
    receiver.respond = lambda _: 500
    with Client(url, api_key=first) as client:
        made = client.create_webhook(receiver.url, ["job.failed"], name="<b>bold</b>")
        client.test_webhook(made["id"])
        scopes = {"reader": ["webhooks:read"], "other": ["models:read"]}
        keys = {name: client.create_key(of)["key"] for name, of in scopes.items()}
    headers = {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}
    headers["admin"] = {"Authorization": f"Bearer {first}"}

    def get(path, of):
        return httpx.get(f"{url}{path}", headers=headers[of], timeout=240)

    page = get("/webhooks", "admin")
    assert receiver.url in page.text
    assert "<b>bold" not in page.text
    assert made["secret"] not in page.text
    assert re.findall(r'name="types" value="([^"]*)"', page.text) == list(TYPES)
    log = get(f"/webhooks/{made['id']}", "admin")
    assert "the response has the status 500" in text_of(log)
    assert f'data-path="/v1/webhooks/{made["id"]}"' in log.text
    assert "No delivery matches" in text_of(get(f"/webhooks/{made['id']}?state=delivered", "admin"))
    reads = [get(path, "reader") for path in ("/webhooks", f"/webhooks/{made['id']}")]
    assert [read.status_code for read in reads] == [200, 200]
    assert not any(re.search(r'data-method|id="webhook"|id="test"', read.text) for read in reads)
    assert get("/webhooks", "other").status_code == 403
    assert get("/webhooks/wh_1", "admin").status_code == 404
    assert 'href="/webhooks"' in get("/keys", "admin").text
    assert 'href="/webhooks"' not in get("/models", "other").text


def test_without_allowed_hosts_the_page_says_so_and_the_navigation_has_none(http):
    page = http.get("/webhooks")
    assert "SIBLING_WEBHOOK_HOSTS" in page.text
    assert 'id="webhook"' not in page.text
    assert 'href="/webhooks" aria-current' not in page.text
