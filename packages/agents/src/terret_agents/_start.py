"""Starting the agents that a loop's configuration lists."""

from collections.abc import Sequence
from dataclasses import dataclass

from terret_context import Context, Emit, InactiveFiberError, plugin
from terret_llm import error_chain

from ._entries import AgentEntry
from ._errors import AgentDisposedError
from ._service import Agents


@dataclass(frozen=True, slots=True)
class ConfigStartFailed:
    """An agent of the configuration could not be started.

    Attributes:
        label: the `id` of its entry.
        session_id: the session it was to run over, `None` for a fresh one.
        error: what went wrong.
    """

    label: str
    session_id: str | None
    error: Exception


CONFIG_START_FAILED = Emit[ConfigStartFailed](
    "agent-loop/config-start-failed", doc="An agent of the configuration could not be started."
)


async def start_agents(ctx: Context, entries: Sequence[AgentEntry]) -> None:
    """Starts the agents of a configuration, owned by the fiber of `ctx`.

    A loop calls `start_agents_when_ready`, so that everything else of the file is there; a host
    without the loader calls this itself. An agent that cannot start is reported by
    `agent-loop/config-start-failed` and a warning; the others start. With `autostart: false` on
    the entry `agents` they are only made known: `Agents.start` starts one.
    """
    agents = ctx[Agents]
    agents.configure(entries)
    for entry in entries if agents.autostart else ():
        try:
            await agents.start(entry.id)
        except (AgentDisposedError, InactiveFiberError):
            return  # the loop or the harness goes down
        except Exception as error:
            session_id = entry.session_id or entry.resume_session_id
            ctx.logger.warning(
                "agent not started", agent=entry.id, session=session_id, error=error_chain(error)
            )
            ctx.emit(CONFIG_START_FAILED, ConfigStartFailed(entry.id, session_id, error))


def start_agents_when_ready(ctx: Context, entries: Sequence[AgentEntry]) -> None:
    """Starts the agents of a configuration once the harness is ready, if it has any.

    They go with the fiber of `ctx`; one that is still starting then is given up. Their names are
    taken at once: raises `AgentNameTakenError`.
    """
    if not entries:
        return
    place = f"the agents of {ctx.fiber.entry or ctx.fiber}"
    ctx[Agents].reserve([entry.id for entry in entries], place=place)

    async def configured_agents(ready: Context) -> None:
        await start_agents(ready, entries)

    mounted = plugin(name="configured-agents", inject=("ready",), cancel_load=True)
    ctx.plugin(mounted(configured_agents))
