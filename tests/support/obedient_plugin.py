"""A model that does what it is told, and tools for it: the plugin of a project in a test.

A message is a list of orders, separated by `;`: `NAME {...}` calls a tool, `fail` fails, `again`
calls `add` in every step, `falter` fails once in the middle of the answer. Whatever else it hears,
it repeats, piece by piece unless it was `at once`; after calls it tells their results.
"""

import json
import re
import signal
import subprocess
import threading
from pathlib import Path

import anyio

from terret_context import Context, plugin
from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    LlmError,
    LlmFailure,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultBlock,
)
from terret_tools import Tools, tool

ORDER = re.compile(r"(\w+) (\{.*\})")


class Obedient(LlmAdapter):
    """Does what the last message of a person says."""

    def __init__(self) -> None:
        self.faltered = False

    async def stream(self, request: GenerateOptions) -> Chunks:
        last = request.messages[-1]
        orders = next(
            each.text for each in reversed(request.messages) if each.source.kind == "user"
        )
        calls = [ORDER.fullmatch(order.strip()) for order in orders.split(";")]
        if orders == "fail":
            raise RuntimeError("no connection to the model")
        if orders == "again":
            calls = [ORDER.fullmatch('add {"a": 1, "b": 1}')]
        results = [block.text for block in last.content if isinstance(block, ToolResultBlock)]
        if calls[0] and (not results or orders == "again"):
            for number, call in enumerate(calls):
                assert call is not None
                yield BlockStart(number, "tool-call")
                yield BlockEnd(number, ToolCallBlock(f"c{number}", call[1], call[2]))
            yield FinishChunk(Finish.tool_calls())
            return
        text = f"You said: {orders}" if not results else f"It gave: {', '.join(results)}"
        yield BlockStart(0, "text")
        for word in re.findall(r"\S+\s*", text):
            await anyio.lowlevel.checkpoint()
            if orders != "at once":
                yield TextDelta(0, word)
            if orders == "falter" and not self.faltered:
                self.faltered = True
                raise LlmError(LlmFailure("the server hung up", "SERVER", None, 1))
        yield BlockEnd(0, TextBlock(text))
        yield FinishChunk(Finish.stop())


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def refund(order: str, amount: int) -> str:
    """Give money back."""
    return json.dumps({"order": order, "amount": amount})


@tool
def shout() -> str:
    """Write to standard output, here and in another process."""
    print("a tool prints")
    subprocess.run(["echo", "its process prints"], check=True)
    return "done"


@tool
async def hang() -> None:
    """Never end."""
    await anyio.Path("started").touch()
    await anyio.sleep_forever()


@tool
def block() -> None:
    """Hold a thread for good."""
    Path("started").touch()
    threading.Event().wait()


@tool
async def leave() -> str:
    """Leave a thread behind that never ends."""
    threading.Thread(target=threading.Event().wait).start()
    return "done"


@tool
async def interrupt() -> None:
    """Send this process what Ctrl-C sends, and never end."""
    signal.raise_signal(signal.SIGINT)
    await anyio.sleep_forever()


@plugin(inject=(Llm, Tools))
def obedient(ctx: Context) -> None:
    ctx[Llm].register_adapter("obedient", Obedient())
    for each in (add, refund, shout, hang, block, leave, interrupt):
        ctx[Tools].register(each)
