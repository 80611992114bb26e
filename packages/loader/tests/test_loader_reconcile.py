"""A running harness follows its document."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from terret_context import Container, FiberState
from terret_loader import ENTRY, EntryChange, HarnessConfigError, Loader, open_harness

Write = Callable[..., Path]
Parts = dict[str, tuple[str, int, bool]]

PARTS = """
import anyio.lowlevel

from terret_context import Config, Context, Service, plugin

class CountConfig(Config):
    size: int = 0
    color: str = "red"

log = []

@plugin(config=CountConfig)
def count(ctx, config):
    log.append(f"+{config.size}")
    yield
    log.append(f"-{config.size}")

@plugin(config=CountConfig)
async def draining(ctx, config):
    log.append(f"up {config.size}")
    yield
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    log.append(f"down {config.size}")

@plugin(config=CountConfig)
def patient(ctx, config):
    log.append("start")
    ctx.on_update(lambda old, new: log.append(f"{old.size}>{new.size}") is None)

@plugin(config=CountConfig, provides=("store",))
def store(ctx, config):
    ctx.provide("store", config.size)

@plugin(inject=("store",), config=CountConfig)
def reader(ctx, config):
    log.append(f"read {ctx.store} {config.size}")

@plugin(config=CountConfig)
def brittle(ctx, config):
    if config.size > 1:
        raise ValueError(f"{config.size} is too large")
    log.append(f"brittle {config.size}")
