"""From a file to a running harness, and what stops the way."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from terret_context import Bail, Container, Fiber, FiberState, ServiceKey
from terret_loader import READY, HarnessConfigError, Loader, check_document, open_harness

Write = Callable[..., Path]

PARTS = """
from terret_context import Config, Context, plugin

log = []

@plugin(provides=("shell",))
def shell(ctx):
    log.append("shell up")
    ctx.provide("shell", "sh")
    yield
    log.append("shell down")

@plugin(inject=("shell",))
def user(ctx):
    log.append("user up")
    yield
    log.append("user down")

@plugin(inject=("ready",))
def last(ctx):
    log.append("last up")

@plugin
def broken(ctx):
    raise ValueError("no such shell")

@plugin(inject=("void",))
def waiting(ctx): ...
"""


def states(root: Container) -> dict[str, str]:
    return {str(f.entry): f.state.value for f in root.fibers() if f.entry is not None}


def log_of(root: Container, name: str) -> list[str]:
    """The list `log` of the module in which an entry's plugin lives."""
    fiber = root[Loader].fiber(name)
    assert fiber is not None
    assert fiber.plugin is not None
    log: list[str] = fiber.plugin.body.__globals__["log"]
    return log


async def test_entries_run_as_long_as_the_block(write: Write) -> None:
    """C-078, C-072: a provider and a consumer, mounted in the worst order."""
    write(
        """\
        plugins:
          logging: null
          user: {use: "./parts.py:user"}
          shell: {use: "./parts.py:shell"}
          off: {use: ./gone.py, enabled: false}
        """,
        parts__py=PARTS,
    )
    async with open_harness("harness.yml") as root:
        assert states(root) == {"harness.yml#user": "ACTIVE", "harness.yml#shell": "ACTIVE"}
        assert [entry.path for entry in root[Loader].entries] == ["user", "shell", "off"]
        log = log_of(root, "user")
    assert log == ["shell up", "user up", "user down", "shell down"]


async def test_what_injects_ready_starts_last(write: Write) -> None:
    """C-076, C-077."""
    write(
        """\
        plugins:
          last: {use: "./parts.py:last"}
          user: {use: "./parts.py:user"}
          shell: {use: "./parts.py:shell"}
          void: {use: "./parts.py:waiting", optional: true}
        """,
        parts__py=PARTS,
    )
    async with open_harness("harness.yml") as root:
        assert log_of(root, "last") == ["shell up", "user up", "last up"]
        assert states(root)["harness.yml#void"] == "PENDING"
        assert root.get(READY) is True


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "failed: ValueError: no such shell (parts.py, line 25)"),
        ("waiting", "waiting for void, provided by no one"),
    ],
)
async def test_an_entry_that_does_not_run_stops_the_start(
    write: Write, name: str, message: str
) -> None:
    """C-327, C-328: with an ordered teardown of what ran."""
    harness = """\
        plugins:
          shell: {use: "./parts.py:shell"}
          user: {use: "./parts.py:user"}
          x: {use: "./parts.py:NAME"}
        """
    write(harness.replace("NAME", name), parts__py=PARTS)
    with pytest.raises(HarnessConfigError) as stopped:
        async with open_harness("harness.yml"):
            raise AssertionError("it must not start")
    assert str(stopped.value) == f"harness.yml:4:3 plugins.x: {message}"


async def test_nothing_is_mounted_if_the_check_finds_a_fault(write: Write) -> None:
    """C-304, C-327: every line, also of optional entries."""
    write(
        """\
        plugins:
          shell: {use: "./parts.py:shell", optional: true, x: 1}
          user: {use: ./gone.py}
        """,
        parts__py=PARTS + "\nraise RuntimeError('imported, never run')",
    )
    with pytest.raises(HarnessConfigError) as stopped:
        async with open_harness("harness.yml"):
            raise AssertionError("it must not start")
    assert str(stopped.value).splitlines() == [
        "harness.yml:2:16 plugins.shell.use: ./parts.py:shell: "
        "RuntimeError: imported, never run (line 30)",
        "harness.yml:3:15 plugins.user.use: ./gone.py: there is no such file",
    ]


@pytest.mark.parametrize("safe", [False, True])
async def test_optional_entries_and_safe_starts_skip_what_cannot_run(
    write: Write, safe: bool
) -> None:
    """C-325, C-326: not found, not importable, wrongly configured, failing, waiting."""
    optional = "" if safe else ", optional: true"
    write(
        f"""\
        plugins:
          gone: {{use: ./gone.py{optional}}}
          syntax: {{use: ./syntax.py{optional}}}
          config: {{use: "./parts.py:user", timeout: 1{optional}}}
          broken: {{use: "./parts.py:broken"{optional}}}
          waiting: {{use: "./parts.py:waiting"{optional}}}
          shell: {{use: "./parts.py:shell"}}
        """,
        parts__py=PARTS,
        syntax__py="def f(:\n",
    )
    async with open_harness("harness.yml", safe=safe) as root:
        faults = [str(fault) for fault in root[Loader].faults]
        assert states(root)["harness.yml#shell"] == "ACTIVE"
    assert [line.partition(": ")[0].split()[-1] for line in faults] == [
        "plugins.gone.use",
        "plugins.syntax.use",
        "plugins.config.timeout",
        "plugins.broken",
        "plugins.waiting",
    ]


