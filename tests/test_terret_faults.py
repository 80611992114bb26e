"""Ways to break the repository's harness.yml, and the exact line that each one gives.

`¦` in a change marks a place that a line must name, `§` one whose line and column it mentions
(`§L`, `§C`); the file itself has neither.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from end_to_end import ROOT
from terret import _boot
from terret.__main__ import main
from terret_loader import load_hooks

HARNESS = (ROOT / "harness.yml").read_text(encoding="utf-8")
PRESETS = ", ".join(sorted(load_hooks().presets())) or "none"
LAST = "agents: [{id: main, provider: local}]\n"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A change of the file, and what is said about it: one line, or more."""

    old: str = LAST
    """What is replaced; by default the end, so that something is added."""
    new: str
    says: str | tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


def added(entry: str) -> str:
    """The end of the file with one more entry."""
    return f"{LAST}  {entry}\n"


JIRA = "jira: {use: ¦./jira.py}"
PLUGIN = "from terret_context import plugin\n\n@plugin\ndef jira(ctx):\n    {}\n"

HANGS = """
import anyio
from terret_context import plugin

@plugin(cancel_load=True)
async def jira(ctx):
    await anyio.sleep_forever()
"""
CIRCLE = """
from terret_context import plugin

@plugin(inject=("b",), provides=("a",))
def a(ctx): ...

@plugin(inject=("a",), provides=("b",))
def b(ctx): ...
"""

FORM = {
    "a typo in a top-level key": Way(
        old="plugins:",
        new="¦plugin:",
        says='¦ plugin: unknown key (did you mean "plugins"?)',
    ),
    "an entry at the top level": Way(
        new=f"{LAST}¦llm-openai: {{}}\n",
        says='¦ llm-openai: unknown key: entries belong below "plugins"',
    ),
    "a tab": Way(
        old="  llm: {}",
        new="¦\tllm: {}",
        says="¦: not valid YAML: a tab cannot indent: use blanks",
    ),
    "wrong indentation": Way(
        old="  llm: {}\n  sessions: {}\n",
        new="  §llm: {}\n   ¦sessions: {}\n",
        says="¦: not valid YAML: the indentation fits nothing that begins in line §L",
    ),
    "a list that stays open": Way(
        old="agents: [{id: main, provider: local}]",
        new="agents: ¦[{id: main, provider: local}",
        says="¦: not valid YAML: this list is not closed",
    ),
    "a quote that stays open": Way(
        old="tools: {}", new='tools: ¦"on', says="¦: not valid YAML: this text is not closed"
    ),
    "a comma that is missing": Way(
        old="id: main, provider: local",
        new="§id: main provider¦: local",
        says='¦: not valid YAML: a "," or "}" is missing in the mapping that begins in line §L',
    ),
    "a colon in a text": Way(
        old="tools: {}",
        new="tools: note¦: this",
        says='¦: not valid YAML: no ":" may stand here: text with ": " needs quotes',
    ),
    "two documents": Way(
        new=f"{LAST}¦---\nplugins: {{}}\n",
        says="¦: not valid YAML: a second document begins: one file is one document",
    ),
    "an alias of nothing": Way(
        old="tools: {}",
        new="tools: ¦*defaults",
        says="¦: not valid YAML: found undefined alias 'defaults'",
    ),
    "a tag of Python": Way(
        old="tools: {}",
        new="tools: ¦!!python/object:os.system {}",
        says="¦ plugins.tools: tag !!python/object:os.system is not allowed: "
        "only plain YAML values are",
    ),
    "a merge key": Way(
        old="tools: {}",
        new="tools: {¦<<: {}}",
        says='¦ plugins.tools."<<": merge keys are not allowed: repeat the keys',
    ),
    "a key that is a number": Way(
        old="tools: {}", new="tools: {¦1: 2}", says='¦ plugins.tools: keys must be text: write "1"'
    ),
    "a control character": Way(
        old="tools: {}", new="tools: ¦\x07{}", says="¦: the character U+0007 is not allowed"
    ),
    "an entry twice": Way(
        old="  tools: {}",
        new="  §tools: {}\n  ¦tools: {}",
        says="¦ plugins.tools: duplicate key (first given at line §L, column §C)",
    ),
    "an entry in two spellings": Way(
        old="  tools-demo: {}",
        new="  §tools-demo: {}\n  ¦toolsDemo: {}",
        says='¦ plugins.toolsDemo: duplicate entry of "tools-demo" '
        "(first given at line §L, column §C)",
    ),
    "a setting in two spellings": Way(
        old="tools: {}",
        new="tools: {§maxThreads: 1, ¦max_threads: 2}",
        says='¦ plugins.tools.max_threads: duplicate key of "maxThreads" '
        "(first given at line §L, column §C)",
    ),
    "a setting in both forms": Way(
        old="tools: {}",
        new="tools: {§maxThreads: 1, config: {¦maxThreads: 2}}",
        says="¦ plugins.tools.config.maxThreads: given twice, "
        "also as plugins.tools.maxThreads (line §L, column §C)",
    ),
    "a list of entries": Way(
        old=HARNESS,
        new="plugins: ¦[llm, tools]\n",
        says="¦ plugins: expected a mapping of entries, got a list: "
        'write "bash: {}" for an entry with its defaults',
    ),
    "text for an entry": Way(
        old="tools: {}",
        new="tools: ¦on",
        says="¦ plugins.tools: expected the settings of an entry, got text "
        '(defaults are "tools: {}")',
    ),
    "an id with a blank": Way(
        new=added("¦my tools: {use: tools-demo}"),
        says='¦ plugins."my tools": not an entry id: use words joined by "-"',
    ),
    "an empty file": Way(old=HARNESS, new="¦", says="¦: there is nothing in it"),
    "comments only": Way(old=HARNESS, new="¦# later\n", says="¦: there is nothing in it"),
    "no entries": Way(old=HARNESS, new="¦{}", says='¦: nothing to run: add "plugins" or "extends"'),
    "a list for a file": Way(
        old=HARNESS, new="¦[llm]", says='¦: expected a mapping with "plugins", got a list'
    ),
}

