"""What a fault of a configuration looks like."""

from collections.abc import Callable
from pathlib import Path

import pytest

from terret_loader import HarnessConfigError, Plan, check_document, open_harness, read_env_file

Lines = Callable[..., list[str]]
Check = Callable[..., Plan]


def test_all_faults_of_a_document_come_at_once_in_file_order(faults: Lines) -> None:
    """C-302, C-303, C-304, C-305, B-226."""
    harness = """\
        extend: []
        plugins:
          bash:
            use: ./bash.py
            timout: 20
            retries: often
            limits: {maxBites: 1, max_bytes: x}
            allow: [ls, no, 7]
            mode: quick
            optionl: true
          charts:
            timeout: 1
            plugins:
              bsh: {}
        """
    assert faults(harness) == [
        'harness.yml:1:1 extend: unknown key (did you mean "extends"?)',
        'harness.yml:5:5 plugins.bash.timout: unknown key (did you mean "timeout"?)',
        "harness.yml:6:14 plugins.bash.retries: expected a whole number, got text",
        'harness.yml:7:14 plugins.bash.limits.maxBites: unknown key (did you mean "maxBytes"?)',
        "harness.yml:7:38 plugins.bash.limits.max_bytes: expected a whole number, got text",
        "harness.yml:8:21 plugins.bash.allow[2]: expected text, got a number: write it in quotes",
        "harness.yml:9:11 plugins.bash.mode: input should be 'fast' or 'careful'",
        'harness.yml:10:5 plugins.bash.optionl: unknown key (did you mean "optional"?)',
        "harness.yml:12:5 plugins.charts.timeout: unknown key: "
        'charts is a group, because it has "plugins"',
        'harness.yml:14:7 plugins.charts.plugins.bsh: no plugin "bsh" is installed '
        '(did you mean "bash"?)',
    ]


def test_an_unknown_top_level_key_without_a_near_name_says_where_entries_belong(
    faults: Lines,
) -> None:
    """C-303."""
    assert faults("bash: {}\n") == [
        'harness.yml:1:1 bash: unknown key: entries belong below "plugins"'
    ]


def test_the_long_form_shows_in_the_path(faults: Lines) -> None:
    """C-305, C-306."""
    harness = """\
        plugins:
          bash:
            use: ./bash.py
            config: {api_key: 7, anything: {}, timout: 1}
        """
    assert faults(harness) == [
        "harness.yml:4:23 plugins.bash.config.api_key: "
        "expected text, got a number: write it in quotes",
        'harness.yml:4:40 plugins.bash.config.timout: unknown key (did you mean "timeout"?)',
    ]


def test_one_field_in_both_forms_is_a_fault(faults: Lines) -> None:
    """C-306."""
    harness = """\
        plugins:
          bash:
            use: ./bash.py
            timeout: 1
            config: {timeout: 2}
        """
    assert faults(harness) == [
        "harness.yml:5:14 plugins.bash.config.timeout: "
        "given twice, also as plugins.bash.timeout (line 4, column 5)"
    ]


def test_a_field_named_like_an_entry_key_is_reached_by_the_long_form_only(check: Check) -> None:
    """C-306."""
    plan = check("plugins: {bash: {use: ./bash.py, config: {enabled: true}}}")
    assert plan.entries[-1].config == {"enabled": True}
    plan = check("plugins: {bash: {use: ./bash.py, enabled: false}}")
    assert (plan.entries[-1].enabled, plan.entries[-1].config) == (False, {})


def test_a_missing_value_is_reported_at_its_entry(faults: Lines) -> None:
    """C-305."""
    part = """
        from terret_context import Config, plugin

        class PartConfig(Config):
            base_url: str

        @plugin(config=PartConfig)
        def part(ctx, config): ...
        """
    assert faults("plugins:\n  part: {use: ./part.py}\n", part__py=part) == [
        "harness.yml:2:3 plugins.part.baseUrl: is missing"
    ]


def test_the_members_of_a_union_complain_in_one_line(faults: Lines) -> None:
    """C-305."""
    assert faults("plugins: {bash: {use: ./bash.py, either: [1]}}") == [
        "harness.yml:1:42 plugins.bash.either: "
        "expected a whole number, got a list, or expected true or false, got a list"
    ]


