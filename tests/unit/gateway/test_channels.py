from __future__ import annotations

from gateway.channels import ChannelPool


async def test_a_channel_is_kept_for_its_address() -> None:
    pool = ChannelPool()
    async with pool.use("127.0.0.1:1") as first:
        pass
    async with pool.use("127.0.0.1:1") as second, pool.use("127.0.0.1:2") as other:
        assert second is first
        assert other is not first
    await pool.close()


async def test_the_channel_unused_for_longest_makes_room() -> None:
    pool = ChannelPool(capacity=2)
    for address in ("127.0.0.1:1", "127.0.0.1:2"):
        async with pool.use(address):
            pass
    async with pool.use("127.0.0.1:1") as kept:
        pass
    async with pool.use("127.0.0.1:3"):
        assert len(pool) == 2
    async with pool.use("127.0.0.1:1") as again:
        assert again is kept
    await pool.close()


async def test_a_channel_with_a_call_on_it_is_never_closed_for_room() -> None:
    pool = ChannelPool(capacity=1)
    async with pool.use("127.0.0.1:1") as busy:
        async with pool.use("127.0.0.1:2"):
            assert len(pool) == 2
        async with pool.use("127.0.0.1:1") as again:
            assert again is busy
    await pool.close()
