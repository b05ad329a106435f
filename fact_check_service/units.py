"""Units of measure: how they are written, and how one converts to another of its dimension."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """``(value + offset) * factor`` is the value in the base unit of the dimension.

    ``symbols`` are written exactly so ("km"), ``words`` in any case.
    """

    name: str
    dimension: str
    factor: Fraction
    symbols: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    offset: Fraction = Fraction(0)


def _unit(
    name: str, dimension: str, factor: str, symbols: str = "", *, words: str = "", offset: str = "0"
) -> Unit:
    def split(listed: str) -> tuple[str, ...]:
        return tuple(filter(None, listed.split("|")))

    return Unit(name, dimension, Fraction(factor), split(symbols), split(words), Fraction(offset))


def _counted(singular: str, plural: str) -> Unit:
    return _unit(singular, f"number of {plural}", "1", words=f"{singular}|{plural}")


def _speed(name: str, factor: str, symbols: str, lengths: str, time: str) -> Unit:
    words = "|".join(f"{length} per {time}" for length in lengths.split("|"))
    return _unit(name, "speed", factor, symbols, words=words)


_METRE = "meter|meters|metre|metres"
_KILOMETRE = "kilometer|kilometers|kilometre|kilometres"
_SQUARED = "|".join(f"{length} per second squared" for length in _METRE.split("|"))

_TABLE = (
    _unit("kelvin", "temperature", "1", "K", words="kelvin|kelvins"),
    _unit(
        "celsius",
        "temperature",
        "1",
        "°C|° C|ºC|℃",
        words="celsius|degree celsius|degrees celsius|degrees c|degrees centigrade",
        offset="273.15",
    ),
    _unit(
        "fahrenheit",
        "temperature",
        "5/9",
        "°F|° F|ºF|℉",
        words="fahrenheit|degree fahrenheit|degrees fahrenheit|degrees f",
        offset="459.67",
    ),
    # A share of something and a move of a rate are both "percent" in loose talk, so basis points do not
    # convert to percent: "raised by 25 basis points to 5.5 percent" states two different things.
    _unit("percent", "share", "1", "%|％", words="percent|per cent|pct"),
    _unit("basis_point", "rate change", "1", "bp|bps", words="basis point|basis points"),
    _unit("percentage_point", "rate change", "100", "pp", words="percentage point|percentage points"),
    _unit("millimetre", "length", "1/1000", "mm", words="millimeter|millimeters|millimetre|millimetres"),
    _unit("centimetre", "length", "1/100", "cm", words="centimeter|centimeters|centimetre|centimetres"),
    _unit("metre", "length", "1", "m", words=_METRE),
    _unit("kilometre", "length", "1000", "km", words=_KILOMETRE),
    _unit("inch", "length", "0.0254", words="inch|inches"),
    _unit("foot", "length", "0.3048", "ft", words="foot|feet"),
    _unit("yard", "length", "0.9144", "yd", words="yard|yards"),
    _unit("mile", "length", "1609.344", "mi", words="mile|miles"),
    _unit(
        "astronomical_unit", "length", "149597870700", "AU|au", words="astronomical unit|astronomical units"
    ),
    _unit("light_year", "length", "9460730472580800", "ly", words="light year|light years"),
    _unit("milligram", "mass", "1/1000000", "mg", words="milligram|milligrams"),
    _unit("gram", "mass", "1/1000", "g", words="gram|grams"),
    _unit("kilogram", "mass", "1", "kg", words="kilogram|kilograms|kilo|kilos"),
    _unit("tonne", "mass", "1000", "t", words="tonne|tonnes|metric ton|metric tons"),
    _unit("ounce", "mass", "0.028349523125", "oz", words="ounce|ounces"),
    _unit("pound", "mass", "0.45359237", "lb|lbs", words="pound|pounds"),
    _unit("millisecond", "time", "1/1000", "ms", words="millisecond|milliseconds"),
    _unit("second", "time", "1", "s", words="second|seconds|sec"),
    _unit("minute", "time", "60", "min", words="minute|minutes"),
    _unit("hour", "time", "3600", "h|hr|hrs", words="hour|hours"),
    _unit("day", "time", "86400", words="day|days"),
    _unit("week", "time", "604800", words="week|weeks"),
    # Not a number of days: "1 year has 365 days" must not compare the one with the other.
    _unit("month", "calendar time", "1", words="month|months"),
    _unit("year", "calendar time", "12", words="year|years"),
    _speed("metre_per_second", "1", "m/s", _METRE, "second"),
    _speed("kilometre_per_second", "1000", "km/s", _KILOMETRE, "second"),
    _speed("kilometre_per_hour", "5/18", "km/h|kph|kmh", _KILOMETRE, "hour"),
    _speed("mile_per_second", "1609.344", "mi/s", "mile|miles", "second"),
    _speed("mile_per_hour", "0.44704", "mph|mi/h", "mile|miles", "hour"),
    _speed("foot_per_second", "0.3048", "ft/s", "foot|feet", "second"),
    _unit("knot", "speed", "463/900", "kn|kt", words="knot|knots"),
    _unit("metre_per_second_squared", "acceleration", "1", "m/s²|m/s^2|m/s2", words=_SQUARED),
    _unit("pascal", "pressure", "1", "Pa", words="pascal|pascals"),
    _unit("hectopascal", "pressure", "100", "hPa|mbar", words="hectopascal|hectopascals|millibar|millibars"),
    _unit("kilopascal", "pressure", "1000", "kPa", words="kilopascal|kilopascals"),
    _unit("bar", "pressure", "100000", words="bar|bars"),
    _unit("atmosphere", "pressure", "101325", "atm", words="atmosphere|atmospheres"),
    _unit("psi", "pressure", "6894.757293168", "psi", words="pounds per square inch"),
    _unit("us_dollar", "US money", "1", "USD", words="dollar|dollars|us dollar|us dollars|u.s. dollars"),
    _unit("euro", "euro money", "1", "EUR", words="euro|euros"),
    _unit("pound_sterling", "UK money", "1", "GBP", words="pounds sterling"),
    _unit("yen", "yen money", "1", "JPY", words="yen"),
    _counted("bone", "bones"),
    _counted("chromosome", "chromosomes"),
    _counted("planet", "planets"),
    _counted("state", "states"),
)

UNITS = {unit.name: unit for unit in _TABLE}
_BY_SYMBOL = {symbol: unit.name for unit in _TABLE for symbol in unit.symbols}
_BY_WORD = {word: unit.name for unit in _TABLE for word in unit.words}
_FOLDED = frozenset(symbol.casefold() for symbol in _BY_SYMBOL) | _BY_WORD.keys()
_BETWEEN_WORDS = re.compile(r"[\s-]+")
_LONGEST_SPELLING = max(map(len, _FOLDED))


def comparable(unit: str, other: str) -> bool:
    """Whether the two measure the same dimension."""
    return UNITS[unit].dimension == UNITS[other].dimension


def convert(value: Fraction, unit: str, target: str) -> Fraction:
    """``value`` in ``target``, exactly; the two must be comparable."""
    source, wanted = UNITS[unit], UNITS[target]
    assert source.dimension == wanted.dimension
    return (value + source.offset) * source.factor / wanted.factor - wanted.offset


def named(spelling: str) -> str:
    """The unit that ``spelling``, a match of ``pattern``, stands for."""
    return _BY_SYMBOL.get(spelling) or _BY_WORD[_fold(spelling)]


def pattern() -> str:
    """A regular expression for every spelling, the longest first."""
    symbols = [(symbol, re.escape(symbol)) for symbol in _BY_SYMBOL]
    words = [
        (word, rf"(?i:{_BETWEEN_WORDS.pattern.join(map(re.escape, word.split()))})") for word in _BY_WORD
    ]
    words = [(word, f"(?i:{expression})") for word, expression in words]
    longest_first = sorted(symbols + words, key=lambda pair: len(pair[0]), reverse=True)
    return "|".join(expression for _, expression in longest_first)


def may_grow(tail: str) -> bool:
    """Whether ``tail``, what a text ends with, is the beginning of a longer spelling: "m" of "miles"."""
    return begins_any(tail, _FOLDED, _LONGEST_SPELLING)


def begins_any(tail: str, spellings: Iterable[str], longest: int) -> bool:
    """Whether ``tail`` is the beginning of one of the folded ``spellings``, and not the whole of it."""
    if len(tail) > longest:
        return False
    folded = _fold(tail)
    return any(spelling != folded and spelling.startswith(folded) for spelling in spellings)


def _fold(spelling: str) -> str:
    return _BETWEEN_WORDS.sub(" ", spelling).casefold()
