"""The recorded configuration cases, each below an entry of its own."""

import json
from pathlib import Path

import pytest

from terret_loader import Plan, check_document

CASES = Path(__file__).parents[4] / "shared" / "data" / "faults" / "cases"

FIELDS = {
    "cfg-env-missing": "model: dict[str, str]",
    "cfg-env-default": "a: str; b: str; c: str; d: str",
    "cfg-env-bool": "stream: bool; retries: int",
    "cfg-dollar-escape": "cmd: str",
    "cfg-norway": "tools: Allowed",
    "cfg-dup-key": "max_tokens: int; model: str",
    "cfg-unknown-key": "model: str; temperature: float = 1; tools: list[Tool]",
    "cfg-utf8-any-locale": "prompt: str",
}

CASE = """
from terret_context import Config, plugin

class Tool(Config):
    name: str
    timeout: float = 1

class Allowed(Config):
    allow: list[str]
    mode: str

class CaseConfig(Config):
    FIELDS

@plugin(config=CaseConfig)
def case(ctx, config): ...
"""


def load(name: str, folder: Path, env: dict[str, str]) -> Plan:
    """Checks a case as the configuration of one entry, in the spelling of Terret."""
    text = (CASES / f"{name}.yml").read_text(encoding="utf-8")
    for variable in ("TEST_UNSET_KEY", "U", "SET", "FLAG", "N"):
        for end in ("}", ":"):
            text = text.replace(f"${{{variable}{end}", f"${{env:{variable}{end}")
    config = "".join(f"      {line}\n" for line in text.split("\n"))
    harness = f"plugins:\n  case:\n    use: ./case.py\n    config:\n{config}"
    (folder / "case.py").write_text(CASE.replace("FIELDS", FIELDS[name]))
    (folder / "harness.yml").write_text(harness, encoding="utf-8")
    return check_document(folder / "harness.yml", env=env)


@pytest.mark.parametrize("name", FIELDS)
def test_a_recorded_case_gives_what_is_expected(name: str, tmp_path: Path) -> None:
    """B-220 to B-226, B-229."""
    if not CASES.is_dir():
        pytest.skip("the recorded cases are not beside the project")
    index = (CASES / "index.jsonl").read_text(encoding="utf-8").strip()
    rows = map(json.loads, index.split("\n"))
    expect = next(row["expect"] for row in rows if row["name"] == name)
    plan = load(name, tmp_path, expect.get("env", {}))
    expect = expect.get("accept", [expect])[0]
    if "value" in expect:
        assert plan.faults == ()
        entry = plan.entries[-1]
        assert entry.plugin is not None
        valid = entry.plugin.validate(entry.config)
        assert valid is not None
        assert valid.model_dump() == expect["value"]
    else:
        lines = "\n".join(map(str, plan.faults))
        expected = [text.replace("line 3", "harness.yml:7:") for text in expect["error_names"]]
        assert [text for text in expected if text not in lines] == []
