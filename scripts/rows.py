"""Count the rows of the behaviour checklists that the tests name in their docstrings."""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from workspace import ROOT, parse

CHECKLISTS: Final = ROOT.parent / "shared" / "behaviours"

ROW: Final = r"(?:PR-[A-Z]\d+|[A-Z]-\d{3})"
LISTED_ROW: Final = re.compile(rf"^(?:\| *|- )({ROW}\*?(?:, *{ROW}\*?)*)(?= )")
UNCOUNTED: Final = re.compile(r"^## .*(?:appendix|numbers not used)", re.IGNORECASE)
NAMED: Final = re.compile(
    rf"\b(?P<first>{ROW})(?:(?P<more>(?:/\d{{3}})+)|(?: to |\.\.|…)(?P<last>{ROW}))?(?!\w)"
)


def listed_rows(text: str) -> Iterator[str]:
    """Yield the ids of a checklist, without those of sections that do not count."""
    counted = True
    for line in text.splitlines():
        if line.startswith("## "):
            counted = UNCOUNTED.match(line) is None
        elif counted and (match := LISTED_ROW.match(line)):
            yield from re.findall(ROW, match[1])


def named_rows(docstring: str) -> Iterator[tuple[str, bool]]:
    """Yield each id that a docstring names, and whether it only lies inside a range.

    Understands `C-138, C-139`, `C-138/139`, `M-116 to M-119` and `M-116..M-119`.
    """
    for match in NAMED.finditer(docstring):
        first, last = match["first"], match["last"]
        yield first, False
        for number in (match["more"] or "").split("/")[1:]:
            yield f"{prefix_of(first)}-{number}", False
        if last is not None:
            stem, start = split_number(first)
            for number in range(int(start) + 1, int(split_number(last)[1])):
                yield f"{stem}{number:0{len(start)}}", True
            yield last, False


def split_number(row: str) -> tuple[str, str]:
    """Split `M-116` into `M-` and `116`."""
    number = row.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ-")
    return row.removesuffix(number), number


def prefix_of(row: str) -> str:
    """Return the part of an id that names its list."""
    return row.rsplit("-", 1)[0]


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield place and docstring of every function and class of a test module."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", text


def test_modules() -> Iterator[Path]:
    """Yield the modules that hold tests; contract suites are tests that others inherit."""
    for pattern in ("p*/*/tests/**/*.py", "tests/**/*.py", "packages/testing/src/**/*.py"):
        yield from sorted(ROOT.glob(pattern))


def report(listed: Iterable[str], proven: Iterable[str]) -> Iterator[str]:
    """Yield one line a prefix: `C 120/328`."""
    totals, hits = Counter[str](), Counter[str]()
    for row in listed:
        totals[prefix_of(row)] += 1
        hits[prefix_of(row)] += row in proven
    for prefix in sorted(totals):
        yield f"{prefix:2} {hits[prefix]:>3}/{totals[prefix]}"
    yield f"   {sum(hits.values()):>3}/{sum(totals.values())}"


def main() -> int:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", metavar="PREFIX", help="list the rows no test names")
    parser.add_argument("--unknown", action="store_true", help="list ids that no checklist has")
    options = parser.parse_args()
    if not CHECKLISTS.is_dir():
        print(f"nothing to count: there are no checklists in {CHECKLISTS}")
        return 0
    texts = (path.read_text("utf-8") for path in sorted(CHECKLISTS.glob("*.md")))
    listed = dict.fromkeys(row for text in texts for row in listed_rows(text))
    places = defaultdict(list)
    for path in test_modules():
        for place, text in docstrings(path):
            for row, inside_range in named_rows(text):
                if row in listed or not inside_range:
                    places[row].append(place)
    if options.missing:
        wanted = options.missing.upper()
        lines = [row for row in listed if prefix_of(row) == wanted and row not in places]
    elif options.unknown:
        lines = [
            f"{row} {place}" for row in sorted(places) if row not in listed for place in places[row]
        ]
    else:
        lines = list(report(listed, places))
    print("\n".join(lines))
    return 1 if options.unknown and lines else 0


if __name__ == "__main__":
    sys.exit(main())
