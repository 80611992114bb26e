"""Runs of scripts in a real container, each of which leaves a ledger."""

import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from pydantic import Field

from container_model import Line, World
from container_scripts import (
    Ask,
    CancelWaiter,
    Close,
    Emit,
    Ending,
    Listen,
    Mount,
    Move,
    Op,
    Provide,
    Recipe,
    Replace,
    Settle,
    Step,
    Turn,
    Undo,
)
from terret_context import (
    Config,
    ConfigError,
    ContainedError,
    Container,
    Context,
    DuplicateServiceError,
    Fiber,
    InactiveFiberError,
    Plugin,
    PluginFailedError,
    Service,
    ServiceUnavailableError,
    StatusChange,
)
from terret_context import Emit as EmitEvent
from virtual_time import virtual_backend

Scheduler: TypeAlias = Literal["fifo", "lifo", "random"]
SCHEDULERS: tuple[Scheduler, ...] = ("fifo", "lifo", "random")

NOTE = EmitEvent[list[str]]("container-tests/note", doc="Each listener writes its name down.")


class Boom(Exception):
    """What synthetic plugins raise."""


class Settings(Config):
    """What synthetic plugins are configured with."""

    level: int = Field(default=0, ge=0)


@dataclass
class Run:
    """What a script did, line by line, and what was left of it."""

    ledger: list[Line] = field(default_factory=list)
    raised: list[Exception] = field(default_factory=list)
    logged: list[BaseException] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    contained: list[BaseException] = field(default_factory=list)
    delivered: list[BaseException] = field(default_factory=list)
    before: Any = None
    settled: Any = None
    after: Any = None
    stuck: list[Ask] = field(default_factory=list)

    def trace(self, *fibers: str) -> list[Line]:
        """The lines of some fibers."""
        return [line for line in self.ledger if line.fiber in fibers]

    def __str__(self) -> str:
        lines = (
            f"{line.what:10} {line.fiber:8} {line.detail or ''} {line.seen or ''}"
            for line in self.ledger
        )
        return "\n".join(lines)


def run(
    ops: Iterable[Op],
    *,
    ending: Ending = "unload",
    scheduler: Scheduler = "fifo",
    seed: int = 0,
    backend: str = "asyncio",
) -> Run:
    """Runs a script from start to end on virtual time."""
    runner = _Runner(scheduler, seed)
    name, options = virtual_backend(backend)
    with _collected(runner.run):
        anyio.run(runner.main, tuple(ops), ending, backend=name, backend_options=options)
    if runner.failure is not None:
        raise runner.failure
    return runner.run


