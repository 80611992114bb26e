"""What the container says of itself: snapshots, explanations, loggers, and what it forgets."""

import gc
import json
import logging
import weakref
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import Container, Context, Emit, FiberState, Service, ServiceKey, plugin

TOOL: ServiceKey[object] = ServiceKey("tool")
PING = Emit[str]("tests/diagnostics-ping", doc="For the tests of diagnostics.")


def nothing(ctx: Context) -> None: ...


class Loud(Service, key="loud"):
    """A service that logs in `init` and in a method."""

    def init(self) -> None:
        self.logger.info("in init")

    def shout(self) -> None:
        self.logger.info("in a method", volume=11)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    rows = [dict(record.__dict__["terret"]) for record in caplog.records]
    return [(row.pop("event"), row) for row in rows]


async def test_loggers_are_bound_to_plugin_and_entry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-036, C-037: of root too; `bind` adds keys for that logger only."""
    caplog.set_level(logging.INFO, logger="terret")
    async with Container() as root:
        fiber = root.plugin(nothing, name="bash", entry="harness.yml#bash")
        await fiber.ready()
        root.logger.info("from root")
        fiber.ctx.logger.bind(extra=1).info("bound")
        fiber.ctx.logger.info("plain")
        assert fiber.ctx.logger is fiber.ctx.isolate(TOOL).logger
    bash = {"plugin": "bash", "entry": "harness.yml#bash", "fiber": fiber.uid}
    assert logged(caplog) == [
        ("from root", {"plugin": "root", "entry": None, "fiber": 0}),
        ("bound", {**bash, "extra": 1}),
        ("plain", bash),
    ]


async def test_a_service_logs_as_itself_with_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    """C-039, C-041: the service's plugin, and the caller's name as `caller`."""
    caplog.set_level(logging.INFO, logger="terret")
    async with Container() as root:
        own = root.plugin(Loud)
        fiber = root.plugin(plugin(name="user", inject=[Loud])(nothing))
        await fiber.ready()
        fiber.ctx[Loud].shout()
    bound = {"plugin": "loud", "entry": None, "fiber": own.uid}
    assert logged(caplog) == [
        ("in init", bound),
        ("in a method", {**bound, "caller": "user", "volume": 11}),
    ]


async def test_a_listener_logs_as_its_own_plugin(caplog: pytest.LogCaptureFixture) -> None:
    """C-040: not as the emitter."""
    caplog.set_level(logging.INFO, logger="terret")
    async with Container() as root:
        listener, emitter = (root.plugin(nothing, name=name) for name in ("ear", "mouth"))
        await root.settle()
        listener.ctx.on(PING, lambda text: listener.ctx.logger.info(text))
        emitter.ctx.emit(PING, "heard")
    assert [(text, row["plugin"]) for text, row in logged(caplog)] == [("heard", "ear")]


async def test_explain_gives_the_reason_for_each_key() -> None:
    """C-297: no provider, LOADING, FAILED, PENDING, another realm."""
    gate = anyio.Event()

    @plugin(provides=["slow"])
    async def slow(ctx: Context) -> None:
        ctx.provide("slow", 1)
        await gate.wait()

    @plugin(provides=["broken"])
    def broken(ctx: Context) -> None:
        raise ValueError("no")

    @plugin(provides=["idle"], inject=["never"])
    def idle(ctx: Context) -> None: ...

    keys = ["nobody", "slow", "broken", "idle", "elsewhere"]
    async with Container() as root:
        root.isolate(ServiceKey[object]("elsewhere")).provide("elsewhere", 1)
        root.installed_hint(lambda key: ("one", "two") if key == "nobody" else ())
        providers = [root.plugin(one, entry=f"h.yml#{one.name}") for one in (slow, broken, idle)]
        fiber = root.plugin(nothing, name="user", inject=keys)
        while providers[0].state is not FiberState.LOADING:
            await checkpoint()
        await anyio.sleep(2)
        explained = root.explain(fiber)
        assert dict(explained.missing) == {
            "nobody": "waiting for nobody, provided by no one (installed: one, two)",
            "slow": 'provider plugin "slow" (h.yml#slow) is LOADING',
            "broken": 'provider plugin "broken" (h.yml#broken) is FAILED: no',
            "idle": 'provider plugin "idle" (h.yml#idle) is PENDING',
            "elsewhere": "waiting for elsewhere, provided in another realm only",
        }
        assert (explained.state, explained.seconds) == ("PENDING", 2)
        assert root.explain(providers[0]).waiters == ('plugin "user"',)
        assert str(root.explain(providers[0])) == (
            'plugin "slow" (h.yml#slow) is LOADING for 2.0 s; its body has not returned; '
            'waited for by plugin "user"'
        )
        assert str(root.explain(providers[1])) == (
            'plugin "broken" (h.yml#broken) is FAILED for 2.0 s; ValueError: no; '
            'waited for by plugin "user"'
        )
        gate.set()


async def test_explain_says_what_an_unload_waits_for() -> None:
    """C-297: the consumers, then its own undos."""

    @plugin
    async def slow(ctx: Context) -> AsyncIterator[None]:
        ctx.provide(TOOL, 1)
        yield
        await anyio.sleep(3)

    @plugin(inject=[TOOL])
    async def user(ctx: Context) -> AsyncIterator[None]:
        yield
        await anyio.sleep(3)

    async with Container() as root:
        fiber = root.plugin(slow)
        await root.plugin(user).ready()
        fiber.retire()
        await anyio.sleep(1)
        assert root.explain(fiber).waiting == 'it waits for plugin "user" to come down'
        await anyio.sleep(3)
        assert root.explain(fiber).waiting == "it is being undone"


async def test_explain_lists_recent_restarts_with_their_cause() -> None:
    """C-297: newest first; a key, `update` or `restart`."""
    async with Container() as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(nothing, name="user", inject=[TOOL])
        await fiber.ready()
        provision.replace(2)
        await anyio.sleep(3)
        await fiber.restart()
        await anyio.sleep(1)
        explained = root.explain(fiber)
        assert explained.restarts == ((1, "restart"), (4, "tool"))
        assert str(explained) == (
            'plugin "user" is ACTIVE for 1.0 s; '
            "loaded again 1.0 s ago by restart, 4.0 s ago by tool"
        )
        (row,) = (one for one in root.snapshot()["fibers"] if one["plugin"] == "user")
        assert row["restarts"] == ["tool", "restart"]


async def test_a_snapshot_is_lossless_json_and_shows_everything() -> None:
    """C-298: fibers with target, effects, tasks and edges; bindings, realms, listeners."""

    @plugin(provides=[TOOL])
    async def provider(ctx: Context) -> AsyncIterator[None]:
        ctx.provide(TOOL, 1)
        ctx.spawn(anyio.sleep_forever, name="poll")
        ctx.on(PING, lambda text: None)
        yield

    async with Container() as root:
        empty = root.snapshot()
        first = root.isolate(TOOL, "label").plugin(provider, entry="h.yml#first")
        second = root.isolate(TOOL, "label").plugin(nothing, name="user", inject=[TOOL])
        await root.settle()
        shot = root.snapshot()
        assert json.loads(json.dumps(shot)) == shot
        rows = {row["plugin"]: row for row in shot["fibers"]}
        assert rows["provider"] == {
            "uid": first.uid,
            "plugin": "provider",
            "entry": "h.yml#first",
            "state": "ACTIVE",
            "parent": 0,
            "needs": {},
            "target": {},
            "committed": {},
            "error": None,
            "effects": [
                {"label": label, "children": []}
                for label in (
                    'body "provider"',
                    'provide "tool"',
                    'task "poll"',
                    'on "tests/diagnostics-ping"',
                )
            ],
            "tasks": ['task "poll"'],
            "restarts": [],
        }
        assert rows["user"]["needs"] == {"tool": True}
        assert rows["user"]["committed"] == rows["user"]["target"] == {"tool": first.uid}
        assert shot["bindings"] == [{"key": "tool", "realm": "label", "provider": first.uid}]
        assert shot["realms"] == ["tool/label"]
        assert shot["listeners"] == {"tests/diagnostics-ping": 1}
        await first.dispose()
        await second.dispose()
        assert root.snapshot() == empty


async def test_fibers_that_are_gone_can_be_collected() -> None:
    """C-288: the container keeps nothing of them, nor of what they made."""

    @plugin(provides=[TOOL])
    async def body(ctx: Context) -> AsyncIterator[None]:
        ctx.provide(TOOL, 1)
        ctx.effect(lambda: lambda: None)
        ctx.on(PING, lambda text: None)
        ctx.spawn(anyio.sleep_forever)
        ctx.plugin(nothing)
        yield

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        gone = [weakref.ref(fiber), weakref.ref(root.fibers(nothing)[0])]
        await fiber.dispose()
        del fiber
        await anyio.sleep(60)
        gc.collect()
        assert [ref() for ref in gone] == [None, None]


async def test_cycles_of_load_and_unload_leave_nothing_behind() -> None:
    """C-049, C-288: the number of objects is flat."""

    @plugin(inject=[TOOL])
    def consumer(ctx: Context) -> None:
        ctx.effect(lambda: lambda: None)
        ctx.on(PING, lambda text: None)

    @plugin
    async def asynchronous(ctx: Context) -> AsyncIterator[None]:
        yield

    async def cycles(root: Any, count: int) -> int:
        for number in range(count):
            provision = root.isolate(TOOL, f"label {number}").provide(TOOL, number)
            fibers = [root.plugin(one) for one in (consumer, asynchronous)]
            root.scope(object())
            await root.settle()
            provision.close()
            await fibers[1].restart()
            await root.reset()
        await anyio.sleep(60)  # the event loop lets go of the tasks that ended
        gc.collect()
        return sum(
            str(type(one).__module__).startswith("terret_context") for one in gc.get_objects()
        )

    async with Container() as root:
        before = await cycles(root, 5)
        assert await cycles(root, 333) <= before


@pytest.mark.parametrize("count", [1, 3])
async def test_a_snapshot_before_and_after_is_equal_whatever_was_in_between(count: int) -> None:
    """C-298, C-049: for a tree with children, scopes, realms and tasks."""

    async def tree(ctx: Context) -> None:
        ctx.isolate(TOOL).provide(TOOL, 1)
        ctx.scope(object()).on(PING, lambda text: None)
        for _ in range(count):
            await ctx.plugin(nothing, inject=()).ready()

    async with Container() as root:
        before = root.snapshot()
        fiber = root.plugin(tree)
        await fiber.ready()
        assert len(root.fibers()) == count + 3
        await fiber.dispose()
        assert root.snapshot() == before
