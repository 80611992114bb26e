"""A provider that goes away waits until its consumers are down; they come back with the next."""

from collections.abc import AsyncIterator, Iterator

import anyio

from terret_context import Container, Context, ServiceKey, plugin

STORE: ServiceKey[str] = ServiceKey("store")


@plugin(provides=(STORE,))
async def store(ctx: Context) -> AsyncIterator[None]:
    ctx.provide(STORE, "a store")
    yield
    print("the store closes")


@plugin(inject=(STORE,))
def consumer(ctx: Context) -> Iterator[None]:
    print("the consumer runs with", ctx[STORE])
    yield
    print("the consumer still has", ctx[STORE])


async def main() -> None:
    async with Container() as root:
        provider, user = root.plugin(store), root.plugin(consumer)
        await user.ready()
        await provider.dispose()
        print("the consumer is", user.state.value)
        print(root.explain(user).missing[0][1])
        root.plugin(store)
        await user.ready()


if __name__ == "__main__":
    anyio.run(main)
