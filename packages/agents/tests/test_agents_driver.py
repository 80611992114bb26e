import gc

from terret_testing import call, reply, running_harness, say, script
from terret_tools import Tools, tool


async def test_a_turn_leaves_no_reference_cycles() -> None:
    """L-226: nothing of a turn waits for the cyclic garbage collector."""
    model = script()
    for _ in range(3):
        model.add(reply(call("ping"), call("ping")), say("x"))
    async with running_harness(model=model) as h:

        @tool(is_concurrency_safe=lambda arguments: True)
        async def ping() -> str:
            """Ping."""
            return "pong"

        h.ctx[Tools].register(ping)
        await h.send("warm up")
        gc.collect()
        gc.disable()
        try:
            await h.send("a")
            await h.send("b")
            assert gc.collect() == 0
        finally:
            gc.enable()
