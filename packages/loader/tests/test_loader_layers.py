"""Layers: `extends`, the file, flags; and the forms of `use`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_loader import Plan

Lines = Callable[..., list[str]]
Read = Callable[..., dict[str, object]]
Check = Callable[..., Plan]

BASE = """\
plugins:
  bash: {use: ./bash.py, timeout: 1, allow: [a], limits: {maxBytes: 5}, words: {x: y}}
"""


def test_a_file_wins_over_what_it_extends_key_by_key(config: Read) -> None:
    """C-100, C-106, C-314."""
    top = """\
        extends: [./base.yml, ./more.yml]
        plugins:
          bash: {timeout: 3, words: {z: w}}
        """
    more = "plugins: {bash: {timeout: 2, allow: [b, c]}}"
    assert config(top, base__yml=BASE, more__yml=more) == {
        "timeout": 3,
        "allow": ["b", "c"],
        "limits": {"maxBytes": 5},
        "words": {"x": "y", "z": "w"},
    }


def test_spellings_are_equal_over_layers(config: Read) -> None:
    """C-307, C-308."""
    top = "extends: ./base.yml\nplugins: {bash: {config: {limits: {max_bytes: 7}}}}"
    assert config(top, base__yml=BASE)["limits"] == {"max_bytes": 7}


def test_null_removes_a_key_or_an_entry(check: Check) -> None:
    """C-314."""
    top = """\
        extends: ./base.yml
        plugins:
          bash: {timeout: null, limits: {maxBytes: ~}, words: null}
          gone: null
        """
    base = BASE + "  gone: {use: ./bash.py}"
    plan = check(top, base__yml=base)
    assert (plan.faults, plan.warnings) == ((), ())
    assert {entry.id: entry.config for entry in plan.entries} == {
        "logging": {},
        "bash": {"allow": ["a"], "limits": {}},
    }


def test_null_for_what_no_layer_has_is_a_warning(check: Check) -> None:
    """C-314."""
    plan = check("plugins:\n  bash:\n  http: {use: ./bash.py, timeout: null}\n")
    assert plan.faults == ()
    assert [str(warning) for warning in plan.warnings] == [
        'harness.yml:2:3 plugins.bash: null removes nothing here: write "bash: {}" to add it',
        "harness.yml:3:26 plugins.http.timeout: null removes nothing here",
    ]


def test_extended_files_extend_others_relative_to_themselves(check: Check) -> None:
    """C-313, C-315: each file once, own file last."""
    plan = check(
        "extends: ./a/one.yml\nplugins: {bash: {retries: 1}}",
        **{
            "a/one.yml": "extends: [../b/two.yml]\nplugins: {bash: {use: ../bash.py, timeout: 1}}",
            "b/two.yml": "plugins: {first: {use: ../bash.py}, bash: {timeout: 9, name: two}}",
        },
    )
    assert plan.faults == ()
    assert [(entry.path, dict(entry.config)) for entry in plan.entries[1:]] == [
        ("first", {}),
        ("bash", {"timeout": 1, "name": "two", "retries": 1}),
    ]


def test_files_that_extend_each_other_are_a_fault_with_the_path(faults: Lines) -> None:
    """C-313."""
    assert faults("extends: ./a.yml", a__yml="extends: [./harness.yml]") == [
        "a.yml:1:11 extends[0]: extends itself: harness.yml -> a.yml -> harness.yml"
    ]


@pytest.mark.parametrize(
    ("extends", "line"),
    [
        ("./no.yml", "harness.yml:1:10 extends: ./no.yml: there is no such file"),
        ("3", "harness.yml:1:10 extends: expected the name of a preset or a file, got a number"),
        (
            "[servce]",
            'harness.yml:1:11 extends[0]: no preset "servce" is installed '
            '(did you mean "service"?)',
        ),
    ],
)
def test_what_cannot_be_extended_hides_what_depends_on_it(
    faults: Lines, extends: str, line: str
) -> None:
    """C-313."""
    assert faults(f"extends: {extends}\nplugins: {{from-there: {{timeout: 1}}}}") == [line]


def test_a_missing_file_counts_among_the_files_so_that_its_coming_is_seen(
    check: Check, tmp_path: Path
) -> None:
    """C-206."""
    assert check("extends: ./no.yml").files == {tmp_path / "harness.yml", tmp_path / "no.yml"}


def test_an_entry_may_be_named_like_a_key_of_the_format(check: Check) -> None:
    """C-308."""
    plan = check("plugins: {plugins: {use: ./bash.py, timeout: 1}, use: {use: ./bash.py}}")
    assert plan.faults == ()
    assert [entry.path for entry in plan.entries] == ["logging", "plugins", "use"]


def test_entries_join_a_group_of_a_lower_layer(check: Check) -> None:
    """C-103, C-104, C-202."""
    base = "plugins: {g: {plugins: {a: {use: ./bash.py}, b: {use: ./bash.py}}}}"
    top = """\
        extends: ./base.yml
        plugins:
          g: {plugins: {c: {use: ./bash.py}, b: null}}
          d: {use: ./bash.py}
        """
    plan = check(top, base__yml=base)
    assert plan.faults == ()
    assert [entry.path for entry in plan.entries] == ["logging", "g", "g/a", "g/c", "d"]


def test_a_plugin_of_a_lower_layer_does_not_become_a_group(faults: Lines) -> None:
    """C-105."""
    top = "extends: ./base.yml\nplugins:\n  bash: {plugins: {}}\n"
    assert faults(top, base__yml="plugins: {bash: {use: ./bash.py}}") == [
        "harness.yml:3:10 plugins.bash.plugins: bash is a plugin, not a group (see base.yml:1:11)"
    ]


def test_groups_disable_and_are_optional_for_all_below(check: Check) -> None:
    """C-324: nothing below a disabled group is imported."""
    plan = check("""\
        plugins:
          g:
            enabled: false
            plugins: {x: {use: ./no.py}, h: {plugins: {y: {use: ./no.py}}}}
        """)
    assert plan.faults == ()
    assert [(entry.path, entry.enabled) for entry in plan.entries[1:]] == [
        ("g", False),
        ("g/x", False),
        ("g/h", False),
        ("g/h/y", False),
    ]


def test_an_overridden_entry_keeps_its_place_in_the_file(check: Check) -> None:
    """C-320: a flag has no line."""
    plan = check("plugins:\n  bash: {use: ./bash.py}\n", "bash.timeout=3")
    assert str(plan.entries[-1]) == "harness.yml#bash"
    assert str(plan.entries[-1].origin) == "harness.yml:2:3"


JSON = st.recursive(
    st.integers() | st.booleans() | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner),
    max_leaves=8,
)
SETTINGS = st.dictionaries(st.sampled_from("abcdef"), JSON, max_size=4)


@given(layers=st.lists(SETTINGS, min_size=1, max_size=4))
def test_merging_loses_nothing_and_changes_no_layer(layers: list[dict[str, object]]) -> None:
    """C-204: the merged mapping is the fold of a deep update, layer by layer."""
    import json

    from terret_loader._faults import Source
    from terret_loader._merging import merge
    from terret_loader._nodes import bare
    from terret_loader._yaml import parse

    source = Source(label="x", folder=Path())
    nodes = [parse(json.dumps(layer), source, lambda fault: None) for layer in layers]
    before = [bare(node) for node in nodes]
    merged = None
    for node in nodes:
        assert node is not None
        merged = merge(merged, node, lambda fault: None, lambda fault: None)
    expected: dict[str, object] = {}
    for layer in layers:
        expected = deep_update(expected, layer)
    assert bare(merged) == expected
    assert [bare(node) for node in nodes] == before


def deep_update(lower: dict[str, object], upper: dict[str, object]) -> dict[str, object]:
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        if isinstance(value, dict):
            result[key] = deep_update(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result


TWO = """
from terret_context import plugin

