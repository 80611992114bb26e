"""How often the embedded model calls the right tool, with the right arguments.

The prompts are in local_model.json. Unseen ones were never used to improve the adapter; the other
unseen ones were written when it was done. Near misses are remarks and questions with words of a
tool, which must not call it. A turn is a call and the answer to its result; the first one also
loads the model.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from terret_llm import (
    BlockAssembler,
    GenerateOptions,
    Message,
    ToolCallBlock,
    ToolSchema,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_llm_local import LlmLocalConfig, LocalAdapter

DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
TARGETS = {
    "one tool": 20,
    "three tools": 19,
    "six tools": 17,
    "six unseen tools": 15,
    "six other unseen tools": 15,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """How many of `total` prompts went as they should, and the mean time of one."""

    name: str
    right: int
    total: int
    seconds: float
    target: int | None = None
    wrong: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.target is None or self.right >= self.target

    def __str__(self) -> str:
        figures = f"{self.name:36} {self.right:3}/{self.total:<3} {self.seconds:5.2f} s a turn"
        return "\n".join([figures, *(f"    wrong: {each}" for each in self.wrong)])


def main() -> int:
    """Measure everything and print a table, or with --json one object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]}')
    parser.add_argument("--wrong", action="store_true", help="show what went wrong")
    parser.add_argument("--model-path", type=Path, help="another GGUF file")
    options = parser.parse_args()
    rows = anyio.run(measure, options.model_path)
    if options.json:
        print(json.dumps({"rows": [asdict(row) | {"ok": row.ok} for row in rows]}))
    else:
        print(*(row if options.wrong else str(row).partition("\n")[0] for row in rows), sep="\n")
    return 0 if all(row.ok for row in rows) else 1


async def measure(model_path: Path | None) -> list[Row]:
    """Run all sets against one model."""
    config = LlmLocalConfig(model_path=model_path)
    adapter = LocalAdapter(config, loading=lambda change: None)
    try:
        rows = [await call_row(adapter, name) for name in DATA["sets"]]
        for talk, prompts in talk_sets():
            rows.append(await talk_row(adapter, talk, prompts))
    finally:
        await adapter.aclose()
    return rows


def talk_sets() -> Iterator[tuple[str, str]]:
    """Yield which tools are offered with which prompts that must not call them."""
    for name in DATA["sets"]:
        prefix = "unseen " if "unseen" in name else ""
        yield name, f"{prefix}small talk"
        yield name, f"{prefix}near misses"


async def call_row(adapter: LocalAdapter, name: str) -> Row:
    tools = tools_of(name)
    wrong: list[str] = []
    started = time.monotonic()
    for prompt, tool, arguments in DATA["sets"][name]["calls"]:
        fault = await fault_of_turn(adapter, tools, prompt, tool, arguments)
        if fault:
            wrong.append(f"{prompt} -> {fault}")
    total = len(DATA["sets"][name]["calls"])
    seconds = (time.monotonic() - started) / total
    return Row(
        name=name,
        right=total - len(wrong),
        total=total,
        seconds=round(seconds, 2),
        target=TARGETS[name],
        wrong=tuple(wrong),
    )


async def talk_row(adapter: LocalAdapter, name: str, talk: str) -> Row:
    tools = tools_of(name)
    wrong: list[str] = []
    started = time.monotonic()
    for prompt in DATA[talk]:
        answer = await reply(adapter, tools, [create_user_message(prompt)], max_tokens=8)
        wrong += [f"{prompt} -> {call.name}({call.arguments})" for call in answer.tool_calls]
    total = len(DATA[talk])
    return Row(
        name=f"{name}, {talk.removeprefix('unseen ')}",
        right=total - len(wrong),
        total=total,
        seconds=round((time.monotonic() - started) / total, 2),
        target=total if talk.endswith("small talk") else None,
        wrong=tuple(wrong),
    )


async def fault_of_turn(
    adapter: LocalAdapter,
    tools: Sequence[ToolSchema],
    prompt: str,
    tool: str,
    arguments: dict[str, object],
) -> str | None:
    """What is wrong with the call or with the answer to its result, or None."""
    history = [create_user_message(prompt)]
    called = await reply(adapter, tools, history)
    match called.tool_calls:
        case [ToolCallBlock(name=name, arguments=text)] if name == tool:
            if json.loads(text) != arguments:
                return f"{name}({text})"
        case calls:
            return ", ".join(call.name for call in calls) or "no call"
    result = DATA["tools"][tool]["result"]
    history += [called, create_tool_result_message(called.tool_calls[0].id, result)]
    answer = await reply(adapter, tools, history)
    return None if result in answer.text else f"answer without the result: {answer.text}"


async def reply(
    adapter: LocalAdapter,
    tools: Sequence[ToolSchema],
    messages: Sequence[Message],
    max_tokens: int | None = None,
) -> Message:
    """The model's next message."""
    assembler = BlockAssembler()
    request = GenerateOptions(
        provider="local",
        model="",
        messages=messages,
        tools=tuple(tools),
        max_tokens=max_tokens,
    )
    async with aclosing(adapter.stream(request)) as chunks:
        async for chunk in chunks:
            assembler.push(chunk)
    return create_assistant_message(assembler.blocks(), "local", "")


def tools_of(name: str) -> list[ToolSchema]:
    definitions = {tool: DATA["tools"][tool] for tool in DATA["sets"][name]["tools"]}
    return [
        ToolSchema(tool, definition["description"], definition["parameters"])
        for tool, definition in definitions.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
