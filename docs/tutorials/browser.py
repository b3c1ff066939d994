"""``make tutorials``: walks from a file to a report in a browser, and takes pictures of it.

Needs a service without data at `SIBLING_URL`, and Chromium at `SIBLING_CHROMIUM` or in `PATH`.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

PICTURES: Final = Path(__file__).parent / "pictures"
TABLE: Final = Path(__file__).parents[2] / "service" / "operations" / "data" / "patients.csv"
SIZE: Final = {"width": 900, "height": 620}
TIMEOUT_MS: Final = 240_000


def walk(page: Any, take: Callable[[str], None]) -> None:
    """Go from an empty service to a report.

    Parameters
    ----------
    page
        A page of Playwright whose base is the address of the service.
    take
        Is called with the name of each picture when the page shows what is on it.
    """
    page.goto("/")
    page.get_by_role("button", name="Try it with sample data").wait_for()
    take("start")
    page.get_by_role("link", name="Upload a dataset").first.click()
    page.wait_for_url("**/datasets/new")
    page.set_input_files("#file", TABLE)
    page.locator("#rows tbody tr").first.wait_for()
    take("upload")
    page.get_by_role("button", name="Find the best model").click()
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="See the result").click()
    page.wait_for_url("**/models/patients/1")
    take("result")
    page.get_by_role("link", name="Predict").first.click()
    page.wait_for_url("**/predict")
    page.set_input_files("#file", TABLE)
    page.locator("#rows tbody tr").first.wait_for()
    take("predict")
    page.goto("/models/patients/1")
    page.get_by_role("link", name="Report").click()
    page.get_by_text("How to cite").wait_for()
    take("report")


def main() -> None:
    """Write the pictures."""
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    chromium = os.environ.get("SIBLING_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    url = os.environ.get("SIBLING_URL", "http://127.0.0.1:8000")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(base_url=url, viewport=SIZE, color_scheme="light")
        page.set_default_timeout(TIMEOUT_MS)
        walk(page, lambda name: page.screenshot(path=PICTURES / f"browser-{name}.png"))


if __name__ == "__main__":
    main()
