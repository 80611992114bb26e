"""Fills variables into the texts of an assembly."""

import re
from collections.abc import Iterable, Mapping

from ._assembly import Assembly
from ._errors import PromptReferenceError

VARIABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")

# What stands between braces, or a name that lacks its last brace. Any other "{{" is text.
_REFERENCE = re.compile(r"\{\{(?:(?P<inner>.*?)\}\}|(?P<torn>[a-z][a-z0-9_]*)\})", re.DOTALL)


def render(assembly: Assembly) -> str:
    """Returns the system text: the sections in order, joined by blank lines.

    Strict: a `{{name}}` that is unknown, without value or malformed raises
    `PromptReferenceError`. A `{{` that no `}}` follows is text, and inserted values are not
    scanned again.
    """
    return _joined(
        _filled(f'section "{section.name}"', section.text, assembly.variables)
        for section in assembly.sections
    )


def render_contexts(assembly: Assembly) -> str:
    """Returns the text of the runtime context, as strictly as `render`; empty without contexts."""
    return _joined(
        _filled(f'context "{fact.name}"', fact.text, assembly.variables)
        for fact in assembly.contexts
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def _filled(where: str, text: str, variables: Mapping[str, str | None]) -> str:
    def value(match: re.Match[str]) -> str:
        torn, name = match["torn"], match["inner"]
        if torn is not None:
            raise PromptReferenceError(where, torn, "lacks its last brace", variables)
        if not VARIABLE_NAME.fullmatch(name):
            raise PromptReferenceError(where, name, "is no variable name", variables)
        if name not in variables:
            raise PromptReferenceError(where, name, "is unknown", variables)
        found = variables[name]
        if found is None:
            raise PromptReferenceError(where, name, "has no value here", variables)
        return found

    return _REFERENCE.sub(value, text) if "{{" in text else text
