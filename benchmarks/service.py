"""What an agent costs that is followed over HTTP.

Each row is measured against a floor in the same run: a bare starlette endpoint that sends the same
bytes through the same server, with a queue for each client. Clients are a process of their own, and
so is each server, which measures itself. 200 clients follow a turn of 50 tool calls, whose own
cost is part of the figure; 1,000 wait for a turn that does not come.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figures import Row, report

ROUNDS = 3
HERE = Path(__file__).parent


def rows() -> Iterator[Row]:
    """Yield the measured rows."""
    with tempfile.TemporaryDirectory() as folder:
        sent = str(Path(folder) / "sent.txt")
        sides = [side for _ in range(ROUNDS) for side in ("terret", "bare")]
        found = [measured(side, "turn", sent) for side in sides]
        figure, floor = min(found[::2]), min(found[1::2])
        name = "CPU per event, 200 SSE clients"
        yield Row(name=name, unit="µs", figure=figure, floor=floor, target=2.0)
        name = "memory of an idle SSE client"
        size, bare = (measured(side, "idle", sent) for side in ("terret", "bare"))
        yield Row(name=name, unit="kB", figure=size, floor=30, target=1.0)
        yield Row(name="  of a bare one", unit="kB", figure=bare, floor=30)


def measured(side: str, what: str, sent: str) -> float:
    """Run one server and return its figure."""
    command = [sys.executable, str(HERE / "sse_servers.py"), side, what, sent]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(run.stdout)


if __name__ == "__main__":
    sys.exit(report(__doc__, rows()))
