from terret_llm import (
    Message,
    PluginSource,
    ToolCallBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_llm_local._turns import Called, read_turn


def call(id: str, name: str) -> Message:
    return create_assistant_message([ToolCallBlock(id, name, "{}")], "local", "m")


def test_the_request_is_the_last_text_of_a_person() -> None:
    notice = create_user_message("It is Monday.", PluginSource("clock"))
    turn = read_turn([create_user_message("Hello"), create_user_message("What is 1 + 2?"), notice])
    assert turn.request == "What is 1 + 2?"
    assert turn.called is None


def test_a_result_after_the_request_belongs_to_it() -> None:
    history = [
        create_user_message("What is 1 + 2?"),
        call("a", "add"),
        create_tool_result_message("a", "3\n"),
    ]
    assert read_turn(history).called == Called("add", "3", is_error=False)


def test_a_result_before_the_request_belongs_to_the_turn_before() -> None:
    history = [
        create_user_message("What is 1 + 2?"),
        call("a", "add"),
        create_tool_result_message("a", "3"),
        create_assistant_message("It is 3.", "local", "m"),
        create_user_message("And minus 2?"),
    ]
    turn = read_turn(history)
    assert (turn.called, turn.earlier) == (None, Called("add", "3", is_error=False))
    assert turn.earlier_text == "3"


def test_only_the_turn_before_is_looked_at() -> None:
    history = [
        create_user_message("What is 1 + 2?"),
        call("a", "add"),
        create_tool_result_message("a", "3"),
        create_user_message("Thanks!"),
        create_assistant_message("You are welcome.", "local", "m"),
        create_user_message("And minus 2?"),
    ]
    turn = read_turn(history)
    assert turn.earlier is None
    assert turn.earlier_text == "You are welcome."


def test_a_conversation_without_a_person_has_no_request() -> None:
    assert read_turn([]).request == ""
