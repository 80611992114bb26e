"""A plugin is a function; what it registers ends with it."""

import anyio

from terret_context import Container, Context, Emit, plugin

GREETED = Emit[str]("examples/greeted", doc="Somebody was greeted.")


@plugin
def greeter(ctx: Context) -> None:
    ctx.on(GREETED, lambda name: print(f"hello, {name}"))


async def main() -> None:
    async with Container() as root:
        fiber = root.plugin(greeter)
        await fiber.ready()
        root.emit(GREETED, "Ada")
        await fiber.dispose()
        root.emit(GREETED, "nobody hears this")


if __name__ == "__main__":
    anyio.run(main)
