"""Sections, variables, runtime context and tool schemas: what becomes the system prompt."""

from ._assembly import (
    ASSEMBLE,
    CHANGE,
    AssembleContext,
    Assembling,
    Assembly,
    Fact,
    ProvidedTools,
    Section,
    assemble_context_for,
)
from ._config import SystemPromptConfig
from ._errors import PromptAssemblyError, PromptReferenceError
from ._render import render, render_contexts
from ._runtime_context import RuntimeContext
from ._service import HARNESS_IDENTITY, PERSONA, SystemPrompt
from ._tool_order import REST

__all__ = [
    "ASSEMBLE",
    "CHANGE",
    "HARNESS_IDENTITY",
    "PERSONA",
    "REST",
    "AssembleContext",
    "Assembling",
    "Assembly",
    "Fact",
    "PromptAssemblyError",
    "PromptReferenceError",
    "ProvidedTools",
    "RuntimeContext",
    "Section",
    "SystemPrompt",
    "SystemPromptConfig",
    "assemble_context_for",
    "render",
    "render_contexts",
]