def test_an_unknown_key_without_a_near_name_lists_the_known_ones(faults: Lines) -> None:
    """C-302: if they are few."""
    assert faults("plugins: {bash: {use: ./bash.py, zz: 1, limits: {zz: 1}}}") == [
        "harness.yml:1:34 plugins.bash.zz: unknown key",
        "harness.yml:1:50 plugins.bash.limits.zz: unknown key (known: maxBytes)",
    ]


def test_a_validator_of_the_plugin_is_quoted(faults: Lines) -> None:
    """C-305."""
    assert faults("plugins: {bash: {use: ./bash.py, name: bad-1}}") == [
        "harness.yml:1:40 plugins.bash.name: bad-1 is a bad name"
    ]


def test_a_plugin_without_configuration_takes_none(faults: Lines) -> None:
    """C-302: candidates are entry keys."""
    part = "from terret_context import plugin\n@plugin\ndef part(ctx): ...\n"
    assert faults("plugins: {part: {use: ./part.py, zone: 1, optinal: true}}", part__py=part) == [
        "harness.yml:1:34 plugins.part.zone: unknown key: part takes no configuration",
        'harness.yml:1:43 plugins.part.optinal: unknown key (did you mean "optional"?)',
    ]


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("bash.timout=1", 'plugins.bash.timout: unknown key (did you mean "timeout"?)'),
        ("bash.timeout=fast", "plugins.bash.timeout: expected a number, got text"),
        ("bash.timeout", "bash.timeout: expected PATH=VALUE"),
        ("bash.=1", "bash.: expected PATH=VALUE"),
        (
            "bash.allow=[1",
            "plugins.bash.allow: not valid YAML: this list is not closed",
        ),
        ("bash.apiKey=${env:NO}", "plugins.bash.apiKey: environment variable NO is not set"),
        (
            "bash.words={a: x, a: y}",
            "plugins.bash.words.a: duplicate key (first given at line 1, column 2)",
        ),
        (
            "bash=5",
            "plugins.bash: expected the settings of an entry, got a number "
            '(defaults are "bash: {}")',
        ),
        ("bsh.timeout=1", 'plugins.bsh: no plugin "bsh" is installed (did you mean "bash"?)'),
    ],
)
def test_faults_of_a_flag_name_the_flag(faults: Lines, flag: str, line: str) -> None:
    """C-320, C-102."""
    assert faults("plugins: {bash: {use: ./bash.py}}", flag) == [f"--set {line}"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["bash.timeout=30"], {"timeout": 30}),
        (["plugins.bash.timeout=30"], {"timeout": 30}),
        (["bash.config.timeout=30", "bash.timeout=31"], {"timeout": 31}),
        (
            ["bash.allow=[a, b]", "bash.limits.max_bytes=2"],
            {"allow": ["a", "b"], "limits": {"max_bytes": 2}},
        ),
        (["bash.name=${env:A:-x=y}"], {"name": "x=y"}),
        (["bash.retries=3"], {"retries": 3}),
    ],
)
def test_flags_beat_the_file_and_are_yaml(
    config: Callable[..., dict[str, object]], flags: list[str], expected: dict[str, object]
) -> None:
    """C-320."""
    assert config("plugins: {bash: {use: ./bash.py, retries: 1}}", *flags) == {
        "retries": 1,
        **expected,
    }


def test_an_empty_flag_restores_the_default(config: Callable[..., dict[str, object]]) -> None:
    """C-320: nothing is null."""
    assert config("plugins: {bash: {use: ./bash.py, retries: 1}}", "bash.retries=") == {}


def test_two_providers_of_a_key_in_one_realm_are_a_fault(faults: Lines) -> None:
    """C-331."""
    part = "from terret_context import plugin\n@plugin(provides=('shell',))\ndef part(ctx): ...\n"
    harness = """\
        plugins:
          a: {use: ./part.py}
          b: {use: ./part.py}
          c: {use: ./part.py, isolate: {shell: true}}
          d: {use: ./part.py, isolate: {shell: lab}}
          e: {isolate: {shell: lab}, plugins: {f: {use: ./part.py}}}
        """
    assert faults(harness, part__py=part) == [
        "harness.yml:3:3 plugins.b: provides shell, as a (harness.yml:2:3) does: "
        "remove one or isolate it",
        "harness.yml:6:40 plugins.e.plugins.f: provides shell, as d (harness.yml:5:3) does: "
        "remove one or isolate it",
    ]


