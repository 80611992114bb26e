"""The scheduler: runs the tool calls of one message and logs their results in its order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from pydantic_core import from_json

from terret_agents import TurnAgent
from terret_llm import ToolCallBlock
from terret_tools import CallLog, Invocation, ToolExec, ToolOutcome, Tools, aborted_before_dispatch


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
        self._log = CallLog(agent)

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
                self._log.answer_open_calls()
        if failure is not None:
            raise failure
        return StepOutcome(tools_ran=True, concluded=self._log.concluded)

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
            self._log.answer_open_calls()

    def _is_exclusive(self, index: int) -> bool:
        return self._tools.execution_mode(self._slots[index].invocation.exec) == "exclusive"

    def _log_call(self, slot: _Slot) -> None:
        slot.seq = self._log.call(slot.block.id, slot.block.name, slot.block.arguments)
        self._begun += 1

    def _log_result(self, slot: _Slot, outcome: ToolOutcome) -> None:
        self._log.result(slot.block.id, outcome, call_seq=slot.seq)
        self._committed += 1


def _parsed(arguments: str) -> object:
    """Returns the JSON value of a model's argument text; text that is no JSON stays text."""
    if not arguments.strip():
        return {}
    try:
        return from_json(arguments)
    except ValueError:
        return arguments
