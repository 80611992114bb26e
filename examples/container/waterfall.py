"""A policy is a listener of a waterfall event: it wraps the rest, or answers itself."""

import anyio

from terret_context import Container, Context, Next, Waterfall, plugin

RUN = Waterfall[str, str]("examples/run", doc="A command is about to run.")


@plugin
def no_force_push(ctx: Context) -> None:
    async def gate(command: str, call_next: Next[str]) -> str:
        if "push --force" in command:
            return "denied"
        return await call_next()

    ctx.on(RUN, gate, prepend=True)


async def main() -> None:
    async with Container() as root:
        await root.plugin(no_force_push).ready()
        for command in ("git status", "git push --force"):
            print(command, "->", await root.waterfall(RUN, command, lambda: "done"))


if __name__ == "__main__":
    anyio.run(main)
