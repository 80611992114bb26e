"""What a harness says of itself: settings with origins, the merged document, the schema."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st
from pydantic import SecretStr

from terret_context import Config, Plugin
from terret_loader import Hooks, Loader, Plan, check_document, open_harness
from terret_loader.describe import harness_schema, merged_document, settings
from terret_loader.hooks import hookimpl

Check = Callable[..., Plan]
Write = Callable[..., Path]

LAYERED = """
extends: [./sub/team.yml]
plugins:
  bash:
    timeout: 5
    allow: [a, 'no']
    limits: {max_bytes: 3}
    words: {some_key: "1e3"}
    config: {enabled: true}
  off: {use: ./gone.py, enabled: '${env:X:-false}'}
  group:
    optional: true
    isolate: {shell: true}
    plugins:
      inner: {use: './bash.py:bash', name: '$${x}'}
"""
TEAM = """
plugins:
  bash:
    use: ../bash.py
    cwd: data
    name: 'x ${file:name.txt}'
    api_key: ${env:KEY}
"""


def lines(plan: Plan, env: Mapping[str, str]) -> list[str]:
    """The settings, but not the defaults."""
    found = settings(plan, env=env)
    return [f"{s.path} = {s.text} < {s.origin}" for s in found if s.origin != "default"]


@pytest.fixture
def layered(write: Write, tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "name.txt").write_text("y\n")
    return write(LAYERED, **{"sub/team__yml": TEAM})


def test_each_value_names_its_origin(layered: Path) -> None:
    """C-321: in the spelling of the model, with the source of interpolations."""
    plan = check_document(layered, sets=["bash.retries=2"], env={"KEY": "sk-123456"})
    assert plan.faults == ()
    assert lines(plan, {"KEY": "sk-123456"}) == [
        'bash.use = "../bash.py" < sub/team.yml:4:10',
        'bash.cwd = "data" < sub/team.yml:5:10',
        "bash.name = x ${file:name.txt} < sub/team.yml:6:11",
        "bash.apiKey = ${env:KEY} (set) < sub/team.yml:7:14",
        "bash.timeout = 5 < harness.yml:5:14",
        'bash.allow = ["a", "no"] < harness.yml:6:12',
        "bash.limits.maxBytes = 3 < harness.yml:7:25",
        'bash.words.some_key = "1e3" < harness.yml:8:23',
        "bash.config.enabled = true < harness.yml:9:23",
        "bash.retries = 2 < --set",
        'off.use = "./gone.py" < harness.yml:10:14',
        "off.enabled = ${env:X:-false} (default) < harness.yml:10:34",
        "group.optional = true < harness.yml:12:15",
        "group.isolate.shell = true < harness.yml:13:22",
        'group/inner.use = "./bash.py:bash" < harness.yml:15:20',
        'group/inner.name = "$${x}" < harness.yml:15:44',
    ]


def test_defaults_are_listed_after_what_is_given(check: Check) -> None:
    """C-321."""
    plan = check("plugins: {logging: null, bash: {use: ./bash.py, limits: {}, timeout: 1}}")
    found = [(s.path, s.text) for s in settings(plan, env={}) if s.origin == "default"]
    assert found[:3] == [("bash.retries", "0"), ("bash.name", '""'), ("bash.stream", "true")]
    assert ("bash.apiKey", "null") in found
    assert ("bash.limits", "{}") not in found


def test_the_place_in_a_preset_and_a_runtime_override_are_named(write: Write) -> None:
    """C-321."""

    class Module:
        @hookimpl
        def terret_presets(self) -> dict[str, Path]:
            return {"team": Path("team.yml").absolute()}

    hooks = Hooks()
    hooks.add("team", Module)
    path = write("extends: team", team__yml="plugins: {bash: {use: ./bash.py, timeout: 1}}")
    plan = check_document(path, env={}, hooks=hooks)
    assert lines(plan, {})[0] == 'bash.use = "./bash.py" < preset team (team.yml:1:23)'


async def test_a_runtime_override_is_an_origin(write: Write) -> None:
    """C-321."""
    path = write("plugins: {bash: {use: ./bash.py, timeout: 1}}")
    async with open_harness(path, env={}) as root:
        await root[Loader].override("bash.timeout", 7)
        assert "bash.timeout = 7 < runtime" in lines(root[Loader].plan, {})


SECRETS = """
plugins:
  bash:
    use: ./bash.py
    apiKey: sk-written-out
    words: {authorization: Bearer sk-written-too, colour: red}
  broken: {use: ./bash.py, apiKey: sk-written-again, timeout: never}
