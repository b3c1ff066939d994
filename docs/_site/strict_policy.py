"""Sphinx extension: moves inline scripts and styles of the built pages into files.

The service sends pages with a Content-Security-Policy that allows neither, and a theme has some.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

SCRIPT = re.compile(r"<script>(.+?)</script>", re.DOTALL)
STYLE = re.compile(r"<style>(.+?)</style>", re.DOTALL)
ATTRIBUTE = re.compile(r'(<[a-z][^<>]*?) style="([^"]+)"')


def setup(app: Any) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", move_inline_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def move_inline_parts(app: Any, error: Exception | None) -> None:
    """Move the inline parts of every page."""
    if error is None and app.builder.format == "html":
        site = Path(app.outdir)
        static = site / "_static"
        rules: dict[str, str] = {}
        for page in sorted(site.rglob("*.html")):
            root = "../" * (len(page.relative_to(site).parts) - 1)
            html = page.read_text(encoding="utf-8")
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
