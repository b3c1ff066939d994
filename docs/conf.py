"""How `make site` builds the documentation with Sphinx: https://www.sphinx-doc.org."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))

project = "Sibling"
html_title = "Sibling"
language = "en"
extensions = ["myst_parser", "finish_pages", "search_words"]
exclude_patterns = ["_site", "examples", "notebooks"]

# Markdown, with the anchors of headings that GitHub makes
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_sidebars = {
    "**": [
        "sidebar/scroll-start.html",
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
templates_path = ["_site/templates"]
html_favicon = "_site/static/icon.svg"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
html_search_scorer = str(HERE / "_site" / "scorer.js")
