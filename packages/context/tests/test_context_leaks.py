"""Loading and unloading leaves nothing behind, however often."""

import gc
import os
import resource

import anyio

from terret_context import Container, Context, Emit, ServiceKey, plugin

PING = Emit[int]("container-tests/ping", doc="Something that nobody sends.")
STORE: ServiceKey[object] = ServiceKey("store")
CYCLES = int(os.environ.get("TERRET_SOAK", "2000"))


@plugin(inject=[STORE])
def child(ctx: Context) -> None:
    ctx.effect(lambda: lambda: None)


@plugin(provides=[STORE])
async def everything(ctx: Context) -> None:
    ctx.on(PING, lambda number: None)
    ctx.provide(STORE, object())
    ctx.spawn(anyio.sleep_forever)
    ctx.plugin(child)


async def cycle(root: Container, times: int) -> tuple[int, int, int]:
    """Loads and unloads so many times; returns objects, tasks and the peak of memory in KiB."""
    for _ in range(times):
        fiber = root.plugin(everything)
        await fiber.ready()
        await fiber.dispose()
    await root.settle()
    gc.collect()
    tasks = len(anyio.get_running_tasks())
    return len(gc.get_objects()), tasks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def test_cycles_of_load_and_unload_leave_nothing_behind() -> None:
    """PR-T1: a listener, a service, a task and a child, flat in objects, tasks and memory."""
    async with Container() as root:
        objects, tasks, memory = await cycle(root, 1000)  # until caches are full
        later = await cycle(root, CYCLES)
    assert later[0] - objects < 500  # cancelled timers may stay for a while, however many cycles
    assert later[1] == tasks
    assert later[2] - memory < 4096