async def test_a_fault_of_the_document_stops_even_a_safe_start(write: Write) -> None:
    """C-326."""
    write("plugns: {}\nplugins: {}")
    with pytest.raises(HarnessConfigError, match="did you mean"):
        async with open_harness("harness.yml", safe=True):
            raise AssertionError("it must not start")


async def test_a_waiting_entry_names_the_installed_plugins_that_would_help(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-328, C-329: a broken distribution is only one hint less."""
    info = tmp_path / "site" / "void_maker-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: void-maker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[terret.plugins]\nvoid = void_maker\nbroken-void = void_broken\n"
    )
    (tmp_path / "site" / "void_maker.py").write_text(
        "from terret_context import plugin\n@plugin(provides=('void',))\ndef void(ctx): ...\n"
    )
    (tmp_path / "site" / "void_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    write("plugins: {x: {use: './parts.py:waiting'}}", parts__py=PARTS)
    with pytest.raises(HarnessConfigError) as stopped:
        async with open_harness("harness.yml"):
            raise AssertionError("it must not start")
    assert str(stopped.value) == (
        "harness.yml:1:11 plugins.x: waiting for void, provided by no one (installed: void)"
    )


async def test_a_harness_leaves_nothing_behind(write: Write) -> None:
    """C-337: no module row, no environment change, no listener, no path."""
    write("plugins: {shell: {use: './parts.py:shell'}}", parts__py=PARTS)
    modules, path, environment = set(sys.modules), list(sys.path), dict(os.environ)
    async with open_harness("harness.yml"):
        assert any(name.endswith("_parts") for name in set(sys.modules) - modules)
    assert not [name for name in set(sys.modules) - modules if "parts" in name]
    assert (sys.path, dict(os.environ)) == (path, environment)


async def test_file_plugins_of_one_name_do_not_collide(write: Write, tmp_path: Path) -> None:
    """C-336, C-301."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.py").write_text(
            "from terret_context import plugin\n"
            f"@plugin(provides=('{name}',))\ndef part(ctx): ctx.provide('{name}', __name__)\n"
        )
    write("plugins: {a: {use: ./a/part.py}, b: {use: './b/part.py:part'}}")
    async with open_harness("harness.yml") as root:
        assert root.get(ServiceKey[str]("a")) != root.get(ServiceKey[str]("b"))


async def test_an_isolated_key_of_a_group_is_shared_inside_it_only(write: Write) -> None:
    """C-331: two providers of one key are fine in two realms."""
    write(
        """\
        plugins:
          shell: {use: "./parts.py:shell"}
          charts:
            isolate: {shell: true}
            plugins:
              inner: {use: "./parts.py:shell"}
              user: {use: "./parts.py:user"}
          own: {use: "./parts.py:shell", isolate: {shell: lab}}
          guest: {use: "./parts.py:user", isolate: {shell: lab}}
        """,
        parts__py=PARTS,
    )
    async with open_harness("harness.yml") as root:
        uids = {str(f.entry).partition("#")[2]: f.uid for f in root.fibers() if f.entry}
        rows = {row["uid"]: row["committed"] for row in root.snapshot()["fibers"]}
        assert rows[uids["charts/user"]] == {"shell": uids["charts/inner"]}
        assert rows[uids["guest"]] == {"shell": uids["own"]}


async def test_inject_of_an_entry_counts_before_its_first_start(write: Write) -> None:
    """C-332."""
    write(
        """\
        plugins:
          last: {use: "./parts.py:broken", inject: {void: true}, optional: true}
          shell: {use: "./parts.py:shell"}
        """,
        parts__py=PARTS,
    )
    async with open_harness("harness.yml") as root:
        assert states(root)["harness.yml#last"] == "PENDING"


