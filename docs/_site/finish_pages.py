"""Sphinx extension: corrects what the theme does not do as the service needs it.

Inline scripts and styles move into files, because the service sends pages with a
Content-Security-Policy that allows neither. Captions of the navigation get a level as
headings, landmarks get names, and what may be wide can be scrolled by keys.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

SCRIPT = re.compile(r"<script>(.+?)</script>", re.DOTALL)
STYLE = re.compile(r"<style>(.+?)</style>", re.DOTALL)
#: What readers of screens need: levels of headings, names of landmarks, and scrolling by keys.
ACCESSIBLE = {
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    '<aside class="sidebar-drawer"': '<aside aria-label="All pages" class="sidebar-drawer"',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',  # may be wider than the screen
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
ATTRIBUTE = re.compile(r'(<[a-z][^<>]*?) style="([^"]+)"')


def setup(app: Any) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", finish_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def finish_pages(app: Any, error: Exception | None) -> None:
    """Correct every page."""
    if error is None and app.builder.format == "html":
        site = Path(app.outdir)
        static = site / "_static"
        rules: dict[str, str] = {}
        for page in sorted(site.rglob("*.html")):
            root = "../" * (len(page.relative_to(site).parts) - 1)
            html = page.read_text(encoding="utf-8")
            for old, new in ACCESSIBLE.items():
                html = html.replace(old, new)
            page.write_text(without_inline_parts(html, root, static, rules), encoding="utf-8")
        text = "".join(f'[data-style="{name}"] {{ {rule} }}\n' for name, rule in rules.items())
        (static / "attributes.css").write_text(text, encoding="utf-8")


def without_inline_parts(html: str, root: str, static: Path, rules: dict[str, str]) -> str:
    """Return a page that refers to files; files are written, and rules of attributes added."""

    def script(match: re.Match[str]) -> str:
        return f'<script src="{root}_static/{write(static, match[1], "js")}"></script>'

    def style(match: re.Match[str]) -> str:
        return f'<link rel="stylesheet" href="{root}_static/{write(static, match[1], "css")}">'

    def attribute(match: re.Match[str]) -> str:
        rules[name_of(match[2])] = match[2]
        return f'{match[1]} data-style="{name_of(match[2])}"'

    html = ATTRIBUTE.sub(attribute, STYLE.sub(style, SCRIPT.sub(script, html)))
    link = f'<link rel="stylesheet" href="{root}_static/attributes.css">'
    return html.replace("</head>", f"{link}\n</head>", 1)


def write(static: Path, text: str, suffix: str) -> str:
    """Write a text to a file that is named after its content, and return the name."""
    name = f"inline-{name_of(text)}.{suffix}"
    (static / name).write_text(text.strip() + "\n", encoding="utf-8")
    return name


def name_of(text: str) -> str:
    """Return a short hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
