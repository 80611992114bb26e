"""YAML 1.2 with positions: text in, nodes or faults out. No object is ever constructed."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from ._faults import Fault, HarnessConfigError, Origin, Source
from ._nodes import Node, Report, Scalar, canonical

MAX_NODES: Final = 100_000

_TAG: Final = "tag:yaml.org,2002:"
_STR: Final = f"{_TAG}str"
_FORMS: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    # YAML 1.2 reads 0777 as 777. Text keeps the zeros, and an int field still makes 777 of it.
    "int": r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": (
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
}
_ANY_FORM: Final = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _FORMS.items()))
_FORM: Final = {name: re.compile(form) for name, form in _FORMS.items()}
_CONVERT: Final[dict[str, Callable[[str], Scalar]]] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)),
    "float": lambda text: float(re.sub(r"\.(?=[a-zA-Z])", "", text)),
}


def read_yaml(path: str | Path) -> Node:
    """Reads a YAML file by the rules of `harness.yml`, with the place of each value.

    Raises `HarnessConfigError` with everything that is wrong with its form.
    """
    path, faults = Path(path), list[Fault]()
    node = read_document(path, Source.of_file(path), faults.append)
    if node is None or faults:
        raise HarnessConfigError(faults)
    return node


def read_document(
    path: Path, source: Source, report: Report, pieces: "dict[str, Piece] | None" = None
) -> Node | None:
    """Reads a YAML file; reports its faults; `None` if it cannot be used at all.

    `pieces` are those of an earlier reading, and become those of this one.
    """
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
    return parse(text, source, report, pieces=pieces)


def parse(
    text: str,
    source: Source,
    report: Report,
    *,
    above: str = "",
    key: str | None = None,
    pieces: "dict[str, Piece] | None" = None,
) -> Node | None:
    """Parses the YAML of the value at `above.key`; reports faults; `None` if it is of no use."""
    try:
        root = _compose(text)
        if root is None:
            raise _Unusable(Origin(source, 1, 1), "there is nothing in it")
        builder = _Builder(text, source, report, pieces or {})
        node = builder.build(root, above, key)
        if pieces is not None:
            pieces.clear()
            pieces.update(builder.pieces)
        return node
    except _Unusable as error:
        origin, message = error.args
    except yaml.YAMLError as error:
        origin, message = _syntax_fault(error, text, source)
    except RecursionError:
        origin, message = Origin(source), "nested too deeply"
    report(
        Fault(origin=origin, path=Node(None, source, above=above, key=key).path, message=message)
    )
    return None


class CoreScalars:
    """The scalars of YAML 1.2, for what PyYAML reads and writes."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is not yaml.ScalarNode:
            return f"{_TAG}map" if kind is yaml.MappingNode else f"{_TAG}seq"
        match = _ANY_FORM.fullmatch(value) if implicit[0] else None
        return f"{_TAG}{match.lastgroup}" if match else _STR


class _Composer(CoreScalars, yaml.BaseLoader):
    """PyYAML up to its node graph."""


