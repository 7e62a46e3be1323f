"""The documentation as a site: `nox -s docs` builds it into build/docs.

Sphinx, as the reference comes from docstrings and every link within the site is checked; MyST, so
that pages stay plain Markdown that a code host shows, too; Furo, a theme that is readable on small
and large screens, light and dark, and loads nothing from elsewhere.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]

project = "Grain"
author = "the authors of Grain"
copyright = author  # noqa: A001 - Sphinx's name for it
release = version_of("grain-resource")  # all packages have one version
version = release

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinxext.opengraph",
    "moved",
    "navigation",
    "pictures",
    "programs",
    "reference",
    "example_report",
    "tables",
]
root_doc = "index"
exclude_patterns = ["extensions", "conf.py", "_static", "monitoring"]

# Every page, by what its reader has or wants. A page that is nowhere here is a warning of Sphinx,
# hence an error.
navigation = {
    "Begin": ["tutorial", "install", "glossary", "coming-from"],
    "I have 1,000 inputs": ["map"],
    "I have a workflow": [
        "external",
        "resources",
        "gangs",
        "where-code-runs",
        "delayed",
        "examples",
    ],
    "I have scripts": ["jobs", "slurm", "tools"],
    "I want to log out": ["missions"],
    "I have Python functions": ["python-functions", "notebook"],
    "My job waits": ["waiting", "watch", "commands"],
    "My jobs have run": ["report"],
    "My job failed": ["failed", "troubleshooting"],
    "My cluster is special": [
        "workers",
        "batch-systems",
        "bridge",
        "config",
        "grain.reference",
        "meeting",
        "security",
    ],
    "API reference": [
        "api/resource",
        "api/delayed",
        "api/worker",
        "api/head",
        "api/edge",
        "api/config",
        "api/cli",
    ],
    "Developers": [
        "contributing",
        "architecture",
        "protocol",
        "performance",
        "event-log",
        "queue-files",
        "changes",
        "changelog",
        "vulnerabilities",
    ],
}

# Pages below another one.
navigation_below = {"examples": ["examples/*"]}

# Pages that stand elsewhere in the repository, as code hosts expect, and appear here as well.
from_the_root = {
    "contributing": "CONTRIBUTING.md",
    "changes": "changes/README.md",
    "changelog": "CHANGELOG.md",
    "vulnerabilities": "SECURITY.md",
}

# Where the text of a page is that had a name of its own. Its old address leads there.
moved = {
    "aiida": "tools#aiida",
    "asyncio": "python-functions#asyncio-and-notebooks",
    "blocking": "where-code-runs#code-that-blocks",
    "bridge-server": "bridge#for-the-operator",
    "cache": "failed#keep-results",
    "combine": "delayed#waitgroups",
    "coming-from-hyperqueue": "coming-from#from-hyperqueue",
    "demand": "workers#workers-by-demand",
    "edge": "meeting",
    "edge-formats": "meeting#formats",
    "executor": "python-functions#an-executor",
    "executor-tests": "python-functions#an-executor",
    "fairness": "waiting#the-cost-of-fairness",
    "history": "report",
    "how-it-works": "architecture",
    "limits": "delayed#many-tasks",
    "map-parallel": "coming-from#from-gnu-parallel",
    "map-results": "map#outputs",
    "map-values": "map#what-a-value-cannot-do",
    "measuring": "external#what-programs-use",
    "metrics": "watch#metrics",
    "nextflow": "tools#nextflow",
    "other-words": "coming-from#words-of-other-tools",
    "own-commands": "architecture#where-to-begin",
    "ports": "security#for-administrators-ports-that-listen",
    "progress": "watch#the-progress-line",
    "protocol-rules": "protocol#rules-of-delivery",
    "protocol-tests": "protocol#how-it-is-tested",
    "quotas": "resources#limits-that-grain-sets",
    "resource-kinds": "resources#a-kind-of-your-own",
    "retries": "failed#try-again",
    "scheduling": "waiting#the-policy",
    "security-tests": "security",
    "snakemake": "tools#snakemake",
    "subproc": "python-functions",
    "top": "watch#grain-top",
    "travelling": "where-code-runs#what-travels",
    "whatif": "report#what-if-grain-whatif",
    "which-tool": "coming-from#which-tool-for-which-work",
    "worker": "workers#what-a-worker-owns",
}

# ---- Markdown

nb_execution_mode = "off"  # tests-integration/test_notebook.py runs it
nb_merge_streams = True
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
myst_links_external_new_tab = False

# ---- the reference

default_role = "code"  # single backticks in docstrings
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# Two modules can have a class of one name; a type in a signature then links to either.
suppress_warnings = ["ref.python"]

# ---- the site

html_theme = "furo"
html_title = "Grain"
html_favicon = "_static/favicon.svg"
html_search_scorer = str(HERE / "extensions/search_order.js")
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "tango"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6b50",
        "color-brand-content": "#0b6b50",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc8a1",
        "color-brand-content": "#5cc8a1",
    },
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "

# ---- what search engines and chats show of a page: its first sentences

ogp_site_name = "Grain"
ogp_site_url = ""  # links within the site are relative: it has no address of its own
ogp_social_cards = {"enable": False}