@contextmanager
def _collected(run: Run) -> Iterator[None]:
    """Collects what the container logs, and lets nobody else handle the records."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1]:
                run.logged.append(record.exc_info[1])
            else:
                run.told.append(record.getMessage())

    log, handler = logging.getLogger("terret"), Handler()
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = True


def replay(run: Run) -> World:
    """Follows a ledger in the model; fails at the first line that the rules do not allow.

    The exit of the container is not followed: observers on root hear nothing of it.
    """
    world = World()
    for number, line in enumerate(run.ledger):
        if line == Line("retire", "root"):
            break
        if line.what == "settled":
            due = [move for move, _ in world.moves() if move.what != "crash"]
            assert not due, f"line {number}: settled, but due is {due}\n{run}"
            continue
        after = next((after for move, after in world.moves() if move == line), None)
        after = world.accept(line) if after is None else after
        if after is None:
            allowed = "\n".join(f"    {move}" for move, _ in world.moves())
            raise AssertionError(f"line {number}: {line} is not allowed, but\n{allowed}\n\n{run}")
        world = after
    return world


class _Runner:
    """Executes one script. Whatever synthetic plugins do comes back here as a line."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.run = Run()
        self.random = random.Random(seed)
        self.choose = _CHOICES.get(scheduler, self._choose_any)
        self.choices = 0
        self.root: Container
        self.fibers: dict[str, Fiber] = {}
        self.contexts: dict[str, Context] = {}
        self.views: dict[str, Context] = {}
        self.handles: dict[str, Any] = {}
        self.plugins: dict[Recipe, Plugin | type[Service]] = {}
        self.waiters: list[tuple[Ask, anyio.CancelScope]] = []
        self.waiting: dict[object, Ask] = {}
        self.episodes: dict[str, int] = {}
        self.mounting: Mount | None = None
        self.quiet = False
        self.failure: Exception | None = None

    def write(self, what: str, fiber: str, detail: object = None, seen: Any = ()) -> None:
        if not self.quiet:
            self.run.ledger.append(Line(what, fiber, detail, seen))

    def boom(self) -> Boom:
        error = Boom(len(self.run.raised))
        self.run.raised.append(error)
        return error

    # ---- schedulers

    def _choose_any(self, lane: deque[Any]) -> Any:
        index = self.random.randrange(len(lane))
        chosen = lane[index]
        del lane[index]
        return chosen

    def _counted(self, lane: deque[Any]) -> Any:
        self.choices += 1
        assert self.choices < 20_000, f"the container does not come to rest\n{self.run}"
        return self.choose(lane)

    # ---- the whole

    async def main(self, ops: tuple[Op, ...], ending: Ending) -> None:
        container = Container(restart_budget=(10**6, 1.0), close_deadline=10**6)
        kernel: Any = container.fiber.kernel
        kernel.choose = self._counted
        try:
            with anyio.CancelScope() as host:
                async with container as self.root:
                    await self._script(ops, ending)
                    if ending == "cancel":
                        host.cancel()
                        await checkpoint()
        except* Exception as group:
            self.run.delivered += _leaves(group)
        self.run.after = (kernel.fibers, kernel.tables, tuple(kernel.table))

    async def _script(self, ops: tuple[Op, ...], ending: Ending) -> None:
        try:
            await self._all(ops, ending)
        except Exception as error:
            self.failure = error
            raise

    async def _all(self, ops: tuple[Op, ...], ending: Ending) -> None:
        self._observe()
        self.fibers["root"], self.contexts["root"] = self.root.fiber, self.root
        async with anyio.create_task_group() as self.group:
            self.run.before = self.snapshot()
            for op in ops:
                await self._do(op)
            await self._do(Settle())
            await self._do(Turn(5))  # for those who wait
            self.run.stuck = [ask for ask in self.waiting.values() if ask.what != "ready"]
            self.run.settled = self.snapshot()
            if ending == "unload":
                await self._unload()
            self.group.cancel_scope.cancel()
        self.write("retire", "root")

    async def _unload(self) -> None:
        """Takes everything back that the script did, in some order."""
        undo: list[Op] = [Close(name) for name in self.handles]
        undo += [Ask("retire", name) for name in self.contexts if name != "root"]
        self.random.shuffle(undo)
        for op in undo:
            await self._do(op)
        await self._do(Settle())
        after = self.snapshot()
        assert after == self.run.before, f"left over: {after}\n{self.run}"

    def _observe(self) -> None:
        self.root.on("internal/plugin", self._mounted)
        self.root.on("internal/status", self._status)
        self.root.on("internal/error", self._error)

    def snapshot(self) -> Any:
        """What can be observed of the container, with names in the place of uids."""
        shot = self.root.snapshot()
        names = {fiber["uid"]: fiber["plugin"] for fiber in shot["fibers"]}
        fibers = {
            fiber["plugin"]: (
                fiber["state"],
                names.get(fiber["parent"]),
                {key: names.get(uid) for key, uid in (fiber["committed"] or {}).items()},
                [effect["label"] for effect in fiber["effects"]],
            )
            for fiber in shot["fibers"]
        }
        bindings = {
            (one["key"], one["realm"] and "isolated"): names[one["provider"]]
            for one in shot["bindings"]
        }
        return fibers, bindings, shot["listeners"]

    # ---- what the container tells

    def _mounted(self, fiber: Fiber) -> None:
        self.fibers[fiber.name] = fiber
        self.contexts[fiber.name] = fiber.ctx
        self.write("mounted", fiber.name, self.mounting)

    def _status(self, change: StatusChange) -> None:
        name = change.fiber.name
        if change.new.value == "LOADING":
            self.episodes[name] = self.episodes.get(name, 0) + 1
        self.write(change.new.value, name)

    def _error(self, failure: ContainedError) -> None:
        self.run.contained += _leaves(failure.error)

    # ---- what the script does

    async def _do(self, op: Op) -> None:
        match op:
            case Mount():
                self._mount(op)
            case Ask():
                if op.fiber in self.fibers:
                    scope = anyio.CancelScope()
                    self.waiters.append((op, scope))
                    self.group.start_soon(self._ask, op, scope)
                    await checkpoint()
            case CancelWaiter():
                if op.index < len(self.waiters):
                    self.waiters[op.index][1].cancel()
            case Turn():
                for _ in range(op.rounds):
                    await checkpoint()
                if op.seconds:
                    await anyio.sleep(op.seconds)
            case Settle():
                await self.root.settle()
                self.write("settled", "")
            case _:
                self._change(op)

    def _mount(self, op: Mount) -> None:
        if op.parent not in self.contexts:
            return
        ctx = self.contexts[op.parent].with_realms(_labels(op.isolated))
        self.views[op.name] = ctx
        try:
            self._mount_below(ctx, op)
        except (InactiveFiberError, DuplicateServiceError):
            self.write("refused", op.name, op)

    def _mount_below(self, ctx: Context, op: Mount) -> None:
        self.mounting = op
        if op.recipe is not None:
            ctx.plugin(self.plugin(op.recipe), {"level": op.level}, name=op.name)
            return
        self.quiet = True
        try:
            scoped = ctx.scope(op)
        finally:
            self.quiet = False
        scoped.fiber.name = op.name
        self.fibers[op.name], self.contexts[op.name] = scoped.fiber, scoped
        self.write("mounted", op.name, op)

    async def _ask(self, op: Ask, scope: anyio.CancelScope) -> None:
        fiber = self.fibers[op.fiber]
        ticket = object()
        self.waiting[ticket] = op
        before = len(self.run.ledger)
        try:
            with scope:
                await self._wait(op, fiber)
        except InactiveFiberError:
            if op.what in ("restart", "update") and len(self.run.ledger) == before + 1:
                self.run.ledger[before] = Line("refused", op.fiber)  # at once
        except (PluginFailedError, ConfigError) as error:
            self.run.delivered += _leaves(error.__cause__ or error)
        except ExceptionGroup as group:
            self.run.delivered += _leaves(group)
        finally:
            del self.waiting[ticket]

    async def _wait(self, op: Ask, fiber: Fiber) -> None:
        match op.what:
            case "retire":
                self.write("retire", op.fiber)
                fiber.retire()
            case "dispose" | "check":
                self.write("retire", op.fiber)
                await fiber.dispose(check=op.what == "check")
                assert fiber.state.value == "DISPOSED"
            case "restart":
                self.write("restart", op.fiber)
                await fiber.restart()
            case "update":
                if op.level >= 0:
                    self.write("update", op.fiber, op.level)
                await fiber.update({"level": op.level})
            case "ready":
                await fiber.ready()
            case "settled":
                await fiber.settled()

    def _change(self, op: Op) -> None:
        match op:
            case Provide() if op.owner in self.contexts:
                self._provide(op)
            case Listen() if op.owner in self.contexts:
                self._listen(op)
            case Move() if op.fiber in self.views:
                self._move(op)
            case Close() if op.name in self.handles:
                self.write("closed", "", op.name)
                self._quietly(self.handles[op.name].close)
            case Replace() if op.name in self.handles:
                self._replace(op.name)
            case Emit():
                calls: list[str] = []
                subject = (
                    self.contexts[op.subject].scope_key if op.subject in self.contexts else None
                )
                self.root.emit(NOTE, calls, subject=subject)
                self.write("emitted", "", (op.subject, tuple(calls)))

    def _quietly(self, fn: Callable[..., object], *args: object) -> None:
        self.quiet = True
        try:
            fn(*args)
        finally:
            self.quiet = False

    def _move(self, op: Move) -> None:
        try:
            self.root.set_realms({self.views[op.fiber]: _labels(op.isolated)})
        except DuplicateServiceError:
            self.write("not moved", op.fiber, op.isolated)
        else:
            self.write("moved", op.fiber, op.isolated)

    def _provide(self, op: Provide) -> None:
        ctx = self.contexts[op.owner]
        if op.isolated:
            ctx = ctx.isolate(op.key, "isolated")
        try:
            self.handles[op.name] = ctx.provide(op.key, op.name)
        except InactiveFiberError:
            self.write("refused", op.owner)
        except DuplicateServiceError:
            self.write("taken", op.owner, (op.key, op.isolated))
        else:
            self.write("provided", op.owner, (op.name, op.key, op.isolated))

    def _replace(self, name: str) -> None:
        handle = self.handles[name]
        if not handle.done:
            serial = f"{name}+{len(self.run.ledger)}"
            try:
                handle.replace(serial)
            except InactiveFiberError:
                self.write("refused", handle.owner.name)
            else:
                self.write("replaced", handle.owner.name, (name, serial))

    def _listen(self, op: Listen) -> None:
        ctx = self.contexts[op.owner]

        def body() -> Iterator[object]:
            yield ctx.on(
                NOTE,
                lambda calls: calls.append(op.name),
                prepend=op.prepend,
                unscoped=op.unscoped,
            )
            yield self._undo(ctx, op.name, "plain")

        try:
            self.handles[op.name] = ctx.effect(body)
        except InactiveFiberError:
            self.write("refused", op.owner)
        else:
            self.write("listened", op.owner, (op.name, op.prepend, op.unscoped))

    # ---- what synthetic plugins do

    def plugin(self, recipe: Recipe) -> Plugin | type[Service]:
        if recipe not in self.plugins:
            self.plugins[recipe] = self._plugin(recipe)
        return self.plugins[recipe]

    def _plugin(self, recipe: Recipe) -> Plugin | type[Service]:
        if recipe.service is not None:
            return self._service_class(recipe, recipe.service)
        body = _BODIES[recipe.form](self, recipe)
        return Plugin(
            name="synthetic",
            body=body,
            config=Settings,
            inject=recipe.required,
            optional=recipe.optional,
            provides=recipe.declares,
        )

    def _service_class(self, recipe: Recipe, key: str) -> type[Service]:
        runner = self
        body: Any = _BODIES[recipe.form](self, recipe)

        class Synthetic(
            Service,
            key=key,
            config=Settings,
            inject=recipe.required,
            optional=recipe.optional,
            provides=recipe.declares,
        ):
            def __init__(self, ctx: Context, config: Settings) -> None:
                super().__init__(ctx, config)
                self.settings = config
                name = ctx.fiber.name
                self.token = f"{name}#{runner.episodes[name]}"
                runner.write("apply", name, "service", runner._seen(ctx))

        def init(self: Synthetic) -> object:
            return body(self.ctx, self.settings)

        Synthetic.init = _LIKE[recipe.form](init)  # type: ignore[attr-defined]  # found at run time
        return Synthetic

    def begin(self, ctx: Context, recipe: Recipe) -> None:
        if recipe.in_place:
            ctx.on_update(lambda old, new: True)

    def apply(self, ctx: Context, recipe: Recipe, k: int, config: Settings) -> None:
        """Does the k-th step of a body, apart from its sleep."""
        step, name = recipe.steps[k], ctx.fiber.name
        if step.kind == "raise" and (not step.picky or config.level % 2):
            self.write("raise", name, k)
            raise self.boom()
        seen = self._seen(ctx)
        try:
            self._register(ctx, step, k, f"{name}#{self.episodes[name]}.{k}")
        except DuplicateServiceError:
            self.write("raise", name, k)
            raise
        self.write("apply", name, k, seen)

    def _register(self, ctx: Context, step: Step, k: int, name: str) -> None:
        match step.kind:
            case "effect":
                ctx.effect(lambda: self._undo(ctx, k, step.undo))
            case "listener":
                ctx.effect(lambda: self._listener(ctx, k, name))
            case "provide":
                ctx.provide(step.key, name)
            case "child" if step.child is not None:
                self._mount_below(ctx, Mount(name, step.child, ctx.fiber.name))
            case "task" | "crash":
                ctx.spawn(self._task, ctx, k, step)

    def _listener(self, ctx: Context, k: int, name: str) -> Iterator[object]:
        yield ctx.on(NOTE, lambda calls: calls.append(name))
        yield self._undo(ctx, k, "plain")

    async def _task(self, ctx: Context, k: int, step: Step) -> None:
        name = ctx.fiber.name
        if step.kind == "crash":
            try:
                await anyio.sleep(step.sleep + 1)
            except anyio.get_cancelled_exc_class():
                self._write_undo(ctx, k)
                self.write("undone", name, k)
                raise
            self.write("crash", name, k)
            raise self.boom()
        try:
            await anyio.sleep_forever()
        finally:
            self._write_undo(ctx, k)
            with anyio.CancelScope(shield=True):
                if step.undo == "sleeps":
                    await anyio.sleep(1)
            self.write("undone", name, k)

    def up(self, ctx: Context, recipe: Recipe) -> Callable[[], object] | None:
        """The body is through; without a `yield` it returns its tail."""
        self.write("up", ctx.fiber.name)
        if recipe.tail is None or recipe.yields:
            return None
        return self._undo(ctx, None, recipe.tail)

    def _undo(self, ctx: Context, k: object, kind: Undo) -> Callable[[], object]:
        async def slow() -> None:
            self._write_undo(ctx, k)
            try:
                await anyio.sleep(10**5 if kind == "hangs" else 1)
            finally:
                self.write("undone", ctx.fiber.name, k)

        def plain() -> None:
            self._write_undo(ctx, k)
            self.write("undone", ctx.fiber.name, k)
            if kind == "raises":
                raise self.boom()

        return slow if kind in ("sleeps", "hangs") else plain

    def _write_undo(self, ctx: Context, k: object) -> None:
        """Besides writing, tries to register something, which must not work any more."""
        self.write("undo", ctx.fiber.name, k, self._seen(ctx))
        if not self.quiet:
            with suppress(InactiveFiberError):
                ctx.effect(lambda: None)
                self.write("admitted", ctx.fiber.name, k)

    def _seen(self, ctx: Context) -> tuple[str | None, ...]:
        return tuple(_read(ctx, key) for key, _ in ctx.fiber.needs)


