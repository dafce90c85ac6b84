"""The orders of the waves that are tried: which policy, with which seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tkgen.emulate.launch import Policy


@dataclass(frozen=True)
class Interleaving:
    """An order of the waves to try: a policy and the seed of its choices."""

    policy: Policy = Policy.BARRIER
    seed: int = 0

    def __str__(self) -> str:
        return self.policy.name.lower().replace("_", " ") + (f" {self.seed}" if self.policy is Policy.RANDOM else "")


def interleavings(count: int) -> Iterator[Interleaving]:
    """`count` of them: to the next barrier, round robin, adversarial, then random and adversarial ones by seed."""
    fixed = [Interleaving(), Interleaving(Policy.ROUND_ROBIN), Interleaving(Policy.ADVERSARIAL)]
    yield from fixed[:count]
    for number in range(count - len(fixed)):
        yield Interleaving((Policy.RANDOM, Policy.ADVERSARIAL)[number % 3 == 2], number + 1)