"""


def runs(root: Container) -> dict[str, str]:
    """The states of all entries but `logging`, by path."""
    return {
        str(fiber.entry).partition("#")[2]: fiber.state.value
        for fiber in root.fibers()
        if fiber.entry is not None and "logging" not in str(fiber.entry)
    }


def log_of(root: Container, name: str) -> list[str]:
    fiber = root[Loader].fiber(name)
    assert fiber is not None
    assert fiber.plugin is not None
    log: list[str] = fiber.plugin.body.__globals__["log"]
    return log


def entry(name: str, **settings: object) -> str:
    rest = "".join(f", {key}: {value}" for key, value in settings.items())
    return f'{{use: "./parts.py:{name}"{rest}}}'


async def test_comments_order_and_spelling_change_nothing(write: Write) -> None:
    """C-340, C-190, PR-C3: neither does the same document again."""
    write(f"plugins: {{a: {entry('count', size=1)}, b: {entry('count')}}}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "a")
        before = list(log)
        write(
            f"# hello\nplugins:\n  b: {entry('count')}\n  a: {{size: 1, use: './parts.py:count'}}"
        )
        for _ in range(2):
            assert await root[Loader].reconcile() == ()
        assert log == before == ["+1", "+0"]


async def test_a_changed_configuration_updates_its_entry_only(write: Write) -> None:
    """C-341, C-073, PR-S5: in place where the plugin can do it."""
    text = f"plugins: {{a: {entry('count')}, b: {entry('patient')}, c: {entry('count', size=9)}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "a")
        log.clear()
        write(
            text.replace("count'}", "").replace('parts.py:count"},', 'parts.py:count", size: 4},')
        )
        await root[Loader].reconcile()
        assert log == ["-0", "+4"]
        log.clear()
        write(text.replace('patient"', 'patient", size: 3'))
        await root[Loader].reconcile()
        assert log == ["0>3", "-4", "+0"]


async def test_entries_are_added_removed_and_exchanged(write: Write) -> None:
    """C-073, C-123, C-205."""
    write(f"plugins: {{a: {entry('count')}, b: {entry('count', size=2)}}}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        write(f"plugins: {{b: {entry('patient')}, c: {entry('count', size=3)}}}")
        log = log_of(root, "a")
        log.clear()
        await root[Loader].reconcile()
        assert sorted(log[:2]) == ["-0", "-2"]
        assert log[2:] == ["start", "+3"]
        assert runs(root) == {"b": "ACTIVE", "c": "ACTIVE"}
        write(f"plugins: {{b: {entry('patient')}, c: {entry('count', size=3, enabled='false')}}}")
        await root[Loader].reconcile()
        assert log[4:] == ["-3"]
        assert root[Loader].fiber("c") is None


async def test_what_is_added_starts_when_what_was_removed_has_ended(write: Write) -> None:
    """C-073: a successor finds every name free, whatever the removed plugin still had to do."""
    write(f"plugins: {{a: {entry('draining', size=1)}}}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "a")
        write(f"plugins: {{b: {entry('draining', size=2)}}}")
        assert await root[Loader].reconcile() == ()
        assert log == ["up 1", "down 1", "up 2"]


async def test_groups_are_switched_as_a_whole(write: Write) -> None:
    """C-061 to C-065: what is disabled stays listed."""

    def harness(outer: bool, inner: bool) -> str:
        on = {True: "true", False: "false"}
        x, y = entry("count", size=1), entry("count", size=2)
        inside = f"{{enabled: {on[inner]}, plugins: {{y: {y}}}}}"
        return f"plugins: {{outer: {{enabled: {on[outer]}, plugins: {{x: {x}, inner: {inside}}}}}}}"

    write(harness(True, True), parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "outer/x")
        paths = ["outer", "outer/x", "outer/inner", "outer/inner/y"]
        steps = [(True, False, ["-2"]), (False, False, ["-1"]), (False, True, [])]
        for outer, inner, expected in [*steps, (True, True, ["+1", "+2"])]:
            log.clear()
            write(harness(outer, inner))
            await root[Loader].reconcile()
            assert log == expected
            assert [entry.path for entry in root[Loader].entries[1:]] == paths


async def test_a_moved_entry_is_disposed_and_mounted_once(write: Write) -> None:
    """C-066 to C-070, C-188."""
    x = entry("count", size=1)

    def harness(where: str) -> str:
        places = {"top": "", "on": "", "off": "", "off2": "", where: f"x: {x}"}
        return (
            f"plugins: {{z: {entry('patient')}, {places['top'] and places['top'] + ', '}"
            f"on: {{plugins: {{{places['on']}}}}}, "
            f"off: {{enabled: false, plugins: {{{places['off']}}}}}, "
            f"off2: {{enabled: false, plugins: {{{places['off2']}}}}}}}"
        )

    write(harness("top"), parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "z")
        moves = [("on", ["-1", "+1"]), ("off", ["-1"]), ("off2", []), ("top", ["+1"])]
        for where, expected in moves:
            log.clear()
            write(harness(where))
            await root[Loader].reconcile()
            assert log == expected


async def test_a_faulty_document_changes_nothing(write: Write, tmp_path: Path) -> None:
    """C-342, C-194: invalid, empty, truncated, deleted; the next good one applies."""
    good = f"plugins: {{a: {entry('count')}}}"
    write(good, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        loader, log = root[Loader], log_of(root, "a")
        for text in (good.replace("use", "sie: 1, use"), "", good[:-2], "plugins: {b: {}}"):
            write(text)
            assert len(await loader.reconcile()) == 1
            assert loader.faults[0].origin.source.label == "harness.yml"
        (tmp_path / "harness.yml").unlink()
        assert [str(fault) for fault in await loader.reconcile()] == [
            "harness.yml: cannot be read: No such file or directory"
        ]
        assert log == ["+0"]
        write(good.replace("count", "patient"))
        assert await loader.reconcile() == ()
        assert log == ["+0", "-0", "start"]


async def test_a_change_that_fails_is_taken_back(write: Write) -> None:
    """C-343, C-205: other changes of the same document too."""
    text = f"plugins: {{a: {entry('brittle', size=1)}, b: {entry('count')}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "a")
        write(text.replace("size: 1", "size: 7").replace('count"', 'count", size: 2'))
        (fault,) = await root[Loader].reconcile()
        assert str(fault) == (
            "harness.yml:1:11 plugins.a: failed: ValueError: 7 is too large (parts.py, line 42)"
        )
        assert runs(root) == {"a": "ACTIVE", "b": "ACTIVE"}
        assert log[:5] == ["brittle 1", "+0", "-0", "+2", "-2"]
        assert sorted(log[5:]) == ["+0", "brittle 1"]


async def test_a_removed_provider_leaves_its_consumer_waiting(write: Write) -> None:
    """C-344, C-079."""
    text = f"plugins: {{s: {entry('store', size=1)}, r: {entry('reader')}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "r")
        write(text.replace("{s:", "{s: null, t:").replace('store"', 'patient"'))
        (fault,) = await root[Loader].reconcile()
        assert str(fault).endswith("plugins.r: waiting for store, provided by no one")
        assert runs(root)["r"] == "PENDING"
        write(text)
        assert await root[Loader].reconcile() == ()
        assert log == ["read 1 0", "start", "read 1 0"]


async def test_a_consumer_changed_with_its_provider_runs_once(write: Write) -> None:
    """C-346."""
    text = f"plugins: {{s: {entry('store', size=1)}, r: {entry('reader', size=1)}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        write(text.replace("size: 1", "size: 2"))
        await root[Loader].reconcile()
        assert log_of(root, "r") == ["read 1 1", "read 2 2"]


async def test_isolation_of_an_entry_is_exchanged(write: Write) -> None:
    """C-079: a consumer whose binding is gone unloads once."""
    text = f"plugins: {{s: {entry('store', size=1)}, r: {entry('reader', optional='true')}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        write(text.replace("optional", "isolate: {store: true}, optional"))
        (fault,) = await root[Loader].reconcile()
        assert str(fault).endswith("plugins.r: waiting for store, provided in another realm only")
        assert runs(root) == {"s": "ACTIVE", "r": "PENDING"}


async def test_a_fault_names_the_present_place_of_an_entry_that_moved(write: Write) -> None:
    """C-344: what is the same as before is not built again, wherever it stands."""

    def document(*before: str) -> str:
        lines = [*before, f"r: {entry('reader', size=1)}", f"x: {entry('count', color='blue')}"]
        return "plugins:\n" + "".join(f"  {line}\n" for line in lines)

    store = f"s: {entry('store', size=1)}"
    write(document(store), parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "x")
        log.clear()
        for before in ((), ("# one",), ("# one", "# two"), ("# one",)):
            write(document(*before))
            (fault,) = await root[Loader].reconcile()
            assert fault.origin.line == len(before) + 2
        write(document("# one", store))
        assert await root[Loader].reconcile() == ()
        assert log == ["read 1 1"]


async def test_what_does_not_run_is_logged_once(write: Write) -> None:
    """C-325: also where a change brings it."""
    text = f"plugins: {{a: {entry('count')}, b: {{use: ./gone.py, optional: true}}}}"
    write(text.replace("./gone.py", "./parts.py:count"), parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        for changed in (text, text.replace("count", "patient"), text):
            write(changed)
            await root[Loader].reconcile()
        told = [row["fault"] for row in root[Loader].recent(99) if row["event"] == "does not run"]
        assert len(told) == 1
        assert str(told[0]).endswith("plugins.b.use: ./gone.py: there is no such file")


async def test_an_override_holds_until_the_file_changes_its_value(write: Write) -> None:
    """C-197, C-194, C-198."""
    text = f"plugins: {{a: {entry('count', size=1)}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        loader, log = root[Loader], log_of(root, "a")
        await loader.override("a.size", 5)
        write(text.replace("size: 1", "size: 1, color: blue"))
        await loader.reconcile()
        fiber = loader.fiber("a")
        assert fiber is not None
        assert fiber.source == {"size": 5, "color": "blue"}
        write(text.replace("size: 1", "size: 2"))
        await loader.reconcile()
        assert log == ["+1", "-1", "+5", "-5", "+5", "-5", "+2"]
        won = [row for row in loader.recent(99) if row["event"].startswith("the file changed")]  # type: ignore[attr-defined]
        assert [row["path"] for row in won] == ["a.size"]


@pytest.mark.parametrize(("key", "value"), [("size", 5), ("color", "blue")])
async def test_a_removed_entry_takes_its_override_along(
    write: Write, key: str, value: object
) -> None:
    """C-198: whether the file gave the value or not."""
    text = f"plugins: {{a: {entry('count', size=1)}, b: {entry('count')}}}"
    write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        loader = root[Loader]
        await loader.override(f"a.{key}", value)
        write(f"plugins: {{b: {entry('count')}}}")
        assert await loader.reconcile() == ()
        assert (loader.fiber("a"), runs(root)) == (None, {"b": "ACTIVE"})
        write(text)
        assert await loader.reconcile() == ()
        fiber = loader.fiber("a")
        assert fiber is not None
        assert fiber.source == {"size": 1}


async def test_a_change_during_a_reconcile_is_applied_after_it(write: Write) -> None:
    """C-347, C-189: in order, however long the first one takes."""
    slow = """
