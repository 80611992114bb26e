"""A harness that is killed at any moment: what was acknowledged is there, and the talk goes on."""

from pathlib import Path

import pytest

from durable_checks import BACKENDS
from durable_kills import kill_again_and_again
from durable_process import Zygote, needs_fork

KILLS = 25  # of each backend; `make soak` makes it a thousand

pytestmark = needs_fork


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_harness_may_be_killed_at_any_moment(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-117, M-120, B-105, B-173: Acknowledged events are there, and the talk goes on."""
    in_turn = kill_again_and_again(zygote, tmp_path, backend, seed=1, kills=KILLS)

    assert in_turn > KILLS // 3  # the kills were no formality
