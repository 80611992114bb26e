"""What a definition puts into the scope of an instance."""

from collections.abc import Iterable

from terret_context import Context, Fiber, FiberState, TerretError
from terret_loader import Entry, Loader
from terret_sessions import SessionKey
from terret_system_prompt import PERSONA, SystemPrompt
from terret_tools import Tools

from ._definition import Definition, DefinitionPart


class MissingServiceError(TerretError):
    """A plugin of a definition waits for something that nobody provides."""

    def __init__(self, file: str, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(f"{file}: {reason}")


async def compose(
    ctx: Context,
    loader: Loader,
    definition: Definition,
    key: SessionKey,
    parts: Iterable[DefinitionPart],
) -> None:
    """Registers plugins, prompt, tools and parts through the scoped context of a new agent.

    Raises what keeps one of them from running; the caller takes the scope down then.
    """
    file = definition.file
    # Through the loader, since plugins know each other by name only.
    limit = {"step-limit": {"maxSteps": definition.config.max_turns}}
    await loader.mount(ctx, limit, base=file).ready()
    if definition.plugin is not None:
        await _running(ctx.plugin(definition.plugin), definition)
    if definition.plugins:
        entries = loader.mount(ctx, definition.plugins, base=file)
        await entries.ready()
        for fiber in ctx.root.fibers():
            if fiber.parent is entries or entries in fiber.ancestors():
                await _running(fiber, definition)
    ctx[SystemPrompt].section(PERSONA, 0, definition.prompt)
    for tool in definition.tools:
        ctx[Tools].register(tool)
    for part in parts:
        await part.install(ctx, definition, key)


async def _running(fiber: Fiber, definition: Definition) -> None:
    await fiber.settled()
    entry = fiber.entry
    if isinstance(entry, Entry) and entry.optional:
        return
    if fiber.state is FiberState.PENDING:
        raise MissingServiceError(str(definition.file), str(fiber.ctx.root.explain(fiber)))
    await fiber.ready()
