"""From registrations to the draft of an assembly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from types import MappingProxyType

from terret_llm import error_chain

from ._assembly import (
    AssembleContext,
    Assembly,
    Fact,
    ProvidedTools,
    Section,
    Text,
    ToolProvider,
    Variable,
)
from ._errors import PromptAssemblyError
from ._tool_order import arrange


@dataclass(frozen=True, slots=True)
class Contribution:
    """A registered section or context."""

    order: float
    text: Text
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that only a registration can change: merged and sorted, not yet evaluated."""

    sections: tuple[tuple[str, Contribution], ...]
    contexts: tuple[tuple[str, Contribution], ...]
    variables: tuple[tuple[str, Variable], ...]
    providers: tuple[ToolProvider, ...]
    tool_order: tuple[str, ...] | None

    async def draft(self, context: AssembleContext) -> Assembly:
        """Evaluates everything once, one after the other."""
        variables = {
            name: await _variable(name, source, context) for name, source in self.variables
        }
        sections = [
            Section(name, entry.order, text, entry.complete)
            for name, entry in self.sections
            if (text := await _text(f'section "{name}"', entry.text, context)).strip()
        ]
        contexts = [
            Fact(name, entry.order, text)
            for name, entry in self.contexts
            if (text := await _text(f'context "{name}"', entry.text, context)).strip()
        ]
        provided = [await _provided(provider, context) for provider in self.providers]
        return Assembly(
            sections=tuple(sections),
            contexts=tuple(contexts),
            variables=MappingProxyType(variables),
            tools=arrange(self.tool_order, provided),
        )


def in_order(entries: Mapping[str, Contribution]) -> tuple[tuple[str, Contribution], ...]:
    """Sorts by order; equal orders stay as they were registered."""
    return tuple(sorted(entries.items(), key=lambda item: item[1].order))


def well_formed(assembly: object) -> Assembly:
    """Returns what the listeners gave, if a request can be made of it."""
    listeners = "listeners of system-prompt/assemble"
    if not isinstance(assembly, Assembly):
        raise PromptAssemblyError(listeners, f"gave {assembly!r}, not an Assembly")
    for what, parts in (("sections", assembly.sections), ("tools", assembly.tools)):
        names = [part.name for part in parts]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise PromptAssemblyError(listeners, f"gave the {what} {', '.join(twice)} twice")
    return assembly


def complete_sections(assembly: Assembly) -> tuple[Section, ...]:
    """Returns the section that replaces all others, if there is one; two are an error."""
    found = tuple(section for section in assembly.sections if section.complete)
    if len(found) > 1:
        names = ", ".join(f'"{section.name}"' for section in found)
        raise PromptAssemblyError(f"sections {names}", "each want to be the complete text")
    return found


async def _variable(name: str, source: Variable, context: AssembleContext) -> str | None:
    value = await _ask(f'variable "{name}"', source, context)
    if value is None or isinstance(value, str):
        return value
    raise PromptAssemblyError(f'variable "{name}"', f"gave {value!r}, not text or None")


async def _text(contributor: str, source: Text, context: AssembleContext) -> str:
    if isinstance(source, str):
        return source
    text = await _ask(contributor, source, context)
    if isinstance(text, str):
        return text
    raise PromptAssemblyError(contributor, f"gave {text!r}, which is no text")


async def _provided(provider: ToolProvider, context: AssembleContext) -> ProvidedTools:
    contributor = f"tool provider {getattr(provider, '__qualname__', provider)}"
    provided = await _ask(contributor, provider, context)
    if isinstance(provided, ProvidedTools):
        return provided
    raise PromptAssemblyError(contributor, f"gave {provided!r}, not ProvidedTools")


async def _ask(
    contributor: str, source: Callable[[AssembleContext], object], context: AssembleContext
) -> object:
    try:
        answer = source(context)
        return await answer if isawaitable(answer) else answer
    except Exception as error:
        raise PromptAssemblyError(contributor, f"failed: {error_chain(error)}") from error
