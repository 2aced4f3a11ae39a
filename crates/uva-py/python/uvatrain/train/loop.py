"""Epochs of training and validation, and the test at the end."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from .. import __version__, _core
from ..errors import UvatrainError
from ..loader.batch import SlotBatch
from ..models import KINDS, HopModel, Model, RelationModel
from . import checkpoint, metrics
from .checkpoint import Folder, Place, Saved
from .data import Data, opened
from .initial import batch_seed, initialise
from .metrics import Metrics
from .options import Options
from .ranks import Ranks
from .task import METRICS, Evaluation, Task


def train(options: Options, ranks: Ranks) -> None:
    """Trains to the end on this rank.

    Raises ValueError for options, Disagreement where ranks do not fit each other, UvatrainError and RuntimeError where the
    training fails.
    """
    with contextlib.ExitStack() as closing:
        data = opened(options, ranks, closing)
        # torchrun restarts all workers if one has failed; each of its agents counts only its own restarts.
        again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        if options.checkpoint is not None and any(ranks.gather(again)):
            options = replace(options, resume=True)
        run = _Run(options, ranks, data)
        run.open_folder(closing)
        run.open_metrics(closing)
        run.train()


class _Run:
    def __init__(self, options: Options, ranks: Ranks, data: Data) -> None:
        self._options, self._ranks, self._data = options, ranks, data
        self._task = Task.of(options.data, data.labelled, options.metric, options.loss)
        self._task.refuse_unlabelled(options.data, data.training_labels, ranks)
        trainer, self._notes = options.of_trainer(data.edge_dim, data.graph, self._task.outputs)
        self._task = self._task.weighed(trainer.get("class_weights"), options.data, data.training_labels, ranks)
        of_model = {**trainer, "input_dim": data.labelled.feature_dim, **self._task.of_model()}
        kind = Model if data.graph is None else RelationModel
        self._model: Model | HopModel | RelationModel = KINDS.get(options.model, kind)(of_model)
        initialise(self._model, options.seed)
        self._model.to(ranks.device)
        self._fingerprint: dict[str, Any] = {
            **data.fingerprint,
            # The graph is compared as a part of the model.
            "trainer": {name: value for name, value in trainer.items() if name != "graph"},
            "evaluate_by": "sampled",
            **self._task.of_checkpoint(),
        }
        self._agree()
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
        self._saved = Saved(Place(0, 0), [0.0, 0.0, 0.0], None, 0)
        self._best: dict[str, torch.Tensor] | None = None
        self._folder: Folder | None = None
        self._metrics: Metrics | None = None

    def _agree(self) -> None:
        """That all ranks train the same."""
        options = self._options
        same = ("epochs", "checkpoint_every", "patience", "keep", "resume")
        self._ranks.agree(
            version=__version__,
            **{f"--{name.replace('_', '-')}": getattr(options, name) for name in same},
            **{"whether --checkpoint is given": options.checkpoint is not None},
            **{name: value for name, value in self._fingerprint.items() if name != "trainer"},
            **{f"model's {name}": value for name, value in self._model.options.items()},
        )

    def open_folder(self, closing: contextlib.ExitStack) -> None:
        """Opens the directory for checkpoints, and resumes from its checkpoint if requested."""
        options, ranks = self._options, self._ranks
        if options.checkpoint is None:
            return
        refusal = None
        if ranks.is_first:
            try:
                self._folder = Folder(options.checkpoint)
                closing.callback(self._folder.close)
                if self._folder.has_checkpoint() and not options.resume:
                    refusal = (
                        f"--checkpoint {options.checkpoint}: it has a checkpoint: resume with --resume, or give "
                        "another directory"
                    )
            except (ValueError, OSError) as error:
                refusal = str(error)
        # All of them end, or none.
        refusal = ranks.gather(refusal)[0]
        if refusal is not None:
            raise ValueError(refusal)
        if options.resume:
            # Each rank has as many batches, and fewer than there are ranks are left out.
            most = (len(self._data.batches["train"]) + 1) * ranks.count - 1
            found = checkpoint.read(options.checkpoint, self._model, self._optimizer, self._fingerprint, most)
            if found is not None:
                self._saved, self._best = found
                if not ranks.is_first:
                    # They are those of all ranks.
                    self._saved = self._saved._replace(sums=[0.0, 0.0, 0.0])
            ranks.agree(checkpoint=(self._saved.place, self._optimizer_steps()))

    def _optimizer_steps(self) -> int:
        return max((int(moments["step"]) for moments in self._optimizer.state.values()), default=0)

    def open_metrics(self, closing: contextlib.ExitStack) -> None:
        """Makes this rank's file of metrics; a resumed run appends to it."""
        if self._options.metrics is not None:
            rank = self._ranks.rank
            path = self._options.metrics + (f".{rank}" if rank else "")
            # The name of rank 0, too: all ranks refuse it, or none.
            for output in (self._options.metrics, path):
                reads = [read for read in (self._options.data, self._options.checkpoint) if read is not None]
                _core._check_output("--metrics", output, reads)
            self._metrics = Metrics(closing.enter_context(metrics.opened(path, self._options.resume)))

    def _say(self, line: str) -> None:
        if self._ranks.is_first:
            print(line, flush=True)

    def train(self) -> None:
        options, ranks = self._options, self._ranks
        goes_on = self._saved.place != Place(0, 0)
        self._say(
            f"{options.data}: {self._data.described}; {options.model} over {ranks.count} "
            f"{'rank' if ranks.count == 1 else 'ranks'}, {len(self._data.batches['train'])} steps an epoch"
            + (f"; resumes at epoch {self._saved.place.epoch + 1}, batch {self._saved.place.batch}" if goes_on else "")
        )
        for note in self._notes:
            self._say(note)
        if self._metrics is not None:
            self._metrics.start(options, ranks, self._data, self._saved.place)
        while self._saved.place.epoch < options.epochs and not self._is_over():
            self._epoch()
        self._test()

    def _is_over(self) -> bool:
        patience = self._options.patience
        # An epoch under way is trained to its end.
        return patience is not None and self._saved.epochs_without_gain >= patience and self._saved.place.batch == 0

    def _epoch(self) -> None:
        epoch, since = self._saved.place.epoch, time.monotonic()
        for step, batch in enumerate(self._rest_of_epoch(), 1):
            self._step(batch)
            every = self._options.checkpoint_every
            if every is not None and step % every == 0:
                self._write()
        if self._metrics is not None:
            self._metrics.trained(time.monotonic() - since)
        loss, correct, labelled = self._ranks.sums(*self._saved.sums)
        mean = loss / max(labelled, 1)
        valid = self._evaluated("valid", epoch)
        value = valid.get(self._task.metric)
        saved = self._saved._replace(place=Place(epoch + 1, 0), sums=[0.0, 0.0, 0.0])
        if value is not None and (saved.best is None or self._task.is_better(value, saved.best[1])):
            saved = saved._replace(best=(epoch, value), epochs_without_gain=0)
            self._best = {name: tensor.detach().clone() for name, tensor in self._model.state_dict().items()}
        elif value is not None:
            saved = saved._replace(epochs_without_gain=saved.epochs_without_gain + 1)
        self._saved = saved
        self._write()
        seconds, right = time.monotonic() - since, None if self._task.loss else correct / max(labelled, 1)
        line = f"epoch {epoch + 1}/{self._options.epochs}  loss {mean:.4f}"
        line += "" if right is None else f"  train {100 * right:.1f} %"
        line += "  valid " + "  ".join(_shown(valid)) if valid else ""
        self._say(f"{line}  {seconds:.2f} s")
        if self._metrics is not None:
            told = {**_named("valid", valid), "regression": self._task.loss is not None}
            self._metrics.epoch(epoch=epoch, train_loss=mean, train_accuracy=right, **told, seconds=seconds)

    def _rest_of_epoch(self) -> Iterator[SlotBatch]:
        """This rank's remaining batches of the current epoch."""
        place, loader = self._saved.place, self._data.batches["train"]
        # The state of one process that has had all batches so far.
        state = {**loader.state_dict(), "first": 0, "world_size": 1, "trainers": 1, **place._asdict()}
        loader.load_state_dict(state)
        return iter(loader)

    def _step(self, batch: SlotBatch) -> None:
        """A step on a batch of each rank."""
        begun = time.monotonic_ns()
        self._model.train()
        torch.manual_seed(batch_seed(self._options.seed, batch.epoch, batch.index))
        logits = self._data.logits(self._model, batch)
        loss, right, labelled = self._task.step(logits, self._data.targets(batch))
        value = loss.item()
        if not math.isfinite(value):
            raise UvatrainError(
                f"training diverged: the loss of epoch {batch.epoch}, batch {batch.index} is {value}. A lower --lr may help"
            )
        self._optimizer.zero_grad()
        loss.backward()
        for parameter in self._model.parameters():
            # Some are unused: in a layer of hgt those of results of a type that is only a source. They decay like others.
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._ranks.average_gradients(self._model.parameters())
        self._optimizer.step()
        added = [labelled * value, right, labelled]
        self._saved = self._saved._replace(
            place=Place(batch.epoch, self._saved.place.batch + self._ranks.count),
            sums=[own + new for own, new in zip(self._saved.sums, added, strict=True)],
        )
        if self._metrics is not None:
            self._metrics.batch(batch, value, begun)

    @torch.no_grad()
    def _evaluated(self, split: str, epoch: int) -> dict[str, float]:
        """How good the model is on a split, over all ranks: metrics by their names; none where nothing is labelled.

        epoch: which picks of neighbours it is judged by.
        """
        self._model.eval()
        self._data.batches[split].set_epoch(epoch)
        found = Evaluation(self._task)
        for batch in self._data.batches[split]:
            found.add(self._data.logits(self._model, batch), self._data.targets(batch))
        return found.over(self._ranks)

    def _write(self) -> None:
        """Writes a checkpoint, where there is a directory for it. All ranks call it."""
        if self._options.checkpoint is None:
            return
        saved = self._saved._replace(sums=self._ranks.sums(*self._saved.sums))
        if self._folder is not None:
            try:
                checkpoint.write(
                    self._folder.path, self._model, self._optimizer, self._best, self._fingerprint, self._options.keep, saved
                )
            except OSError as error:
                raise UvatrainError(str(error)) from None

    def _test(self) -> None:
        best = self._saved.best
        kept = self._options.keep == "best" and self._best is not None and best is not None
        if kept and self._best is not None:
            self._model.load_state_dict(self._best)
        test = self._evaluated("test", 0)
        if best is not None:
            self._say(f"{'best validation':<18}{_shown({self._task.metric: best[1]})[0]}, of epoch {best[0] + 1}")
        tested = best[0] if kept and best is not None else self._saved.place.epoch - 1
        if test:
            sampled = " on sampled neighbours" if self._options.samples else ""
            self._say(f"{'test':<18}{', '.join(_shown(test))}{sampled}, of epoch {tested + 1}")
        if self._options.checkpoint is not None:
            self._say(f"{'checkpoint':<18}{self._options.checkpoint}")
        if self._metrics is not None:
            told = _named("test", test)
            if test:
                told["test_epoch"] = tested
            if best is not None:
                told |= {**_named("best_valid", {self._task.metric: best[1]}), "best_valid_epoch": best[0]}
            trained = self._saved.place.epoch
            told |= {"epochs": trained, "stopped_early": trained < self._options.epochs}
            self._metrics.end(self._data.batches["train"], **told)


def _named(split: str, found: dict[str, float]) -> dict[str, Any]:
    """Metrics under their names in lines of metrics."""
    return {f"{split}_{name.replace('-', '_')}": value for name, value in found.items()}


def _shown(found: dict[str, float]) -> list[str]:
    """Metrics for people."""
    shares = {"accuracy", "roc-auc"}
    values = ((METRICS[name], f"{100 * value:.1f} %" if name in shares else f"{value:.4g}") for name, value in found.items())
    return [f"{name} {value}" for name, value in values]
