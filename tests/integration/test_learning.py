"""A draft that learns from answers, over the real stream."""

from __future__ import annotations

import pytest

from draft_service.sources.history import History
from draft_service.sources.suffix import SuffixSource
from tests.integration.test_trees import GREEDY, answers, draft_service, requests
from tests.support.always_ahead import AlwaysAhead
from tests.unit.verify.support import until
from verify_service.drafts.ahead import AheadPolicy


@pytest.mark.parametrize("ahead", [None, AlwaysAhead(4)], ids=["when asked", "ahead"])
async def test_the_source_of_recent_answers_has_them_to_their_last_token(ahead: AheadPolicy | None) -> None:
    history = History(10_000, 10_000, 8)
    async with draft_service(SuffixSource(history)) as address:
        made = await answers(requests(address, sampling=GREEDY), ahead=ahead)
        whole = sum(len(answer.token_ids) + 1 for answer in made)  # and where each ends
        await until(lambda: history.num_tokens == whole)
