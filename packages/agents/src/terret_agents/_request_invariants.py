"""The check that the log explains every request of a loop."""

from terret_context import Context, Next, plugin
from terret_llm import STREAM, Chunks, GenerateOptions, Llm, is_loop_request
from terret_sessions import Sessions, derive_messages

from ._errors import RequestInvariantError


@plugin(inject=(Llm, Sessions))
def request_invariants(ctx: Context) -> None:
    """Refuses a loop's request that cannot be rebuilt from the log, in front of other listeners.

    It derives the history from scratch for each request: for development and tests.
    """

    async def check(request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        if is_loop_request(request):
            _check(ctx[Sessions], request)
        return await call_next()

    ctx.on(STREAM, check, prepend=True)


def _check(sessions: Sessions, request: GenerateOptions) -> None:
    session = sessions.get(request.session_id or "")
    if session is None:
        raise RequestInvariantError(request.session_id, "its session is not live")
    header = session.request_header()
    if header is None:
        raise RequestInvariantError(session.id, "no request/header is in the log")
    if isinstance(request.messages, list):
        raise RequestInvariantError(session.id, "its messages can be changed")
    history = derive_messages(session.events)
    for what, made, logged in (
        ("config", request.config, header.config),
        ("system text", request.system or None, header.system),
        ("tools", request.tools, header.tools),
        ("messages", tuple(request.messages), (*header.message_prefix, *history)),
    ):
        if made != logged:
            raise RequestInvariantError(session.id, f"its {what} differ from those of the log")
