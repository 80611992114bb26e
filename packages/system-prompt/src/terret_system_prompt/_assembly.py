"""What an assembly is made of, and the events around it."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from terret_context import Emit, Waterfall
from terret_llm import ToolSchema


@dataclass(frozen=True, slots=True)
class AssembleContext:
    """For whom a prompt is put together; `scope` selects the registrations."""

    agent: object | None = None
    scope: object | None = None


def assemble_context_for(agent: object) -> AssembleContext:
    """Returns the context for an agent, which is its own scope."""
    return AssembleContext(agent=agent, scope=agent)


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the system text, with its references not yet filled in."""

    name: str
    order: float
    text: str
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """One part of the runtime context, with its references not yet filled in."""

    name: str
    order: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """Everything a request takes from the system prompt.

    Sections and contexts stand in their order, tools in canonical order. Frozen; a listener
    returns a changed copy (`dataclasses.replace`).
    """

    sections: tuple[Section, ...] = ()
    contexts: tuple[Fact, ...] = ()
    variables: Mapping[str, str | None]
    tools: tuple[ToolSchema, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembling:
    """Payload of `system-prompt/assemble`: the draft and for whom it is made."""

    assembly: Assembly
    context: AssembleContext


@dataclass(frozen=True, slots=True)
class ProvidedTools:
    """What a tool provider offers.

    `known_names` are the names it could offer elsewhere, hidden ones included; without them the
    names of the schemas count.
    """

    schemas: Sequence[ToolSchema]
    known_names: Collection[str] | None = None


Text: TypeAlias = str | Callable[[AssembleContext], str | Awaitable[str]]
Variable: TypeAlias = Callable[[AssembleContext], str | Awaitable[str | None] | None]
ToolProvider: TypeAlias = Callable[[AssembleContext], ProvidedTools | Awaitable[ProvidedTools]]

ASSEMBLE = Waterfall[Assembling, Assembly](
    "system-prompt/assemble",
    subject=attrgetter("context.scope"),
    doc="A prompt was drafted; the assembly that comes back is the one that is used.",
)
CHANGE = Emit[()](
    "system-prompt/change",
    doc="A section, context, variable, tool provider or setting came, went or changed.",
)
