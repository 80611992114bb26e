"""Tool calls of programs: through the whole pipeline, one at a time, each in the log."""

import json
from collections.abc import Mapping

import anyio
from pydantic_core import from_json

from terret_agents import TurnAgent
from terret_llm import ToolSchema
from terret_tools import CallLog, Invocation, ToolExec, ToolOutcome, Tools

from ._prompt import parameters


class ProgramCalls:
    """Runs the calls of one program.

    Attributes:
        log: What of them is logged.
    """

    def __init__(self, agent: TurnAgent, functions: Mapping[str, ToolSchema]) -> None:
        self.log = CallLog(agent)
        self._agent = agent
        self._functions = functions
        self._count = 0

    async def __call__(
        self, function: str, args: list[object], kwargs: dict[str, object]
    ) -> dict[str, object]:
        """Runs a call and returns the frame that answers the program.

        A value is what the model would see of the result: JSON where the tool declares what it
        returns, else text. So whatever a policy takes out of a result stays out.
        """
        schema = self._functions.get(function)
        if schema is None:  # a name that an earlier program knew
            return {"error": f"{function}() is gone: its tool is no longer there"}
        names = parameters(schema)
        if len(args) > len(names) or not kwargs.keys().isdisjoint(names[: len(args)]):
            return {"error": f"{function}() takes the arguments {', '.join(names) or '(none)'}"}
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        outcome = await self._run(schema.name, arguments)
        if outcome.is_error:
            return {"error": outcome.text}
        tool = self._agent.ctx[Tools].get(schema.name, self._agent)
        is_typed = tool is not None and tool.output is not None
        return {"value": _value(outcome.text) if is_typed else outcome.text}

    async def _run(self, name: str, arguments: dict[str, object]) -> ToolOutcome:
        agent = self._agent
        self._count += 1
        call_id = f"call-{agent.turn}-{agent.step}-{self._count}"
        await agent.check()
        call_seq = self.log.call(call_id, name, json.dumps(arguments, ensure_ascii=False))
        stages = agent.ctx[Tools].scheduler
        call = Invocation(ToolExec(call_id=call_id, name=name, arguments=arguments, agent=agent))
        try:
            await stages.prepare(call)
            if call.outcome is None:
                await stages.dispatch(call)
            await stages.finalize(call)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                call.interrupt()
                await stages.finalize(call)
                self.log.result(call_id, stages.finish(call), call_seq=call_seq)
            raise
        outcome = stages.finish(call)
        self.log.result(call_id, outcome, call_seq=call_seq)
        return outcome


def _value(text: str) -> object:
    try:
        return from_json(text)
    except ValueError:
        return text
