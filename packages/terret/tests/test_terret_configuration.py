"""`terret config`: check, show and schema."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema_rs
import pytest

Run = Callable[..., tuple[int, str, str]]

PARTS = """
from pydantic import SecretStr
from terret_context import Config, plugin

class PartConfig(Config):
    size: int = 1
    api_key: SecretStr | None = None

@plugin(config=PartConfig)
def part(ctx, config):
    raise AssertionError("no body runs")
"""


@pytest.fixture(autouse=True)
def parts(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(PARTS)


def harness(text: str, name: str = "harness.yml") -> None:
    Path(name).write_text(text)


def test_a_sound_configuration_is_confirmed(terret: Run) -> None:
    """C-334: without running a body; a file may be named."""
    harness("plugins: {part: {use: ./part.py}, g: {plugins: {tools: {}}}}")
    harness("plugins: {part: {use: ./part.py}}", "other.yml")
    assert terret("config", "check") == (0, "harness.yml: 2 entries, no faults\n", "")
    assert terret("config", "check", "other.yml") == (0, "other.yml: 1 entries, no faults\n", "")


FAULTY = """
plugins:
  part: {use: ./part.py, siez: 3}
  gone: {use: ./gone.py, optional: true}
  nothing: null
"""


def test_faults_are_printed_in_file_order_and_refused(terret: Run) -> None:
    """C-304, C-334, C-314."""
    harness(FAULTY)
    lines = [
        "harness.yml:5:3 plugins.nothing: null removes nothing here: "
        'write "nothing: {}" to add it (warning)',
        'harness.yml:3:26 plugins.part.siez: unknown key (did you mean "size"?)',
        "harness.yml:4:15 plugins.gone.use: ./gone.py: there is no such file",
    ]
    code, out, err = terret("config", "check")
    assert (code, out, err.splitlines()) == (2, "", lines)
    code, out, err = terret("config", "check", "--safe")
    assert (code, err.splitlines()) == (0, lines)
    assert out == "harness.yml: 2 entries, 2 of them with faults and left out\n"


def test_a_traceback_is_shown_on_demand(terret: Run) -> None:
    """Without -v a fault is one line, whatever a plugin does at its import."""
    Path("part.py").write_text("def f():\n    1 / 0\n\nf()\n")
    harness("plugins: {part: {use: ./part.py}}")
    line = (
        "harness.yml:1:23 plugins.part.use: ./part.py: ZeroDivisionError: division by zero (line 2)"
    )
    assert terret("config", "check") == (2, "", f"{line}\n")
    code, _, err = terret("config", "check", "-v")
    assert (code, err.splitlines()[0]) == (2, line)
    assert "Traceback (most recent call last):" in err
    assert terret("run", "hi", "-v")[2].count("Traceback") == 1


SECRET = """
plugins:
  part: {use: ./part.py, apiKey: sk-written-out}
  other: {use: ./part.py, apiKey: "${env:KEY}"}
"""


def test_the_origin_of_each_value_is_shown(terret: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-321: secrets as their source; what a file spells out is hidden, and said to be there."""
    monkeypatch.setenv("KEY", "sk-from-outside")
    harness(SECRET)
    code, out, err = terret("config", "show", "--origin", "--set", "part.size=3")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[5:]] == [
        'part.use = "./part.py"',
        'part.apiKey = "[redacted]"',
        "part.size = 3",
        'other.use = "./part.py"',
        "other.apiKey = ${env:KEY} (set)",
        "other.size = 1",
    ]
    assert [line.split()[-1] for line in out.splitlines()[5:]] == [
        "harness.yml:3:15",
        "harness.yml:3:34",
        "--set",
        "harness.yml:4:16",
        "harness.yml:4:35",
        "default",
    ]
    assert err.splitlines() == [
        "not shown: part.apiKey (harness.yml:3:34)",
        "a secret is better kept in a variable: ${env:NAME}",
    ]


def test_the_merged_document_is_shown_as_one_that_loads(terret: Run) -> None:
    """C-322."""
    harness("extends: base.yml\nplugins: {part: {size: 2}}")
    harness("plugins: {part: {use: ./part.py, size: 1}}", "base.yml")
    code, out, _ = terret("config", "show")
    assert (code, out) == (0, "plugins:\n  logging: {}\n  part: {use: ./part.py, size: 2}\n")
    harness(out)
    assert terret("config", "show")[1] == out


def test_a_faulty_document_is_shown_with_its_faults(terret: Run) -> None:
    harness("plugins: {part: {use: ./part.py, siez: 2}}")
    code, out, err = terret("config", "show")
    assert (code, out.splitlines()[-1]) == (2, "  part: {use: ./part.py, siez: 2}")
    assert err.startswith("harness.yml:1:34 plugins.part.siez: unknown key")
    harness("plugins: [")
    code, out, err = terret("config", "show")
    assert (code, out) == (2, "")
    assert "not valid YAML" in err


def test_the_schema_is_that_of_what_is_installed(terret: Run) -> None:
    """C-333."""
    code, out, err = terret("config", "schema")
    assert (code, err) == (0, "")
    validator = jsonschema_rs.validator_for(json.loads(out))
    assert validator.is_valid({"plugins": {"tools": {"maxThreads": 3}}})
    assert not validator.is_valid({"plugins": {"tools": {"maxThread": 3}}})


def test_without_a_file_the_way_out_is_named(terret: Run, tmp_path: Path) -> None:
    code, _, err = terret("config", "check")
    assert code == 2
    assert err.startswith(f"terret: no harness.yml in {tmp_path} or above it")
    assert terret("config", "check", "no.yml")[2] == "terret: there is no file no.yml\n"
    assert (
        terret("config", "check", "--root", "no")[2]
        == "terret: there is no harness.yml in no; `terret init no` makes a project\n"
    )


def test_the_env_file_is_read_and_the_process_wins(
    terret: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-323: a malformed line is named without its text."""
    monkeypatch.delenv("KEY", raising=False)
    harness('plugins: {part: {use: ./part.py, size: "${env:KEY}"}}')
    Path(".env").write_text("KEY=12\n")
    Path("other.env").write_text("KEY=x\nsecret text\n")
    assert terret("config", "check")[0] == 0
    monkeypatch.setenv("KEY", "many")
    _, _, err = terret("config", "check")
    assert err == "harness.yml:1:40 plugins.part.size: expected a whole number, got text\n"
    _, _, err = terret("config", "check", "--env-file", "other.env")
    assert err == "other.env:2:1: malformed line (expected NAME=value)\n"