VALUES = {
    "a typo in a setting": Way(
        old="tools: {}",
        new="tools: {¦maxThread: 3}",
        says='¦ plugins.tools.maxThread: unknown key (did you mean "maxThreads"?)',
    ),
    "a typo in an entry key": Way(
        old="tools: {}",
        new="tools: {¦enabld: true}",
        says='¦ plugins.tools.enabld: unknown key (did you mean "enabled"?)',
    ),
    "a setting of a plugin that has none": Way(
        old="  llm: {}",
        new="  llm: {¦model: x}",
        says="¦ plugins.llm.model: unknown key: llm takes no configuration",
    ),
    "a wrong type": Way(
        old="tools: {}",
        new="tools: {maxThreads: ¦lots}",
        says="¦ plugins.tools.maxThreads: expected a whole number, got text",
    ),
    "a number out of range": Way(
        old="tools: {}",
        new="tools: {maxThreads: ¦0}",
        says="¦ plugins.tools.maxThreads: input should be greater than or equal to 1",
    ),
    "a mapping where a list belongs": Way(
        old="agents: [{id: main, provider: local}]",
        new="agents: ¦{id: main}",
        says="¦ plugins.agent-loop.agents: expected a list, got a mapping",
    ),
    "a setting that is missing": Way(
        old="{id: main, provider: local}",
        new="¦{provider: local}",
        says="¦ plugins.agent-loop.agents[0].id: is missing",
    ),
    "a typo deep inside": Way(
        old="provider: local",
        new="¦providr: local",
        says='¦ plugins.agent-loop.agents[0].providr: unknown key (did you mean "provider"?)',
    ),
    "a switch that is neither on nor off": Way(
        old="tools: {}",
        new="tools: {enabled: ¦maybe}",
        says="¦ plugins.tools.enabled: expected true or false, got text",
    ),
    "a variable that is not set": Way(
        old="llm-local: {}",
        new='llm-local: {model: ¦"${env:TERRET_MODEL}"}',
        says="¦ plugins.llm-local.model: environment variable TERRET_MODEL is not set",
    ),
    "a variable without its source": Way(
        old="llm-local: {}",
        new='llm-local: {model: ¦"${TERRET_MODEL}"}',
        says='¦ plugins.llm-local.model: "${TERRET_MODEL}" names no source: '
        'write "${env:TERRET_MODEL}"',
    ),
    "an unknown source": Way(
        old="llm-local: {}",
        new='llm-local: {model: ¦"${vault:m}"}',
        says='¦ plugins.llm-local.model: unknown source "vault" in "${vault:m}"',
    ),
    "a mark that stays open": Way(
        old="llm-local: {}",
        new='llm-local: {model: ¦"${env:M"}',
        says='¦ plugins.llm-local.model: "${" without "}": write "$${" for the characters',
    ),
    "a file of a value that is not there": Way(
        old="llm-local: {}",
        new='llm-local: {model: ¦"${file:m.txt}"}',
        says="¦ plugins.llm-local.model: file m.txt cannot be read: No such file or directory",
    ),
    "a secret where a number belongs": Way(
        old="tools: {}",
        new='tools: {maxThreads: ¦"${file:m.txt}"}',
        files={"m.txt": "sk-very-secret\n"},
        says="¦ plugins.tools.maxThreads: expected a whole number, got text",
    ),
    "a flag with a typo": Way(
        new=LAST,
        flags=("--set", "tools.maxThread=3"),
        says='--set plugins.tools.maxThread: unknown key (did you mean "maxThreads"?)',
    ),
    "a flag without a value": Way(
        new=LAST, flags=("--set", "tools"), says="--set tools: expected PATH=VALUE"
    ),
    "a malformed .env": Way(
        new=LAST,
        files={".env": "KEY=x\nsecret text\n"},
        says=".env:2:1: malformed line (expected NAME=value)",
    ),
}

