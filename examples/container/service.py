"""A service, and a consumer that waits for it; whoever calls owns what is registered."""

import anyio

from terret_context import Container, Context, Effect, Service, plugin


class Counter(Service, key="counter"):
    """Counts words for any plugin."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.words: set[str] = set()

    def watch(self, word: str) -> Effect:
        def add() -> object:
            self.words.add(word)
            return lambda: self.words.discard(word)

        return self.caller.effect(add, label=f"watch {word}")


@plugin(inject=(Counter,))
def reader(ctx: Context) -> None:
    ctx[Counter].watch("terret")
    print("the reader runs")


async def main() -> None:
    async with Container() as root:
        consumer = root.plugin(reader)
        await root.settle()
        print(consumer.state.value)
        root.plugin(Counter)
        await consumer.ready()
        counter = root[Counter]
        print(sorted(counter.words))
        await consumer.dispose()
        print(sorted(counter.words))


if __name__ == "__main__":
    anyio.run(main)
