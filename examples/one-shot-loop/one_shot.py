"""A loop of its own: each turn is one request, without tools. Mounted in place of `agent-loop`."""

from contextlib import aclosing

from terret_agents import (
    AgentEntries,
    Agents,
    Batch,
    LoopFactory,
    TurnAgent,
    TurnOutcome,
    start_agents_when_ready,
)
from terret_context import Config, Context, plugin
from terret_llm import (
    BlockAssembler,
    GenerateOptions,
    Llm,
    LlmCallConfig,
    LlmError,
    create_assistant_message,
)
from terret_sessions import AssistantMessage, Completed, Sessions, Sources


class OneShotAgent(TurnAgent):
    """Asks the model once per turn and logs what it says."""

    async def run_turn(self, batch: Batch) -> TurnOutcome:
        with self.open_step():
            for message in batch.messages:
                self.session.append("user/message", message, surface_op="append")
            await self._answer()
        return TurnOutcome(Completed())

    async def _answer(self) -> None:
        provider, model = self.options.provider or "", self.options.model or ""
        call = await self.ctx[Llm].prepare_call(LlmCallConfig(provider=provider, model=model))
        messages, config = self.session.derive_messages(), call.config
        assembler = BlockAssembler()
        async with aclosing(call.stream(GenerateOptions.of(config, messages=messages))) as chunks:
            async for chunk in chunks:
                assembler.push(chunk)
        if assembler.finish.failure is not None:
            raise LlmError(assembler.finish.failure)
        answer = create_assistant_message(assembler.blocks(), config.provider, config.model)
        logged = AssistantMessage(self.turn, self.step, answer, assembler.usage)
        self.session.append("assistant/message", logged, surface_op="append", sources=Sources())


class OneShotConfig(Config):
    """Configuration of the entry."""

    agents: AgentEntries = ()


@plugin(config=OneShotConfig, inject=(Agents, Llm, Sessions))
def one_shot(ctx: Context, config: OneShotConfig) -> None:
    """Registers the loop and starts the configured agents."""
    factory = LoopFactory(ctx, lambda session, options: OneShotAgent(ctx, session, options))
    ctx[Agents].set_factory(factory)
    start_agents_when_ready(ctx, config.agents)
