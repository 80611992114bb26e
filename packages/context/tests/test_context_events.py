"""Events: the five modes, order, snapshots, and the catalogue."""

import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    Bail,
    ContainedError,
    Container,
    Context,
    Emit,
    Event,
    EventConflictError,
    EventModeError,
    FiberState,
    InactiveFiberError,
    Next,
    NextCalledTwiceError,
    Parallel,
    Serial,
    UnknownEventError,
    Waterfall,
    event_catalog,
    find_event,
)

EMIT = Emit[str]("tests/emit", doc="For the tests of events.")
NONE = Emit[()]("tests/none", doc="For the tests of events.")
PARALLEL = Parallel[str]("tests/parallel", doc="For the tests of events.")
BAIL = Bail[str, object]("tests/bail", doc="For the tests of events.")
SERIAL = Serial[str, object]("tests/serial", doc="For the tests of events.")
WATERFALL = Waterfall[str, str]("tests/waterfall", doc="For the tests of events.")
REPEAT = Waterfall[str, str]("tests/repeat", doc="For the tests of events.", repeat=True)
DIRECT = Emit[str, int]("tests/direct", doc="For the tests of events.", direct=True)


def reported(root: Container) -> list[str]:
    errors: list[str] = []

    def note(contained: ContainedError) -> None:
        errors.append(f"{contained.fiber.name}, {contained.label}: {contained.error}")

    root.on("internal/error", note)
    return errors


async def plugged(root: Container, name: str) -> Context:
    fiber = root.plugin(lambda ctx: None, name=name)
    await fiber.ready()
    context: Context = fiber.ctx
    return context


def fails(text: str) -> Callable[[str], None]:
    def listener(payload: str) -> None:
        raise ValueError(text)

    return listener


async def test_a_listener_is_called_once_an_emit_until_it_is_closed() -> None:
    """C-020: and never after."""
    heard: list[str] = []
    async with Container() as root:
        effect = root.on(EMIT, heard.append)
        assert effect.label == 'on "tests/emit"'
        root.emit(EMIT, "a")
        root.emit("tests/emit", "b")
        effect.close()
        root.emit(EMIT, "c")
    assert heard == ["a", "b"]


async def test_once_is_for_the_first_dispatch_only_also_when_that_one_is_nested() -> None:
    """C-021: closing its handle afterwards is harmless."""
    heard: list[str] = []

    def listener(text: str) -> None:
        heard.append(text)
        root.emit(EMIT, "nested")

    async with Container() as root:
        effect = root.once(EMIT, listener)
        root.emit(EMIT, "a")
        root.emit(EMIT, "b")
        effect.close()
        assert effect.done
    assert heard == ["a"]


async def test_parallel_runs_everybody_to_the_end() -> None:
    """C-022, C-155: none is fine; how many ran; all errors in one group, in listener order."""
    heard: list[str] = []

    async def slow_failure(text: str) -> None:
        await anyio.sleep(2)
        raise ValueError("slow")

    async def listener(text: str) -> None:
        await anyio.sleep(3)
        heard.append(text)

    async with Container() as root:
        assert await root.parallel(PARALLEL, "a") == 0
        root.on(PARALLEL, listener)
        root.on(PARALLEL, heard.append)
        assert await root.parallel(PARALLEL, "a") == 2
        root.on(PARALLEL, slow_failure)
        root.on(PARALLEL, fails("quick"))
        with pytest.raises(ExceptionGroup, match='listeners of "tests/parallel"') as raised:
            await root.parallel(PARALLEL, "b")
    assert [str(error) for error in raised.value.exceptions] == ["slow", "quick"]
    assert heard == ["a", "a", "b", "b"]


async def test_emit_contains_every_failure(caplog: pytest.LogCaptureFixture) -> None:
    """C-023, C-210, B-249: plain or async; the others run, the emitter sees nothing."""
    heard: list[str] = []

    async def late(text: str) -> None:
        raise ValueError("late")

    async with Container() as root:
        errors = reported(root)
        ctx = await plugged(root, "listener")
        ctx.on(EMIT, fails("plain"))
        ctx.on(EMIT, late)
        ctx.on(EMIT, heard.append)
        root.emit(EMIT, "a")
        assert heard == ["a"]
        while len(errors) < 2:
            await checkpoint()
        assert errors == [
            'listener, on "tests/emit": plain',
            'listener, on "tests/emit": late',
        ]
        assert ctx.fiber.state is FiberState.ACTIVE
    assert len(caplog.records) == 2


