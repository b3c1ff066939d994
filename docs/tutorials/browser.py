"""``make tutorials``: walks through the tutorials in a browser, and takes pictures of them.

Needs a service without data at `SIBLING_URL`, and Chromium at `SIBLING_CHROMIUM` or in `PATH`. Also
writes the tables of the second tutorial, which readers download; only these without a browser:
``python -c "import browser; browser.write_tables()"`` in this folder.
"""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

PICTURES: Final = Path(__file__).parent / "pictures"
TABLE: Final = Path(__file__).parents[2] / "service" / "operations" / "data" / "patients.csv"
FILES: Final = Path(__file__).parent / "files"
#: The notebook whose first cell makes the sales of fifty shops.
SHOPS: Final = Path(__file__).parents[1] / "notebooks" / "in_use.py"
#: The files of the shops: rows of each shop, and the week. Week 0 is the past.
WEEKS: Final = {
    "shops": (20, 0),
    "shops-week-1": (5, 1),
    "shops-week-20": (5, 20),
    "shops-week-21": (5, 21),
}
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


def watch(page: Any, take: Callable[[str], None]) -> None:
    """Go from sales of fifty shops to the name of the one that has broken; as `walk`."""
    page.goto("/datasets/new")
    page.set_input_files("#file", FILES / "shops.csv")
    page.locator("#rows tbody tr").first.wait_for()
    take("upload")
    page.get_by_role("button", name="Find the best model").click()
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="See the result").click()
    page.wait_for_url("**/models/shops/1")
    page.get_by_role("link", name="Is it still right?").click()
    start = page.get_by_role("button", name="Start watching")
    start.wait_for()
    take("start")
    start.click()
    for name in list(WEEKS)[1:]:
        page.get_by_label("File with known sales").set_input_files(FILES / f"{name}.csv")
        page.locator("#feedback-answer", has_text=f"{name}.csv").get_by_role("link").click()
        take(name.removeprefix("shops-"))
    page.get_by_role("button", name="Stop watching").click()
    page.get_by_role("button", name="Yes").click()
    start.wait_for()


#: The walk of each page, whose pictures begin with its name.
WALKS: Final = {"browser": walk, "watch": watch}


def tables() -> dict[str, str]:
    """Return the files of the shops as CSV, by their names without the ending."""
    cell = SHOPS.read_text(encoding="utf-8").split("# %%\n")[1].partition("\n# %%")[0]
    exec(cell, stream := {})
    digits = {"price": 2, "sun": 1, "sales": 1}
    return {
        name: stream["sales_of"](*rows).round(digits).to_csv(index=False, lineterminator="\n")
        for name, rows in WEEKS.items()
    }


def write_tables() -> None:
    """Write the files of the shops."""
    for name, text in tables().items():
        (FILES / f"{name}.csv").write_text(text, encoding="utf-8")


def _take(page: Any, prefix: str, name: str) -> None:
    page.screenshot(path=PICTURES / f"{prefix}-{name}.png")


def main() -> None:
    """Write the tables and the pictures."""
    write_tables()
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    chromium = os.environ.get("SIBLING_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    url = os.environ.get("SIBLING_URL", "http://127.0.0.1:8000")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(base_url=url, viewport=SIZE, color_scheme="light")
        page.set_default_timeout(TIMEOUT_MS)
        for name, go in WALKS.items():
            go(page, partial(_take, page, name))


if __name__ == "__main__":
    main()
