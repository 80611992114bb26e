import pytest

from terret_llm import (
    Message,
    ToolCallBlock,
    ToolSchema,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_llm_local._routing import candidates, route_prompt, route_schema
from terret_plugin_llm_local._turns import Turn, read_turn

NUMBER = {"type": "number"}
ADD = ToolSchema(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
)
NOW = ToolSchema("now", "Tell the current date and time.", {"type": "object", "properties": {}})
COUNT = ToolSchema("count_words", "Count the words.", {"type": "object", "properties": {}})
TOOLS = (ADD, NOW, COUNT)


def turn_of(request: str, *before: Message) -> Turn:
    return read_turn([*before, create_user_message(request)])


def names(request: str, *before: Message) -> tuple[list[str], bool]:
    meant, sure = candidates(TOOLS, turn_of(request, *before))
    return [tool.name for tool in meant], sure


def called(tool: str, result: str) -> tuple[Message, ...]:
    call = ToolCallBlock("call-1", tool, "{}")
    return (
        create_user_message("What is 17 + 25?"),
        create_assistant_message([call], "local", "m"),
        create_tool_result_message("call-1", result),
        create_assistant_message(f"It is {result}.", "local", "m"),
    )


@pytest.mark.parametrize(
    ("request_", "tool"),
    [
        ("Use the add tool.", "add"),
        ("call now() please", "now"),
        ("run count_words for me", "count_words"),
    ],
)
def test_a_tool_that_is_named_is_meant_for_sure(request_: str, tool: str) -> None:
    assert names(request_) == ([tool], True)


@pytest.mark.parametrize(
    ("request_", "tools"),
    [
        ("What is 17 + 25?", ["add"]),
        ("Find the sum of 8 and 13", ["add"]),
        ("What time is it?", ["now"]),
        ("Now add 100 and 11.", ["add"]),
        ("How many words and what date?", ["now", "count_words"]),
    ],
)
def test_words_of_a_tool_make_it_a_candidate(request_: str, tools: list[str]) -> None:
    assert names(request_) == (tools, False)


@pytest.mark.parametrize(
    "remark",
    [
        "Hello!",
        "We had a good time yesterday.",
        "I have 2 brothers and 3 sisters.",
        "Now I can add that to my collection.",
        "Why does time fly?",
        "",
    ],
)
def test_small_talk_and_remarks_mean_no_tool(remark: str) -> None:
    meant, _ = names(remark)
    assert meant == []


def test_a_follow_up_without_words_of_a_tool_goes_to_the_tool_of_the_turn_before() -> None:
    assert names("And minus 2?", *called("add", "42")) == (["add"], True)


def test_a_follow_up_after_plain_talk_means_no_tool() -> None:
    talk = create_user_message("Hello!"), create_assistant_message("Hi!", "local", "m")
    meant, _ = names("And you?", *talk)
    assert meant == []


def test_words_of_another_tool_beat_the_tool_of_the_turn_before() -> None:
    assert names("And what time is it?", *called("add", "42")) == (["now"], False)


def test_the_model_may_answer_none_unless_a_tool_is_meant_for_sure() -> None:
    assert route_schema([ADD, NOW], sure=False) == {"enum": ["add", "now", "none"]}
    assert route_schema([ADD, NOW], sure=True) == {"enum": ["add", "now"]}


def test_the_examples_of_the_prompt_are_made_from_the_descriptions() -> None:
    prompt = route_prompt([ADD], turn_of("the sum of 1 and 2"))
    said = [message.text for message in prompt.messages]
    assert said[2:4] == ["Add two numbers.", '"add"']
    assert said[-1] == "the sum of 1 and 2"
