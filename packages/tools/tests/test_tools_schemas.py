"""Foreign JSON Schemas."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_context import Container
from terret_system_prompt import SystemPrompt
from terret_testing import call, running_harness, say, script
from terret_tools import (
    INVALID_ARGS,
    INVALID_TOOL_OUTPUT,
    Tool,
    ToolExec,
    ToolOutcome,
    ToolOutput,
    ToolRun,
    Tools,
    UnsupportedSchemaError,
)


async def echo(run: ToolRun, /, **args: object) -> str:
    return repr(args)


def foreign(parameters: dict[str, Any], **fields: Any) -> Tool:
    given: dict[str, Any] = {"name": "t", "description": "", "execute": echo} | fields
    return Tool(parameters=parameters, **given)


@pytest.fixture
async def tools() -> AsyncIterator[Tools]:
    async with Container() as root:
        root.plugin(SystemPrompt)
        await root.plugin(Tools).ready()
        yield root[Tools]


async def run(tools: Tools, arguments: object) -> ToolOutcome:
    return await tools.execute(ToolExec(call_id="c", name="t", arguments=arguments))


TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "left": {"$ref": "#"},
        "right": {"$ref": "#/$defs/leaf"},
    },
    "$defs": {"leaf": {"type": "string"}},
    "required": ["value"],
}


async def test_local_references_are_followed(tools: Tools) -> None:
    """T-036: A schema with local `$ref` (recursive too) is accepted."""
    tools.register(foreign(TREE))
    assert not (await run(tools, {"value": 1, "left": {"value": 2, "right": "x"}})).is_error
    assert (
        "- /left/left: " in (await run(tools, {"value": 1, "left": {"value": 2, "left": {}}})).text
    )


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "string"}, "/type"),
        ({}, "/type"),
        ({"type": ["object"]}, "/type"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "/properties/a/type"),
        ({"type": "object", "required": "a"}, "/required"),
        ({"type": "object", "minProperties": -1}, "/minProperties"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        (
            {"type": "object", "properties": {"a/b": {"$ref": "other.json#/x"}}},
            "/properties/a~1b/$ref",
        ),
        ({"type": "object", "allOf": [{"$ref": "https://example.com/x"}]}, "/allOf/0/$ref"),
        ({"type": "object", "$dynamicRef": "https://example.com/x#y"}, "/$dynamicRef"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, ""),
        ({"type": "object", "title": float("nan")}, "/title"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_with_its_place(
    tools: Tools, schema: dict[str, Any], pointer: str
) -> None:
    """T-036: UNSUPPORTED_SCHEMA with its pointer; nothing is fetched."""
    with pytest.raises(UnsupportedSchemaError) as info:
        tools.register(foreign(schema))
    assert (info.value.tool, info.value.pointer) == ("t", pointer)
    assert info.value.code == "UNSUPPORTED_SCHEMA"
    assert tools.schemas() == ()


async def test_a_reference_in_a_place_for_data_is_no_reference(tools: Tools) -> None:
    """T-036: Only references count, not data or properties that look like one."""
    look_alikes = {"default": {"$ref": "https://example.com"}, "enum": [{"$ref": "x"}]}
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "a": look_alikes}}
    tools.register(foreign(schema))
    assert not (await run(tools, {"$ref": "fine"})).is_error


async def test_the_schema_of_an_output_is_checked_too(tools: Tools) -> None:
    """T-036: The error says which of the two schemas it is about."""
    output = ToolOutput(schema={"type": "word"}, render=lambda args, value: "")
    with pytest.raises(UnsupportedSchemaError, match="output schema"):
        tools.register(foreign({"type": "object"}, output=output))


OPEN = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
CLOSED = OPEN | {"additionalProperties": False, "required": ["a"]}
RICH = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["x", 1, None]},
        "list": {"type": "array", "items": {"type": "object", "required": ["n"]}, "maxItems": 2},
        "any": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "one": {"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]},
        "word": {"type": "string", "pattern": "^[a-z]+$"},
        "flag": {"type": "boolean"},
    },
}


@pytest.mark.parametrize(
    ("schema", "arguments", "pointers"),
    [
        (OPEN, {}, []),
        (OPEN, {"b": 1}, []),
        (CLOSED, {}, [""]),
        (CLOSED, {"a": 1, "b": 1}, [""]),
        (CLOSED, {"a": 1.0}, []),
        (CLOSED, {"a": "1"}, ["/a"]),
        (CLOSED, {"a": True}, ["/a"]),
        (RICH, {"kind": None, "any": 1, "one": 3, "word": "ok", "list": [{"n": 0}]}, []),
        (RICH, {"kind": "1", "flag": 0}, ["/flag", "/kind"]),
        (RICH, {"list": [{"n": 1}, {}]}, ["/list/1"]),
        (RICH, {"list": [{"n": 1}] * 3}, ["/list"]),
        (RICH, {"any": [], "one": 15, "word": "No"}, ["/any", "/one", "/word"]),
        (OPEN, "no object", [""]),
    ],
)
async def test_arguments_are_checked_as_the_schema_says(
    tools: Tools, schema: dict[str, Any], arguments: object, pointers: list[str]
) -> None:
    """T-037, T-040: Missing, extra, primitives, enum, nested, unions, patterns; no defaults."""
    tools.register(foreign(schema))
    outcome = await run(tools, arguments)
    if not pointers:
        assert outcome.text == repr(arguments)
        return
    assert outcome.code == INVALID_ARGS
    assert outcome.error is not None
    assert outcome.error.info is not None
    assert outcome.error.info.data is not None
    found: Any = outcome.error.info.data["violations"]
    assert sorted(each["pointer"] for each in found) == pointers
    assert outcome.text.startswith("Error: invalid arguments for t:\n- ")


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "number"}, 1.5, "1.5"),
        ({"type": "array", "items": {"type": "string"}}, ["a"], ["a", 1]),
        ({"type": "object", "required": ["a"]}, {"a": 1, "b": 2}, {"b": 2}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 2}),
        ({"enum": ["x"], "const": "x"}, "x", "y"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, None, 0),
        ({}, {"any": ["thing"]}, {"no": {1, 2}}),
        ({}, [1, 2], float("nan")),
        ({}, "text", b"bytes"),
        ({}, 2**53 - 1, 2**53),
    ],
)
async def test_values_are_checked_against_the_output(
    tools: Tools, schema: dict[str, Any], good: object, bad: object
) -> None:
    """T-039, T-025: Values that are lossy or violate the schema give one failed call."""
    values = iter((good, bad))

    async def execute(run: ToolRun, /) -> object:
        return next(values)

    output = ToolOutput(schema=schema, render=lambda args, value: f"rendered {value}")
    tools.register(foreign({"type": "object"}, execute=execute, output=output))
    first, second = await run(tools, {}), await run(tools, {})
    assert (first.text, first.value) == (f"rendered {good}", good)
    assert second.code == INVALID_TOOL_OUTPUT
    assert second.value is None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)
satisfying = st.fixed_dictionaries(
    {"value": st.integers(-1000, 1000)}, optional={"right": st.text(st.characters(codec="utf-8"))}
)


@given(arbitrary=json, good=satisfying)
async def test_validation_is_total(arbitrary: object, good: dict[str, object]) -> None:
    """T-041: Validation never raises; satisfying arguments pass; a lost key or root fails."""
    async with Container() as root:
        root.plugin(SystemPrompt)
        await root.plugin(Tools).ready()
        tools = root[Tools]
        tools.register(foreign(TREE))
        assert isinstance(await run(tools, arbitrary), ToolOutcome)
        assert not (await run(tools, good)).is_error
        assert (
            await run(tools, {k: v for k, v in good.items() if k != "value"})
        ).code == INVALID_ARGS
        assert (await run(tools, [good])).code == INVALID_ARGS


async def test_a_schema_reaches_the_adapter_unchanged() -> None:
    """T-106: A schema reaches the provider's adapter unchanged."""
    model = script(call("t", value=1), say("ok"))
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(foreign(TREE))
        await h.send("go")
        assert [schema.parameters for schema in h.requests[0].tools] == [TREE]
        assert h.requests[0].tools == h.requests[1].tools
