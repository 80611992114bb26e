"""The scheduler: runs the tool calls of one message and logs their results in its order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from pydantic_core import from_json

from terret_agents import TurnAgent
from terret_llm import ToolCallBlock, create_tool_result_message
from terret_sessions import Sources, ToolCall, ToolResult, repair_closers
from terret_tools import Invocation, ToolExec, ToolOutcome, Tools, aborted_before_dispatch


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step leaves to its turn.

    Attributes:
        tools_ran: whether results wait for the model.
        concluded: whether one of them ends the turn.
        max_tokens: whether the answer hit its output ceiling.
    """

    tools_ran: bool = False
    concluded: bool = False
    max_tokens: bool = False


async def run_tools(
    agent: TurnAgent, calls: Sequence[ToolCallBlock], cap: Callable[[], int]
) -> StepOutcome:
    """Runs the calls, at most `cap()` bodies at a time, and logs every call with its result.

    Runs inside the turn's cancel scope. When the turn is cancelled, started bodies are awaited
    and their results logged before the cancellation goes on; calls that had not started get an
    aborted result. A failure of the scheduler itself is raised when all bodies have ended.
    """
    return await _Calls(agent, calls, cap).run()


class _Slot:
    """One call on its way; `is_filled` once its body ended or it was refused."""

    __slots__ = ("block", "invocation", "is_filled", "seq")

    def __init__(self, agent: TurnAgent, block: ToolCallBlock) -> None:
        arguments = _parsed(block.arguments)
        call = ToolExec(call_id=block.id, name=block.name, arguments=arguments, agent=agent)
        self.block = block
        self.invocation = Invocation(call)
        self.is_filled = False
        self.seq = -1


class _Calls:
    def __init__(
        self, agent: TurnAgent, calls: Sequence[ToolCallBlock], cap: Callable[[], int]
    ) -> None:
        self._agent = agent
        self._tools = agent.ctx[Tools]
        self._stages = self._tools.scheduler
        self._cap = cap
        self._blocks = calls
        self._slots: list[_Slot] = []
        self._begun = 0  # slots before this one are in the log as calls
        self._committed = 0  # and those before this one with their results
        self._in_flight = 0
        self._settlement = anyio.Event()
        self._concluded = False

    async def run(self) -> StepOutcome:
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as bodies:
                try:
                    await self._run_all(bodies)
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=True):
                        await self._converge()
                    raise
                except Exception as error:
                    failure = error  # raised when the group has awaited what runs
        finally:
            if failure is not None:
                self._answer_open_calls()
        if failure is not None:
            raise failure
        return StepOutcome(tools_ran=True, concluded=self._concluded)

    async def _run_all(self, bodies: TaskGroup) -> None:
        self._slots = [_Slot(self._agent, block) for block in self._blocks]
        while self._begun < len(self._slots):
            await self._run_pool(bodies)

    async def _run_pool(self, bodies: TaskGroup) -> None:
        first, cap = self._begun, self._cap()
        end = first + 1 if self._is_exclusive(first) else len(self._slots)
        while True:
            while self._begun < end and self._in_flight < cap:
                # Asked right before each start: what ran meanwhile may have replaced the tool.
                if self._begun > first and self._is_exclusive(self._begun):
                    break
                await self._begin(self._slots[self._begun], bodies)
                await self._commit()
            if not self._in_flight:
                return
            await self._next_settlement()
            await self._commit()

    async def _begin(self, slot: _Slot, bodies: TaskGroup) -> None:
        await self._agent.check()
        self._log_call(slot)
        await self._stages.prepare(slot.invocation)
        if slot.invocation.outcome is not None:
            slot.is_filled = True
        else:
            self._in_flight += 1
            bodies.start_soon(self._run_body, slot, name=f"tool {slot.block.name}")

    async def _run_body(self, slot: _Slot) -> None:
        try:
            await self._stages.dispatch(slot.invocation)
        finally:
            slot.is_filled = True
            self._in_flight -= 1
            self._settlement.set()

    async def _next_settlement(self) -> None:
        await self._settlement.wait()
        self._settlement = anyio.Event()

    async def _commit(self) -> None:
        while self._committed < self._begun and self._slots[self._committed].is_filled:
            slot = self._slots[self._committed]
            await self._stages.finalize(slot.invocation)
            self._log_result(slot, self._stages.finish(slot.invocation))

    async def _converge(self) -> None:
        """After a cancel: waits for what runs, logs it, and answers what was never begun."""
        try:
            while self._in_flight:
                await self._next_settlement()
            for slot in self._slots[self._committed : self._begun]:
                slot.invocation.interrupt()
                slot.is_filled = True
            await self._commit()
            for slot in self._slots[self._begun :]:
                self._log_call(slot)
                self._log_result(slot, aborted_before_dispatch())
        except Exception as error:
            self._agent.ctx.report(error, label="tool calls of a cancelled turn")
            self._answer_open_calls()

    def _is_exclusive(self, index: int) -> bool:
        return self._tools.execution_mode(self._slots[index].invocation.exec) == "exclusive"

    def _log_call(self, slot: _Slot) -> None:
        agent, block = self._agent, slot.block
        call = ToolCall(agent.turn, agent.step, block.id, block.name, block.arguments)
        slot.seq = agent.session.append("tool/call", call).seq
        self._begun += 1

    def _log_result(self, slot: _Slot, outcome: ToolOutcome) -> None:
        agent = self._agent
        message = create_tool_result_message(
            slot.block.id, outcome.content, is_error=outcome.is_error
        )
        error = None if outcome.error is None else outcome.error.info
        result = ToolResult(agent.turn, agent.step, message, error)
        sources = Sources([slot.seq])
        agent.session.append("tool/result", result, surface_op="append", sources=sources)
        self._committed += 1
        self._concluded |= outcome.concludes_turn and not outcome.is_error
        for context in outcome.additional_contexts:
            agent.inbox.append("next-step", context)

    def _answer_open_calls(self) -> None:
        """Gives every call without a result the one that a repair of the log would give it."""
        session = self._agent.session
        for closer in repair_closers(session.events):
            if closer.type == "tool/result":
                session.append(
                    closer.type, closer.view, surface_op=closer.surface_op, sources=closer.sources
                )


def _parsed(arguments: str) -> object:
    """Returns the JSON value of a model's argument text; text that is no JSON stays text."""
    if not arguments.strip():
        return {}
    try:
        return from_json(arguments)
    except ValueError:
        return arguments
