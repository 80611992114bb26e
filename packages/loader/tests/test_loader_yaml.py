"""What YAML means to Terret, and what is refused of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from terret_loader import check_document

Lines = Callable[..., list[str]]
Read = Callable[..., dict[str, object]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, word) for word in ("no", "on", "off", "yes", "y", "N", "12:30", "22:22:22")],
        *[(word, word) for word in ("2026-01-01", "0777", "0o8", "1_000", "=", "0b1", "08.5")],
        ("true", True),
        ("FALSE", False),
        ("1e3", 1000.0),
        ("0x1f", 31),
        ("0o17", 15),
        ("-12", -12),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("1.", 1.0),
        ("'true'", "true"),
        ('"1"', "1"),
        ("!!str 12", "12"),
        ("!!float 1", 1.0),
        ("[~, null, Null]", [None, None, None]),
        ("{a: {b: [1]}}", {"a": {"b": [1]}}),
        ("你好 naïve", "你好 naïve"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(config: Read, text: str, value: object) -> None:
    """C-310, B-224."""
    harness = f"plugins:\n  bash: {{use: ./bash.py, anything: {text}}}"
    assert config(harness) == {"anything": value}


def test_text_with_leading_zeros_reaches_an_int_field_as_yaml_1_2_reads_it(config: Read) -> None:
    """C-310."""
    assert config("plugins: {bash: {use: ./bash.py, retries: 0777}}") == {"retries": "0777"}


def test_a_duplicate_key_is_refused_with_both_positions(faults: Lines) -> None:
    """C-309, B-225."""
    harness = """\
        plugins:
          bash:
            use: ./bash.py
            timeout: 1
            timeout: 2
        """
    assert faults(harness) == [
        "harness.yml:5:5 plugins.bash.timeout: duplicate key (first given at line 4, column 5)"
    ]


def test_two_spellings_of_a_key_in_one_mapping_are_a_duplicate(faults: Lines) -> None:
    """C-307."""
    harness = """\
        plugins:
          bash: {use: ./bash.py, api_key: a, apiKey: b}
        """
    assert faults(harness) == [
        "harness.yml:2:38 plugins.bash.apiKey: duplicate key "
        'of "api_key" (first given at line 2, column 26)'
    ]


def test_two_spellings_of_an_id_in_one_file_are_a_duplicate(faults: Lines) -> None:
    """C-308."""
    harness = """\
        plugins:
          agentLoop: {use: ./bash.py}
          agent_loop: {use: ./bash.py}
          agent-loop: {use: ./bash.py}
        """
    first = 'of "agentLoop" (first given at line 2, column 3)'
    assert faults(harness) == [
        f"harness.yml:3:3 plugins.agent_loop: duplicate key {first}",
        f"harness.yml:4:3 plugins.agent-loop: duplicate entry {first}",
    ]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("!!python/object/apply:os.system [ls]", "3:11 {}: tag !!python/object/apply:os.system"),
        ("!secret x", "3:11 {}: tag !secret"),
        ("!!timestamp 2026-01-01", "3:11 {}: tag !!timestamp"),
        ("!!set {a: ~}", "3:11 {}: tag !!set"),
    ],
)
def test_tags_construct_nothing_and_are_refused(faults: Lines, value: str, fault: str) -> None:
    """C-311, C-319."""
    harness = f"plugins:\n  bash:\n    name: {value}\n    use: ./bash.py"
    line = fault.format("plugins.bash.name")
    assert faults(harness)[0] == f"harness.yml:{line} is not allowed: only plain YAML values are"


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("!!int abc", "2:32 plugins.bash.name: not a valid !!int"),
        ("{1: x}", '2:33 plugins.bash.name: keys must be text: write "1"'),
        ("{[a]: x}", "2:33 plugins.bash.name: keys must be text"),
        ("{~: x}", '2:33 plugins.bash.name: keys must be text: write "~"'),
        (
            "{<<: {a: 1}}",
            '2:33 plugins.bash.name."<<": merge keys are not allowed: repeat the keys',
        ),
        ("&a [*a]", "2:32 plugins.bash.name[0]: an alias of itself"),
    ],
)
def test_what_is_no_plain_data_is_refused(faults: Lines, value: str, line: str) -> None:
    """C-311."""
    harness = f"plugins:\n  bash: {{use: ./bash.py, name: {value}}}"
    assert f"harness.yml:{line}" in faults(harness)


def test_aliases_give_equal_values(config: Read) -> None:
    """C-311: aliases themselves are fine."""
    harness = "plugins: {bash: {use: ./bash.py, allow: &x [a, b], anything: *x}}"
    assert config(harness) == {"allow": ["a", "b"], "anything": ["a", "b"]}


def test_an_alias_bomb_is_refused_without_being_expanded(faults: Lines) -> None:
    """C-311."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    harness = "plugins:\n  bash:\n" + "".join(f"    {level}\n" for level in levels)
    assert faults(harness) == [
        "harness.yml:7:9: more than 100,000 values after aliases are expanded"
    ]


