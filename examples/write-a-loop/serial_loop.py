"""A loop of its own that keeps the whole contract of loops: one tool call after the other."""

import json

import anyio

from terret_agents import (
    AgentEntries,
    AgentOptions,
    Agents,
    Batch,
    LoopFactory,
    Reject,
    TurnAgent,
    TurnOutcome,
    start_agents_when_ready,
)
from terret_agents.loops import (
    Answer,
    Composer,
    Prompt,
    RequestLog,
    announce_stopping,
    ask_continuation,
    ask_stop,
    build_request,
    propose_step,
    recover_request,
    settle_answer,
)
from terret_context import Config, Context, plugin
from terret_llm import Llm, Message, ToolCallBlock
from terret_sessions import Blocked, Completed, MaxTokens, Session, Sessions, TurnEndReason
from terret_system_prompt import SystemPrompt
from terret_tools import CallLog, Invocation, ToolExec, Tools, aborted_before_dispatch


class SerialAgent(TurnAgent):
    """Calls the model, runs its tool calls one by one, repeats."""

    def __init__(self, ctx: Context, session: Session, options: AgentOptions | None) -> None:
        super().__init__(ctx, session, options)
        self._composer = Composer(self)
        self._requests = RequestLog(session, self.options)

    async def run_turn(self, batch: Batch) -> TurnOutcome:
        """Runs steps until nothing is owed to the model and nothing steers the turn on."""
        reason: TurnEndReason = Completed()
        owed = False
        while True:
            await self.check()
            prompt = await self._composer.compose()
            decision = await propose_step(self, batch, prompt)
            if isinstance(decision, Reject):
                self.give_back(batch)
                return TurnOutcome(Blocked(decision.reason), parks=True)
            if not decision.messages and not owed:
                return TurnOutcome(reason, parks=self.step == 0)
            with self.open_step():
                for message in decision.messages:
                    self.session.append("user/message", message, surface_op="append")
                answer, truncated = await self._ask_model(prompt)
                owed = not truncated and await self._run_tools(answer.tool_calls)
            if truncated:
                reason = MaxTokens()
            owed = await ask_continuation(self, owed)
            stop = await ask_stop(self, continues=owed or bool(self.inbox.next_step))
            if stop is not None:
                return TurnOutcome(stop.reason or reason, terminal=True)
            if not (owed or self.inbox.next_step or await announce_stopping(self)):
                return TurnOutcome(reason)
            batch = self.inbox.claim("next-step", self.turn)

    async def _ask_model(self, prompt: Prompt) -> tuple[Message, bool]:
        while True:
            request, call = await build_request(
                self, self._requests, prompt, tools=prompt.assembly.tools
            )
            answer = Answer(self, request)
            try:
                await answer.receive(call)
                if not answer.finish.failed:
                    message = await settle_answer(self, answer)
                    answer.log(message)
                    return message, answer.finish.kind == "max-tokens"
            except anyio.get_cancelled_exc_class():
                answer.keep_interrupted()
                raise
            await recover_request(self, answer, None if call is None else call.retry_policy)

    async def _run_tools(self, calls: tuple[ToolCallBlock, ...]) -> bool:
        """Runs the calls and returns whether their results wait for the model."""
        log = CallLog(self)
        begun = 0
        try:
            for block in calls:
                await self.check()
                begun += 1
                await self._run_tool(block, log)
        except anyio.get_cancelled_exc_class():
            for block in calls[begun:]:
                seq = log.call(block.id, block.name, block.arguments)
                log.result(block.id, aborted_before_dispatch(), call_seq=seq)
            raise
        except Exception:
            log.answer_open_calls()
            raise
        return bool(calls) and not log.concluded

    async def _run_tool(self, block: ToolCallBlock, log: CallLog) -> None:
        seq = log.call(block.id, block.name, block.arguments)
        arguments = parsed(block.arguments)
        exec = ToolExec(call_id=block.id, name=block.name, arguments=arguments, agent=self)
        call, stages = Invocation(exec), self.ctx[Tools].scheduler
        try:
            await stages.prepare(call)
            if call.outcome is None:
                await stages.dispatch(call)
            await stages.finalize(call)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                call.interrupt()
                await stages.finalize(call)
                log.result(block.id, stages.finish(call), call_seq=seq)
            raise
        log.result(block.id, stages.finish(call), call_seq=seq)


def parsed(arguments: str) -> object:
    """Returns the value of an argument text; what is no JSON stays text."""
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments


class SerialLoopConfig(Config):
    """Configuration of the entry."""

    agents: AgentEntries = ()
    """Agents to start with the harness."""


@plugin(config=SerialLoopConfig, inject=(Agents, Llm, Sessions, SystemPrompt, Tools))
def serial_loop(ctx: Context, config: SerialLoopConfig) -> None:
    """Makes this the loop of the harness and starts the configured agents."""
    factory = LoopFactory(ctx, lambda session, options: SerialAgent(ctx, session, options))
    ctx[Agents].set_factory(factory)
    start_agents_when_ready(ctx, config.agents)
