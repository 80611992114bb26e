"""Killing a harness: for the tests, and by the thousand as a program.

`python durable_kills.py --kills 1000` prints figures and ends with 1 if anything was lost.
"""

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from durable_checks import BACKENDS, check_log, stderr_of, write_harness
from durable_process import Zygote, journal_of
from terret_sessions import Completed, TurnEnd, last_turn

KILLS_PER_SESSION = 25


def kill_again_and_again(zygote: Zygote, folder: Path, backend: str, seed: int, kills: int) -> int:
    """Kill a harness `kills` times on one session; returns how often a turn was open then."""
    write_harness(folder, backend)
    chance = random.Random(seed)
    events, in_turn = check_log(folder, backend), 0
    for number in range(kills):
        loop = chance.choice(["asyncio", "trio"])
        child = zygote.start(folder, ["turns"], seed=seed * 1000 + number, backend=loop)
        try:
            if chance.random() < 0.8:
                child.reaches("ready")
            time.sleep(chance.random() * 0.08)
        finally:
            assert child.kill(), stderr_of(folder)
        events = check_log(folder, backend, events)
        in_turn += bool(events) and not isinstance(events[-1].view, TurnEnd)
        (folder / "journal").unlink(missing_ok=True)
    zygote.start(folder, ["turn"], seed=seed).join()
    turn = last_turn(reversed(check_log(folder, backend, events)))
    assert journal_of(folder)[-1] == ["left"], stderr_of(folder)
    assert turn is not None
    assert turn.end == Completed()
    return in_turn


def main() -> int:
    """Kill by the thousand, half of them with each backend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    started, lost, in_turn = time.monotonic(), 0, 0
    sessions = max(1, options.kills // KILLS_PER_SESSION)
    with Zygote() as zygote, tempfile.TemporaryDirectory() as place:

        def one(number: int) -> int:
            backend = list(BACKENDS)[number % len(BACKENDS)]
            folder = Path(place) / str(number)
            seed = options.seed + number
            return kill_again_and_again(zygote, folder, backend, seed, KILLS_PER_SESSION)

        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(one, number) for number in range(sessions)]
        for number, run in enumerate(runs):
            error = run.exception()
            if error is None:
                in_turn += run.result()
            else:
                lost += 1
                print(f"seed {options.seed + number}: {error!r}", file=sys.stderr)
    seconds = time.monotonic() - started
    kills = sessions * KILLS_PER_SESSION
    print(f"{kills} kills of {sessions} sessions, {in_turn} of them within a turn")
    print(f"{lost} sessions with a fault; {seconds:.0f} s; --seed {options.seed}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
