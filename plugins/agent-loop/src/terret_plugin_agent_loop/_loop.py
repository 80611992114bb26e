"""The default loop: call the model, run the tools, repeat."""

from collections.abc import Callable
from contextlib import aclosing
from types import NoneType

import anyio
import anyio.lowlevel

from terret_agents import (
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    SESSION_PREFIX,
    STEP_RESULT,
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    AgentOptions,
    Batch,
    Continuation,
    Continue,
    Enter,
    PrefixRequest,
    Reject,
    RequestFailure,
    RequestProposal,
    Retry,
    StepProposal,
    StepResult,
    Stop,
    StopQuestion,
    TurnAgent,
    TurnOutcome,
    TurnStop,
    TurnStopping,
)
from terret_context import Context
from terret_llm import (
    Finish,
    GenerateOptions,
    HarnessError,
    Llm,
    LlmCallConfig,
    LlmError,
    LlmFailure,
    Message,
    PreparedCall,
    mark_loop_request,
)
from terret_sessions import (
    Blocked,
    Completed,
    MaxTokens,
    Session,
    TurnEndReason,
)
from terret_system_prompt import (
    RuntimeContext,
    SystemPrompt,
    assemble_context_for,
    render,
)

from ._answer import Answer
from ._decisions import expected, no_action, settled_message
from ._entering import enter_batch
from ._request_log import Prompt, RequestLog
from ._tool_calls import StepOutcome, run_tools


