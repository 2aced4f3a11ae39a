"""A rank's lines of metrics, of the form that `uvatrain train --metrics` writes and `uvatrain report` reads."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import stat
import time
from typing import IO, Any

from .. import __version__
from ..errors import UvatrainError
from ..loader import Batches
from ..loader.batch import SlotBatch
from .checkpoint import Place
from .data import Data
from .options import Options
from .ranks import Ranks


def opened(path: str, resume: bool) -> IO[str]:
    """The file, for writing, locked while it is open, as `uvatrain train` does. Earlier lines stay with `resume`."""
    # A line at a time, so that a rank that is killed leaves whole ones.
    file = open(path, "a", encoding="utf-8", buffering=1)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ValueError(
                f"--metrics {path}: another process is writing it: wait for its end, or name another file"
            ) from None
        if not resume:
            file.truncate(0)
    return file


class Metrics:
    """Writes them to a file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._begun = time.monotonic()
        self._batches = 0
        #: Seconds in which training batches were used or awaited.
        self._training = 0.0

    def start(self, options: Options, ranks: Ranks, data: Data, place: Place) -> None:
        """The first line: what is trained, and how."""
        loader, labelled = data.batches["train"], data.labelled
        given = {**options.values, "loader": options.of_hop_loader() if options.is_hop_set else options.of_loader()}
        self._write(
            "start",
            version=__version__,
            dataset={**data.measures, "classes": labelled.num_classes, "fingerprint": loader._source.identity("train")["fingerprint"]},
            options={name: value for name, value in given.items() if value is not None},
            in_force={
                "device": str(ranks.device),
                # Where it is not given, threads are counted when the loader is made.
                "samplers": _roles(loader)["sampler"]["processes"],
                "train_batches": loader._source.all_batches("train"),
                "start": place._asdict(),
                "rank": {"rank": ranks.rank, "world_size": ranks.count},
            },
            pid=os.getpid(),
            rank=ranks.rank,
            ranks=ranks.count,
            **place._asdict(),
        )

    def batch(self, batch: SlotBatch, loss: float, begun_ns: int) -> None:
        """A batch that this rank has trained on, since `begun_ns` of the monotonic clock."""
        self._batches += 1
        took = (time.monotonic_ns() - begun_ns) // 1000
        event = json.loads(batch._core.event())
        self._write(**{**event, "loss": loss, "train_at_us": begun_ns // 1000, "train_us": took})

    def trained(self, seconds: float) -> None:
        """Counts the time of an epoch's batches."""
        self._training += seconds

    def epoch(self, **fields: Any) -> None:
        """The end of an epoch."""
        self._write("epoch", **fields)

    def end(self, loader: Batches[Any], **fields: Any) -> None:
        """The last line. loader: that of training."""
        trained = self._batches > 0 and self._training > 0
        self._write(
            "end",
            **fields,
            seconds=time.monotonic() - self._begun,
            batches=self._batches,
            training_seconds=self._training,
            batches_per_second=self._batches / self._training if trained else None,
            bottleneck=loader.stats()["bottleneck"] if trained else None,
            roles=_roles(loader),
        )

    def _write(self, event: str, **fields: Any) -> None:
        try:
            self._file.write(json.dumps({"event": event, **fields}) + "\n")
        except OSError as error:
            raise UvatrainError(f"--metrics {self._file.name}: {error}") from None


def _roles(loader: Batches[Any]) -> dict[str, dict[str, Any]]:
    """What each role has done so far. Workers that prepare whole batches count as samplers, and there is no producer."""
    stats = loader.stats()
    idle = {"threads": 0, "working_s": 0.0, "waiting_input_s": 0.0, "waiting_output_s": 0.0}
    # All roles are threads of this process.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {
        "sampler": stats.get("sampler", stats.get("worker", idle)),
        "producer": stats.get("producer", idle),
        "consumer": stats["consumer"],
    }
    return {
        name: {"processes": role["threads"], **{key: role[key] for key in idle if key != "threads"}, "peak_rss_bytes": peak}
        for name, role in found.items()
    }