def test_a_syntax_error_is_reported_alone_with_its_position(faults: Lines) -> None:
    """C-304."""
    assert faults("plugns: 1\nplugins:\n  bash: [1, 2\n  http: {}\n") == [
        'harness.yml:4:7: not valid YAML: a "," or "]" is missing in the list that begins in line 3'
    ]
    assert faults("plugins:\n\tbash: {}\n") == [
        "harness.yml:2:1: not valid YAML: a tab cannot indent: use blanks"
    ]


def test_deep_nesting_is_a_fault(faults: Lines) -> None:
    """C-311."""
    assert faults("[" * 5_000) == ["harness.yml: nested too deeply"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", ["harness.yml:1:1: there is nothing in it"]),
        (b"# only a comment\n", ["harness.yml:1:1: there is nothing in it"]),
        (b"{}\n", ['harness.yml:1:1: nothing to run: add "plugins" or "extends"']),
        (b"- a\n", ['harness.yml:1:1: expected a mapping with "plugins", got a list']),
        (
            b"plugins:\n  caf\xe9: {}\n",
            ["harness.yml:2:6: not UTF-8 (byte 0xe9): save the file as UTF-8"],
        ),
        (b"plugins: {}\n# \x07\n", ["harness.yml:2:3: the character U+0007 is not allowed"]),
        ("\ufeffplugins: {}\n".encode(), []),
        (b"plugins:\n", []),
    ],
)
def test_bytes_that_are_no_harness_are_refused(
    write: Callable[..., Path], data: bytes, lines: list[str]
) -> None:
    """C-312, B-229."""
    write().write_bytes(data)
    assert [str(fault) for fault in check_document("harness.yml").faults] == lines


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    """C-312."""
    path = tmp_path / "harness.yml"
    assert [str(fault) for fault in check_document(path).faults] == [
        f"{path}: cannot be read: No such file or directory"
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")
@given(
    value=JSON, flow=st.sampled_from([True, False, None]), style=st.sampled_from(["'", '"', None])
)
def test_both_parsers_of_pyyaml_say_the_same(
    value: object, flow: bool | None, style: str | None
) -> None:
    """C-310: values, keys and places, whatever parser is there."""
    from terret_loader._yaml import _Composer, _FastComposer

    text = yaml.safe_dump(
        {"plugins": value}, default_flow_style=flow, default_style=style, allow_unicode=True
    )
    exact, fast = (flat(yaml.compose(text, loader)) for loader in (_Composer, _FastComposer))
    assert exact == fast


def flat(node: yaml.Node | None) -> list[tuple[object, ...]]:
    """A node graph as a list of tags, values and places."""
    assert node is not None
    mark = node.start_mark
    own = (node.tag, mark.line, mark.column)
    if isinstance(node, yaml.ScalarNode):
        return [(*own, node.value)]
    members = [
        part for item in node.value for part in (item if isinstance(item, tuple) else (item,))
    ]
    return [own, *(row for member in members for row in flat(member))]
