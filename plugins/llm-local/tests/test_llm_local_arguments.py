from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import ToolSchema
from terret_plugin_llm_local._arguments import (
    argument_prompt,
    argument_schema,
    determined,
    without,
)
from terret_plugin_llm_local._turns import Turn

NUMBER = {"type": "number"}
TEXT = {"type": "string"}


def tool(*required: str, **properties: object) -> ToolSchema:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSchema("do_it", "Do it.", parameters)


def choices(tool: ToolSchema, request: str, earlier: str = "") -> dict[str, Any] | None:
    """The values that each argument may have, or None if the tool cannot be called."""
    schema = argument_schema(tool, Turn(request, None, None, earlier))
    if schema is None:
        return None
    properties: Any = schema["properties"]
    assert schema["required"] == list(properties)
    return {name: part.get("enum", part) for name, part in properties.items()}


ADD = tool("a", "b", a=NUMBER, b=NUMBER)


def test_as_many_numbers_as_are_needed_are_used_in_their_order() -> None:
    assert choices(ADD, "What is 17 + 25?") == {"a": [17], "b": [25]}


def test_of_more_numbers_than_are_needed_the_model_chooses() -> None:
    assert choices(ADD, "add 1, 2 or 3") == {"a": [1, 2, 3], "b": [1, 2, 3]}


def test_the_turn_before_lends_the_numbers_that_are_missing() -> None:
    assert choices(ADD, "And minus 2?", earlier="40 and 42") == {"a": [42], "b": [-2]}


def test_a_request_without_any_number_borrows_none() -> None:
    assert choices(ADD, "And?", earlier="40 and 42") is None


@pytest.mark.parametrize("request_", ["add 5", "add", ""])
def test_a_tool_whose_numbers_are_missing_cannot_be_called(request_: str) -> None:
    assert choices(ADD, request_) is None


def test_an_integer_takes_whole_numbers_only() -> None:
    sides = tool("sides", sides={"type": "integer"})
    assert choices(sides, "with 20 sides") == {"sides": [20]}
    assert choices(sides, "with 2.5 sides") is None


def test_a_text_is_what_is_quoted_if_something_is() -> None:
    assert choices(tool("text", text=TEXT), 'Please turn "good night" around') == {
        "text": ["good night"]
    }


def test_further_texts_may_stand_outside_the_quotes() -> None:
    mail = tool("to", "text", to=TEXT, text=TEXT)
    found = choices(mail, 'Write "hi" to Bob')
    assert found == {"to": ["hi", "Bob"], "text": ["hi", "Bob"]}


def test_a_number_is_no_text_of_a_tool_that_needs_numbers() -> None:
    pay = tool("amount", "to", amount=NUMBER, to=TEXT)
    assert choices(pay, "Pay 20 to Bob") == {"amount": [20], "to": ["Bob"]}


def test_an_optional_text_needs_something_like_a_name() -> None:
    now = tool(zone={"type": ["string", "null"]})
    assert choices(now, "the time today, at 5") == {}
    assert choices(now, "the time, in Europe/Berlin") == {"zone": ["Europe/Berlin"]}


def test_an_optional_number_needs_a_number_to_spare() -> None:
    roll = tool("sides", sides=NUMBER, count={"anyOf": [NUMBER, {"type": "null"}]})
    assert choices(roll, "with 20 sides") == {"sides": [20]}
    assert choices(roll, "2 dice with 20 sides") == {"sides": [2, 20], "count": [2, 20]}


def test_of_listed_values_those_that_are_said_are_offered() -> None:
    ticket = tool("kind", kind={"enum": ["bug", "wish"]}, priority={"enum": ["low", "high"]})
    assert choices(ticket, "a bug with High priority") == {"kind": ["bug"], "priority": ["high"]}
    assert choices(ticket, "open one") == {"kind": ["bug", "wish"]}


def test_lists_and_objects_are_narrowed_inside() -> None:
    sums = tool("values", values={"type": "array", "items": NUMBER})
    assert choices(sums, "sum 1, 2 and 3") == {"values": [[1, 2, 3]]}
    names = tool("names", names={"type": "array", "items": TEXT})
    assert choices(names, "greet Bob") == {
        "names": {"type": "array", "items": {"enum": ["Bob"]}, "minItems": 1, "maxItems": 8}
    }
    nested = tool("who", who={"type": "object", "properties": {"name": TEXT}, "required": ["name"]})
    found = choices(nested, "greet Bob")
    assert found is not None
    assert found["who"]["properties"] == {"name": {"enum": ["Bob"]}}


def test_what_cannot_be_narrowed_stays_as_it_is_if_it_is_required() -> None:
    flag = tool("on", on={"type": "boolean"}, later={"type": "boolean"})
    assert choices(flag, "switch it on") == {"on": {"type": "boolean"}}


def test_definitions_stay_reachable() -> None:
    parameters = {
        "type": "object",
        "properties": {"point": {"$ref": "#/$defs/Point"}},
        "required": ["point"],
        "$defs": {"Point": {"type": "object"}},
    }
    schema = argument_schema(ToolSchema("go", "Go.", parameters), Turn("go", None, None, ""))
    assert schema is not None
    assert schema["$defs"] == {"Point": {"type": "object"}}


@given(st.text(max_size=60))
def test_every_offered_text_stands_in_the_request(request_: str) -> None:
    found = choices(tool("text", text=TEXT), request_) or {"text": []}
    assert all(word in request_ for text in found["text"] for word in text.split())


def test_the_prompt_shows_the_signature_and_the_request() -> None:
    prompt = argument_prompt(ADD, Turn("What is 17 + 25?", None, None, ""))
    assert prompt.messages[-1].text == "do_it(a, b): What is 17 + 25?"
    assert prompt.temperature == 0


def test_what_leaves_no_choice_is_determined_and_the_rest_is_asked() -> None:
    pay = tool("amount", "to", amount=NUMBER, to=TEXT)
    schema = argument_schema(pay, Turn("Pay 20 to Bob or Alice", None, None, ""))
    assert schema is not None
    assert determined(schema) == {"amount": 20}
    asked = without(schema, determined(schema))
    assert asked["required"] == ["to"]
    assert asked["additionalProperties"] is False
