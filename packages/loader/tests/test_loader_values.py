"""Interpolation of text values."""

from collections.abc import Callable
from pathlib import Path

import pytest

from terret_loader import Plan

Lines = Callable[..., list[str]]
Read = Callable[..., dict[str, object]]
Check = Callable[..., Plan]

ENV = {"U": "", "SET": "v", "FLAG": "false", "N": "3", "DOLLAR": "${env:SET}", "LONG": "secret-1"}


def harness(value: str, key: str = "name") -> str:
    return f"plugins:\n  bash:\n    use: ./bash.py\n    {key}: {value}\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:SET}", "v"),
        ("pre${env:SET}post", "prevpost"),
        ("${env:SET:-no}", "v"),
        ("${env:U}", ""),
        ("${env:U:-http://h.test:8080/api?x=1}", "http://h.test:8080/api?x=1"),
        ("${env:MISSING:-}", ""),
        ("${env:MISSING:-a:-b}", "a:-b"),
        ("echo $${HOME} costs $5 or $", "echo ${HOME} costs $5 or $"),
        ("$$${env:SET}", "$v"),
        ("${env:DOLLAR}", "${env:SET}"),
    ],
)
def test_interpolation_follows_posix(config: Read, text: str, value: str) -> None:
    """C-316, B-222, B-223."""
    assert config(harness(text), env=ENV) == {"name": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${env:TEST_UNSET_KEY}", "environment variable TEST_UNSET_KEY is not set"),
        ("${env:LONGG}", 'environment variable LONGG is not set (did you mean "LONG"?)'),
        ("${env:}", '"" is not the name of an environment variable'),
        ("${SET}", '"${SET}" names no source: write "${env:SET}"'),
        ("${SET:-x}", '"${SET:-x}" names no source: write "${env:SET:-x}"'),
        ("${evn:SET}", 'unknown source "evn" in "${evn:SET}" (did you mean "env"?)'),
        ("a${env:SET", '"${" without "}": write "$${" for the characters'),
        ("${file:no.txt}", "file no.txt cannot be read: No such file or directory"),
        ("${file:.}", "file . cannot be read: Is a directory"),
    ],
)
def test_what_cannot_be_interpolated_is_a_fault_at_its_value(
    faults: Lines, text: str, message: str
) -> None:
    """C-316, C-317, B-220."""
    assert faults(harness(text), env=ENV) == [f"harness.yml:4:11 plugins.bash.name: {message}"]


def test_keys_and_extends_are_left_alone(config: Read, faults: Lines) -> None:
    """C-316."""
    assert config(harness('{"${env:SET}": x}', "words"), env=ENV) == {"words": {"${env:SET}": "x"}}
    assert faults('extends: "${env:SET}.yml"', env=ENV) == [
        "harness.yml:1:10 extends: ${env:SET}.yml: there is no such file"
    ]


