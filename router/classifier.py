"""Sorts prompts into classes by what they begin with and how long they are.

What a prompt asks for decides which draft guesses it well: extraction and summaries repeat their input,
code repeats itself, chat repeats nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

PROMPT_CLASSES = (
    "short_qa",
    "chat",
    "code",
    "math",
    "summarization",
    "translation",
    "rag",
    "extraction",
)
HEAD_CHARACTERS = 200
_ANY_LENGTH = 1 << 32



@dataclass(frozen=True, slots=True)
class Classification:
    """``weights``: classes with their chances, the best first."""

    weights: tuple[tuple[str, float], ...]

    @property
    def prompt_class(self) -> str:
        return self.weights[0][0]


Classifier = Callable[[str, int], Classification]
"""From the head of the last user turn and the length of the whole prompt to the classes that fit."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Matches a prompt of ``longer_than`` to ``at_most`` characters that has ``cue`` in its head."""

    prompt_class: str
    cue: re.Pattern[str]
    longer_than: int = 0
    at_most: int = _ANY_LENGTH

    def matches(self, head: str, prompt_characters: int) -> bool:
        return self.longer_than < prompt_characters <= self.at_most and bool(self.cue.search(head))


def _cue(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


_LANGUAGES = (
    r"python|java|javascript|typescript|golang|c\+\+|c#|kotlin|php|haskell|sql|html|css|bash|powershell"
    r"|pytorch|numpy"
)
_LANGUAGES_THAT_ARE_WORDS = r"rust|swift|ruby|go|scala|lua|react|pandas|spark"
_TONGUES = (
    r"english|chinese|mandarin|german|french|spanish|italian|portuguese|russian|japanese|korean|arabic"
    r"|hindi|dutch|polish|turkish|latin|greek|vietnamese|thai"
)

_REQUESTS = (
    r"write|compose|create|draft|list|give|share|suggest|describe|explain|discuss|tell|make|plan|design|act"
    r"|pretend|imagine|help|name|recommend|rate|evaluate|compare"
)
_QUANTITY = r"(?<![\d.:/-])\d{1,3}(?:\.\d+)?(?![\d:/-])"

# The first rule that matches decides; what none matches is chat.
RULES = (
    Rule(
        "code",
        _cue(
            r"```\s*(?:\w+\n|$)",
            r"^\s*(?:def \w+\(|class \w+[:({]|import \w+\s|from \S+ import|#include|fn \w+\(|func \w+\()",
            r"\b(?:traceback|segfault|stack ?trace|syntaxerror|typeerror|nullpointerexception)\b",
            rf"\b(?:write|implement|develop|create|fix|debug|refactor|port|rewrite|translate|convert|review)\b"
            rf".{{0,80}}(?<![\w])(?:{_LANGUAGES})(?![\w+#])",
            r"\b(?:write|implement|debug|refactor|fix)\b.{0,40}\b(?:function|script|program|unit tests?"
            r"|regex|regular expression|algorithm|code|bug|query|api|endpoint|makefile|dockerfile)\b",
            rf"\b(?:in|into|using) (?:{_LANGUAGES}|{_LANGUAGES_THAT_ARE_WORDS})(?![\w+#])",
            r"(?:写|实现|编写|编|补全|重构|调试|优化|修复).{0,20}(?:代码|函数|程序|脚本|算法|正则|接口|个类)",
            rf"(?<![a-z])(?:{_LANGUAGES}).{{0,20}}(?:代码|函数|程序|脚本|写|实现|报错)",
            r"(?:代码|程序|脚本).{0,10}(?:报错|错误|bug|有什么问题)",
        ),
    ),
    Rule(
        "translation",
        _cue(
            r"\btranslat(?:e|ion|ing|or)\b",
            rf"\bhow (?:do|would|can) (?:you|i|we) say\b.*\b(?:{_TONGUES})\b",
            r"翻译|译[成为]|[中英日法德韩俄]译[中英日法德韩俄]",
            r"用.{1,3}[语文](?:怎么|如何)(?:说|写|表达)",
        ),
    ),
    Rule(
        "summarization",
        _cue(
            r"\bsummari[sz](?:e|ing|ation)\b",
            r"\bsummary (?:of|for)\b",
            r"\btl;?dr\b",
            r"\b(?:condense|key (?:points|takeaways) (?:of|from)|main points)\b",
            r"总结|摘要|概括|概述|(?<!数学)归纳|提炼|缩写",
        ),
    ),
    Rule(
        "extraction",
        _cue(
            r"^\W*(?:\w+\W+){0,9}?extract\b",
            r"\b(?:identify|list|find|pull out|tag) .{0,40}\b(?:entit(?:y|ies)|mentioned|keywords"
            r"|(?:names|dates) (?:in|from|mentioned)|e-?mail addresses|phone numbers)\b",
            r"\b(?:output|return|respond|answer|results?|fields?)\b.{0,40}\b(?:json|csv|yaml|xml)\b",
            r"\bjson (?:object|format|dictionary|array)\b",
            r"提取|抽取|识别.{0,12}实体|命名实体",
            r"(?:找出|列出).{0,20}(?:提到|出现|包含)的",
            r"以\s*json\s*(?:格式)?.{0,4}(?:输出|返回)",
        ),
    ),
    Rule(
        "rag",
        _cue(
            r"\b(?:based on|using|according to|given|from|read)\b(?: only| solely)? the (?:following|above"
            r"|below|given|provided|attached|retrieved)\b.{0,20}\b(?:context|passages?|documents?|texts?|articles?"
            r"|sources?|information|excerpts?)\b",
            r"\bread the .{0,20}\b(?:passage|article|text|document)\b",
            r"^\W*(?:context|documents?|passages?|sources?|references?|search results)\s*\d*\s*[:：]",
            r"\banswer .{0,40}\b(?:context|passages?|documents?|sources) (?:below|above|provided)\b",
            r"(?:根据|基于|结合|参考|阅读|依据).{0,6}(?:以下|下面|下列|上述|给定|提供|这[篇段份]).{0,8}"
            r"(?:内容|资料|材料|文档|文章|信息|段落|上下文|短文|文本)",
            r"^\W*(?:参考资料|已知信息|上下文|背景资料|检索结果|文档)\s*\d*\s*[:：]",
        ),
    ),
    Rule(
        "math",
        _cue(
            r"\b(?:calculate|compute) .*\d",
            r"\d.*\b(?:calculate|compute)\b",
            r"\bsolve\b.{0,40}(?:\bequations?\b|\bfor [a-z]\b|\binequalit|=)",
            r"(?<!chemical )\b(?:equation|inequality|integral|derivative|determinant|eigenvalues?|polynomial"
            r"|factorial|hypotenuse|perimeter|least common multiple|greatest common divisor|square root)\b",
            r"\b(?:prove|proof|show) that\b",
            r"\bprobability (?:of|that)\b",
            r"\barea of\b.*\d|\d.*\barea of\b|\bf\(x\)|\\(?:frac|int|sum|sqrt)\b",
            r"^\W*(?:what(?:'s| is) )?[\d(][\d\s.,()]*[-+*/×÷^%][-+*/×÷^%\d\s.,()]*\d\W*$",
            r"\b(?:what is|what's) \d[\d.,]*(?:%| percent)? (?:of|plus|minus|times|divided|[-+*/×÷^])",
            r"计算(?!机)|求解|方程|不等式|求.{0,6}积分|定积分|导数|求导|概率|(?<!份)证明|面积是|平方根|公倍数|公约数",
            r"\d.*(?:多少|几[个只人天元条本倍])",
        ),
        at_most=1500,
    ),
    Rule(
        "math",
        _cue(
            r"\d.*\bhow (?:many|much|long|far|old|fast)\b",
            r"\bhow (?:many|much|long|far|old|fast)\b.*\d.*\D\d",
            # A word problem may put its question past the head: a story with two quantities has to do.
            rf"^(?!\W*(?:please |{_REQUESTS})\b).*{_QUANTITY}.*{_QUANTITY}",
        ),
        longer_than=40,
        at_most=700,
    ),
    # This much text without a word on what to do with it ends in a question about it.
    Rule("rag", _cue(r""), longer_than=1500),
    Rule(
        "chat",
        _cue(
            r"^\W*(?:hi|hello|hey|thanks?|good (?:morning|evening))\b|^\W*how are you\b",
            r"^\W*(?:can|could|would|will|do|are|what do) you\b|^\W*(?:你好|您好|嗨|谢谢)|你能|你可以|你觉得",
        ),
        at_most=100,
    ),
    Rule(
        "short_qa",
        _cue(
            r"[?？]\s*$",
            r"^\W*(?:who|whose|whom|what|when|where|which|why|how|is|are|was|were|do|does|did|can|has|have)\b",
            r"(?:谁|什么|哪|何时|几|吗|多少|多[大高长远久]|为什么|怎么).{0,12}[?？]?$",
        ),
        at_most=100,
    ),
)


def classify(head: str, prompt_characters: int) -> Classification:
    """The class of a prompt, one of PROMPT_CLASSES, from at most its first 200 characters and its length."""
    head = head[:HEAD_CHARACTERS]
    for rule in RULES:
        if rule.matches(head, prompt_characters):
            return Classification(((rule.prompt_class, 1.0),))
    return Classification((("chat", 1.0),))
