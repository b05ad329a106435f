"""Names of people, places and organisations, by how they are written: capitals, titles, suffixes, surnames.

Written by hand: no well-kept package was found that ships a model of both languages, and a check of one block
may not cost what a parser does.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

from fact_check_service.claims import Claim, Kind
from fact_check_service.sentences import Span
from fact_check_service.word_lists import listed


class NameKind(enum.Enum):
    PERSON = "person"
    PLACE = "place"
    ORGANISATION = "organisation"
    ANY = "any"


_CAPITALISED = r"[A-ZÀ-Þ](?:[\w'’&-]{1,24}+|\.(?=\s[A-Z]))"
_PARTICLE = r"(?:of(?:\sthe)?|de|da|del|van|von|der|bin|al|la|le|&|for|y)"
_RUN = re.compile(rf"(?<![\w'’-]){_CAPITALISED}(?:\s(?:{_PARTICLE}\s)?{_CAPITALISED}){{0,5}}+")
_PRECEDING = re.compile(r"(?P<word>[A-Za-z.]{1,20})\s$")

_PERSON_TITLES = listed(
    "mr mr. mrs mrs. ms ms. dr dr. prof prof. professor president chairman chairwoman chair ceo cfo"
    " cto director"
    " minister senator governor mayor judge king queen prince princess sir lady captain general"
    " author architect"
    " founder engineer coach secretary chancellor"
)
_ORGANISATION_WORDS = listed(
    "Inc Inc. Corp Corp. Corporation Company Co Co. Ltd Ltd. LLC PLC Group Holdings Bank University"
    " College"
    " Institute School Hospital Agency Association Committee Commission Council Department Ministry"
    " Foundation"
    " Museum Union Party Court Laboratory Laboratories Labs Systems Technologies Airlines Motors"
    " Energy Press"
    " Partners Capital Trust Fund Reserve Organization Organisation Authority Club Society Library"
)
_PLACE_WORDS = listed(
    "City County Island Islands River Lake Mountain Mountains Valley Bay Street Avenue Road Park"
    " Bridge Airport"
    " Province State Republic Kingdom Mount Sea Ocean Desert Station Harbour Harbor Square Port"
)
KIND_WORDS = _ORGANISATION_WORDS | _PLACE_WORDS
_PLACE_BEFORE = frozenset({"in", "at", "near", "from", "to", "outside"})
# Words that begin sentences, and capitals that name nothing of the three.
_NO_NAMES = listed(
    "The A An In On At By For From With To Of And But Or If When While After Before Since Until It"
    " Its He She They"
    " We I You This That These Those There Here His Her Their Our My Your As Although However"
    " According During"
    " Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May"
    " June July August"
    " September October November December Q1 Q2 Q3 Q4 Both Each Every All Some Most Many Under Over"
    " About Last"
    " Next Then Now Today Tickets Revenue Sales Profit Price What Who Where Why How Is Was Are Were"
    " Please"
)

_HAN = r"[\u4e00-\u9fff]"
_CHINESE_BREAK = "该本贵各的了在是和与为由于对向从到及或及其被把让将位日月年前称说，。、；：（）“”《》"
_CHINESE_ORGANISATION = re.compile(
    r"(?:公司|集团|银行|大学|学院|医院|研究所|研究院|委员会|协会|基金会|法院|出版社|博物馆|图书馆|中学|小学|证券|航空|俱乐部)"
)
_CHINESE_PLACE = re.compile(
    r"(?:自治区|特别行政区|省|(?<![城上超股楼夜])市|县|(?<!城)镇|山|河|湖|岛|港|机场|大桥|车站)"
)
_SURNAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜"
    "戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
)
_CHINESE_TITLE = (
    r"(?:[\u4e00-\u9fff]学家|画家|诗人|探险家|企业家|总裁|董事长|主席|总统|总理|部长|省长|市长|教授|博士|院长|校长|行长|经理|总监|首席执行官|首席财务官|创始人"
    r"|作者|作家|导演|记者|教练|院士|书记|会长|秘书长|发言人|设计师|建筑师|工程师)"
)
_CHINESE_PERSON = re.compile(
    rf"{_CHINESE_TITLE}[是为：:]?(?P<after>[{_SURNAMES}]{_HAN}{{1,2}}?)(?=[，。、；：）\s]|[于在说称表指宣和与是为任的出认将率带领从由曾获生当被以等对向]|$)"
    rf"|(?P<before>[{_SURNAMES}]{_HAN}{{1,2}}?)(?=(?:先生|女士|{_CHINESE_TITLE}|担任|出任|表示|指出|出生于|创立|创办|[（(]))"
)
_CHINESE_DESTINATION = re.compile(
    rf"(?:生于|卒于|位于|坐落于|迁[至往到]|搬[至到]|设[在于]|抵达|前往|总部在)(?P<place>{_HAN}{{2,3}})(?=[，。、；：）\s])"
)
_LONGEST_CHINESE, _SHORTEST_STEM = 12, 2


def names(text: str, sentence: Span) -> Iterator[Claim]:
    """A name that the end of the text may have cut is left out."""
    found = sorted(
        [*_english(text, sentence), *_chinese(text, sentence)], key=lambda span: (span.start, -span.end)
    )
    end = sentence.start
    for span in found:
        if span.start >= end and span.end < len(text):
            end = span.end
            yield Claim(Kind.NAME, text[slice(*span)], "", span, sentence)


def name_kind(text: str, span: Span) -> NameKind:
    """What the name is of, as far as its words and the one before it tell."""
    parts = text[slice(*span)].split()
    if _CHINESE_ORGANISATION.search(parts[-1]) or not _ORGANISATION_WORDS.isdisjoint(parts):
        return NameKind.ORGANISATION
    if _CHINESE_PLACE.search(parts[-1]) or not _PLACE_WORDS.isdisjoint(parts):
        return NameKind.PLACE
    before = _PRECEDING.search(text, max(0, span.start - 21), span.start)
    word = before["word"].lower() if before else ""
    if word in _PERSON_TITLES or (parts[0][0] in _SURNAMES and len(parts[0]) <= 3):
        return NameKind.PERSON
    return NameKind.PLACE if word in _PLACE_BEFORE else NameKind.ANY


def _english(text: str, sentence: Span) -> Iterator[Span]:
    for match in _RUN.finditer(text, *sentence):
        start, end = match.span()
        while start < end:
            word = text[start:end].split(maxsplit=1)[0]
            if word[0].isupper() and word not in _NO_NAMES and word.lower() not in _PERSON_TITLES:
                break
            start += len(word) + 1
        opens = not text[sentence.start : start].strip(" \t\n\"'“‘(*-#>")
        # A single word that opens a sentence has its capital from that.
        if start < end and not (opens and " " not in text[start:end]):
            yield Span(start, end)


def _chinese(text: str, sentence: Span) -> Iterator[Span]:
    for suffixes in (_CHINESE_ORGANISATION, _CHINESE_PLACE):
        for match in suffixes.finditer(text, *sentence):
            start = _begin(text, sentence, match.start())
            if match.start() - start >= _SHORTEST_STEM:
                yield Span(start, match.end())
    for match in _CHINESE_DESTINATION.finditer(text, *sentence):
        yield Span(*match.span("place"))
    for match in _CHINESE_PERSON.finditer(text, *sentence):
        yield Span(*match.span("after" if match["after"] else "before"))


def _begin(text: str, sentence: Span, end: int) -> int:
    """Where the run of characters before a suffix begins that may belong to the name."""
    start = end
    while start > max(sentence.start, end - _LONGEST_CHINESE):
        character = text[start - 1]
        if not "\u4e00" <= character <= "\u9fff" or character in _CHINESE_BREAK:
            break
        start -= 1
    return start
