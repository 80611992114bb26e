"""What installed distributions add: plugins, presets, forms of `use`, schemes, commands."""

from collections.abc import Callable
from pathlib import Path

import pytest

from terret_loader import HookError, Hooks, check_document, installed_plugins
from terret_loader.hooks import hookimpl

Write = Callable[..., Path]
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution of one module, with entry points."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def make(name: str, module: str, *, hooks: str = "", plugins: str = "") -> None:
        info = site / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(
            f"[terret.hooks]\n{hooks}\n[terret.plugins]\n{plugins}\n"
        )
        (site / f"{name}_module.py").write_text(module)

    return make


HEAD = "from pathlib import Path\nfrom terret_loader.hooks import hookimpl\n"


def lines(harness: str = "harness.yml") -> list[str]:
    return [str(fault) for fault in check_document(harness, env={}).faults]


def test_a_preset_of_a_hook_is_extended_like_a_file(
    write: Write, install: Install, tmp_path: Path
) -> None:
    """C-426, C-313."""
    preset = tmp_path / "site" / "lab.yml"
    install(
        "dist_a",
        f"{HEAD}@hookimpl\ndef terret_presets(): return {{'lab': Path({str(preset)!r})}}\n",
        hooks="a = dist_a_module",
    )
    preset.write_text("plugins: {bash: {use: ../bash.py, timeout: 5}}")
    write("extends: lab\nplugins: {bash: {retries: 2}}")
    plan = check_document("harness.yml")
    assert plan.faults == ()
    assert plan.entries[-1].config == {"timeout": 5, "retries": 2}
    write("extends: [lap]")
    assert lines() == [
        'harness.yml:1:11 extends[0]: no preset "lap" is installed (did you mean "lab"?)'
    ]


def test_hooks_resolve_further_forms_and_schemes(write: Write, install: Install) -> None:
    """C-426: the first result wins, and None is no result."""
    install(
        "dist_b",
        f"""{HEAD}
from terret_context import plugin

@plugin
def spare(ctx): ...

@hookimpl
def terret_resolve(kind, text, base):
    if kind == "use" and text.startswith("git+"):
        return spare
    return f"{{text}}@{{base.name}}" if kind == "ring" else None
""",
        hooks="b = dist_b_module",
    )
    folder = write(
        'plugins: {x: {use: "git+lab"}, bash: {use: ./bash.py, name: "${ring:a:b}"}}'
    ).parent
    plan = check_document("harness.yml")
    assert plan.faults == ()
    assert plan.entries[1].plugin is not None
    assert plan.entries[1].plugin.name == "spare"
    assert plan.entries[2].config == {"name": f"a:b@{folder.name}"}
    write('plugins: {x: {use: "hg+lab"}, bash: {use: ./bash.py, name: "${rong:a}"}}')
    assert lines() == [
        'harness.yml:1:20 plugins.x.use: no plugin "hg+lab" is installed: see `terret plugin list`',
        'harness.yml:1:60 plugins.bash.name: unknown source "rong" in "${rong:a}"',
    ]


def test_a_hook_that_raises_is_a_fault_naming_its_distribution(
    write: Write, install: Install
) -> None:
    """C-330."""
    install(
        "dist_c",
        f"{HEAD}@hookimpl\ndef terret_presets(): 1 / 0\n"
        "@hookimpl\ndef terret_resolve(text): 1 / 0\n",
        hooks="c = dist_c_module",
    )
    failed = 'of distribution "dist_c" failed: ZeroDivisionError: division by zero'
    write("extends: lab")
    assert lines() == [f"harness.yml:1:10 extends: terret_presets {failed}"]
    write('plugins: {bash: {use: ./bash.py, name: "${ring:a}"}, y: {use: nope}}')
    assert lines() == [
        f"harness.yml:1:40 plugins.bash.name: terret_resolve {failed}",
        f"harness.yml:1:63 plugins.y.use: nope: terret_resolve {failed}",
    ]


@pytest.mark.parametrize(
    ("name", "module", "why"),
    [
        ("dist_d", f"{HEAD}@hookimpl\ndef terret_exit(): ...\n", "unknown hook 'terret_exit'"),
        ("dist_e", f"{HEAD}@hookimpl\ndef terret_presets(x): ...\n", "hook 'terret_presets'"),
        ("dist_f", "import nothing_there\n", "No module named 'nothing_there'"),
    ],
)
def test_a_broken_hook_module_is_a_fault_naming_its_distribution(
    write: Write, install: Install, name: str, module: str, why: str
) -> None:
    """C-330, C-426: a fourth hook name too."""
    install(name, module, hooks=f"d = {name}_module")
    write("plugins: {}")
    (line,) = lines()
    assert line.startswith(f'harness.yml: a hook module of distribution "{name}" failed: ')
    assert why in line


class Commands:
    """A hook module that adds one command, or fails to."""

    @hookimpl
    def terret_commands(self, app: list[str]) -> None:
        if app == ["full"]:
            raise ValueError("no room")
        app.append("command")


def test_commands_are_added_by_every_distribution() -> None:
    """C-426, C-330."""
    hooks = Hooks()
    hooks.add("one", Commands)
    hooks.add("two", Commands)
    app: list[str] = []
    hooks.commands(app)
    assert app == ["command", "command"]
    with pytest.raises(HookError, match="no room") as failed:
        hooks.commands(["full"])
    assert (failed.value.hook, failed.value.distribution) == ("terret_commands", "two")


def test_installed_plugins_are_listed_without_being_imported(install: Install) -> None:
    """C-329."""
    install("dist_g", "1 / 0\n", plugins="brokenThing = dist_g_module\nbash_two = dist_g_module:x")
    found = [plugin for plugin in installed_plugins() if plugin.distribution == "dist_g"]
    assert [(plugin.name, plugin.version, plugin.value) for plugin in found] == [
        ("bash-two", "1.5", "dist_g_module:x"),
        ("broken-thing", "1.5", "dist_g_module"),
    ]
    with pytest.raises(ZeroDivisionError):
        found[0].load()


def test_a_broken_installed_plugin_is_a_fault_where_it_is_used(
    write: Write, install: Install
) -> None:
    """C-193, C-329, B-241: with the cause, and with the distributions of one name."""
    install(
        "dist_h", "import os\nimport jirra\n", plugins="brk = dist_h_module\nown = dist_h_module"
    )
    install("dist_i", "", plugins="own = dist_i_module")
    write("plugins: {brk: {}, own: {}}")
    assert lines() == [
        "harness.yml:1:11 plugins.brk: brk (dist_h): ModuleNotFoundError: "
        "No module named 'jirra' (dist_h_module.py, line 2)",
        'harness.yml:1:20 plugins.own: "own" is offered by several distributions: dist_h, dist_i',
    ]
