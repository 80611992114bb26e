"""`@tool`: a definition from a typed function."""

import sys
from collections.abc import AsyncIterator, Callable
from datetime import date
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from terret_agents import Agent
from terret_llm import TextBlock
from terret_testing import running_harness
from terret_tools import INVALID_ARGS, INVALID_TOOL_OUTPUT, ToolExec, ToolOutcome, ToolRun, Tools
from terret_tools import tool as make_tool


async def outcome_of(fn: Callable[..., Any], **arguments: object) -> ToolOutcome:
    async with running_harness() as h:
        definition = make_tool(fn)
        h.ctx[Tools].register(definition)
        exec = ToolExec(call_id="c", name=definition.name, arguments=arguments, agent=h.agent)
        return await h.ctx[Tools].execute(exec)


def properties(fn: Callable[..., Any]) -> Any:
    return make_tool(fn).parameters["properties"]


def search(
    run: ToolRun,
    query: str,
    *,
    limit: Annotated[int, Field(ge=1, description="how many")] = 20,
    _raw: bool = False,
) -> str:
    """Search the notes.

    Finds words, not meanings.

    Args:
        query (str): what to look for;
            words are joined by "and"
        limit: overruled by the annotation
        unknown: is no parameter

    Returns:
        One line for each note.
    """
    return f"{run.name} {query} {limit} {_raw}"


def test_a_definition_is_read_off_the_function() -> None:
    """T-009: Name, description and parameters from signature, annotations and docstring."""
    definition = make_tool(search)
    assert definition.name == "search"
    assert definition.description == "Search the notes.\n\nFinds words, not meanings."
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": 'what to look for; words are joined by "and"',
            },
            "limit": {"type": "integer", "minimum": 1, "default": 20, "description": "how many"},
            "_raw": {"type": "boolean", "default": False},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_the_decorator_takes_what_the_function_does_not_say() -> None:
    """T-009: Name and description may be given; policies see the rest on the definition."""
    define = make_tool(name="find", description="Find.", is_concurrency_safe=bool, timeout_ms=9)
    definition = define(search)
    assert (definition.name, definition.description) == ("find", "Find.")
    assert (definition.is_concurrency_safe, definition.timeout_ms) == (bool, 9)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: float
    y: float = 0
    tags: list[Literal["a", "b"]] = []


def test_annotations_become_json_schema() -> None:
    """T-035: Required lists at each level, enums, defaults, items, explicit openness kept."""

    def paint(where: Point, colour: Colour, sizes: tuple[int, int], day: date | None = None) -> str:
        return ""

    schema = make_tool(paint).parameters
    assert schema["required"] == ["where", "colour", "sizes"]
    defs: Any = schema["$defs"]
    assert defs["Point"]["required"] == ["x"]
    assert defs["Point"]["additionalProperties"] is True
    assert defs["Point"]["properties"]["tags"]["items"] == {"type": "string", "enum": ["a", "b"]}
    assert defs["Colour"]["enum"] == ["red", "blue"]
    assert properties(paint)["day"]["default"] is None
    assert properties(paint)["sizes"]["minItems"] == 2


async def test_bodies_get_values_of_the_annotated_types() -> None:
    """T-105: Arguments are validated with pydantic."""
    got: list[object] = []

    def paint(where: Point, colour: Colour, day: date) -> str:
        got.extend((where, colour, day))
        return "ok"

    where = {"x": 1, "z": 2}
    outcome = await outcome_of(paint, where=where, colour="red", day="2026-01-02")
    assert outcome.text == "ok"
    assert got == [Point.model_validate(where), Colour.RED, date(2026, 1, 2)]


async def test_parameters_left_out_take_their_defaults() -> None:
    """T-105: Defaults of the signature; a default that can change is not shared."""

    def collect(item: str, into: list[str] = [], size: int = Field(3, le=5)) -> str:  # noqa: B006  # on purpose
        into.append(item)
        return f"{into} {size}"

    assert (await outcome_of(collect, item="a")).text == "['a'] 3"
    assert (await outcome_of(collect, item="b")).text == "['b'] 3"


async def test_violations_come_back_with_pointers() -> None:
    """T-105, T-040: Violations are listed in INVALID_ARGS."""

    def paint(where: Point, mix: list[int | Point]) -> str:
        raise AssertionError("the body ran")

    outcome = await outcome_of(paint, where={"tags": ["c"]}, mix=[1, {"x": "no"}], rest=0)
    assert outcome.code == INVALID_ARGS
    assert outcome.error is not None
    assert outcome.error.info is not None
    assert outcome.error.info.data is not None
    found: Any = outcome.error.info.data["violations"]
    assert {each["pointer"] for each in found} == {
        "/where/x",
        "/where/tags/0",
        "/mix/1",
        "/mix/1/x",
        "/rest",
    }
    assert "- /where/x: Field required" in outcome.text


async def test_any_name_a_parameter_can_have_will_do() -> None:
    """T-009: Names that pydantic reserves for its models are parameters like all others."""

    def odd(json: str, model_config: int, copy: bool, **more: int) -> str:
        return f"{json} {model_config} {copy} {more}"

    assert make_tool(odd).parameters["additionalProperties"] == {"type": "integer"}
    outcome = await outcome_of(odd, json="j", model_config=1, copy=True, self=4)
    assert outcome.text == "j 1 True {'self': 4}"


