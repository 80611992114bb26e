"""The reference page of a package's public names, made from its front page and docstrings."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Final

from workspace import ROOT

CONTEXT_PAGE: Final = ROOT / "docs" / "reference" / "terret_context.md"

_KINDS: Final = ("Classes", "Errors", "Functions", "Constants")


def names_page(package: str) -> str:
    """Return the text of the page: every name of `__all__` with the first line of its docstring."""
    module = importlib.import_module(package)
    names = {name: getattr(module, name) for name in module.__all__}
    lines = [f"# {package}", "", f"{module.__doc__}", ""]
    lines += ["Made from the docstrings by `scripts/catalogs.py`.", ""]
    for kind in _KINDS:
        chosen = [name for name, value in names.items() if kind_of(value) == kind]
        if chosen:
            lines += [f"## {kind}", "", "| Name | |", "|---|---|"]
            lines += [f"| `{name}` | {summary(names[name])} |" for name in chosen]
            lines.append("")
    return "\n".join(lines)


def kind_of(value: object) -> str:
    """Return under which heading a name belongs."""
    if isinstance(value, type):
        return "Errors" if issubclass(value, BaseException) else "Classes"
    return "Functions" if inspect.isfunction(value) else "Constants"


def summary(value: object) -> str:
    """Return what a name is for: its docstring's first line, or what it says of itself."""
    return next(_summaries(value)).replace("|", "\\|")


def _summaries(value: object) -> Iterator[str]:
    doc = getattr(value, "doc", None)
    if isinstance(doc, str):
        yield doc
    if isinstance(value, type) or inspect.isfunction(value):
        yield (inspect.getdoc(value) or "").partition("\n")[0]
    yield f"`{value!r}`" if isinstance(value, str) else "A type for annotations."
