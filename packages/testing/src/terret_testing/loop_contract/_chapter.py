"""What every chapter of the suite has: the loop under test, and how a model speaks to it."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from difflib import ndiff
from types import MappingProxyType
from typing import ClassVar

import anyio
import pytest

from terret_agents import AgentOptions
from terret_llm import Block, GenerateOptions, TextBlock, ToolCallBlock
from terret_testing import (
    Call,
    Harness,
    Mount,
    Part,
    Reply,
    Say,
    ScriptedModel,
    reply,
    running_harness,
)


class Dialect:
    """How a model asks a loop for tools: by tool calls, unless a subclass says otherwise.

    Attributes:
        plans_calls: Whether the loop knows all calls of an answer before the first of them runs.
    """

    plans_calls: ClassVar[bool] = True

    def phrased(self, reply: Reply) -> Reply:
        """Returns a reply that asks for the same calls in the words of this loop."""
        return reply

    def is_routine(self, line: str) -> bool:
        """Tells whether a line of a transcript only asks for tools or hands their results over.

        Such lines differ from loop to loop; the suite looks at the others.
        """
        return line.startswith("call: ")

    def offered(self, request: GenerateOptions) -> tuple[str, ...]:
        """Returns the names of the tools that a request tells the model of, in their order."""
        return tuple(schema.name for schema in request.tools)


class Chapter:
    """A part of the contract of loops; see `LoopContract`."""

    pytestmark = pytest.mark.anyio

    patience: ClassVar[float] = 30.0
    loop: ClassVar[Mount | str]
    dialect: ClassVar[Dialect] = Dialect()
    not_applicable: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def _skip_rows_that_do_not_apply(self, request: pytest.FixtureRequest) -> None:
        rows = re.findall(r"\b[A-Z]-\d{3}\b", request.function.__doc__ or "")
        for row in rows:
            if row in self.not_applicable:
                pytest.skip(f"{row} does not apply: {self.not_applicable[row]}")

    @asynccontextmanager
    async def harness(
        self,
        *,
        model: ScriptedModel | None = None,
        plugins: Iterable[Mount] = (),
        options: AgentOptions | None = None,
        grace: float = 10.0,
    ) -> AsyncIterator[Harness]:
        """Boots a harness with the loop under test; the model speaks its dialect.

        Raises `TimeoutError` when the block takes longer than `patience`.
        """
        model = model or ScriptedModel()
        model.phrase = self.dialect.phrased
        booting = running_harness(
            plugins=plugins, model=model, options=options, loop=self.loop, grace=grace
        )
        with anyio.fail_after(self.patience):
            async with booting as h:
                yield h

    def blocks(self, *parts: Part) -> tuple[Block, ...]:
        """Returns the blocks of an answer of these parts, as a model of this loop gives them."""
        blocks: list[Block] = []
        for part in self.dialect.phrased(reply(*parts)).parts:
            match part:
                case Say(pieces=pieces):
                    blocks.append(TextBlock("".join(pieces)))
                case Call(id=id, name=name, arguments=arguments):
                    blocks.append(ToolCallBlock(id or f"{name}-{len(blocks)}", name, arguments))
        return tuple(blocks)

    def lines(self, h: Harness) -> tuple[str, ...]:
        """Returns what was said and what tools answered, without how they were asked for."""
        return tuple(line for line in h.transcript if not self.dialect.is_routine(line))

    def assert_lines(self, h: Harness, *expected: str) -> None:
        """Fails unless `lines` gives exactly these."""
        if self.lines(h) != expected:
            difference = "\n".join(ndiff(expected, self.lines(h)))
            raise AssertionError(f"the transcript is not as expected:\n{difference}")
