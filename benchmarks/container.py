"""What the container costs, against the bare asyncio or Python below it.

Each figure and its floor are measured in the same run, as processor time, the best of several
alternating rounds after a warm-up, with the garbage collector on. Rows about memory, growth and
run counts do not depend on the machine.
"""

import asyncio
import gc
import math
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import anyio
from figures import Row, report

from terret_context import Container, Context, Emit, Service, ServiceKey, plugin

ROUNDS = 15
KEY: ServiceKey[object] = ServiceKey("thing")
PING = Emit[int]("benchmarks/ping", doc="For the benchmark.")


def rows() -> Iterator[Row]:
    yield from anyio.run(measure)


async def measure() -> list[Row]:
    return [
        *await lifecycle_rows(),
        *await dispatch_rows(),
        *await lookup_rows(),
        await effect_row(),
        *await sibling_rows(),
        *await service_rows(),
    ]


@plugin
def plain(ctx: Context) -> None: ...


@plugin
async def asynchronous(ctx: Context) -> None: ...


@plugin
async def generator(ctx: Context) -> AsyncIterator[None]:
    yield


async def nothing() -> None: ...


async def task() -> None:
    """Create and await one bare task."""
    await asyncio.get_running_loop().create_task(nothing())


async def lifecycle_rows() -> list[Row]:
    """Load, wait, dispose and wait, against creating and awaiting one bare task."""
    async with Container() as root:

        def episode(recipe: object) -> Callable[[], Awaitable[None]]:
            async def run() -> None:
                fiber = root.plugin(recipe)
                await fiber.ready()
                await fiber.dispose()

            return run

        floor, *figures = await best_of(task, *map(episode, (plain, asynchronous, generator)))
    names = ("plain", "async function", "async generator")
    return [
        Row(name=f"load + dispose: {name}", unit="µs", figure=figure, floor=floor, target=target)
        for name, figure, target in zip(names, figures, (8, 20, 20), strict=True)
    ]


async def dispatch_rows() -> list[Row]:
    """Emit to plain listeners, against a loop over the same functions."""
    rows = []
    for count, target in ((0, None), (10, 5), (100, 5)):
        async with Container() as root:
            functions = [listener() for _ in range(count)]
            for function in functions:
                root.on(PING, function)

            floor, figure = best_of_plain(partial(call_all, functions), partial(emit, root))
        name = f"emit to {count} listeners"
        rows.append(Row(name=name, unit="µs", figure=figure, floor=floor, target=target))
    return rows


def call_all(functions: list[Callable[[int], None]]) -> None:
    for function in functions:
        function(1)


def emit(root: Container) -> None:
    root.emit(PING, 1)


def listener() -> Callable[[int], None]:
    def function(payload: int) -> None: ...

    return function


class Counter(Service, key="counter"):
    """A service with a method."""

    def method(self) -> None: ...


async def lookup_rows() -> list[Row]:
    """A lookup by key, against one in a dict; a method of a view, against the bare method."""
    async with Container() as root:
        root.provide(KEY, object())
        await root.plugin(Counter).ready()
        fiber = root.plugin(plain, inject=(KEY, Counter))
        await fiber.ready()
        ctx: Context = fiber.ctx
        known = {KEY: ctx[KEY]}
        view, origin = ctx[Counter], ctx[Counter].origin
        floor, figure = best_of_plain(lambda: known[KEY], lambda: ctx[KEY])
        bare, bound = best_of_plain(lambda: origin.method(), lambda: view.method())
    return [
        Row(name="ctx[Key]", unit="µs", figure=figure, floor=floor, target=4),
        Row(name="method through a bound view", unit="µs", figure=bound, floor=bare, target=2),
    ]


async def effect_row() -> Row:
    """Register and undo, against an entry of a dict that comes and goes."""
    entries: dict[int, object] = {}

    def entry() -> None:
        entries[1] = None
        del entries[1]

    async with Container() as root:

        def effect() -> None:
            root.effect(lambda: lambda: None).close()

        floor, figure = best_of_plain(entry, effect)
    return Row(name="plain effect: register + undo", unit="µs", figure=figure, floor=floor)