async def test_a_failing_listener_of_internal_error_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-216: it is not reported to itself for ever, plain or async."""

    async def late(contained: ContainedError) -> None:
        raise ValueError("late")

    def broken(contained: ContainedError) -> None:
        raise ValueError("broken")

    async with Container() as root:
        root.on("internal/error", broken)
        root.on("internal/error", late)
        root.report(KeyError("mine"), label="work")
        await anyio.sleep(1)
    assert [record.getMessage() for record in caplog.records] == [
        "work of root failed: KeyError: 'mine'",
        "on \"internal/error\" of root failed: ValueError('broken')",
        "on \"internal/error\" of root failed: ValueError('late')",
    ]


async def test_serial_awaits_one_at_a_time() -> None:
    """C-024: the first result ends it, the first error is raised."""
    heard: list[str] = []

    async def slow(text: str) -> None:
        await anyio.sleep(1)
        heard.append(f"slow {text}")

    def answer(text: str) -> str | None:
        heard.append(f"answer {text}")
        return "yes" if text == "a" else None

    async with Container() as root:
        root.on(SERIAL, slow)
        root.on(SERIAL, answer)
        root.on(SERIAL, fails("error"))
        assert await root.serial(SERIAL, "a") == "yes"
        with pytest.raises(ValueError, match="error"):
            await root.serial(SERIAL, "b")
        by_name: Any = root.serial
        assert await by_name("tests/serial", "a") == "yes"
    assert heard[:4] == ["slow a", "answer a", "slow b", "answer b"]


async def test_bail_ends_with_the_first_result_or_exception() -> None:
    """C-025, C-278: a veto point: raised unchanged, later listeners are not called."""
    heard: list[str] = []
    veto = PermissionError("no")

    def check(text: str) -> None:
        if text == "bad":
            raise veto

    def answer(text: str) -> str:
        heard.append(text)
        return text.upper()

    async with Container() as root:
        assert root.bail(BAIL, "none") is None
        root.on("tests/bail", check)
        root.on(BAIL, answer)
        root.on(BAIL, fails("unreachable"))
        assert root.bail(BAIL, "good") == "GOOD"
        with pytest.raises(PermissionError) as raised:
            root.bail(BAIL, "bad")
    assert raised.value is veto
    assert heard == ["good"]


@pytest.mark.parametrize("result", [False, 0, "", math.nan, ()])
async def test_only_none_abstains(result: object) -> None:
    """C-219: falsy results end bail and serial."""
    async with Container() as root:
        for event in (BAIL, SERIAL):
            root.on(event.name, lambda text: None)
            root.on(event.name, lambda text: result)
            root.on(event.name, fails("unreachable"))
        assert root.bail(BAIL, "a") is result
        assert await root.serial(SERIAL, "a") is result


async def test_a_waterfall_wraps_from_the_outside_in() -> None:
    """C-026: one that does not call `call_next` cuts off those behind it and `inner`."""
    trace: list[str] = []

    def wrapper(name: str) -> Callable[[str, Next[str]], object]:
        async def listener(text: str, call_next: Next[str]) -> str:
            trace.append(name)
            return f"{name}({await call_next()})"

        return listener

    def cut(text: str, call_next: Next[str]) -> str:
        return "cut"

    async def inner() -> str:
        trace.append("inner")
        return "inner"

    async with Container() as root:
        assert await root.waterfall(WATERFALL, "x", lambda: "plain") == "plain"
        root.on("tests/waterfall", wrapper("a"))
        root.on("tests/waterfall", wrapper("b"))
        assert await root.waterfall(WATERFALL, "x", inner) == "a(b(inner))"
        assert trace == ["a", "b", "inner"]
        root.on(WATERFALL, cut)
        assert await root.waterfall(WATERFALL, "x", inner) == "a(b(cut))"
        assert trace.count("inner") == 1


async def test_exceptions_pass_through_the_wrappers_of_a_waterfall() -> None:
    """C-026: a listener may turn one into a result."""

    async def rescue(text: str, call_next: Next[str]) -> str:
        try:
            return await call_next()
        except ValueError as error:
            return f"rescued {error}"

    def inner() -> str:
        raise ValueError("inner")

    async with Container() as root:
        with pytest.raises(ValueError, match="inner"):
            await root.waterfall(WATERFALL, "x", inner)
        root.on(WATERFALL, rescue)
        assert await root.waterfall(WATERFALL, "x", inner) == "rescued inner"


async def test_a_second_call_of_call_next_raises() -> None:
    """C-220: naming the listener."""

    async def greedy(text: str, call_next: Next[str]) -> str:
        await call_next()
        return await call_next()

    async with Container() as root:
        root.on(WATERFALL, greedy)
        with pytest.raises(NextCalledTwiceError) as raised:
            await root.waterfall(WATERFALL, "x", lambda: "inner")
    assert str(raised.value) == (
        f'{greedy.__qualname__} called `call_next()` of "tests/waterfall" a second time; '
        "only an event with `repeat=True` allows it"
    )


async def test_a_repeat_waterfall_may_go_on_again_but_not_at_once() -> None:
    """C-279: after it returned or raised; overlapping calls raise."""
    calls: list[int] = []

    def inner() -> str:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ValueError("not yet")
        return "third"

    async def retry(text: str, call_next: Next[str]) -> str:
        while True:
            try:
                return await call_next()
            except ValueError:
                continue

    async def overlapping(text: str, call_next: Next[str]) -> str:
        async def again() -> None:
            await call_next()

        async with anyio.create_task_group() as group:
            group.start_soon(again)
            group.start_soon(again)
        return "unreachable"

    async with Container() as root:
        effect = root.on(REPEAT, retry)
        assert await root.waterfall(REPEAT, "x", inner) == "third"
        effect.close()
        root.on(REPEAT, overlapping)
        with pytest.raises(ExceptionGroup) as raised:
            await root.waterfall(REPEAT, "x", checkpoint)  # type: ignore[arg-type]  # takes time
    assert "while the first call still ran" in str(raised.value.exceptions[0])


@pytest.mark.parametrize("name", ["__init__", "__class__", "tests/x", "constructor"])
async def test_any_text_is_an_event_name(name: str) -> None:
    """C-153: names such as `__init__` are ordinary ones."""
    event = Emit[str](name, doc="For the tests of events.")
    heard: list[str] = []
    async with Container() as root:
        root.on(name, heard.append)
        root.emit(event, "a")
    assert heard == ["a"]


async def test_the_table_of_an_event_goes_with_its_last_listener() -> None:
    """C-154: and comes back with the next one."""
    async with Container() as root:
        effects = [root.on(EMIT, lambda text: None) for _ in "ab"]
        assert root.snapshot()["listeners"] == {"tests/emit": 2}
        for effect in effects:
            effect.close()
        assert root.snapshot()["listeners"] == {}
        heard: list[str] = []
        root.on(EMIT, heard.append)
        root.emit(EMIT, "a")
        assert heard == ["a"]


@pytest.mark.parametrize("mode", ["serial", "waterfall", "parallel"])
async def test_cancelling_the_dispatcher_cancels_the_listener_that_runs(mode: str) -> None:
    """C-184: later ones and `inner` do not run; already cancelled: none runs."""
    trace: list[str] = []

    async def hang(text: str, *rest: object) -> None:
        trace.append("hang")
        try:
            await anyio.sleep_forever()
        finally:
            trace.append("cancelled")

    def inner() -> str:
        trace.append("inner")
        return "inner"

    async def dispatch() -> None:
        if mode == "serial":
            await root.serial(SERIAL, "x")
        elif mode == "parallel":
            await root.parallel(PARALLEL, "x")
        else:
            await root.waterfall(WATERFALL, "x", inner)

    async with Container() as root:
        root.on(SERIAL, hang)
        root.on(SERIAL, lambda text: trace.append("later"))
        root.on(PARALLEL, hang)
        root.on(WATERFALL, hang)  # type: ignore[arg-type]  # it never returns
        with anyio.move_on_after(1):
            await dispatch()
        assert trace == ["hang", "cancelled"]
        with anyio.CancelScope() as scope:
            scope.cancel()
            await dispatch()
        assert trace == ["hang", "cancelled"]


async def test_the_list_is_fixed_when_a_dispatch_starts() -> None:
    """C-218: one added meanwhile waits; one removed meanwhile is not called."""
    heard: list[str] = []

    def first(text: str) -> None:
        heard.append("first")
        root.on(EMIT, lambda text: heard.append("added"))
        second.close()

    async with Container() as root:
        root.on(EMIT, first)
        second = root.on(EMIT, lambda text: heard.append("second"))
        root.emit(EMIT, "a")
        assert heard == ["first"]
        root.emit(EMIT, "b")
        assert heard == ["first", "first", "added"]


async def test_listeners_of_a_fiber_that_unloads_are_deaf() -> None:
    """C-218: from the start of its unload, also within a dispatch that has begun."""
    heard: list[str] = []
    gate, undoing = anyio.Event(), anyio.Event()

    async with Container() as root:

        def body(ctx: Context) -> None:
            async def undo() -> None:
                undoing.set()
                await gate.wait()

            ctx.on(EMIT, heard.append)
            ctx.on(SERIAL, heard.append)
            ctx.effect(lambda: undo)

        fiber = root.plugin(body)
        await fiber.ready()

        async def retire(text: str) -> None:
            fiber.retire()
            await undoing.wait()

        root.on(SERIAL, retire, prepend=True)
        await root.serial(SERIAL, "serial")
        root.emit(EMIT, "emit")
        assert root.listeners(EMIT) == ()
        gate.set()
        await fiber.settled()
    assert heard == []


async def test_an_effect_made_in_a_listener_belongs_to_its_own_context() -> None:
    """C-228: and raises if that fiber is gone."""
    async with Container() as root:
        ctx = await plugged(root, "listener")
        ctx.on(EMIT, lambda text: ctx.effect(lambda: None, label=text))
        root.emit(EMIT, "mine")
        assert "mine" in [effect.label for effect in ctx.fiber.effects.values()]
        raised: list[Exception] = []

        def late(text: str) -> None:
            try:
                ctx.effect(lambda: None)
            except InactiveFiberError as error:
                raised.append(error)

        root.on(EMIT, late)
        await ctx.fiber.dispose()
        root.emit(EMIT, "late")
        assert len(raised) == 1


async def test_an_async_emit_listener_is_a_task_of_its_own_fiber() -> None:
    """C-277: cancelled and joined at its unload, independent of the emitter."""
    trace: list[str] = []
    started = anyio.Event()

    async def listener(text: str) -> None:
        trace.append(text)
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            trace.append("cancelled")

    async with Container() as root:
        ctx, emitter = await plugged(root, "listener"), await plugged(root, "emitter")
        ctx.on(EMIT, listener)
        emitter.emit(EMIT, "heard")
        await started.wait()
        await emitter.fiber.dispose()
        assert trace == ["heard"]
        await ctx.fiber.dispose()
        assert trace == ["heard", "cancelled"]


async def test_prepended_listeners_come_first_the_later_one_before() -> None:
    """C-283: in a waterfall that is outermost."""
    heard: list[str] = []
    async with Container() as root:
        for name, prepend in (("a", False), ("b", True), ("c", False), ("d", True)):

            def hear(text: str, name: str = name) -> None:
                heard.append(name)

            root.on(EMIT, hear, prepend=prepend)

            async def wrap(text: str, call_next: Next[str], name: str = name) -> str:
                return f"{name}{await call_next()}"

            root.on(WATERFALL, wrap, prepend=prepend)
        root.emit(EMIT, "x")
        assert await root.waterfall(WATERFALL, "x", lambda: "!") == "dbac!"
    assert heard == ["d", "b", "a", "c"]


def two(first: str, second: str) -> None: ...


async def later(text: str) -> None: ...


async def later_two(text: str, number: int) -> None: ...


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda root: root.emit(BAIL, "x"),
            '"tests/bail" is a bail event: use `ctx.bail`, not `ctx.emit`',
        ),
        (
            lambda root: root.bail(EMIT, "x"),
            '"tests/emit" is an emit event: use `ctx.emit`, not `ctx.bail`',
        ),
        (
            lambda root: root.emit(DIRECT, "x", 1),
            '"tests/direct" is a direct event: its owner calls `ctx.listeners(event)`',
        ),
        (
            lambda root: root.on(EMIT, two),
            f'"tests/emit" is an emit event: a listener takes 1 parameter(s), {two!r} does not',
        ),
        (
            lambda root: root.on(WATERFALL, later),
            '"tests/waterfall" is a waterfall event: '
            f"a listener takes (payload, call_next), {later!r} does not",
        ),
        (
            lambda root: root.on(BAIL, later),
            '"tests/bail" is a bail event: listeners are plain functions',
        ),
        (
            lambda root: root.on(DIRECT, later_two),
            '"tests/direct" is a direct event: listeners are plain functions',
        ),
    ],
)
async def test_the_wrong_mode_names_the_right_call(
    call: Callable[[Container], object], message: str
) -> None:
    """C-274, C-427: dispatches, parameters, coroutine functions."""
    async with Container() as root:
        with pytest.raises(EventModeError) as raised:
            call(root)
        assert str(raised.value) == message
        assert not root.fiber.effects


async def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    """C-275: import the package that declares it."""
    async with Container() as root:
        with pytest.raises(UnknownEventError) as raised:
            root.on("tests/waterfal", print)
        assert str(raised.value) == (
            'no event "tests/waterfal" (did you mean "tests/waterfall"?); '
            "import the package that declares it"
        )
        with pytest.raises(UnknownEventError, match='no event "zzz"; import'):
            root.emit("zzz", 1)
    assert find_event("zzz") is None


async def test_an_event_that_is_declared_again_keeps_its_listeners() -> None:
    """C-276: from the same owner and in the same mode; anything else is a conflict."""
    heard: list[str] = []
    async with Container() as root:
        root.on(EMIT, heard.append)
        again = Emit[str]("tests/emit", doc="For the tests of events.")
        assert find_event("tests/emit") is again
        root.emit(again, "a")
        assert heard == ["a"]
    with pytest.raises(EventConflictError) as raised:
        Bail[str, str]("tests/emit")
    assert str(raised.value) == (
        f'event "tests/emit" is declared twice: emit by {EMIT.owner} and bail by {EMIT.owner}; '
        "rename one of them"
    )
    with pytest.raises(EventConflictError, match="emit by terret_context and emit by"):
        Emit[str]("internal/status")


def test_the_catalogue_lists_every_descriptor() -> None:
    """C-282, C-425: with mode, payload, result and doc text out of the subscription."""
    catalog = {event.name: event for event in event_catalog()}
    assert list(catalog) == sorted(catalog)
    assert catalog["tests/repeat"] is REPEAT
    rows = {
        name: (event.mode, event.payload, event.result)
        for name, event in catalog.items()
        if event in (EMIT, NONE, PARALLEL, BAIL, WATERFALL, DIRECT)
    }
    assert rows["tests/bail"] == ("bail", (str,), object)
    assert rows["tests/waterfall"] == ("waterfall", (str,), str)
    assert rows["tests/parallel"] == ("parallel", (str,), None)
    assert rows["tests/direct"] == ("emit", (str, int), None)
    assert rows["tests/none"] == ("emit", (), None)
    internal: list[Event] = [one for one in catalog.values() if one.owner == "terret_context"]
    assert {event.name for event in internal} == {
        "internal/error",
        "internal/plugin",
        "internal/service",
        "internal/status",
    }
    assert all(event.doc and event.types for event in internal)


async def test_an_event_without_payload_has_listeners_without_parameters() -> None:
    """C-425: `Emit[()]`."""
    heard: list[str] = []
    async with Container() as root:
        root.on(NONE, lambda: heard.append("heard"))
        root.emit(NONE)
    assert heard == ["heard"]


async def test_listeners_gives_one_tuple_until_a_listener_comes_or_goes() -> None:
    """C-427: a dispatch of a direct event keeps it to its end."""
    heard: list[object] = []
    async with Container() as root:
        effect = root.on(DIRECT, lambda text, number: heard.append((text, number)))
        functions = root.listeners(DIRECT)
        assert root.listeners("tests/direct") is functions
        effects = [root.once(DIRECT, lambda text, number: heard.append(number)) for _ in "a"]
        both = root.listeners(DIRECT)
        assert both is not functions
        for _ in range(2):
            for fn in both:
                fn("x", 1)
        assert heard == [("x", 1), 1, ("x", 1)]
        assert effects[0].done
        effect.close()
        assert root.listeners(DIRECT) == ()
        assert root.listeners(EMIT) == ()


async def test_report_reaches_log_and_internal_error_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-427, C-148: each member of a group is logged by itself, with the plugin."""
    async with Container() as root:
        errors = reported(root)
        ctx = await plugged(root, "owner")
        ctx.report(ExceptionGroup("many", [ValueError("a"), KeyError("b")]), label="delivery")
        assert errors == ["owner, delivery: many (2 sub-exceptions)"]
    assert [(record.getMessage(), record.__dict__["plugin"]) for record in caplog.records] == [
        ('delivery of plugin "owner" failed: ValueError: a', "owner"),
        ("delivery of plugin \"owner\" failed: KeyError: 'b'", "owner"),
    ]
