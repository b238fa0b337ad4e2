"""The site: `make docs` builds it into docs/_build/html. It opens from disk and loads nothing from elsewhere."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

import biasfree  # noqa: E402
from biasfree.report import Request  # noqa: E402

project = "biasfree"
author = "the authors of biasfree"
copyright = "MIT licence"
version = release = biasfree.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "mathml",
    "docstrings",
    "reference",
    "where",
]
exclude_patterns = ["_build", "_ext", "_static"]
root_doc = "index"
suppress_warnings = ["myst-nb.lexer"]  # cells that are not executed name no language
nitpicky = False

# Pages. A formula is $…$; the mathml extension turns it into MathML when the site is built.
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
html_math_renderer = "mathml"

# Notebooks are executed once per source of the package: a change of the package outdates all of them.
nb_execution_mode = os.environ.get("BIASFREE_NOTEBOOKS", "cache")
nb_execution_cache_path = str(HERE / "_build" / "notebooks" / Request().source[:12])
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE / "_build" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("BIASFREE_QUIET", "1")

# Reference.
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "biasfree"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse from disk
html_domain_indices = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {"navigation_with_keys": True, "footer_icons": [], "top_of_page_buttons": []}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
