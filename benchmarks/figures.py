"""How benchmarks report: figures beside the floor of the same run."""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure beside the floor of the same run. `ok` is true as long as there is no target."""

    name: str
    unit: str
    figure: float
    floor: float
    target: float | None = None

    @property
    def ratio(self) -> float:
        return self.figure / self.floor

    @property
    def ok(self) -> bool:
        return self.target is None or self.ratio <= self.target

    def __str__(self) -> str:
        figures = f"{self.figure:8.2f} {self.unit:3} floor {self.floor:8.2f}  x{self.ratio:.2f}"
        target = "" if self.target is None else f"  target x{self.target:.3g}"
        return f"{self.name:36} {figures}{target}{'' if self.ok else '  MISSED'}"

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"ratio": round(self.ratio, 2), "ok": self.ok}


def report(description: str | None, rows: Iterable[Row]) -> int:
    """Prints the rows as a table, or with --json as one object; the exit code says if all is ok."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]}')
    options = parser.parse_args()
    measured = list(rows)
    if options.json:
        print(json.dumps({"rows": [row.as_json() for row in measured]}))
    else:
        print(*measured, sep="\n")
    return 0 if all(row.ok for row in measured) else 1
