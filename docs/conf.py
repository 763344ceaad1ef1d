"""How Sphinx builds these pages: `make docs`. Any warning fails the build."""

project = "vademecum"
author = "The vademecum maintainers"
extensions = ["myst_parser"]
exclude_patterns = ["*.py"]
html_theme = "alabaster"
html_theme_options = {"description": "Long-term memory for AI agents", "page_width": "60em", "show_powered_by": False}
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 3
# Shell blocks hold questions in every script, TOML fragments and "…": the lexers need not know all of it.
suppress_warnings = ["misc.highlighting_failure"]
