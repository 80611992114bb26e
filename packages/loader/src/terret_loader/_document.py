"""YAML 1.2 with positions: text in, nodes or faults out. No object is ever constructed."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from ._faults import Fault, Origin, Source

Report: TypeAlias = Callable[[Fault], None]
Scalar: TypeAlias = bool | int | float | str | None

MAX_NODES: Final = 100_000

_TAG: Final = "tag:yaml.org,2002:"
_CORE: Final[dict[str, tuple[re.Pattern[str], Callable[[str], Scalar]]]] = {
    "null": (re.compile(r"~|null|Null|NULL|"), lambda text: None),
    "bool": (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"),
    # YAML 1.2 reads 0777 as 777. Text keeps the zeros, and an int field still makes 777 of it.
    "int": (
        re.compile(r"[-+]?(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+"),
        lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)),
    ),
    "float": (
        re.compile(
            r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
        lambda text: float(re.sub(r"\.(?=[a-zA-Z])", "", text)),
    ),
    "str": (re.compile(r".*", re.DOTALL), str),
}
_KIND_TAGS: Final[dict[type[yaml.Node], str]] = {yaml.MappingNode: "map", yaml.SequenceNode: "seq"}


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place. Mappings are keyed canonically: `api_key` is found as `apiKey`."""

    value: "Scalar | tuple[Node, ...] | Mapping[str, Node]"
    origin: Origin
    path: str = ""
    """Keys from the top, as spelled in the file."""
    name: str = ""
    """The last of these keys."""
    key_origin: Origin | None = None

    @property
    def at(self) -> Origin:
        """The place of the key, or of the value if it has none."""
        return self.key_origin or self.origin

    @property
    def items(self) -> "Mapping[str, Node]":
        """The members of a mapping; nothing for other values."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def kind(self) -> str:
        """The kind of the value in words, without the value."""
        return _KINDS.get(type(self.value), "a mapping")

    def seen_first(self, spelling: str) -> str:
        """Says in a message about a second `spelling` where this key was given first."""
        place = f"first given at line {self.at.line}, column {self.at.column}"
        return f" ({place})" if self.name == spelling else f' of "{self.name}" ({place})'

    def fault(self, message: str, *, key: bool = False) -> Fault:
        """Makes a fault about the value, or about its key."""
        return Fault(origin=self.at if key else self.origin, path=self.path, message=message)


_KINDS: Final[dict[type, str]] = {
    **dict.fromkeys((int, float), "a number"),
    **{type(None): "nothing", bool: "true or false", str: "text", tuple: "a list"},
}


def read_document(path: Path, source: Source, report: Report) -> Node | None:
    """Reads a YAML file; reports its faults; `None` if it cannot be used at all."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        report(Fault(origin=Origin(source), message=f"cannot be read: {reason}", error=error))
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = _end_of(data[: error.start].decode("utf-8-sig"), source)
        message = f"not UTF-8 (byte 0x{data[error.start]:02x}): save the file as UTF-8"
        report(Fault(origin=at, message=message, error=error))
        return None
    return parse(text, source, report)


def parse(
    text: str, source: Source, report: Report, *, path: str = "", name: str = ""
) -> Node | None:
    """Parses the YAML of the value at `path`; reports faults; `None` if it is of no use."""
    try:
        root = _Composer(text).get_single_node()
        if root is None:
            raise _Unusable(Origin(source, 1, 1), "there is nothing in it")
        return _Builder(source, report).build(root, path=path, name=name, at=None)
    except _Unusable as error:
        origin, message = error.args
    except yaml.YAMLError as error:
        origin, message = _syntax_fault(error, text, source)
    except RecursionError:
        origin, message = Origin(source), "nested too deeply"
    report(Fault(origin=origin, path=path, message=message))
    return None


def bare(node: Node | None) -> object:
    """Gives the value of a node without its places, keyed canonically."""
    if node is None:
        return None
    if isinstance(node.value, Mapping):
        return {key: bare(item) for key, item in node.value.items()}
    return [bare(item) for item in node.value] if isinstance(node.value, tuple) else node.value


def canonical(key: str) -> str:
    """Makes one of the spellings `api_key` and `apiKey`; other keys stay as they are."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", key):
        return key
    first, *others = key.split("_")
    return first + "".join(word[0].upper() + word[1:] for word in others)


def child_path(path: str, key: str | int) -> str:
    """Extends a path by a key or an index."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not re.fullmatch(r"[\w-]+", key):
        key = f'"{key}"'
    return f"{path}.{key}" if path else key


