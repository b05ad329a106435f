"""Numbers as a text writes them: digits, English words, Chinese numerals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from text_to_num import text2num

from fact_check_service import chinese, units
from fact_check_service.number import Number, plain
from fact_check_service.sentences import Span

SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
MONEY_SCALES = {**SCALES, "k": 3, "m": 6, "mn": 6, "b": 9, "bn": 9, "t": 12, "tn": 12}
_SCALE_BEGINNINGS = units.beginnings(MONEY_SCALES)
_LONGEST_SCALE = len(" trillion")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−⁺", "0123456789--+")

# Latin letters only, so that a number may stand against a character of a script without spaces.
LETTER = "0-9A-Za-z_À-ɏ"
GAP = r"[\s-]?"
CURRENCIES = {
    **{"$": "us_dollar", "US$": "us_dollar", "USD": "us_dollar", "HK$": "hong_kong_dollar"},
    **{"HKD": "hong_kong_dollar", "€": "euro", "EUR": "euro", "£": "pound_sterling"},
    **{"GBP": "pound_sterling", "¥": "yen", "￥": "yuan", "JPY": "yen", "CNY": "yuan", "RMB": "yuan"},
}
_CURRENCY = "|".join(map(re.escape, sorted(CURRENCIES, key=len, reverse=True)))
# Behind what a Chinese sentence says of a value, as in 为-3, and not between two numbers.
_SIGN = r"""(?<![^\s(\["'“（~～–—是为在至到达约于：])(?P<sign>[-−+])"""
# Not the beginning of 千米, 千克, 百帕 and 百分点.
_PLACE = r"(?:[十万亿]|千(?![米克瓦帕卡])|百(?![帕分]))"
_CHINESE_SCALE = rf"[ ]?[余多来]?{_PLACE}{{1,3}}+(?:[0-9]{{1,4}}+{_PLACE}{{1,3}}+){{0,3}}+"
_DIGITS = re.compile(
    rf"(?:{_SIGN}|(?<![{LETTER}.,:/^$€£¥]))(?P<currency>(?:{_CURRENCY})[ ]?)?+"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3}){1,9}+(?![0-9])|[0-9]{1,30}+)(?:\.(?P<decimals>[0-9]{1,30}+))?+)"
    r"(?:[ ]?(?:[×x*·]|\\times)[ ]?10(?:\^\{?|\*\*)(?P<power>[-−+]?[0-9]{1,3}+)\}?"
    r"|[ ]?(?:[×x*·]|\\times)[ ]?10(?P<superscript>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}+)"
    rf"|[eE](?P<exponent>[-−+]?[0-9]{{1,3}}+)|(?P<scale>{_CHINESE_SCALE}))?+"
)
_CHINESE = re.compile(
    rf"(?<![0-9第几数{''.join(chinese.DIGITS)}十百千万亿点])(?:[{''.join(chinese.DIGITS)}]|{_PLACE}){{1,24}}+(?:点[〇零一二三四五六七八九]{{1,12}}+[百千万亿]{{0,2}}+)?+"
    r"|(?<![一大小过多])半(?=个百分点)"
)
_SCALE = re.compile(rf"{GAP}(?P<scale>(?i:{'|'.join(SCALES)}))(?![{LETTER}])")
_MONEY_SCALE = re.compile(rf"{GAP}(?P<scale>(?i:{'|'.join(MONEY_SCALES)}))(?![{LETTER}²³/^])")

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGIT_WORDS = {**{word: digit for digit, word in enumerate(_ONES)}, "oh": 0}
_COUNT = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    "|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
)
_POWER = "hundred|thousand|million|billion|trillion"
_WORDS = re.compile(
    rf"(?<![\w-])(?:(?P<article>an?\s)(?={_POWER}\b)|(?=(?:{_COUNT})\b))"
    rf"(?P<whole>(?:{_COUNT}|{_POWER})\b(?:(?:\s|-|\sand\s)(?:{_COUNT}|{_POWER})\b){{0,12}}+)"
    rf"(?:\spoint(?P<decimals>(?:\s(?:{'|'.join(_DIGIT_WORDS)})\b){{1,8}}+)(?:\s(?P<scale>{'|'.join(SCALES)})\b)?+)?+"
    r"|(?<![\w-])(?P<part>(?:one[\s-])?half(?=\s(?:of\s)?an?\s|[\s-])|(?:an?\s|one[\s-])?quarter(?=\s(?:of\s)?an?\s|[\s-])"
    r"|three[\s-]quarters(?=\sof\s))(?:\s(?:of\s)?an?)?(?=[\s-](?:percentage[\s-])?point)",
    re.IGNORECASE,
)
_PARTS = {"half": Number(5, -1), "quarter": Number(25, -2), "quarters": Number(75, -2)}
_NUMBER_WORDS = frozenset([*_COUNT.split("|"), *_POWER.split("|"), "half", "quarter", "quarters"])
_BETWEEN_WORDS = re.compile(r"[\s-]+")
_ANY_DIGIT = re.compile("[0-9]")
_ANY_CHINESE = re.compile(f"[{''.join(chinese.DIGITS)}十百千万亿半]")


