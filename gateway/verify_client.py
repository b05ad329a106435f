"""The verify service as the gateway sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from common.codec import event_from_proto, generate_to_proto
from common.errors import Internal, InvalidRequest
from common.types import GenerateEvent, GenerateRequest
from gateway.channels import ChannelPool, peer_errors
from protos.tandem.v1 import verify_pb2
from protos.tandem.v1.verify_pb2_grpc import VerifyServiceStub


class VerifyClient:
    """Generates on any verify replica."""

    def __init__(self, timeout_seconds: float) -> None:
        self._channels = ChannelPool()
        self._timeout = timeout_seconds

    async def generate(self, address: str, request: GenerateRequest) -> AsyncGenerator[GenerateEvent, None]:
        """The events of one answer, read from the network only as fast as they are taken.

        Closing the generator, or cancelling the task that waits for its next event, cancels the call.

        Raises:
            TandemError: what the replica raised, Unavailable when it cannot be reached, TimedOut when the
                answer takes longer than the client's timeout.
        """
        async with self._channels.use(address) as channel:
            call = VerifyServiceStub(channel).Generate(generate_to_proto(request), timeout=self._timeout)
            try:
                with peer_errors("verify service"):
                    async for message in call:
                        yield _decode(message)
            finally:
                call.cancel()

    async def close(self) -> None:
        await self._channels.close()


def _decode(message: verify_pb2.GenerateResponse) -> GenerateEvent:
    """An event that cannot be read is the replica's fault, never the client's."""
    try:
        return event_from_proto(message)
    except (InvalidRequest, KeyError) as error:
        raise Internal("the verify service sent an event that this gateway does not know") from error