class _Composer(yaml.BaseLoader):
    """PyYAML up to its node graph, with the scalars of YAML 1.2."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _TAG + next(tag for tag, (form, _) in _CORE.items() if form.fullmatch(value))
        return _TAG + _KIND_TAGS.get(kind, "str")


class _Builder:
    """Makes nodes from PyYAML's nodes, each once, however many aliases it has."""

    def __init__(self, source: Source, report: Report) -> None:
        self._source = source
        self._report = report
        self._built: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()
        self._count = 0

    def build(self, raw: yaml.Node, *, path: str, name: str, at: Origin | None) -> Node:
        place = self._origin(raw)
        if id(raw) in self._open:
            self._report(Fault(origin=at or place, path=path, message="an alias of itself"))
            return Node(None, place, path, name, at)
        if id(raw) in self._built:
            node, size = self._built[id(raw)]
            self._spend(size, place)
            return replace(node, name=name, key_origin=at)
        before = self._count
        self._spend(1, place)
        self._open.add(id(raw))
        node = Node(self._value(raw, path), place, path, name, at)
        self._open.discard(id(raw))
        self._built[id(raw)] = node, self._count - before
        return node

    def _value(self, raw: yaml.Node, path: str) -> "Scalar | tuple[Node, ...] | dict[str, Node]":
        kind = _KIND_TAGS.get(type(raw), "scalar")
        tag = raw.tag.removeprefix(_TAG)
        if tag != kind and not (kind == "scalar" and tag in _CORE):
            shown = raw.tag.replace(_TAG, "!!")
            self._fault(raw, path, f"tag {shown} is not allowed: only plain YAML values are")
        if isinstance(raw, yaml.MappingNode):
            return self._members(raw, path)
        if isinstance(raw, yaml.SequenceNode):
            return tuple(
                self.build(item, path=child_path(path, index), name="", at=None)
                for index, item in enumerate(raw.value)
            )
        form, convert = _CORE.get(tag, _CORE["str"])
        with suppress(ValueError):  # an integer of too many digits
            if form.fullmatch(raw.value):
                return convert(raw.value)
        self._fault(raw, path, f"not a valid !!{tag}")
        return None

    def _members(self, raw: yaml.MappingNode, path: str) -> dict[str, Node]:
        members: dict[str, Node] = {}
        for key, value in raw.value:
            at = self._origin(key)
            if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
                hint = f': write "{key.value}"' if isinstance(key, yaml.ScalarNode) else ""
                self._fault(key, path, f"keys must be text{hint}")
                continue
            here = child_path(path, key.value)
            if key.value == "<<" and key.style is None:
                self._fault(key, here, "merge keys are not allowed: repeat the keys")
                continue
            first = members.get(canonical(key.value))
            if first is not None:
                self._fault(key, here, f"duplicate key{first.seen_first(key.value)}")
                continue
            members[canonical(key.value)] = self.build(value, path=here, name=key.value, at=at)
        return members

    def _spend(self, size: int, place: Origin) -> None:
        self._count += size
        if self._count > MAX_NODES:
            raise _Unusable(place, f"more than {MAX_NODES:,} values after aliases are expanded")

    def _origin(self, raw: yaml.Node) -> Origin:
        return _at(raw.start_mark, self._source)

    def _fault(self, raw: yaml.Node, path: str, message: str) -> None:
        self._report(Fault(origin=self._origin(raw), path=path, message=message))


class _Unusable(Exception):
    """Carries an origin and a message."""


def _at(mark: yaml.Mark, source: Source) -> Origin:
    return Origin(source, mark.line + 1, mark.column + 1)


def _syntax_fault(error: yaml.YAMLError, text: str, source: Source) -> tuple[Origin, str]:
    if isinstance(error, yaml.reader.ReaderError):
        message = f"the character U+{error.character:04X} is not allowed"
        return _end_of(text[: error.position], source), message
    assert isinstance(error, yaml.MarkedYAMLError)
    assert error.problem_mark is not None
    problem, begin = str(error.problem), error.context_mark
    if "'\\t'" in problem:
        problem = "a tab cannot indent: use blanks"
    elif begin is not None and begin.line != error.problem_mark.line:
        problem += f", {error.context} that begins in line {begin.line + 1}"
    return _at(error.problem_mark, source), f"not valid YAML: {problem}"


def _end_of(text: str, source: Source) -> Origin:
    return Origin(source, text.count("\n") + 1, len(text) - text.rfind("\n"))
