"""A model that can add, and no more. It asks for that in the way it is told to.

Where it is offered tools, it calls `add`; where it is told to write Python, it writes a program.
"""

import json
import re
from collections.abc import AsyncGenerator

from terret_context import Context, plugin
from terret_llm import (
    BlockEnd,
    Chunk,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)

NUMBER = re.compile(r"\d+(?:\.\d+)?")
SUM = re.compile(r"(\d+) \+ (\d+)")


class Clerk(LlmAdapter):
    """Answers "How much is 17 + 25?", with the help of the tool `add`."""

    async def stream(self, request: GenerateOptions) -> AsyncGenerator[Chunk, None]:
        last = request.messages[-1]
        found = SUM.search(last.text)
        if found is None:
            yield BlockEnd(0, TextBlock(f"It is {result_in(last):g}."))
            yield FinishChunk(Finish.stop())
        elif request.tools:
            arguments = json.dumps({"a": int(found[1]), "b": int(found[2])})
            yield BlockEnd(0, ToolCallBlock(f"sum-{len(request.messages)}", "add", arguments))
            yield FinishChunk(Finish.tool_calls())
        else:
            yield BlockEnd(0, TextBlock(f"```python\nprint(add({found[1]}, {found[2]}))\n```"))
            yield FinishChunk(Finish.stop())


def result_in(message: Message) -> float:
    """Returns the last number of what the tool said, however the loop hands it over."""
    results = [block.text for block in message.content if isinstance(block, ToolResultBlock)]
    return float(NUMBER.findall(" ".join([message.text, *results]))[-1])


@plugin(inject=(Llm,))
def clerk(ctx: Context) -> None:
    """Registers the model under the provider `clerk`."""
    ctx[Llm].register_adapter(["clerk"], Clerk())
