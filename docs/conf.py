"""How the documentation is built: `make docs`."""

import sys
from pathlib import Path

import psconrl

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "psconrl"
author = "The psconrl developers"
release = version = psconrl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "commands",
    "docstrings",
    "formulas",
    "links",
    "varying",
]
exclude_patterns = ["_build", "extensions"]

# Pages are read from disk and without a network, so formulas are drawn here and nothing is fetched.
html_math_renderer = "drawn"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings write code in single backticks.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# Other projects' types are named, not linked: the build needs no network.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!psconrl\.).*"),
    (r"py:.*", r"psconrl\..*\._.*"),
    (r"py:.*", r"psconrl\.learning\.estimate\.Evidence"),  # what is inside of an estimate
]

html_theme = "furo"
html_title = f"psconrl {release}"
html_static_path = ["_static"]
html_css_files = ["psconrl.css"]
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_show_sphinx = False
html_show_copyright = False
