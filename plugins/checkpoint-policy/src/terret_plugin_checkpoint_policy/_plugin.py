from terret_agents import PRE_STEP, Agents, Enter, Reject, StepProposal
from terret_context import Context, Next, plugin
from terret_llm import STREAM, Chunks, GenerateOptions, Llm
from terret_sessions import Session, Sessions
from terret_tools import EXECUTE, ToolExec, ToolOutcome, Tools


@plugin(inject=(Agents, Llm, Sessions, Tools))
def checkpoint_policy(ctx: Context) -> None:
    """Lets nothing happen outside before the log that led to it is durable."""
    sessions = ctx[Sessions]

    async def keep(session: Session | None) -> None:
        if session is not None and session.live:
            await sessions.flush(session)

    async def before_step(
        proposal: StepProposal, call_next: Next[Enter | Reject]
    ) -> Enter | Reject:
        await keep(proposal.agent.session)
        return await call_next()

    async def before_request(request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        if request.session_id is not None:
            await keep(sessions.get(request.session_id))
        return await call_next()

    async def before_body(exec: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        if exec.agent is not None and exec.parent is None:  # else that of the caller's body holds
            await keep(exec.agent.session)
        return await call_next()

    ctx.on(PRE_STEP, before_step)
    ctx.on(STREAM, before_request)
    ctx.on(EXECUTE, before_body)