@pytest.mark.parametrize("raw", ["not json", 5, None, [1]])
async def test_arguments_that_are_no_object_are_violations(raw: object) -> None:
    """T-041: A non-object root always fails."""
    async with running_harness() as h:
        h.ctx[Tools].register(make_tool(search))
        exec = ToolExec(call_id="c", name="search", arguments=raw)
        outcome = await h.ctx[Tools].execute(exec)
        assert outcome.code == INVALID_ARGS
        assert outcome.text.startswith(
            "Error: invalid arguments for search:\n- /: must be a JSON object"
        )


async def test_a_function_may_do_without_the_run() -> None:
    """T-009: The run is passed to those that ask for it, by type or by name."""

    async def plain(a: int) -> str:
        return f"plain {a}"

    def by_name(run, a: int) -> str:  # type: ignore[no-untyped-def]  # `run` is found by its name
        assert isinstance(run.agent, Agent)
        return f"{run.call_id} {run.root_call_id} {a}"

    assert (await outcome_of(plain, a=1)).text == "plain 1"
    assert (await outcome_of(by_name, a=2)).text == "c c 2"


class Weather(BaseModel):
    wind_speed: float = Field(alias="windSpeed")
    day: date


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (float, 1.5, "1.5"),
        (int, 7, "7"),
        (dict[str, list[int]], {"a": [1]}, '{"a":[1]}'),
        (
            Weather,
            Weather(windSpeed=3, day=date(2026, 1, 2)),
            '{"windSpeed":3.0,"day":"2026-01-02"}',
        ),
        (type(None), None, "null"),
        (str, "as it is", "as it is"),
        (list[TextBlock], [TextBlock("a"), TextBlock("b")], "ab"),
        (str | TextBlock, "either", "either"),
    ],
)
async def test_a_return_type_that_is_no_text_reaches_the_model_as_json(
    annotation: object, value: object, text: str
) -> None:
    """T-009, T-004: Without output declaration the body returns text or blocks."""

    async def make() -> object:
        return value

    make.__annotations__["return"] = annotation
    outcome = await outcome_of(make)
    assert not outcome.is_error
    assert outcome.text == text


async def test_a_value_that_is_not_of_the_return_type_is_one_failed_call() -> None:
    """T-025: A value that violates its declaration gives a failed call."""

    async def wrong() -> int:
        return "many"  # type: ignore[return-value]  # the mistake under test

    outcome = await outcome_of(wrong)
    assert outcome.code == INVALID_TOOL_OUTPUT
    assert "valid integer" in outcome.text


def positional(a: int, /) -> str:
    return ""


def variadic(*rest: int) -> str:
    return ""


def late_run(a: int, run: ToolRun) -> str:
    return ""


def takes_a_function(then: Callable[[], None]) -> str:
    return ""


def gives_a_module() -> ModuleType:
    return sys


async def streams() -> AsyncIterator[str]:
    yield ""


@pytest.mark.parametrize(
    "fn", [positional, variadic, late_run, takes_a_function, gives_a_module, streams]
)
def test_a_signature_that_a_model_cannot_call_is_refused(fn: Callable[..., object]) -> None:
    """T-009: What cannot be called with named JSON arguments raises when it is defined."""
    with pytest.raises(TypeError, match=rf"@tool {fn.__name__}: "):
        make_tool(fn)


def greet(greeting: str, name: str) -> str:
    """Greet somebody."""
    return f"{greeting} {name}"


class Greeter:
    async def __call__(self, run: ToolRun, name: str) -> str:
        return f"Hello {name}"


@pytest.mark.parametrize("fn", [lambda name: f"Hello {name}", partial(greet, "Hello"), Greeter()])
async def test_what_has_no_name_of_its_own_is_given_one(fn: Callable[..., Any]) -> None:
    """T-009: A lambda, a partial call, an object that can be called."""
    with pytest.raises(TypeError, match=r"@tool\(name=\.\.\.\)"):
        make_tool(fn)
    async with running_harness() as h:
        h.ctx[Tools].register(make_tool(name="greet")(fn))
        call = ToolExec(call_id="c", name="greet", arguments={"name": "Ada"})
        assert (await h.ctx[Tools].execute(call)).text == "Hello Ada"


def test_a_partial_call_is_described_as_the_function_it_calls() -> None:
    """T-009: And not as partial calls are."""
    assert make_tool(name="greet")(partial(greet, "Hello")).description == "Greet somebody."


async def test_named_arguments_of_any_number_have_the_type_they_are_given() -> None:
    """T-009: `**scores: int` takes integers only, and the schema says so."""

    async def rank(**scores: int) -> str:
        return max(scores, key=lambda name: scores[name])

    assert make_tool(rank).parameters["additionalProperties"] == {"type": "integer"}
    assert (await outcome_of(rank, a=1, b=2)).text == "b"
    assert "/b: " in (await outcome_of(rank, a=1, b="many")).text
