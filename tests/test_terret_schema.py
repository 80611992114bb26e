"""The JSON Schema of harness.yml: it accepts what the documents show, and finds slips."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from pydantic.alias_generators import to_snake

from end_to_end import ROOT
from terret_loader import installed_plugins, load_hooks
from terret_loader.describe import harness_schema

ENTRY_KEYS = {"config", "enabled", "inject", "isolate", "optional", "plugins", "use"}
Document = dict[str, Any]


def shown(page: Path) -> Iterator[Document]:
    """The harnesses in a document."""
    if page.suffix == ".yml":
        yield yaml.safe_load(page.read_text("utf-8"))
        return
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        document = yaml.safe_load(block)
        if isinstance(document, dict) and document.keys() <= {"extends", "plugins"}:
            yield document


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("p*/*/README.md")),
    *sorted(ROOT.glob("examples/**/*.yml")),
    ROOT / "harness.yml",
]
EXAMPLES = [
    pytest.param(document, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, document in enumerate(shown(page))
]


@pytest.fixture(scope="module")
def schema() -> Document:
    plugins = {installed.name: installed.load() for installed in installed_plugins()}
    return harness_schema(plugins, load_hooks().presets())


@pytest.fixture(scope="module")
def faults(schema: Document) -> Callable[[Document], list[str]]:
    """What the schema has against a document."""
    validator = jsonschema_rs.validator_for(schema)
    return lambda document: [str(error) for error in validator.iter_errors(document)]


def with_settings(
    document: Document, change: Callable[[Document], Document], *, inline: bool = True
) -> Document:
    """The same document with the settings of each entry changed, in the short or the long form."""

    def entry(given: Document) -> Document:
        fields = {key: value for key, value in given.items() if key in ENTRY_KEYS - {"config"}}
        if "plugins" in fields:
            return {**fields, "plugins": entries(fields["plugins"])}
        rest = {key: value for key, value in given.items() if key not in ENTRY_KEYS}
        settings = change({**rest, **given.get("config", {})})
        return {**fields, **settings} if inline else {**fields, "config": settings}

    def entries(given: Document) -> Document:
        return {id: value and entry(value) for id, value in given.items()}

    return {**document, "plugins": entries(document.get("plugins", {}))}


def in_snake_case(settings: Document) -> Document:
    return {to_snake(key): value for key, value in settings.items()}


@pytest.mark.parametrize("document", EXAMPLES)
def test_examples_are_accepted_in_both_forms_and_spellings(
    faults: Callable[[Document], list[str]], document: Document
) -> None:
    """C-333."""
    assert faults(document) == []
    assert faults(with_settings(document, dict, inline=False)) == []
    assert faults(with_settings(document, in_snake_case)) == []
    assert faults(with_settings(document, in_snake_case, inline=False)) == []


@pytest.mark.parametrize("inline", [True, False])
def test_a_typo_in_any_setting_of_any_plugin_is_found(
    schema: Document, faults: Callable[[Document], list[str]], inline: bool
) -> None:
    """C-302, C-333."""
    for name in schema["$defs"]["entries"]["properties"]:
        for key in schema["$defs"][f"plugin {name}"]["properties"].keys() - ENTRY_KEYS:
            document = {"plugins": {name: {f"{key}x": None}}}
            assert faults(with_settings(document, dict, inline=inline)), f"{name}.{key}x"


@pytest.mark.parametrize(
    "document",
    [
        {"plugin": {}},
        {"plugins": {}, "llm": {}},
        {"extends": "servce"},
        {"plugins": {"tools": "on"}},
        {"plugins": {"tools": []}},
        {"plugins": {"tools": {"enabld": True}}},
        {"plugins": {"tools": {"enabled": "maybe"}}},
        {"plugins": {"tools": {"maxThreads": "lots"}}},
        {"plugins": {"tools": {"maxThreads": 0}}},
        {"plugins": {"mine": {"use": "tools", "maxThread": 1}}},
        {"plugins": {"agentLoop": {"agent": []}}},
        {"plugins": {"agent-loop": {"agents": {"id": "main"}}}},
        {"plugins": {"agent-loop": {"agents": [{"id": "main", "providr": "local"}]}}},
        {"plugins": {"group": {"plugins": {"tools": {"maxThread": 1}}}}},
        {"plugins": {"group": {"plugins": {}, "image": "x"}}},
        {"plugins": {"group": {"plugins": {}, "use": "tools"}}},
    ],
)
def test_slips_are_found(faults: Callable[[Document], list[str]], document: Document) -> None:
    """C-303, C-333."""
    assert faults(document) != []


@pytest.mark.parametrize(
    "document",
    [
        {"extends": ["./team.yml"], "plugins": {"tools": None}},
        {"plugins": {"tools": {"maxThreads": "${env:THREADS:-4}", "enabled": "${env:TOOLS}"}}},
        {"plugins": {"tools": {"maxThreads": None}}},
        {"plugins": {"jira": {"use": "./jira.py", "anything": {"goes": 1}}}},
        {"plugins": {"tools": {"use": "./mine.py", "anything": 1}}},
    ],
)
def test_what_is_not_known_yet_is_accepted(
    faults: Callable[[Document], list[str]], document: Document
) -> None:
    """C-333: texts from elsewhere, removals, plugins that are no installed ones."""
    assert faults(document) == []
