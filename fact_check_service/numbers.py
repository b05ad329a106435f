"""Quantities: a number with its unit, or an amount of money."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from fact_check_service import units
from fact_check_service.claims import Claim, Kind
from fact_check_service.sentences import Span

_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_MONEY_SCALES = {**_SCALES, "k": 3, "m": 6, "mn": 6, "b": 9, "bn": 9, "t": 12, "tn": 12}
_CURRENCIES = {"$": "us_dollar", "US$": "us_dollar", "€": "euro", "£": "pound_sterling", "¥": "yen"}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−⁺", "0123456789--+")

# Latin letters only, so that a number may stand against a character of a script without spaces.
_LETTER = "0-9A-Za-z_À-ɏ"
_SIGN = r"""(?<![^\s(\["'“])(?P<sign>[-−+])"""
_NUMBER = (
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3}){1,9}+(?![0-9])|[0-9]{1,30}+)(?:\.[0-9]{1,30}+)?+)"
    r"(?:[ ]?(?:[×x*·]|\\times)[ ]?10(?:\^\{?|\*\*)(?P<power>[-−+]?[0-9]{1,3}+)\}?"
    r"|[ ]?(?:[×x*·]|\\times)[ ]?10(?P<superscript>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}+)"
    r"|[eE](?P<exponent>[-−+]?[0-9]{1,3}+))?+"
)
_GAP = r"[\s-]?"
_RIGHT = rf"(?![{_LETTER}²³/^])"
_MEASURED = re.compile(
    rf"(?:{_SIGN}|(?<![{_LETTER}.,:/^$€£¥])){_NUMBER}{_GAP}"
    rf"(?:(?P<scale>(?i:{'|'.join(_SCALES)})){_GAP})?(?P<unit>{units.pattern()}){_RIGHT}"
)
_MONEY = re.compile(
    rf"(?:{_SIGN}|(?<![{_LETTER}.,:/^$€£¥]))(?P<currency>US\$|[$€£¥]){_NUMBER}"
    rf"(?:{_GAP}(?P<scale>(?i:{'|'.join(_MONEY_SCALES)})){_RIGHT})?+(?![{_LETTER}%])"
)
_HEDGE = re.compile(
    r"(?:\b(?:(?:more|less|fewer|other|(?:great|high|low|larg|small|long|short|tall|bett)er) than"
    r"|over|above|under|below|beyond|within|at (?:least|most)|up to|nearly|almost|exceed(?:s|ed|ing)?"
    r"|as (?:much|little|low|high|many|few) as|(?:minimum|maximum) of)|[<>≤≥~≈±])"
    r"\s*(?:about |around |roughly |approximately )?$",
    re.IGNORECASE,
)
_LONGEST_HEDGE = 40


def quantities(text: str, sentence: Span) -> Iterator[Claim]:
    """Numbers with a known unit, as in "1,234.5 kg", "25bp", "−40 °C" and "3 × 10^8 m/s"; and money."""
    for match in _MEASURED.finditer(text, *sentence):
        if not units.may_grow(text[match.start("unit") :]):
            yield _claim(text, sentence, match, _SCALES, units.named(match["unit"]))
    for match in _MONEY.finditer(text, *sentence):
        if not _amount_may_grow(text[match.end("digits") :]):
            yield _claim(text, sentence, match, _MONEY_SCALES, _CURRENCIES[match["currency"]])


def _claim(text: str, sentence: Span, match: re.Match[str], scales: dict[str, int], unit: str) -> Claim:
    before = text[max(sentence.start, match.start() - _LONGEST_HEDGE) : match.start()]
    hedged = _HEDGE.search(before) is not None
    return Claim(Kind.QUANTITY, _value(match, scales), unit, Span(*match.span()), sentence, hedged)


def _value(match: re.Match[str], scales: dict[str, int]) -> Fraction:
    power = match["power"] or match["superscript"] or match["exponent"] or "0"
    exponent = int(power.translate(_SUPERSCRIPTS)) + scales.get((match["scale"] or "").lower(), 0)
    value = Fraction(match["digits"].replace(",", "")) * Fraction(10) ** exponent
    return -value if match["sign"] in {"-", "−"} else value


def _amount_may_grow(rest: str) -> bool:
    """Whether more digits or a scale may follow ``rest``, what stands between the digits and the end."""
    if rest in {"", ".", ","}:
        return True
    return units.begins_any(rest.lstrip(" -\u00a0"), _MONEY_SCALES, len("trillion"))
