"""`@tool`: a definition from a typed function."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from types import UnionType
from typing import Any, Union, get_args, get_origin, overload

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import to_json

from terret_llm import Block

from ._calls import ToolExec, ToolRun
from ._definition import Arguments, Tool, ToolOutput, is_async
from ._docstring import parse_docstring
from ._outcome import ToolOutcome
from ._signature import SchemaOf, Signature, first_line

_UNIONS = (Union, UnionType)
_COLLECTIONS = (list, tuple, Sequence, Iterable)


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    output: ToolOutput | None = None,
    is_concurrency_safe: Callable[[Arguments], object] | None = None,
    finalize_content: Callable[[ToolExec, ToolOutcome], str | Iterable[Block] | None] | None = None,
    timeout_ms: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    output: ToolOutput | None = None,
    is_concurrency_safe: Callable[[Arguments], object] | None = None,
    finalize_content: Callable[[ToolExec, ToolOutcome], str | Iterable[Block] | None] | None = None,
    timeout_ms: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a `Tool` of a function, to be registered with `ctx[Tools].register`.

    The parameters, their types and defaults become the schema, with their names as written; the
    docstring becomes the description, and its `Args:` section describes the parameters. A first
    parameter of type `ToolRun` (or called `run` and not annotated) gets the run. A return type
    other than text or blocks becomes the output: the model gets it as JSON.

    Raises `TypeError` for a signature that cannot be called with named arguments, for types that
    are no JSON, and for a generator; an object that has no name of its own needs `name`.
    """

    def define(fn: Callable[..., Any]) -> Tool:
        called = name or _name_of(fn)
        text, described = parse_docstring((fn.func if isinstance(fn, partial) else fn).__doc__)
        signature = Signature(called, fn, described)
        return Tool(
            name=called,
            description=description or text,
            parameters=signature.schema,
            execute=fn if signature.takes_run else _without_run(fn),
            output=output or _output_of(called, signature.returns),
            is_concurrency_safe=is_concurrency_safe,
            finalize_content=finalize_content,
            timeout_ms=timeout_ms,
            parse=signature.parse,
        )

    return define if fn is None else define(fn)


def _name_of(fn: Callable[..., Any]) -> str:
    name = str(getattr(fn, "__name__", ""))
    if name in ("", "<lambda>"):
        raise TypeError(f"@tool: {fn!r} has no name, give it one: @tool(name=...)")
    return name


def _without_run(fn: Callable[..., Any]) -> Callable[..., Any]:
    if is_async(fn):

        @wraps(fn)
        async def call_async(run: ToolRun, /, **args: Any) -> Any:
            return await fn(**args)

        return call_async

    @wraps(fn)
    def call(run: ToolRun, /, **args: Any) -> Any:
        return fn(**args)

    return call


def _output_of(tool: str, returns: object) -> ToolOutput | None:
    if returns is inspect.Signature.empty or returns is Any or _is_content(returns):
        return None
    try:
        adapter: TypeAdapter[object] = TypeAdapter(returns)  # type: ignore[arg-type]  # any type
        schema = adapter.json_schema(mode="serialization", schema_generator=SchemaOf)
    except PydanticUserError as error:
        raise TypeError(f"@tool {tool}: what it returns: {first_line(error)}") from error

    def encode(value: object) -> object:
        return adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)

    def render(args: Arguments, value: object) -> str:
        return to_json(value).decode()

    return ToolOutput(schema=schema, render=render, encode=encode)


def _is_content(annotation: object) -> bool:
    """Whether a return type is text, blocks, or one of both."""
    if annotation is str or _is_block(annotation):
        return True
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in _UNIONS:
        return all(_is_content(part) for part in parts)
    return origin in _COLLECTIONS and all(_is_block(part) for part in parts if part is not ...)


def _is_block(annotation: object) -> bool:
    blocks = get_args(Block)
    return annotation in blocks or (
        get_origin(annotation) in _UNIONS and all(part in blocks for part in get_args(annotation))
    )