def test_a_file_gives_its_text_without_the_final_newline(check: Check, tmp_path: Path) -> None:
    """C-317: relative to the mentioning file, and counted among the files of the plan."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "prompt.md").write_bytes(b"Zeile\n\n")
    (tmp_path / "sub" / "team.yml").write_text(
        "plugins: {bash: {use: ../bash.py, name: '${file:prompt.md}'}}"
    )
    plan = check("extends: ./sub/team.yml")
    assert plan.faults == ()
    assert [entry.config for entry in plan.entries if entry.id == "bash"] == [{"name": "Zeile\n"}]
    assert plan.files == {
        tmp_path / "harness.yml",
        tmp_path / "sub/team.yml",
        tmp_path / "sub/prompt.md",
    }


def test_a_file_that_is_too_large_or_no_text_is_a_fault(faults: Lines, tmp_path: Path) -> None:
    """C-317."""
    (tmp_path / "big").write_bytes(b"x" * (1024 * 1024 + 1))
    (tmp_path / "odd").write_bytes(b"\xff")
    assert faults(harness("${file:big}")) == [
        "harness.yml:4:11 plugins.bash.name: file big has more than 1,048,576 bytes"
    ]
    assert faults(harness("${file:odd}")) == [
        "harness.yml:4:11 plugins.bash.name: file odd is not UTF-8"
    ]


def test_the_model_converts_interpolated_text(check: Check) -> None:
    """C-318, B-221: "false" from the environment is false."""
    plan = check(
        "plugins: {bash: {use: ./bash.py, stream: '${env:FLAG}', retries: '${env:N}'}}", env=ENV
    )
    entry = next(entry for entry in plan.entries if entry.id == "bash")
    assert plan.faults == ()
    assert entry.plugin is not None
    valid = entry.plugin.validate(entry.config)
    assert valid is not None
    assert valid.model_dump(include={"stream", "retries"}) == {"stream": False, "retries": 3}


@pytest.mark.parametrize(
    ("text", "key"),
    [("${env:LONG}", "timeout"), ("${env:LONG}", "mode"), ("bad ${env:LONG}", "name")],
)
def test_a_failed_conversion_never_prints_the_value(faults: Lines, text: str, key: str) -> None:
    """C-318."""
    (line,) = faults(harness(text, key), env=ENV)
    assert line.startswith(f"harness.yml:4:{7 + len(key)} plugins.bash.{key}: ")
    assert "secret-1" not in line


def test_the_repr_of_an_interpolated_value_is_its_source(check: Check) -> None:
    """C-318."""
    plan = check(harness("${env:LONG}"), env=ENV)
    assert "secret-1" not in repr(plan)
    assert repr(plan.entries[-1].config) == "{'name': '${env:LONG}'}"


def test_secrets_are_known_to_the_plan(check: Check) -> None:
    """C-295: only what an interpolation put into a secret field."""
    plan = check(harness("'${env:LONG}'\n    name: '${env:SET}'", "apiKey"), env=ENV)
    assert plan.secrets == {"secret-1"}


def test_an_entry_can_be_switched_by_the_environment(check: Check, faults: Lines) -> None:
    """C-324."""
    text = "plugins: {bash: {use: ./gone.py, enabled: '${env:X:-false}'}}"
    assert check(text).faults == ()
    assert faults(text, env={"X": "true"}) == [
        "harness.yml:1:23 plugins.bash.use: ./gone.py: there is no such file"
    ]
    assert faults(text, env={"X": "maybe"})[1:] == [
        "harness.yml:1:43 plugins.bash.enabled: expected true or false, got text"
    ]


def test_paths_become_absolute_from_the_file_that_has_them(config: Read, tmp_path: Path) -> None:
    """C-315."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "team.yml").write_text(
        "plugins: {bash: {use: ../bash.py, cwd: data, roots: [x, /abs], name: data}}"
    )
    folder = tmp_path / "sub"
    assert config("extends: ./sub/team.yml") == {
        "cwd": str(folder / "data"),
        "roots": [str(folder / "x"), "/abs"],
        "name": "data",
    }
    assert config("extends: ./sub/team.yml\nplugins: {bash: {cwd: ./own}}")["cwd"] == str(
        tmp_path / "own"
    )
    assert config("extends: ./sub/team.yml", "bash.cwd=own")["cwd"] == str(tmp_path / "own")


def test_default_paths_begin_at_the_folder_of_the_harness(check: Check, tmp_path: Path) -> None:
    """C-315: the same harness finds its files from any working directory."""
    store = """
        from pathlib import Path
        from terret_context import Config, plugin

        class StoreConfig(Config):
            data_dir: Path = Path(".terret/data")
            home: Path = Path("/var")

        @plugin(config=StoreConfig)
        def store(ctx, config): ...
        """
    (tmp_path / "sub").mkdir()
    plan = check(
        "extends: ./sub/team.yml",
        store__py=store,
        **{"sub/team__yml": "plugins: {store: {use: ../store.py}}"},
    )
    assert plan.entries[-1].config == {
        "dataDir": str(tmp_path / ".terret/data"),
        "home": "/var",
    }