class _FastComposer(CoreScalars, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """The same by libyaml, which takes a tenth of the time, where PyYAML was built with it."""


def _compose(text: str) -> yaml.Node | None:
    with suppress(yaml.YAMLError):  # the messages of PyYAML's own parser say more
        return yaml.compose(text, _FastComposer)
    return yaml.compose(text, _Composer)


@dataclass(slots=True)
class Piece:
    """A part of a text, and what was made of it. Read-only."""

    text: str
    node: Node
    size: int


class _Builder:
    """Makes nodes from PyYAML's nodes, but for pieces that stand where they stood before."""

    def __init__(
        self, text: str, source: Source, report: Report, known: Mapping[str, Piece]
    ) -> None:
        self.pieces: dict[str, Piece] = {}
        self._text = text
        self._source = source
        self._tell = report
        self._known = known
        self._built: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()
        self._count = 0
        self._faults = 0

    def _report(self, fault: Fault) -> None:
        self._faults += 1
        self._tell(fault)

    def build(
        self,
        raw: yaml.Node,
        above: str,
        key: str | int | None,
        key_line: int = 0,
        key_column: int = 0,
    ) -> Node:
        mark = raw.start_mark
        node = Node(
            None, self._source, mark.line + 1, mark.column + 1, above, key, key_line, key_column
        )
        self._count += 1
        if isinstance(raw, yaml.ScalarNode):
            node.value = raw.value if raw.tag == _STR else self._scalar(raw, node)
        elif id(raw) in self._open:
            self._report(node.fault("an alias of itself", key=True))
        elif id(raw) in self._built:
            first, size = self._built[id(raw)]
            self._count += size - 1
            node.value = first.value
        elif above == "plugins":
            node = self._piece(raw, node)
        else:
            self._fill(node, raw)
        if self._count > MAX_NODES:
            message = f"more than {MAX_NODES:,} values after aliases are expanded"
            raise _Unusable(node.origin, message)
        return node

    def _piece(self, raw: yaml.Node, node: Node) -> Node:
        """Gives the node of an earlier reading if the text is the same, else fills this one."""
        text = self._text[raw.start_mark.index : raw.end_mark.index]
        path = node.path
        before = self._known.get(path)
        if before is not None and before.text == text and before.node.stands_like(node):
            self.pieces[path] = before
            self._count += before.size - 1
            return before.node
        count, faults = self._count - 1, self._faults
        self._fill(node, raw)
        if faults == self._faults and "*" not in text and "&" not in text:
            self.pieces[path] = Piece(text, node, self._count - count)
        return node

    def _fill(self, node: Node, raw: yaml.Node) -> None:
        self._open.add(id(raw))
        before = self._count - 1
        node.value = self._members(raw, node)
        self._open.discard(id(raw))
        self._built[id(raw)] = node, self._count - before

    def _scalar(self, raw: yaml.ScalarNode, node: Node) -> Scalar:
        name = raw.tag.removeprefix(_TAG)
        if name not in _FORMS:
            self._refuse_tag(raw, node)
            return str(raw.value)
        with suppress(ValueError):  # an integer of too many digits
            if _FORM[name].fullmatch(raw.value):
                return _CONVERT[name](raw.value)
        self._report(node.fault(f"not a valid !!{name}"))
        return None

    def _members(self, raw: yaml.Node, node: Node) -> tuple[Node, ...] | dict[str, Node]:
        kind, path = ("map" if isinstance(raw, yaml.MappingNode) else "seq"), node.path
        if raw.tag != _TAG + kind:
            self._refuse_tag(raw, node)
        if kind == "seq":
            return tuple(self.build(item, path, at) for at, item in enumerate(raw.value))
        members: dict[str, Node] = {}
        for key, value in raw.value:
            mark, name = key.start_mark, key.value
            line, column = mark.line + 1, mark.column + 1
            if key.tag != _STR or not isinstance(name, str):
                hint = f': write "{name}"' if isinstance(key, yaml.ScalarNode) else ""
                message = f"keys must be text{hint}"
                self._report(Fault(origin=_at(mark, self._source), path=path, message=message))
                continue
            member = self.build(value, path, name, line, column)
            if name == "<<" and not key.style:
                self._report(member.fault("merge keys are not allowed: repeat the keys", key=True))
            elif (first := members.setdefault(canonical(name), member)) is not member:
                message = f"duplicate key{first.seen_first(name)}"
                self._report(member.fault(message, key=True))
        return members

    def _refuse_tag(self, raw: yaml.Node, node: Node) -> None:
        shown = raw.tag.replace(_TAG, "!!")
        self._report(node.fault(f"tag {shown} is not allowed: only plain YAML values are"))


_PROBLEMS: Final = {
    r"'\\t'": "a tab cannot indent: use blanks",
    "quoted scalar": "this text is not closed",
    "stream end.*flow sequence": "this list is not closed",
    "stream end.*flow mapping": "this mapping is not closed",
    "flow sequence": 'a "," or "]" is missing in the list that begins in line {line}',
    "flow mapping": 'a "," or "}}" is missing in the mapping that begins in line {line}',
    "expected <block end>.*block": "the indentation fits nothing that begins in line {line}",
    "mapping values are not allowed": 'no ":" may stand here: text with ": " needs quotes',
    "expected ':'": 'a ":" is missing in the line',
    "cannot start any token": "this character cannot begin a value: write it in quotes",
    "expected a single document": "a second document begins: one file is one document",
}
"""What is said for the problems that PyYAML finds, by a pattern for its own words."""


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
    mark, begin = error.problem_mark, error.context_mark
    problem = f"{error.problem}, {error.context}"
    for pattern, words in _PROBLEMS.items():
        if re.search(pattern, problem):
            if "not closed" in words and begin is not None:
                mark = begin
            line = (begin or mark).line + 1
            return _at(mark, source), f"not valid YAML: {words.format(line=line)}"
    return _at(mark, source), f"not valid YAML: {error.problem}"


def _end_of(text: str, source: Source) -> Origin:
    return Origin(source, text.count("\n") + 1, len(text) - text.rfind("\n"))
