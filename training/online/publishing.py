"""Whether a tuned head is worth publishing."""

from __future__ import annotations

from dataclasses import dataclass

from training.online.tuning import Measured


@dataclass(frozen=True, slots=True)
class Verdict:
    publish: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Gate:
    """
    Attributes:
        least_gain: by how much acceptance on the traffic must rise.
        most_loss: by how much it may fall elsewhere.
    """

    least_gain: float = 0.01
    most_loss: float = 0.01

    def judge(self, before: Measured, after: Measured) -> Verdict:
        gain = after.traffic.rate - before.traffic.rate
        elsewhere = after.elsewhere.rate - before.elsewhere.rate
        said = (
            f"acceptance {100 * before.traffic.rate:.1f} to {100 * after.traffic.rate:.1f} % on the traffic, "
            f"{100 * before.elsewhere.rate:.1f} to {100 * after.elsewhere.rate:.1f} % elsewhere"
        )
        if gain < self.least_gain:
            return Verdict(False, f"{said}: it rose by less than {100 * self.least_gain:g} points")
        if elsewhere < -self.most_loss:
            return Verdict(False, f"{said}: it fell elsewhere by more than {100 * self.most_loss:g} points")
        return Verdict(True, said)
