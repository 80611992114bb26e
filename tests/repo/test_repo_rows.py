"""How scripts/rows.py reads checklists and docstrings."""

import pytest

from rows import listed_rows, named_rows, report

CHECKLIST = """\
# Checklist: C-001 in prose is no row

| id | Behaviour |
|---|---|
| C-007 | one |
| C-174, C-209 | two in one row, see C-300 |
| PR-T1 | a property |
- L-001* — with a mark
- E-013 plain

## 14. Numbers not used
| C-101, C-107 | dropped |

## 15. More
| B-053 | area |

## Appendix: Later
| C-900 | not built |
"""


def test_rows_are_table_rows_and_bullets_outside_of_the_appendix() -> None:
    rows = list(listed_rows(CHECKLIST))
    assert rows == ["C-007", "C-174", "C-209", "PR-T1", "L-001", "E-013", "B-053"]


@pytest.mark.parametrize(
    ("docstring", "rows"),
    [
        ("C-138, C-139: both.", ["C-138", "C-139"]),
        ("C-138/139: both.", ["C-138", "C-139"]),
        ("M-116 to M-118: a range.", ["M-116", "M-117", "M-118"]),
        ("M-116..M-118: a range.", ["M-116", "M-117", "M-118"]),
        ("PR-T1, PR-T3 to PR-T5: properties.", ["PR-T1", "PR-T3", "PR-T4", "PR-T5"]),
        ("L-001*: with its mark.", ["L-001"]),
        ("UTF-8, SHA-256 and XC-1234 are no rows.", []),
    ],
)
def test_ids_in_docstrings(docstring: str, rows: list[str]) -> None:
    assert [row for row, _ in named_rows(docstring)] == rows


def test_only_the_inner_ids_of_a_range_may_be_unknown() -> None:
    assert dict(named_rows("M-116 to M-118")) == {"M-116": False, "M-117": True, "M-118": False}


def test_the_report_counts_by_prefix() -> None:
    assert list(report(["C-1", "C-2", "L-1"], {"C-2"})) == ["C    1/2", "L    0/1", "     1/3"]