from terret_context import Config, plugin
import anyio

class SlowConfig(Config):
    size: int = 0

seen, go = [], anyio.Event()

@plugin(config=SlowConfig)
async def slow(ctx, config):
    seen.append(config.size)
    if config.size == 1:
        await go.wait()
"""
    path = write("plugins: {a: {use: ./slow.py}}", slow__py=slow)
    async with open_harness("harness.yml") as root:
        loader = root[Loader]
        body = loader.fiber("a").plugin.body.__globals__  # type: ignore[union-attr]
        async with anyio.create_task_group() as tasks:
            for size in (1, 2, 3):
                path.write_text(f"plugins: {{a: {{use: ./slow.py, size: {size}}}}}")
                tasks.start_soon(loader.reconcile)
                await anyio.wait_all_tasks_blocked()
            assert body["seen"] == [0, 1]
            body["go"].set()
        assert body["seen"] == [0, 1, 3]


async def test_nothing_at_run_time_changes_a_file_of_the_user(write: Write, tmp_path: Path) -> None:
    """C-350: whatever is asked of the loader, and whatever goes wrong."""
    text = f"plugins: {{a: {entry('count', size=1)}, b: {entry('brittle')}}}"
    path = write(text, parts__py=PARTS, **{"sub/base__yml": "plugins: {}"})
    before = contents(tmp_path)
    async with open_harness("harness.yml", watch=True) as root:
        loader = root[Loader]
        await loader.override("a.size", 2)
        with pytest.raises(HarnessConfigError):
            await loader.override("b.size", 2)
        await loader.fiber("a").update({"color": "blue"})  # type: ignore[union-attr]
        await loader.reconcile()
        loader.mount(root, {"c": {"use": "./parts.py:count"}}, base=path)
        await loader.fiber("a").dispose()  # type: ignore[union-attr]
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes]:
    files = (file for file in folder.rglob("*.*") if file.suffix != ".pyc" and file.is_file())
    return {file: file.read_bytes() for file in files}


async def test_a_wrong_override_is_refused_and_forgotten(write: Write) -> None:
    """C-197."""
    write(f"plugins: {{a: {entry('count')}}}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        with pytest.raises(HarnessConfigError) as refused:
            await root[Loader].override("a.size", "big")
        assert str(refused.value) == "runtime plugins.a.size: expected a whole number, got text"
        assert await root[Loader].reconcile() == ()
        assert log_of(root, "a") == ["+0"]


async def test_an_update_from_code_stays_on_top(write: Write) -> None:
    """C-074."""
    text = f"plugins: {{a: {entry('count', size=1)}}}"
    path = write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        fiber = root[Loader].fiber("a")
        assert fiber is not None
        await fiber.update({"size": 6})
        path.write_text(text.replace("size: 1", "size: 1, color: blue"))
        await root[Loader].reconcile()
        assert fiber.source == {"size": 6, "color": "blue"}
        assert "size: 6" not in path.read_text()


async def test_a_fiber_disposed_by_code_stays_so_until_its_entry_changes(write: Write) -> None:
    """C-075, C-187, C-350."""
    text = f"plugins: {{a: {entry('count', size=1)}, b: {entry('count')}}}"
    path = write(text, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        loader = root[Loader]
        fiber = loader.fiber("a")
        assert fiber is not None
        await fiber.dispose()
        write(text.replace('count"}}', 'count", size: 3}}'))
        assert await loader.reconcile() == ()
        assert runs(root) == {"b": "ACTIVE"}
        changed = text.replace("size: 1", "size: 2")
        write(changed)
        assert await loader.reconcile() == ()
        assert runs(root) == {"b": "ACTIVE", "a": "ACTIVE"}
        assert path.read_text() == changed


async def test_every_changed_entry_is_announced_once_after_the_change(write: Write) -> None:
    """C-186."""
    heard: list[tuple[object, ...]] = []
    write(f"plugins: {{a: {entry('count')}, b: {entry('count')}}}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:

        def note(change: EntryChange) -> None:
            paths = [side.path if side else None for side in (change.entry, change.previous)]
            heard.append((*paths, runs(root)))

        root.on(ENTRY, note)
        write(f"plugins: {{b: {entry('count', size=1)}, c: {entry('count')}}}")
        await root[Loader].reconcile()
        await root[Loader].reconcile()
    after = {"b": "ACTIVE", "c": "ACTIVE"}
    assert heard == [(None, "a", after), ("b", "b", after), ("c", None, after)]


async def test_reconciles_run_one_by_one(write: Write) -> None:
    """C-189."""
    write(f"plugins: {{a: {entry('count')}}}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "a")
        write(f"plugins: {{a: {entry('count', size=1)}}}")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(root[Loader].reconcile)
        assert log == ["+0", "-0", "+1"]


async def test_a_harness_reconciled_equals_one_started_anew(write: Write) -> None:
    """PR-C3, PR-C2."""

    def shape(root: Container) -> list[tuple[object, ...]]:
        fields = ("plugin", "entry", "state", "effects", "needs")
        rows = root.snapshot()["fibers"][1:]
        return sorted(tuple(str(row[field]) for field in fields) for row in rows)

    a = f"plugins: {{s: {entry('store')}, r: {entry('reader')}, x: {entry('count')}}}"
    group = f"{{plugins: {{s: {entry('store', size=3)}}}}}"
    b = f"plugins: {{r: {entry('reader', size=2)}, g: {group}}}"
    write(a, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        write(b)
        await root[Loader].reconcile()
        reconciled = shape(root)
    async with open_harness("harness.yml") as root:
        assert shape(root) == reconciled
        assert root.fibers()[1].state is FiberState.ACTIVE


async def test_one_change_among_a_thousand_entries_restarts_one(write: Write) -> None:
    """C-341."""

    def harness(changed: int) -> str:
        sizes = [changed if index == 500 else index for index in range(1_000)]
        return "plugins:\n" + "".join(
            f"  e{index}: {entry('count', size=size)}\n" for index, size in enumerate(sizes)
        )

    write(harness(1), parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        log = log_of(root, "e0")
        log.clear()
        write(harness(2))
        assert await root[Loader].reconcile() == ()
        assert log == ["-1", "+2"]


ENTRIES = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.tuples(
        st.sampled_from(["count", "patient", "reader", "brittle"]),
        st.integers(0, 1),
        st.booleans(),
    ),
    max_size=4,
)


@given(first=ENTRIES, second=ENTRIES, grouped=st.booleans())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_reconciling_any_document_equals_starting_with_it(
    write: Write, first: Parts, second: Parts, grouped: bool
) -> None:
    """PR-C3, PR-C2, PR-S5: and doing it again does nothing."""

    def harness(parts: Parts, *, grouped: bool) -> str:
        lines = [
            f"{id}: {entry(name, size=size, enabled=str(enabled).lower(), optional='true')}"
            for id, (name, size, enabled) in parts.items()
        ]
        inside = f"plugins: {{s: {entry('store')}, {', '.join(lines)}}}"
        return f"plugins: {{g: {{{inside}}}}}" if grouped else inside

    async def reconciled() -> None:
        write(harness(first, grouped=grouped), parts__py=PARTS)
        async with open_harness("harness.yml") as root:
            write(harness(second, grouped=False))
            await root[Loader].reconcile()
            log = log_of(root, "s")
            runs_now, log_now = runs(root), list(log)
            await root[Loader].reconcile()
            assert log == log_now
        async with open_harness("harness.yml") as root:
            assert runs(root) == runs_now

    anyio.run(reconciled)
