"""A scripted target and scripted drafts: the verify engine without a model, a network or chance."""

from tests.support.scripted.bench import (
    GREEDY,
    Answer,
    Bench,
    ask,
    collect,
    make_engine,
    read,
    running,
)
from tests.support.scripted.drafts import (
    DraftSession,
    Propose,
    ScriptedDrafts,
    ScriptedLink,
    garbage,
    half_wrong,
    never,
    perfect,
    sampled,
)
from tests.support.scripted.target import (
    ALPHABET,
    EOS,
    CharTokenizer,
    Script,
    ScriptedRunner,
    Target,
    as_tokenizer,
)

__all__ = [
    "ALPHABET",
    "EOS",
    "GREEDY",
    "Answer",
    "Bench",
    "CharTokenizer",
    "DraftSession",
    "Propose",
    "Script",
    "ScriptedDrafts",
    "ScriptedLink",
    "ScriptedRunner",
    "Target",
    "as_tokenizer",
    "ask",
    "collect",
    "garbage",
    "half_wrong",
    "make_engine",
    "never",
    "perfect",
    "read",
    "running",
    "sampled",
]
