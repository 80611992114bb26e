"""Conventions of the source text that no linter checks. An allow-list only shrinks."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from workspace import ROOT, imported_modules, members, parse, tracked_files, where

SOURCES = [path for member in members() for path in member.sources]
FRONT_PAGES = [member.front_page for member in members()]

LONG_MODULES: dict[str, str] = {}
CATCHES_EVERYTHING: dict[str, str] = {
    f"packages/context/src/terret_context/{name}.py": reason
    for name, reason in {
        "_actor": "throws what ended a scope of a body into that body; hands exit requests on",
        "_effects": "stores exit requests of plugin code, which end the container in order",
        "_keeper": "the same, for tasks",
        "_register": "the same, for listeners of the container's own events",
        "_transitions": "the same, for plain bodies",
    }.items()
}
EVENT_LOOPS: dict[str, str] = {
    "packages/testing/src/terret_testing/_virtual_time.py": "gives both backends a time that jumps",
}
TYPE_CHECKING_BLOCKS: dict[str, str] = {
    "packages/context/src/terret_context/__init__.py": "imports pydantic, for Config, on first use",
    "packages/context/src/terret_context/_lookup.py": "hides sugar lookups from type checkers",
    "packages/context/src/terret_context/_models.py": "imports pydantic on first use",
}


def catches_everything(path: Path) -> bool:
    """Whether a handler takes cancellation and exit requests and does not end by raising them."""
    handlers = (node for node in ast.walk(parse(path)) if isinstance(node, ast.ExceptHandler))
    return any(takes_everything(one) and not raises_again(one) for one in handlers)


def takes_everything(handler: ast.ExceptHandler) -> bool:
    names = ast.walk(handler.type) if handler.type else ()
    named = any(isinstance(name, ast.Name) and name.id == "BaseException" for name in names)
    return handler.type is None or named


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def is_long(path: Path) -> bool:
    return len(path.read_text("utf-8").splitlines()) > 400


def has_type_checking_block(path: Path) -> bool:
    names = (node for node in ast.walk(parse(path)) if isinstance(node, ast.Name))
    return any(name.id == "TYPE_CHECKING" for name in names)


def matching(condition: Callable[[Path], bool], paths: Iterable[Path] = SOURCES) -> set[str]:
    return {where(path) for path in paths if condition(path)}


def typed_branches(statement: ast.stmt) -> list[ast.stmt]:
    """Both branches of `if TYPE_CHECKING`, or the statement itself."""
    match statement:
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=orelse):
            return [*body, *orelse]
    return [statement]


def front_page_faults(path: Path) -> Iterator[str]:
    """Whatever is neither docstring, import nor `__all__`, and imported names it does not list."""
    imported: set[str] = set()
    exported: set[str] | None = None
    for statement in chain(*map(typed_branches, parse(path).body[1:])):
        match statement:
            case ast.ImportFrom(names=[ast.alias(name="TYPE_CHECKING")]):
                continue
            case ast.ImportFrom(names=names):
                named = {alias.asname or alias.name for alias in names}
                imported |= {name for name in named if not name.startswith("_")}
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                exported = set(ast.literal_eval(value))
            case _:
                yield f"{where(path, statement.lineno)}: belongs into a private module"
    if exported is None:
        yield f"{where(path)}: has no __all__"
    elif exported != imported:
        yield f"{where(path)}: __all__ and the imports differ in {sorted(exported ^ imported)}"


def test_modules_over_400_lines_are_listed_with_a_reason() -> None:
    assert matching(is_long) == set(LONG_MODULES)


def test_only_listed_modules_catch_everything() -> None:
    assert matching(catches_everything) == set(CATCHES_EVERYTHING)


def test_only_listed_modules_have_type_checking_blocks() -> None:
    assert matching(has_type_checking_block) == set(TYPE_CHECKING_BLOCKS)


@pytest.mark.parametrize("banned", ["asyncio", "trio", "__future__.annotations"])
def test_no_source_imports(banned: str) -> None:
    places = [
        where(path, line)
        for path in SOURCES
        if where(path) not in EVENT_LOOPS
        for line, dotted in imported_modules(parse(path))
        if dotted == banned or dotted.startswith(f"{banned}.")
    ]
    assert not places, "\n".join(places)


def test_front_pages_hold_a_docstring_imports_and_a_full_list_of_names() -> None:
    faults = [fault for path in FRONT_PAGES for fault in front_page_faults(path)]
    assert not faults, "\n".join(faults)


def test_front_pages_say_in_one_line_what_the_package_is_for() -> None:
    docstrings = {where(path): ast.get_docstring(parse(path)) for path in FRONT_PAGES}
    assert [place for place, text in docstrings.items() if not text or "\n" in text] == []


def test_no_tracked_file_names_a_registry_host_or_a_path_of_one_machine() -> None:
    files = tracked_files()
    if files is None:
        pytest.skip("not a clone: git tracks nothing here")
    hosts = r"pypi\.org|files\.pythonhosted|registry\.npmjs|deb\.debian"
    banned = re.compile(rf"{hosts}|(?<![\w.])/(?:work|tmp|root|farm|home)/\w")
    places = [
        where(path, number)
        for path in files
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if banned.search(line)
    ]
    assert not places, "\n".join(places)
    assert ROOT / "uv.lock" not in files


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = "pip install uv && uv run pytest"
    assert command in (ROOT / "README.md").read_text("utf-8")
    assert f"\n{command}\n" in (ROOT / ".ci" / "run").read_text("utf-8")