LAYERS = {
    "a preset that is not installed": Way(
        old="plugins:",
        new="extends: ¦base\nplugins:",
        says='¦ extends: no preset "base" is installed '
        f"(installed: {PRESETS}; a file ends in .yml)",
    ),
    "a file below that is not there": Way(
        old="plugins:",
        new="extends: ¦./team.yml\nplugins:",
        says="¦ extends: ./team.yml: there is no such file",
    ),
    "files that extend each other": Way(
        old="plugins:",
        new="extends: ./team.yml\nplugins:",
        files={"team.yml": "extends: ./harness.yml\n"},
        says="team.yml:1:10 extends: extends itself: harness.yml -> team.yml -> harness.yml",
    ),
    "a fault in a file below": Way(
        old="plugins:",
        new="extends: ./team.yml\nplugins:",
        files={"team.yml": "plugins:\n  tools: {maxThreads: lots}\n"},
        says="team.yml:2:23 plugins.tools.maxThreads: expected a whole number, got text",
    ),
    "two faults": Way(
        old="tools: {}\n",
        new="tools: {¦maxThread: 3}\n  ¦tool: {}\n",
        says=(
            '¦ plugins.tools.maxThread: unknown key (did you mean "maxThreads"?)',
            '¦ plugins.tool: no plugin "tool" is installed (did you mean "tools"?)',
        ),
    ),
}

PLUGINS = {
    "a typo in the name of a plugin": Way(
        old="agent-loop:",
        new="¦agent-lop:",
        says='¦ plugins.agent-lop: no plugin "agent-lop" is installed (did you mean "agent-loop"?)',
    ),
    "a plugin file that is not there": Way(
        new=added(JIRA), says="¦ plugins.jira.use: ./jira.py: there is no such file"
    ),
    "a plugin that is no Python": Way(
        new=added(JIRA),
        files={"jira.py": "def jira(ctx):\nreturn\n"},
        says="¦ plugins.jira.use: ./jira.py: IndentationError: "
        "expected an indented block after function definition on line 1 (line 2)",
    ),
    "an import that fails": Way(
        new=added(JIRA),
        files={"jira.py": "\nimport jirra\n"},
        says="¦ plugins.jira.use: ./jira.py: ModuleNotFoundError: No module named 'jirra' (line 2)",
    ),
    "an error while importing": Way(
        new=added(JIRA),
        files={"jira.py": "def f():\n    return {}['key']\n\nf()\n"},
        says="¦ plugins.jira.use: ./jira.py: KeyError: 'key' (line 2)",
    ),
    "a module without a plugin": Way(
        new=added(JIRA),
        files={"jira.py": "x = 1\n"},
        says='¦ plugins.jira.use: module "./jira.py" has no attribute `plugin`; candidates: none',
    ),
    "an attribute that is not there": Way(
        new=added('jira: {use: ¦"./jira.py:jra"}'),
        files={"jira.py": PLUGIN.format("...")},
        says='¦ plugins.jira.use: ./jira.py:jra: there is no "jra" in it (did you mean "jira"?)',
    ),
    "a plugin for another version": Way(
        new=added(JIRA),
        files={"jira.py": PLUGIN.replace("@plugin", '@plugin(api=">=2")').format("...")},
        says='¦ plugins.jira.use: plugin "jira" needs plugin API ">=2", this is 1.0',
    ),
    "a module that is not installed": Way(
        new=added("jira: {use: ¦jirra.plugin}"),
        says='¦ plugins.jira.use: jirra.plugin: no module "jirra" is installed',
    ),
    "a group that is a plugin too": Way(
        old="tools: {}",
        new="tools: {¦use: tools, plugins: {}}",
        says='¦ plugins.tools.use: unknown key: tools is a group, because it has "plugins"',
    ),
    "two providers of a service": Way(
        old="  llm: {}",
        new="  §llm: {}\n  ¦llm2: {use: llm}",
        says="¦ plugins.llm2: provides llm, as llm (harness.yml:§L:§C) does: "
        "remove one or isolate it",
    ),
    "a circle of services": Way(
        new=added('¦jira: {use: "./jira.py:a"}\n  wiki: {use: "./jira.py:b"}'),
        files={"jira.py": CIRCLE},
        says="¦ plugins.jira: can never start: jira needs b of wiki, wiki needs a of jira",
    ),
}

