from collections.abc import Iterable, Sequence

from terret_llm import GenerateOptions, Message, create_assistant_message, create_user_message

Examples = Iterable[tuple[str, str]]
"""Pairs of what is asked and what the model is to answer."""


def few_shot(
    instruction: str, examples: Examples, asked: str, *, max_tokens: int
) -> GenerateOptions:
    """A request that goes on with a conversation in which the model has answered `examples`.

    What does not change comes first, so that the server reads it once and keeps it.
    """
    messages: list[Message] = []
    for question, answer in examples:
        messages.append(create_user_message(question))
        messages.append(create_assistant_message(answer, "", ""))
    messages.append(create_user_message(asked))
    return GenerateOptions(
        provider="",
        model="",
        system=instruction,
        messages=messages,
        temperature=0.0,
        max_tokens=max_tokens,
    )


def spoken(messages: Sequence[Message]) -> list[Message]:
    """What was said in words: a small model's chat template knows no tool calls and results."""
    said: list[Message] = []
    for message in messages:
        if message.text and message.role == "assistant":
            said.append(create_assistant_message(message.text, "", ""))
        elif message.text:
            said.append(message if len(message.content) == 1 else create_user_message(message.text))
    return said
