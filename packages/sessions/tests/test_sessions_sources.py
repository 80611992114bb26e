from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_sessions import SourceCollector, Sources, sources_from_wire

seq_sets = st.sets(st.integers(0, 300), max_size=60)


@given(seq_sets)
def test_sources_are_the_set_of_their_seqs(seqs: set[int]) -> None:
    """S-053, S-107: Iteration, length and membership are those of the set."""
    sources = Sources(sorted(seqs))

    assert list(sources) == sorted(seqs)
    assert len(sources) == len(seqs)
    assert {seq for seq in range(302) if seq in sources} == seqs


@given(seq_sets)
def test_sources_round_trip_over_the_wire(seqs: set[int]) -> None:
    """S-107: Ranges stay ranges; equal sets are equal, however they were written."""
    sources = Sources(sorted(seqs))

    again = sources_from_wire(sources.to_wire())

    assert again == sources
    assert hash(again) == hash(sources)
    assert again == Sources(sources.ranges)


def test_neighbours_are_kept_as_ranges() -> None:
    """S-107: The wire holds a seq or a range with both ends."""
    assert Sources([(12, 431), 433]).to_wire() == [[12, 431], 433]
    assert Sources([1, 2, 3, 7]).ranges == ((1, 3), (7, 7))
    assert Sources().to_wire() == []


def test_membership_does_not_unfold_a_range() -> None:
    """S-107: A range of a billion seqs is as good as any."""
    sources = Sources([(5, 10**9)])

    assert 10**9 in sources
    assert 10**9 + 1 not in sources
    assert len(sources) == 10**9 - 4


@pytest.mark.parametrize(
    "wire",
    [
        [3, 2],
        [3, 3],
        [[5, 4]],
        [[1, 5], [5, 6]],
        [[1, 5], 2],
        [-1],
        [True],
        [1.0],
        ["1"],
        [[1]],
        [[1, 2, 3]],
        [[1, True]],
        {"1": 2},
    ],
)
def test_what_is_not_ascending_and_unique_is_refused(wire: Any) -> None:
    """S-053, S-107: Reversed, overlapping, repeated or foreign items are refused."""
    with pytest.raises(ValueError, match="source"):
        sources_from_wire(wire)


@given(seq_sets)
def test_a_collector_takes_seqs_as_they_come(seqs: set[int]) -> None:
    """S-107: Collecting one by one gives the same sources as all at once."""
    collector = SourceCollector()
    for seq in sorted(seqs):
        collector.add(seq)

    assert collector.sources() == Sources(sorted(seqs))


def test_a_collector_refuses_to_go_back() -> None:
    """S-053: Sources are ascending."""
    collector = SourceCollector()
    collector.add(4)

    with pytest.raises(ValueError, match="does not come after 4"):
        collector.add(4)