@plugin
def a(ctx): ...

@plugin
def b(ctx): ...
"""


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("./no.py", "./no.py: there is no such file"),
        ("./bash.py:bsh", './bash.py:bsh: there is no "bsh" in it (did you mean "bash"?)'),
        ("./deep.py", "./deep.py: ModuleNotFoundError: No module named 'jirra' (line 2)"),
        ("./syntax.py", "./syntax.py: SyntaxError: '(' was never closed (line 1)"),
        ("./script.py", "./script.py: SystemExit: 3 (line 2)"),
        ("nope.mod", 'nope.mod: no module "nope" is installed'),
        ("json.nope", 'json.nope: no module "json.nope" is installed'),
        ("json:nope", 'json:nope: there is no "nope" in it'),
        ("lgging", 'no plugin "lgging" is installed (did you mean "logging"?)'),
        ("zzz", 'no plugin "zzz" is installed: see `terret plugin list`'),
    ],
)
def test_a_use_that_leads_to_no_plugin_says_why(faults: Lines, use: str, message: str) -> None:
    """C-193, C-301, B-240: however its import fails."""
    harness = f'plugins: {{x: {{use: "{use}"}}}}'
    script = "import sys\nsys.exit(3)\n"
    deep = "from pathlib import Path\nimport jirra\n"
    assert faults(harness, deep__py=deep, syntax__py="def f(\n", script__py=script) == [
        f"harness.yml:1:20 plugins.x.use: {message}"
    ]


def test_what_is_no_plugin_says_what_would_be_one(faults: Lines) -> None:
    """C-193, C-301."""
    harness = 'plugins: {x: {use: "./bash.py:Path"}, y: {use: ./two.py}}'
    no_plugin, candidates = faults(harness, two__py=TWO)
    assert "./bash.py:Path: <class 'pathlib.Path'> is no plugin; accepted: a function" in no_plugin
    assert candidates.endswith(
        'module "./two.py" has no attribute `plugin`; candidates: ./two.py:a, ./two.py:b'
    )


@pytest.mark.parametrize("attribute", ["", ":log_output"])
def test_names_modules_and_attributes_lead_to_one_plugin(check: Check, attribute: str) -> None:
    """C-301."""
    module = f"terret_loader.logging{attribute}"
    plan = check(f"plugins: {{logging: null, x: {{use: logging}}, y: {{use: '{module}'}}}}")
    assert plan.faults == ()
    assert plan.entries[0].plugin is not None
    assert plan.entries[0].plugin == plan.entries[1].plugin