async def sibling_rows(count: int = 10_000) -> list[Row]:
    """Many siblings at once: per fiber against one bare task, and the memory of each."""
    loop = asyncio.get_running_loop()
    loads, unloads, floors = [], [], []
    for _ in range(3):
        start = time.process_time()
        await asyncio.gather(*(loop.create_task(nothing()) for _ in range(count)))
        floors.append((time.process_time() - start) * 1e6 / count)
        async with Container() as root:
            loads.append(await timed(partial(mount, root, count), count))
            unloads.append(await timed(root.reset, count))
    async with Container() as root:
        await mount(root, 100)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await mount(root, count)
        gc.collect()
        kilobytes = (tracemalloc.get_traced_memory()[0] - before) / count / 1000
        tracemalloc.stop()
    floor = min(floors)
    return [
        Row(name="10,000 siblings: load each", unit="µs", figure=min(loads), floor=floor, target=8),
        Row(name="10,000 siblings: dispose each", unit="µs", figure=min(unloads), floor=floor),
        Row(name="memory of an empty plugin", unit="kB", figure=kilobytes, floor=4, target=1),
    ]


async def mount(root: Container, count: int) -> None:
    for _ in range(count):
        root.plugin(plain)
    await root.settle()


async def service_rows(count: int = 1000) -> list[Row]:
    """Consumers of one service, and pairs of providers and consumers."""
    runs = 0

    @plugin(inject=(KEY,))
    def consumer(ctx: Context) -> None:
        nonlocal runs
        runs += 1

    async with Container() as root:
        provision = root.provide(KEY, 0)
        for _ in range(count):
            root.plugin(consumer)
        await root.settle()

        async def replace() -> None:
            provision.replace(object())
            await root.settle()

        await replace()
        restarts = [await timed(replace, count) for _ in range(3)]
        runs = 0
        for number in range(1000):
            provision.replace(number)
        await root.settle()
        per_consumer = runs / count
    gc.collect()
    gc.freeze()  # what was there before is no part of the growth
    pairs = [await pairs_time(number) for number in (500, 2000)]
    (floor,) = await best_of(task)
    return [
        Row(name="restart each of 1,000 consumers", unit="µs", figure=min(restarts), floor=floor),
        Row(name="runs for 1,000 flips", unit="", figure=per_consumer, floor=1, target=2),
        Row(
            name="growth exponent of pairs of services",
            unit="",
            figure=math.log(pairs[1] / pairs[0], 4),
            floor=1,
            target=1.2,
        ),
    ]


async def pairs_time(count: int) -> float:
    def provider(number: int) -> object:
        @plugin(name="provider", provides=(f"key{number}",))
        def body(ctx: Context) -> None:
            ctx.provide(f"key{number}", number)

        return body

    recipes = [provider(number) for number in range(count)]
    keys = [(f"key{number}",) for number in range(count)]

    async def run() -> None:
        async with Container() as root:
            for key in keys:
                root.plugin(plain, inject=key)
            for recipe in recipes:
                root.plugin(recipe)
            await root.settle()

    times = []
    for _ in range(ROUNDS):
        gc.collect()
        times.append(await timed(run))
    return min(times)


async def timed(run: Callable[[], Awaitable[object]], count: int = 1) -> float:
    """Return the processor time of one of `count` parts, in microseconds."""
    start = time.process_time()
    await run()
    return (time.process_time() - start) * 1e6 / count


async def best_of(
    *runs: Callable[[], Awaitable[None]], rounds: int = 100, count: int = 100
) -> list[float]:
    """Return the least processor time of a single run of each, in microseconds.

    Many short rounds, since what else the machine does costs a long one its caches.
    """
    best = [math.inf] * len(runs)
    for _ in range(rounds):
        for index, run in enumerate(runs):
            start = time.process_time()
            for _ in range(count):
                await run()
            best[index] = min(best[index], (time.process_time() - start) * 1e6 / count)
    return best


def best_of_plain(*runs: Callable[[], object], count: int = 20_000) -> Iterator[float]:
    """Yield the least processor time of a single call of each, in microseconds."""
    best = [math.inf] * len(runs)
    for _ in range(ROUNDS):
        for index, run in enumerate(runs):
            start = time.process_time()
            for _ in range(count):
                run()
            best[index] = min(best[index], (time.process_time() - start) * 1e6 / count)
    yield from best


if __name__ == "__main__":
    sys.exit(report(__doc__, rows()))
