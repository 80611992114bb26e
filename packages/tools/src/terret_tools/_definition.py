"""The definition of a tool."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from math import isfinite
from typing import Any, TypeAlias

from terret_llm import Block

from ._calls import ToolExec
from ._outcome import ToolOutcome

Arguments: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What the body of a tool returns, if it is neither text nor blocks.

    Attributes:
        schema: JSON Schema of the value.
        render: `render(args, value)` makes the content for the model.
        encode: Makes the JSON value of what the body returns and checks it, in place of the
            schema; raises `ValueError`. `@tool` fills it in.
    """

    schema: Mapping[str, object]
    render: Callable[[Arguments, Any], str | Iterable[Block]]
    encode: Callable[[object], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something a model can call.

    Attributes:
        name: Model-facing name.
        description: Model-facing description.
        parameters: JSON Schema 2020-12 of the arguments; its root is an object.
        execute: `execute(run, **args)`. A coroutine function runs in the turn; a plain function
            runs in a worker thread and should poll `run.cancelled`. It returns text or blocks,
            or a value of `output`.
        output: Declares values; without it the body returns text or blocks.
        is_concurrency_safe: `fn(args)`; only exact `True` lets the call run beside others.
        finalize_content: `fn(exec, outcome)` makes the last change of the content, or returns
            `None` to keep it.
        timeout_ms: How long a call should take at most; the plugin `tool-timeout` enforces it.
        parse: Checks the arguments and makes the keywords of the call, in place of `parameters`;
            raises `ValueError`. `@tool` fills it in.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    execute: Callable[..., Any]
    output: ToolOutput | None = None
    is_concurrency_safe: Callable[[Arguments], object] | None = None
    finalize_content: Callable[[ToolExec, ToolOutcome], str | Iterable[Block] | None] | None = None
    timeout_ms: float | None = None
    parse: Callable[[object], Arguments] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tool needs a name")
        if self.timeout_ms is not None and not (isfinite(self.timeout_ms) and self.timeout_ms > 0):
            raise ValueError(f'tool "{self.name}": timeout_ms must be positive and finite')


def is_async(fn: Callable[..., Any]) -> bool:
    """Tells whether a call of `fn` is to be awaited; `fn` may be an object with `__call__`."""
    return iscoroutinefunction(fn) or iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004  # an object with an async __call__
    )
