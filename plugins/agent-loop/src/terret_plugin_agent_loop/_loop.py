"""The default loop: call the model, run the tools, repeat."""

from collections.abc import Callable

import anyio

from terret_agents import AgentOptions, Batch, Reject, TurnAgent, TurnOutcome
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
from terret_context import Context
from terret_llm import Finish, Message
from terret_sessions import Blocked, Completed, MaxTokens, Session, TurnEndReason

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
        self._composer = Composer(self)
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
            prompt = await self._composer.compose()
            decision = await propose_step(self, batch, prompt)
            if isinstance(decision, Reject):
                self.give_back(batch)
                return TurnOutcome(Blocked(decision.reason), parks=True)
            if not decision.messages and not owed:
                return TurnOutcome(reason, parks=self.step == 0)
            outcome = await self._run_step(decision.messages, prompt)
            if outcome.max_tokens:
                reason = MaxTokens()
            owed = await ask_continuation(self, outcome.tools_ran and not outcome.concluded)
            stop = await ask_stop(self, continues=owed or bool(self.inbox.next_step))
            if stop is not None:
                return TurnOutcome(stop.reason or reason, terminal=True)
            goes_on = owed or self.inbox.next_step or await announce_stopping(self)
            if not goes_on:
                return TurnOutcome(reason)
            batch = self.inbox.claim("next-step", self.turn)

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
            request, call = await build_request(
                self, self._requests, prompt, tools=prompt.assembly.tools
            )
            answer = Answer(self, request)
            try:
                await answer.receive(call)
                if not answer.finish.failed:
                    message = await settle_answer(self, answer)
                    break
            except anyio.get_cancelled_exc_class():
                answer.keep_interrupted()
                raise
            await recover_request(self, answer, None if call is None else call.retry_policy)
        answer.log(message)
        return message, answer.finish