async def test_entries_mounted_below_a_scope_end_with_it(write: Write, tmp_path: Path) -> None:
    """C-335."""
    write("plugins: {logging: null}", parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        scoped = root.scope(object())
        base = tmp_path / "agent.yml"
        entries = {"shell": {"use": "./parts.py:shell"}, "user": {"use": "./parts.py:user"}}
        group = root[Loader].mount(scoped, entries, base=base)
        await root.settle()
        assert group.state is FiberState.ACTIVE
        assert states(root) == {"agent.yml#shell": "ACTIVE", "agent.yml#user": "ACTIVE"}
        await scoped.fiber.dispose()
        assert states(root) == {}


async def test_faults_of_mounted_entries_name_their_file_and_mount_nothing(
    write: Write, tmp_path: Path
) -> None:
    """C-335."""
    write("plugins: {}")
    async with open_harness("harness.yml") as root:
        entries = {"bash": {"use": "./bash.py", "x": 1}}
        with pytest.raises(HarnessConfigError) as refused:
            root[Loader].mount(root, entries, base=tmp_path / "a.yml")
        assert str(refused.value) == "a.yml plugins.bash.x: unknown key"


async def test_a_cancelled_harness_is_torn_down_in_order(write: Write) -> None:
    """C-337."""
    write(
        "plugins: {user: {use: './parts.py:user'}, shell: {use: './parts.py:shell'}}",
        parts__py=PARTS,
    )
    with anyio.CancelScope() as scope:
        async with open_harness("harness.yml") as root:
            log = log_of(root, "user")
            scope.cancel()
            await anyio.sleep_forever()
    assert log == ["shell up", "user up", "user down", "shell down"]


async def test_a_refused_mount_is_a_fault_and_tried_again(write: Write) -> None:
    """C-325, PR-C3."""
    write("plugins: {shell: {use: './parts.py:shell', optional: true}}", parts__py=PARTS)

    def veto(fiber: Fiber) -> None:
        if fiber.name == "shell":
            raise PermissionError("no shells here")

    async with open_harness("harness.yml") as root:
        check = root.mount_check(veto)
        write("plugins: {shell: {use: './parts.py:shell', inject: {ready: true}, optional: true}}")
        (fault,) = await root[Loader].reconcile()
        assert str(fault).startswith("harness.yml:1:11 plugins.shell: PermissionError: no shells")
        check.close()
        assert await root[Loader].reconcile() == ()
        assert "harness.yml#shell" in states(root)


def test_a_check_runs_no_body(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """C-334."""
    loud = (
        "from terret_context import plugin\nprint('imported')\n@plugin\ndef p(ctx): print('run')\n"
    )
    write("plugins: {loud: {use: ./loud.py}}", loud__py=loud)
    assert check_document("harness.yml").faults == ()
    assert capsys.readouterr().out == "imported\n"


async def test_a_file_with_a_group_starts_what_is_in_it(write: Write) -> None:
    """C-098, C-099: but for what a layer above disables."""
    base = """
        plugins:
          group: {plugins: {shell: {use: './parts.py:shell'}, user: {use: './parts.py:user'}}}
          off: {use: './parts.py:shell'}
        """
    write("extends: base.yml\nplugins: {off: {enabled: false}}", base__yml=base, parts__py=PARTS)
    async with open_harness("harness.yml") as root:
        entries = ("default#logging", "base.yml#group/shell", "base.yml#group/user")
        assert states(root) == dict.fromkeys(entries, "ACTIVE")


async def test_an_entry_answers_events_after_the_start(write: Write) -> None:
    """C-108."""
    asked = Bail[str, str]("test-boot/asked")
    answerer = """
        from terret_context import find_event, plugin

        @plugin
        def answerer(ctx):
            ctx.on(find_event("test-boot/asked"), lambda text: text.upper())
        """
    write("plugins: {answerer: {use: ./answerer.py}}", answerer__py=answerer)
    async with open_harness("harness.yml") as root:
        assert root.bail(asked, "hello") == "HELLO"


SLOW = """
import anyio
from terret_context import plugin

@plugin
async def slow(ctx):
    await anyio.sleep_forever()
"""


async def test_a_plugin_that_never_comes_up_stops_the_start(write: Write) -> None:
    """C-327: after the patience of who starts it."""
    write(
        "plugins: {slow: {use: ./slow.py}, shell: {use: './parts.py:shell'}}",
        slow__py=SLOW,
        parts__py=PARTS,
    )
    with pytest.raises(HarnessConfigError) as stopped:
        async with open_harness("harness.yml", patience=0.05, grace=0.05):
            raise AssertionError("it must not start")
    assert str(stopped.value) == "harness.yml:1:11 plugins.slow: still loading after 0.05 s"


async def test_a_safe_start_goes_on_without_a_plugin_that_never_comes_up(write: Write) -> None:
    """C-326."""
    write(
        "plugins: {slow: {use: ./slow.py}, shell: {use: './parts.py:shell'}}",
        slow__py=SLOW,
        parts__py=PARTS,
    )
    async with open_harness("harness.yml", safe=True, patience=0.05, grace=0.05) as root:
        assert states(root)["harness.yml#shell"] == "ACTIVE"
        (fault,) = root[Loader].faults
        assert fault.message == "still loading after 0.05 s"


async def test_a_text_can_stand_for_a_missing_file_until_there_is_one(write: Write) -> None:
    path = write("", parts__py=PARTS)
    path.unlink()
    text = "plugins: {shell: {use: './parts.py:shell'}}"
    async with open_harness(path, if_missing=text) as root:
        assert set(states(root)) == {"default#logging", "harness.yml#shell"}
        write("plugins: {user: {use: './parts.py:user'}, shell: {use: './parts.py:shell'}}")
        assert await root[Loader].reconcile() == ()
        assert states(root)["harness.yml#user"] == "ACTIVE"
    assert check_document(path).faults == ()
    path.unlink()
    assert "cannot be read" in str(check_document(path).faults[0])