def _labels(keys: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(sorted(keys), "isolated")


def _read(ctx: Context, key: str) -> str | None:
    try:
        found: Any = ctx[key]  # type: ignore[index]  # text works at run time
    except ServiceUnavailableError:
        return None
    return str(getattr(found, "token", found))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


# ---- the four forms of a body


def _plain(runner: _Runner, recipe: Recipe) -> Callable[..., object]:
    def body(ctx: Context, config: Settings) -> object:
        runner.begin(ctx, recipe)
        for k in range(len(recipe.steps)):
            runner.apply(ctx, recipe, k, config)
        return runner.up(ctx, recipe)

    return body


def _generator(runner: _Runner, recipe: Recipe) -> Callable[..., object]:
    def body(ctx: Context, config: Settings) -> Iterator[None]:
        runner.begin(ctx, recipe)
        for k in range(len(recipe.steps)):
            runner.apply(ctx, recipe, k, config)
        runner.up(ctx, recipe)
        yield
        if recipe.tail is not None:
            runner._undo(ctx, None, recipe.tail)()

    return body


def _coroutine(runner: _Runner, recipe: Recipe) -> Callable[..., object]:
    async def body(ctx: Context, config: Settings) -> object:
        await _steps(runner, recipe, ctx, config)
        return runner.up(ctx, recipe)

    return body


def _async_generator(runner: _Runner, recipe: Recipe) -> Callable[..., object]:
    async def body(ctx: Context, config: Settings) -> AsyncIterator[None]:
        await _steps(runner, recipe, ctx, config)
        runner.up(ctx, recipe)
        yield
        if recipe.tail in ("sleeps", "hangs"):
            await runner._undo(ctx, None, recipe.tail)()  # type: ignore[misc]  # async for these
        elif recipe.tail is not None:
            runner._undo(ctx, None, recipe.tail)()

    return body


async def _steps(runner: _Runner, recipe: Recipe, ctx: Context, config: Settings) -> None:
    runner.begin(ctx, recipe)
    try:
        for k, step in enumerate(recipe.steps):
            if step.sleep:
                await anyio.sleep(step.sleep)
            else:
                await checkpoint()
            runner.apply(ctx, recipe, k, config)
    except anyio.get_cancelled_exc_class():
        runner.write("cancelled", ctx.fiber.name)
        raise


def _as_plain(init: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return init


def _as_generator(init: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def generator(self: Any) -> Iterator[None]:
        yield from init(self)

    return generator


def _as_coroutine(init: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def coroutine(self: Any) -> object:
        return await init(self)

    return coroutine


def _as_async_generator(init: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def generator(self: Any) -> AsyncIterator[None]:
        inner = init(self)
        await anext(inner)
        yield
        await anext(inner, None)

    return generator


_BODIES: dict[str, Callable[[_Runner, Recipe], Callable[..., object]]] = {
    "plain": _plain,
    "generator": _generator,
    "async": _coroutine,
    "async generator": _async_generator,
}
_LIKE: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "plain": _as_plain,
    "generator": _as_generator,
    "async": _as_coroutine,
    "async generator": _as_async_generator,
}
_CHOICES: dict[str, Callable[[deque[Any]], Any]] = {"fifo": deque.popleft, "lifo": deque.pop}
