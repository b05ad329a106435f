"""Decimal numbers as they are written: digits and the place of the last of them."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Number(NamedTuple):
    """``digits`` · 10 ** ``place``. Cheaper to make than a fraction, and most are of no use."""

    digits: int
    place: int

    def scaled(self, power: int) -> Number:
        return Number(self.digits, self.place + power)

    def negative(self) -> Number:
        return Number(-self.digits, self.place)

    def plus(self, other: Number) -> Number:
        place = min(self.place, other.place)
        return Number(self._at(place) + other._at(place), place)

    def pointed(self, decimals: str) -> Number:
        """This whole number with ``decimals`` behind the point."""
        return Number(self._at(0), 0).plus(Number(int(decimals), -len(decimals)))

    def below(self, power: int) -> bool:
        """Whether it is less than 10 ** ``power``."""
        return self.value() < Fraction(10**power)

    def value(self) -> Fraction:
        if self.place >= 0:
            return Fraction(self.digits * 10**self.place)
        return Fraction(self.digits, 10**-self.place)

    def step(self) -> Fraction:
        """What one of the last digit counts."""
        return Fraction(10**self.place) if self.place >= 0 else Fraction(1, 10**-self.place)

    def _at(self, place: int) -> int:
        return int(self.digits * 10 ** (self.place - place))


ONE = Number(1, 0)


def plain(digits: str) -> Number:
    """Digits with or without a point."""
    whole, _, decimals = digits.partition(".")
    return Number(int(whole + decimals), -len(decimals))