class LoopAgent(TurnAgent):
    """An agent driven by the default loop.

    `plugin_cap` gives the number of tool bodies that may overlap where the agent's options do not
    say; it is read for each group of calls.
    """

    def __init__(
        self,
        ctx: Context,
        session: Session,
        options: AgentOptions | None,
        plugin_cap: Callable[[], int],
    ) -> None:
        super().__init__(ctx, session, options)
        self._plugin_cap = plugin_cap
        self._runtime_context = RuntimeContext()
        self._prefix: tuple[Message, ...] | None = None
        self._requests = RequestLog(session, self.options)

    @property
    def route(self) -> tuple[str, str]:
        """Provider and model of the last request, before the first those of the options."""
        return self._requests.route

    async def run_turn(self, batch: Batch) -> TurnOutcome:
        """Runs steps until nothing is owed to the model and nothing steers the turn on."""
        reason: TurnEndReason = Completed()
        owed = False
        while True:
            await self.check()
            prompt = await self._compose()
            decision = await self._propose(batch, prompt)
            if isinstance(decision, Reject):
                self.give_back(batch)
                return TurnOutcome(Blocked(decision.reason), parks=True)
            if not decision.messages and not owed:
                return TurnOutcome(reason, parks=self.step == 0)
            outcome = await self._run_step(decision.messages, prompt)
            if outcome.max_tokens:
                reason = MaxTokens()
            owed = await self._continues(outcome.tools_ran and not outcome.concluded)
            stop = await self._stops(owed or bool(self.inbox.next_step))
            if stop is not None:
                self.inbox.discard("next-step")
                return TurnOutcome(stop.reason or reason, terminal=True)
            if not owed and not self.inbox.next_step:
                await self.ctx.serial(TURN_STOPPING, TurnStopping(self, self.turn))
                await self.check()
                if not self.inbox.next_step:
                    return TurnOutcome(reason)
            batch = self.inbox.claim("next-step", self.turn)

    async def _compose(self) -> Prompt:
        assembly = await self.ctx[SystemPrompt].assemble(assemble_context_for(self))
        system = render(assembly)
        if self._prefix is None:
            prefix = await self.ctx.waterfall(SESSION_PREFIX, PrefixRequest(self), tuple)
            await self.check()
            self._prefix = tuple(prefix)
        return Prompt(assembly, system, self._prefix)

    async def _propose(self, batch: Batch, prompt: Prompt) -> Enter | Reject:
        proposal = StepProposal(
            self, batch.messages, self.turn, self.step + 1, prompt.system, prompt.prefix
        )

        async def enter() -> Enter | Reject:
            due = self._runtime_context.due(prompt.assembly, self.session)
            return await enter_batch(self, batch, due)

        decision = await self.ctx.waterfall(PRE_STEP, proposal, enter)
        await self.check()
        return expected(PRE_STEP, decision, Enter, Reject)

    async def _continues(self, owed: bool) -> bool:
        await self.check()
        default = Continue() if owed or self.inbox.next_step else Stop()
        question = Continuation(self, self.turn, self.step, default)
        decision = await self.ctx.waterfall(TURN_CONTINUATION, question, lambda: default)
        await self.check()
        decision = expected(TURN_CONTINUATION, decision, Continue, Stop)
        if isinstance(decision, Stop):
            return False  # what the tools gave is logged, no request follows
        if decision.reason is not None:
            self.inbox.append("next-step", decision.reason)
            return owed
        return owed or isinstance(default, Stop)  # forced: one more request

    async def _stops(self, continues: bool) -> TurnStop | None:
        question = StopQuestion(self, self.turn, self.step, continues)
        stop = await self.ctx.serial(TURN_STOP, question)
        await self.check()
        return None if stop is None else expected(TURN_STOP, stop, TurnStop)

    async def _run_step(self, messages: tuple[Message, ...], prompt: Prompt) -> StepOutcome:
        with self.open_step():
            for message in messages:
                self.session.append("user/message", message, surface_op="append")
            answer, finish = await self._ask_model(prompt)
            if finish.kind == "max-tokens":
                return StepOutcome(max_tokens=True)
            if not answer.tool_calls:
                return StepOutcome()
            cap = self.options.max_parallel_tool_calls
            return await run_tools(self, answer.tool_calls, lambda: cap or self._plugin_cap())

    async def _ask_model(self, prompt: Prompt) -> tuple[Message, Finish]:
        while True:
            request, call = await self._build_request(prompt)
            answer = Answer(self, request)
            try:
                await self._receive(answer, call)
                if not answer.finish.failed:
                    message = await self._settle(answer)
                    break
            except anyio.get_cancelled_exc_class():
                answer.keep_interrupted()
                raise
            await self._recover(answer, call)
        answer.log(message)
        return message, answer.finish

    async def _receive(self, answer: Answer, call: PreparedCall | None) -> None:
        request = answer.request
        stream = self.ctx[Llm].stream(request) if call is None else call.stream(request)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                answer.add(chunk)
                if self.cause is not None:
                    await anyio.lowlevel.checkpoint()

    async def _settle(self, answer: Answer) -> Message:
        assembled = answer.assembled()
        result = StepResult(self, self.turn, self.step, assembled)
        returned = await self.ctx.waterfall(STEP_RESULT, result, lambda: assembled)
        await self.check()
        return settled_message(assembled, expected(STEP_RESULT, returned, Message), answer.finish)

    async def _recover(self, answer: Answer, call: PreparedCall | None) -> None:
        failure = answer.finish.failure or LlmFailure("the request failed", "UNKNOWN")
        policy = None if call is None else call.retry_policy
        provider = answer.request.provider
        failed = RequestFailure(self, self.turn, self.step, provider, failure, policy)
        action = await self.ctx.waterfall(REQUEST_ERROR, failed, no_action)
        await self.check()
        if expected(REQUEST_ERROR, action, Retry, NoneType) is None:
            raise LlmError(failure)

    async def _build_request(self, prompt: Prompt) -> tuple[GenerateOptions, PreparedCall | None]:
        seed = self._requests.seed()
        proposal = RequestProposal(self, self.turn, self.step)
        chosen = await self.ctx.waterfall(REQUEST, proposal, lambda: seed)
        await self.check()
        config = expected(REQUEST, chosen, LlmCallConfig)
        call = await self._prepare(config)
        config = config if call is None else call.config
        self._requests.record(config, call, prompt)
        history = self.session.derive_messages()
        request = GenerateOptions.of(
            config,
            messages=(*prompt.prefix, *history) if prompt.prefix else history,
            system=prompt.system or None,
            tools=prompt.assembly.tools,
            session_id=self.id,
        )
        return mark_loop_request(request), call

    async def _prepare(self, config: LlmCallConfig) -> PreparedCall | None:
        try:
            return await self.ctx[Llm].prepare_call(config)
        except HarnessError as error:
            # A listener of llm/stream may serve a route that has no adapter.
            if error.code != "NO_ADAPTER" or not config.model:
                raise
            return None
