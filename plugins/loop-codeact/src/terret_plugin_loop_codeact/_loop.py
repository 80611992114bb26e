"""The loop: ask the model, run the program in its answer, tell it what came out, repeat."""

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
from terret_llm import Finish, Message, ToolCallBlock
from terret_sessions import Blocked, Completed, MaxTokens, Session, TurnEndReason
from terret_system_prompt import Assembly

from ._calls import ProgramCalls
from ._interpreter import Interpreter, Settings
from ._observations import observe, observe_lost
from ._programs import Program, find_program
from ._prompt import function_names, with_functions

RESTARTED = "[a new interpreter: the names of earlier programs are gone]\n"
NO_CALLS = "There are no tool calls here. Call the functions in a program."


class CodeActAgent(TurnAgent):
    """An agent whose model acts by programs; see the plugin's README."""

    def __init__(
        self, ctx: Context, session: Session, options: AgentOptions | None, settings: Settings
    ) -> None:
        super().__init__(ctx, session, options)
        self._composer = Composer(self)
        self._requests = RequestLog(session, self.options)
        self._interpreter = Interpreter(self, settings)
        self._functions = function_names(())
        self._has_caught_up = False

    @property
    def route(self) -> tuple[str, str]:
        """Provider and model of the last request, before the first those of the options."""
        return self._requests.route

    async def run_turn(self, batch: Batch) -> TurnOutcome:
        """Runs steps until an answer has no program and nothing steers the turn on."""
        reason: TurnEndReason = Completed()
        owed = False
        self._catch_up()
        while True:
            await self.check()
            prompt = await self._composer.compose(self._present)
            decision = await propose_step(self, batch, prompt)
            if isinstance(decision, Reject):
                self.give_back(batch)
                return TurnOutcome(Blocked(decision.reason), parks=True)
            if not decision.messages and not owed:
                return TurnOutcome(reason, parks=self.step == 0)
            with self.open_step():
                owed, finish = await self._run_step(decision.messages, prompt)
            if finish.kind == "max-tokens":
                reason = MaxTokens()
            owed = await ask_continuation(self, owed)
            stop = await ask_stop(self, continues=owed or bool(self.inbox.next_step))
            if stop is not None:
                return TurnOutcome(stop.reason or reason, terminal=True)
            goes_on = owed or self.inbox.next_step or await announce_stopping(self)
            if not goes_on:
                return TurnOutcome(reason)
            batch = self.inbox.claim("next-step", self.turn)

    def _catch_up(self) -> None:
        if not self._has_caught_up:
            observe_lost(self.session)
            self._has_caught_up = True

    def _present(self, assembly: Assembly) -> Assembly:
        self._functions = function_names(assembly.tools)
        return with_functions(assembly)

    async def _run_step(self, messages: tuple[Message, ...], prompt: Prompt) -> tuple[bool, Finish]:
        """Returns whether output waits for the model, and how its answer ended."""
        for message in messages:
            self.session.append("user/message", message, surface_op="append")
        answer, finish = await self._ask_model(prompt)
        if finish.kind == "max-tokens":
            return False, finish
        program = find_program(answer.text)
        if program is not None:
            return await self._run_program(program), finish
        if finish.kind == "tool-calls":
            observe(self.session, NO_CALLS)
            return True, finish
        return False, finish

    async def _run_program(self, program: Program) -> bool:
        calls = ProgramCalls(self, self._functions)
        text = "[the program was not run to its end: the turn was cancelled]"
        try:
            await self.check()
            text = await self._interpreter.run(program.code, self._functions, calls)
            if self._interpreter.restarted:
                text = RESTARTED + text
            if program.others:
                text += f"\n[only the first of {program.others + 1} programs was run]"
        except Exception as error:
            text = f"[the program was not run to its end: {type(error).__name__}]"
            calls.log.answer_open_calls()
            raise
        finally:
            observe(self.session, text or "(no output)", calls.log.results)
        return not calls.log.concluded

    async def _ask_model(self, prompt: Prompt) -> tuple[Message, Finish]:
        while True:
            request, call = await build_request(self, self._requests, prompt)
            answer = Answer(self, request)
            try:
                await answer.receive(call)
                if not answer.finish.failed:
                    message = without_calls(await settle_answer(self, answer))
                    break
            except anyio.get_cancelled_exc_class():
                answer.keep_interrupted()
                raise
            await recover_request(self, answer, None if call is None else call.retry_policy)
        answer.log(message)
        return message, answer.finish


def without_calls(message: Message) -> Message:
    """Returns an answer without tool calls, which nobody would answer."""
    if not message.tool_calls:
        return message
    content = tuple(block for block in message.content if not isinstance(block, ToolCallBlock))
    plain = message.without_replay_state()
    return Message(plain.id, plain.role, content, plain.source)