START = {
    "a body that raises": Way(
        new=added("¦jira: {use: ./jira.py}"),
        files={"jira.py": PLUGIN.format("raise RuntimeError('no good')")},
        says="¦ plugins.jira: failed: RuntimeError: no good (jira.py, line 5)",
    ),
    "a body that hangs": Way(
        new=added("¦jira: {use: ./jira.py}"),
        files={"jira.py": HANGS},
        says="¦ plugins.jira: still loading after 0.3 s",
    ),
    "a service that is not provided as promised": Way(
        new=added("¦jira: {use: ./jira.py}"),
        files={"jira.py": PLUGIN.replace("@plugin", "@plugin(provides=('jira',))").format("...")},
        says='¦ plugins.jira: failed: NotProvidedError: plugin "jira" (harness.yml#jira) '
        'declares `provides` "jira" but finished loading without providing it',
    ),
    "a service that nobody provides": Way(
        old="  tools: {}\n  session-jsonl: {}\n  llm-local: {}\n  tools-demo: {}\n  agent-loop:",
        new="  session-jsonl: {}\n  llm-local: {}\n  ¦tools-demo: {}\n  ¦agent-loop:",
        says=(
            "¦ plugins.tools-demo: waiting for tools, provided by no one (installed: tools)",
            "¦ plugins.agent-loop: waiting for tools, provided by no one (installed: tools)",
        ),
    ),
    "a realm in which nobody provides": Way(
        old="tools-demo: {}",
        new="¦tools-demo: {isolate: {tools: lab}}",
        says="¦ plugins.tools-demo: waiting for tools, provided in another realm only",
    ),
    "a plugin that ends right away": Way(
        new=added("¦jira: {use: ./jira.py}"),
        files={
            "jira.py": PLUGIN.replace("def", "async def").format(
                "async def f(): 1 / 0\n    ctx.spawn(f)"
            )
        },
        says="¦ plugins.jira: failed: ZeroDivisionError: division by zero (jira.py, line 5)",
    ),
}

WAYS = {**FORM, **VALUES, **LAYERS, **PLUGINS, **START}
Read = pytest.CaptureFixture[str]


@pytest.fixture
def broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Read
) -> Callable[..., tuple[int, str, str]]:
    """Breaks the file in one way, runs a command, gives exit code, output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERRET_ROOT", raising=False)
    monkeypatch.setattr(_boot, "PATIENCE", 0.3)

    def run(way: Way, *words: str) -> tuple[int, str, str]:
        assert way.old in HARNESS
        text = re.sub("[¦§]", "", HARNESS.replace(way.old, way.new, 1))
        (tmp_path / "harness.yml").write_text(text, encoding="utf-8")
        for name, content in way.files.items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main([*words, *way.flags])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def lines(way: Way) -> str:
    """What must be printed: each `¦` is the place of the next mark in the file."""
    says = "\n".join((way.says,) if isinstance(way.says, str) else way.says) + "\n"
    marked = HARNESS.replace(way.old, way.new, 1)
    while mark := re.search("[¦§]", marked):
        before = marked[: mark.start()]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        if mark[0] == "¦":
            says = says.replace("¦", f"harness.yml:{line}:{column}", 1)
        else:
            says = says.replace("§L", str(line)).replace("§C", str(column))
        marked = before + marked[mark.end() :]
    return says


@pytest.mark.parametrize("name", WAYS)
def test_a_broken_file_gives_exactly_these_lines(
    broken: Callable[..., tuple[int, str, str]], name: str
) -> None:
    """C-301 to C-332: nothing starts, and nothing but the lines is printed."""
    way = WAYS[name]
    assert broken(way, "run", "-q", "hi") == (2, "", lines(way))


@pytest.mark.parametrize("name", [name for name in WAYS if name not in START])
def test_the_check_gives_the_same_lines_as_the_start(
    broken: Callable[..., tuple[int, str, str]], name: str
) -> None:
    """C-334."""
    assert broken(WAYS[name], "config", "check") == (2, "", lines(WAYS[name]))


def test_a_file_in_another_encoding_is_refused(
    broken: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """C-312, B-229."""
    (tmp_path / "old.yml").write_bytes(HARNESS.replace("main", "mäin").encode("latin-1"))
    line = HARNESS.split("\n").index(f"    {LAST.rstrip()}") + 1
    says = f"old.yml:{line}:20: not UTF-8 (byte 0xe4): save the file as UTF-8\n"
    assert broken(Way(new=LAST, says=""), "config", "check", "old.yml") == (2, "", says)
