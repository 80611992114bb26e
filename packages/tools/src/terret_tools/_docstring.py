"""Google-style docstrings."""

import inspect
import re

_HEADING = re.compile(r"(Args|Arguments|Returns?|Raises|Yields?|Examples?|Notes?):\s*$")
_ITEM = re.compile(r"(?P<name>\*{0,2}\w+)(?:\s*\([^)]*\))?:\s*(?P<text>.*)$")


def parse_docstring(doc: str | None) -> tuple[str, dict[str, str]]:
    """Returns the text in front of the first section, and the descriptions of its arguments."""
    lines = inspect.cleandoc(doc or "").splitlines()
    description: list[str] = []
    arguments: list[str] = []
    target = description
    for line in lines:
        if heading := _HEADING.match(line):
            target = arguments if heading[1].startswith("Arg") else []
        else:
            target.append(line)
    return "\n".join(description).strip(), _items(arguments)


def _items(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    outer = min(indents, default=0)
    name = None
    for line in lines:
        item = _ITEM.match(line[outer:])
        if item:
            name = item["name"].lstrip("*")
            found[name] = item["text"].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
