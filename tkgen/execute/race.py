"""Launches of several contestants timed by turns, each as a CUDA graph, so that all meet the same clocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

W = TypeVar("W", bound=Hashable)

ROUNDS = 15
REPLAY_SECONDS = 4e-3  # a replay takes at least about this long
ROTATED_BYTES = 160_000_000  # three times the L2


def graph_of(launches: Sequence[Callable[[], None]]) -> Any:
    """The launches as one graph."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for launch in launches:
            launch()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    return graph


def order_of_round(turn: int, contestants: Sequence[W]) -> list[W]:
    """The contestants in the order of a round: another in each, the same in each run."""
    return random.Random(turn).sample(contestants, len(contestants))


def raced(
    launches: Mapping[W, Sequence[Callable[[], None]]], seconds: float, rounds: int = ROUNDS
) -> dict[W, list[float]]:
    """Seconds of a launch of each contestant, round by round; one takes about `seconds`.

    Each has one launch for each set of tensors, all of them the same number. Rounds differ in their order: a card
    at its power limit gives what follows a contestant that draws less a higher clock, and nobody is to follow the same
    one.
    """
    import torch

    sets = len(next(iter(launches.values())))
    repeats = max(1, round(REPLAY_SECONDS / seconds / sets)) * sets
    graphs = {who: graph_of([each[i % sets] for i in range(repeats)]) for who, each in launches.items()}
    times: dict[W, list[float]] = {who: [] for who in graphs}
    for turn in range(rounds + 2):  # two to warm up
        for who in order_of_round(turn, list(graphs)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graphs[who].replay()
            end.record()
            torch.cuda.synchronize()
            if turn >= 2:
                times[who].append(begin.elapsed_time(end) / 1e3 / repeats)
    return times
