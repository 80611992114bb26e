"""What stands in front of the conversation in a request."""

from collections.abc import Callable
from dataclasses import dataclass

from terret_agents import SESSION_PREFIX, PrefixRequest, TurnAgent
from terret_llm import Message
from terret_system_prompt import (
    Assembly,
    RuntimeContext,
    SystemPrompt,
    assemble_context_for,
    render,
)

from ._decisions import expected_messages


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the requests of one step begin with.

    Attributes:
        assembly: Sections, facts and tools.
        system: The rendered sections.
        prefix: Messages in front of the history, never part of it.
        due: Gives the message with changed facts that the model has not seen, if there are any.
    """

    assembly: Assembly
    system: str
    prefix: tuple[Message, ...]
    due: Callable[[], Message | None]


class Composer:
    """Composes the prompts of one agent instance; the session prefix once for all of them."""

    def __init__(self, agent: TurnAgent) -> None:
        self._agent = agent
        self._runtime_context = RuntimeContext()
        self._prefix: tuple[Message, ...] | None = None

    async def compose(
        self, present: Callable[[Assembly], Assembly] = lambda assembly: assembly
    ) -> Prompt:
        """Assembles and renders; `present` puts the assembly as the loop shows it to its model.

        Raises what contributors and rendering raise. A prefix whose composition was interrupted
        is composed again the next time.
        """
        agent = self._agent
        assembly = present(await agent.ctx[SystemPrompt].assemble(assemble_context_for(agent)))
        system = render(assembly)
        if self._prefix is None:
            given = await agent.ctx.waterfall(SESSION_PREFIX, PrefixRequest(agent), tuple)
            await agent.check()
            self._prefix = expected_messages(SESSION_PREFIX, given)
        due = lambda: self._runtime_context.due(assembly, agent.session)  # noqa: E731
        return Prompt(assembly, system, self._prefix, due)