class Numeral(NamedTuple):
    """A number where it stands; ``open`` while more digits or a scale may follow at the end of the text.

    ``scale`` is the power of ten of what stands behind the digits, such as "million" and 万.
    """

    span: Span
    number: Number
    currency: str = ""
    approximate: bool = False
    scale: int = 0
    open: bool = False


def numerals(text: str, sentence: Span) -> list[Numeral]:
    """The numbers of a sentence in order, none of which overlap."""
    found: list[Numeral] = []
    if _ANY_DIGIT.search(text, *sentence):
        found += [_of_digits(text, match) for match in _DIGITS.finditer(text, *sentence)]
    if not _NUMBER_WORDS.isdisjoint(_BETWEEN_WORDS.split(text[slice(*sentence)].lower())):
        found += _of_words(text, sentence)
    if _ANY_CHINESE.search(text, *sentence):
        found += _of_chinese(text, sentence)
    return sorted(found, key=lambda numeral: numeral.span)


def _of_digits(text: str, match: re.Match[str]) -> Numeral:
    number = _digits_value(match)
    end, is_open = match.end(), False
    currency = (match["currency"] or "").strip()
    if not match["scale"]:
        named = (_MONEY_SCALE if currency else _SCALE).match(text, end)
        if named:
            known = MONEY_SCALES if currency else SCALES
            number, end = number.scaled(known[named["scale"].lower()]), named.end()
        is_open = bool(currency) and _amount_may_grow(
            text[match.end("digits") : match.end("digits") + _LONGEST_SCALE]
        )
    approximate = any(character in "余多来" for character in match["scale"] or "")
    if match["sign"] in {"-", "−"}:
        number = number.negative()
    scale = number.place + len(match["decimals"] or "") if not match["exponent"] else 0
    return Numeral(Span(match.start(), end), number, currency, approximate, scale, is_open)


def _digits_value(match: re.Match[str]) -> Number:
    digits = match["digits"].replace(",", "")
    if match["scale"]:
        scale = "".join(character for character in match["scale"] if character not in " 余多来")
        return chinese.parse(digits + scale) or plain(digits)
    power = match["power"] or match["superscript"] or match["exponent"]
    return plain(digits).scaled(int(power.translate(_SUPERSCRIPTS)) if power else 0)


def _amount_may_grow(rest: str) -> bool:
    """Whether more digits or a scale may follow ``rest``, what stands between the digits and the end."""
    if rest in {"", ".", ","}:
        return True
    return len(rest) < _LONGEST_SCALE and rest.lstrip(" -\u00a0").lower() in _SCALE_BEGINNINGS


def _of_words(text: str, sentence: Span) -> Iterator[Numeral]:
    for match in _WORDS.finditer(text, *sentence):
        number = _words_value(match)
        if number is not None:
            yield Numeral(Span(*match.span()), number)


def _words_value(match: re.Match[str]) -> Number | None:
    if match["part"]:
        return _PARTS[next(word for word in _BETWEEN_WORDS.split(match["part"].lower()) if word in _PARTS)]
    article = "one " if match["article"] else ""
    whole = _counted(article + match["whole"].lower())
    if whole is None or not match["decimals"]:
        return whole
    decimals = "".join(str(_DIGIT_WORDS[word]) for word in match["decimals"].lower().split())
    return whole.pointed(decimals).scaled(SCALES[match["scale"].lower()] if match["scale"] else 0)


def _counted(words: str) -> Number | None:
    try:
        value = text2num(_BETWEEN_WORDS.sub(" ", words), "en")
    except ValueError:
        return None
    last = _BETWEEN_WORDS.split(words)[-1]
    place = 2 if last == "hundred" else SCALES.get(last, 0)
    return Number(value // 10**place, place)


def _of_chinese(text: str, sentence: Span) -> Iterator[Numeral]:
    for match in _CHINESE.finditer(text, *sentence):
        written = match.group()
        number = Number(5, -1) if written == "半" else chinese.parse(written)
        if number is not None:
            yield Numeral(Span(*match.span()), number)