def test_entries_that_need_each_other_are_a_fault(faults: Lines) -> None:
    """C-304, B-243: with the whole path; an optional need is none."""
    part = """
        from terret_context import plugin

        @plugin(provides=("a",), inject=("b",))
        def a(ctx): ...

        @plugin(provides=("b",), inject=("c",))
        def b(ctx): ...

        @plugin(provides=("c",), inject=("a",))
        def c(ctx): ...

        @plugin(provides=("d",), optional=("e",))
        def d(ctx): ...

        @plugin(provides=("e",), inject=("d",))
        def e(ctx): ...
        """
    harness = "plugins:\n" + "".join(f'  {n}: {{use: "./part.py:{n}"}}\n' for n in "abcde")
    assert faults(harness, part__py=part) == [
        "harness.yml:2:3 plugins.a: can never start: a needs b of b, b needs c of c, c needs a of a"
    ]


def test_an_api_range_that_excludes_this_version_is_a_fault(faults: Lines) -> None:
    """C-304, B-255: it names both versions."""
    part = "from terret_context import plugin\n@plugin(api='>=7')\ndef part(ctx): ...\n"
    assert faults("plugins: {part: {use: ./part.py}}", part__py=part) == [
        'harness.yml:1:23 plugins.part.use: plugin "part" needs plugin API ">=7", this is 1.0'
    ]


def test_optional_faults_are_marked(check: Check) -> None:
    """C-325: on a group for all below."""
    plan = check("plugins: {g: {optional: true, plugins: {x: {use: ./x.py}}}, y: {use: ./y.py}}")
    assert [(fault.entry, fault.optional) for fault in plan.faults] == [("g/x", True), ("y", False)]
    assert [fault.entry for fault in plan.blocking()] == ["y"]
    assert plan.blocking(safe=True) == ()


def test_a_fault_keeps_the_exception_behind_it(check: Check) -> None:
    """C-193."""
    plan = check("plugins: {x: {use: ./x.py}}", x__py="1 / 0")
    assert isinstance(plan.faults[0].error, ZeroDivisionError)


def test_files_outside_the_working_directory_are_named_in_full(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-304."""
    path = write("plugins: 1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [str(fault) for fault in check_document(path).faults] == [
        f"{path}:1:10 plugins: expected a mapping of entries, got a number: "
        'write "bash: {}" for an entry with its defaults'
    ]


def test_an_env_file_gives_its_variables(tmp_path: Path) -> None:
    """C-323."""
    path = tmp_path / ".env"
    path.write_text(
        '# comment\n\nA=1\nexport B = two words # comment\nC="x\\n\\"y\\"" # c\n'
        "D='a # b'\nE=\nF=http://h/#frag\r\nG=# empty\n"
    )
    assert read_env_file(path) == {
        "A": "1",
        "B": "two words",
        "C": 'x\n"y"',
        "D": "a # b",
        "E": "",
        "F": "http://h/#frag",
        "G": "# empty",
    }
    assert read_env_file(tmp_path / "none") == {}


def test_a_malformed_line_of_an_env_file_is_named_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-323."""
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text('A=1\nsk-secret\nB="sk-unterminated\n3=sk\n')
    with pytest.raises(HarnessConfigError) as refused:
        read_env_file(".env")
    assert str(refused.value).splitlines() == [
        f".env:{line}:1: malformed line (expected NAME=value)" for line in (2, 3, 4)
    ]


LEAKY = """
from pydantic import SecretStr
from terret_context import Config, plugin

class LeakyConfig(Config):
    api_key: SecretStr

@plugin(config=LeakyConfig)
def leaky(ctx, config):
    raise RuntimeError(f"refused {config.api_key.get_secret_value()}")
"""


@pytest.mark.parametrize("key", ["sk-0123456789", "${env:KEY}"])
async def test_a_plugin_that_says_its_secret_is_reported_without_it(
    write: Callable[..., Path], key: str
) -> None:
    """C-295, C-327: neither in the line nor in the traceback."""
    write(f"plugins: {{leaky: {{use: ./leaky.py, apiKey: '{key}'}}}}", leaky__py=LEAKY)
    with pytest.raises(HarnessConfigError) as stopped:
        async with open_harness("harness.yml", env={"KEY": "sk-0123456789"}):
            raise AssertionError("it must not start")
    (fault,) = stopped.value.faults
    assert "failed: RuntimeError: refused [redacted] (leaky.py, line 10)" in str(fault)
    assert "Traceback" in fault.details
    assert "sk-0123456789" not in fault.details