"""


def test_secrets_are_never_shown(check: Check) -> None:
    """C-321: nor when the entry is faulty, whose values were not accepted."""
    plan = check(SECRETS)
    found = list(settings(plan, env={}))
    assert [s.path for s in found if s.is_hidden] == [
        "bash.apiKey",
        "bash.words.authorization",
        "broken.apiKey",
    ]
    assert "sk-written" not in f"{found}{merged_document(plan)}"
    assert "colour: red" in merged_document(plan)


def test_the_document_that_is_shown_gives_the_same_harness(layered: Path) -> None:
    """C-322: layers, groups, both forms, files of other folders, what looks like no text."""
    env = {"KEY": "sk-123456"}
    plan = check_document(layered, sets=["bash.retries=2"], env=env)
    layered.write_text(merged_document(plan))
    again = check_document(layered, env=env)
    assert again.faults == ()
    assert [replaced(entry) for entry in again.entries] == [
        replaced(entry) for entry in plan.entries
    ]


def replaced(entry: Any) -> tuple[object, ...]:
    """An entry as it comes out, whatever the spelling of `use` and of keys."""
    plugin = entry.plugin
    mounts = plugin and (
        plugin.body.__code__.co_filename,
        plugin.validate(entry.config).model_dump(),
    )
    return entry.path, mounts, entry.enabled, entry.optional, entry.realms


def test_an_entry_that_the_document_removes_stays_removed(check: Check, write: Write) -> None:
    """C-322."""
    path = write(merged_document(check("plugins: {logging: null}")))
    assert check_document(path, env={}).entries == ()


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()
).filter(lambda value: "$" not in str(value))
SPECIAL = st.sampled_from(
    ["no", "1e3", "0777", "0x1f", "~", "null", "12:30", "=", "- a", "a: b", ""]
)
VALUES = st.recursive(
    SCALARS | SPECIAL,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1) | SPECIAL.filter(bool), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=VALUES)
@options(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
def test_every_value_survives_being_written(check: Check, value: object) -> None:
    """C-322."""
    text = json.dumps({"plugins": {"bash": {"use": "./bash.py", "anything": [value]}}})
    plan = check(text)
    again = check(merged_document(plan))
    assert again.entries[-1].config == plan.entries[-1].config


class Inner(Config):
    max_bytes: int


class BashConfig(Config):
    """Settings of bash.

    They are few.
    """

    time_out: float = 30.0
    """How long a command
    may take."""
    inner: Inner | None = None
    listed: tuple[Inner, ...] = ()
    api_key: SecretStr | None = None
    enabled: bool = False


def schema() -> dict[str, Any]:
    bash = Plugin(name="bash", body=lambda ctx, config: None, config=BashConfig)
    plain = Plugin(name="plain-one", body=lambda ctx: None)
    return harness_schema({"bash": bash, "plain-one": plain}, ["service"])


def test_the_schema_describes_settings_in_the_words_of_the_model() -> None:
    """C-333: proposed in camelCase, accepted in snake_case."""
    definitions = schema()["$defs"]
    bash = definitions["plugin bash"]
    assert bash["description"] == "Settings of bash.\n\nThey are few."
    assert list(bash["properties"])[:3] == ["timeOut", "inner", "listed"]
    assert list(bash["patternProperties"]) == ["^time_out$", "^api_key$"]
    described = definitions["BashConfig"]["properties"]["timeOut"]
    assert described["description"] == "How long a command may take."
    assert described["default"] == 30.0
    assert "required" not in definitions["Inner"]


def test_a_plugin_whose_model_has_no_schema_may_have_any_settings() -> None:
    """C-333."""

    class Odd(Config):
        call: Callable[[], None]

    odd = Plugin(name="odd", body=lambda ctx, config: None, config=Odd)
    assert harness_schema({"odd": odd}, [])["$defs"]["plugin odd"]["additionalProperties"] is True
