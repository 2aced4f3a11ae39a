"""The exchange of rows over torch.distributed, seen from one rank: what it makes of how a call of gloo's ends."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from uvatrain.loader.exchange import Exchange, ExchangeFailed


class DoneAsTheWaitEnds:
    """A call that completes between the end of a wait with a timeout and the question whether it has completed."""

    def __init__(self, failure: str | None) -> None:
        self.failure = failure

    def wait(self, timeout: timedelta | None = None) -> None:
        if timeout is not None:
            raise RuntimeError("Timed out waiting 100ms for recv operation to complete")
        if self.failure is not None:
            raise RuntimeError(self.failure)

    def is_completed(self) -> bool:
        return True


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Exchange]:
    """The exchange of a group of one rank."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield Exchange(300)
    dist.destroy_process_group()


def test_a_call_that_is_done_just_after_a_wait_gave_up_has_not_failed(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dist, "all_to_all_single", lambda *_, **__: DoneAsTheWaitEnds(None))
    assert len(exchange.counts([5])) == 1


def test_a_call_that_failed_just_after_a_wait_gave_up_says_why(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dist, "all_to_all_single", lambda *_, **__: DoneAsTheWaitEnds("Connection closed by peer"))
    with pytest.raises(ExchangeFailed, match="Connection closed by peer"):
        exchange.counts([5])
