"""Reference pages: one per public module, from its ``__all__``, and one with the help of every command."""

import functools
import importlib
import inspect
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from typer.testing import CliRunner

import biasfree
from biasfree.cli import app as commands

PAGES = Path(__file__).resolve().parents[1] / "generated" / "reference"
# In the order in which data flows.
MODULES = {
    "datasets": "Data sets", "networks": "Networks", "losses": "Losses", "lines": "Lines through the origin",
    "models": "Models from elsewhere", "dynamics": "Dynamics", "theory": "Theory", "measure": "Measurements",
    "studies": "Studies, as objects", "papers": "The papers, as an index", "diagnosis": "Diagnosis",
    "inspection": "Inspection", "sweeps": "Sweeps, as objects", "report": "Reports and plots",
}  # fmt: skip


@functools.cache
def public(name: str) -> list[str]:
    """Functions and classes of a module that are documented on its page; what stands at the top level is there."""
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    top = {} if name == "biasfree" else {id(getattr(biasfree, n)) for n in public("biasfree")}
    kept = []
    for each in listed:
        thing = getattr(module, each)
        own = hasattr(module, "__all__") or getattr(thing, "__module__", "") == name
        if own and (inspect.isclass(thing) or inspect.isroutine(thing)) and id(thing) not in top:
            kept.append(each)
    return kept


def page(name: str, title: str) -> str:
    """One module: its docstring, a table of what is in it, and each thing in full."""
    module = importlib.import_module(name)
    names = public(name)
    lines = [f"# {title}: `{name}`", "", "```{eval-rst}", f".. automodule:: {name}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {name}", "", ".. autosummary::", "   :nosignatures:", ""]
    lines += [f"   {each}" for each in names]
    for each in names:
        kind = "autoclass" if inspect.isclass(getattr(module, each)) else "autofunction"
        lines += ["", f".. {kind}:: {each}", *(["   :members:"] if kind == "autoclass" else [])]
    return "\n".join([*lines, "```", ""])


def commands_page() -> str:
    """What each command prints for --help."""
    lines = ["# Commands", "", "What `biasfree COMMAND --help` prints.", ""]
    names = [command.name or command.callback.__name__ for command in commands.registered_commands]
    names += [group.name or group.typer_instance.info.name for group in commands.registered_groups]
    for name in names:
        shown = CliRunner().invoke(commands, [name, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"}).output
        lines += [f"(command-{name})=", f"## biasfree {name}", "", "```text", shown.strip(), "```", ""]
    return "\n".join(lines)


def generate(app: Sphinx) -> None:
    """Write all pages; those that say what they said before are left alone."""
    pages = {"top": page("biasfree", "The names at the top")}
    pages |= {name: page(f"biasfree.{name}", title) for name, title in MODULES.items()}
    pages["commands"] = commands_page()
    pages["index"] = "\n".join([
        "# Reference", "",
        "Made from the docstrings. Every function begins with what it gives and the equation it stands for; most end "
        "in an example that a test runs. `import biasfree as bf` is assumed.", "",
        "```{toctree}", ":maxdepth: 1", "", *(name for name in pages), "```", "",
    ])  # fmt: skip
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        target = PAGES / f"{name}.md"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make names in running text links: `bf.plateaus`, `theory.departure(data)`; on the theory page also bare ones."""
    for literal in list(doctree.findall(nodes.literal)):
        match = re.fullmatch(r"(?:bf\.|biasfree\.)?([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?", literal.astext())
        if match is None or isinstance(literal.parent, (nodes.reference, addnodes.pending_xref)):
            continue
        name = known(match[1], prefixed=literal.astext().startswith(("bf.", "biasfree.")))
        if name is None and app.env.docname == "theory":
            name = known(f"theory.{match[1]}", prefixed=True)
        if name is not None:
            options = {"refdomain": "py", "reftype": "obj", "reftarget": name, "refexplicit": True, "refwarn": False}
            link = addnodes.pending_xref("", refdoc=app.env.docname, **options)
            literal.replace_self(link)
            link += literal


@functools.cache
def known(name: str, prefixed: bool) -> str | None:
    """The full name of something public; without prefix only what is named by its module."""
    module, _, rest = name.partition(".")
    if rest and module in MODULES:
        things = public(f"biasfree.{module}")
        return f"biasfree.{name}" if rest.partition(".")[0] in things else known(rest, True)
    return f"biasfree.{name}" if prefixed and module in public("biasfree") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Before the pages are read."""
    app.connect("builder-inited", generate)
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
