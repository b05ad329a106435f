"""Names for full KV blocks, by which a later request with the same beginning finds them."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from hashlib import blake2b

from common.model.block_manager import BLOCK_SIZE

_DIGEST_BYTES = 16


class PrefixHasher:
    """Names a full block by its tokens, the name of the block before it, and at the root a tenant's salt.

    The names are BLAKE2b under a key that only this process knows, so nobody can make two texts collide on
    purpose, and by accident it takes about 2^64 blocks. Names alone are compared, never tokens. Under another
    salt every name is another: no request can tell, by time or by usage, what another tenant has sent.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def extend(self, names: list[bytes], tokens: Sequence[int], salt: str, count: int) -> None:
        """Append the names of further full blocks of ``tokens``, up to ``count`` in all."""
        name = names[-1] if names else self._digest(salt.encode(), b"salt")
        for start in range(len(names) * BLOCK_SIZE, count * BLOCK_SIZE, BLOCK_SIZE):
            block = array("I", tokens[start : start + BLOCK_SIZE])
            name = self._digest(name + block.tobytes(), b"block")
            names.append(name)

    def _digest(self, data: bytes, kind: bytes) -> bytes:
        return blake2b(data, digest_size=_DIGEST_BYTES, key=self._key, person=kind).digest()
