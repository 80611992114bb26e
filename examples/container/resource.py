"""A body with a `yield` holds a resource open as long as the plugin is up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from terret_context import Container, Context, plugin


@asynccontextmanager
async def connection() -> AsyncIterator[str]:
    print("connected")
    yield "connection"
    print("disconnected")


@plugin
async def client(ctx: Context) -> AsyncIterator[None]:
    async with connection():
        ctx.effect(lambda: lambda: print("registration withdrawn"))
        yield  # ACTIVE as long as the fiber stays here
        print("saying goodbye")


async def main() -> None:
    async with Container() as root:
        await root.plugin(client).ready()


if __name__ == "__main__":
    anyio.run(main)
