"""How a model learns a dataset's labels: the loss, and the metric (docs/guide/models.md)."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch.nn import functional

from .ranks import Ranks

#: Metrics by their names, as messages have them. Of errors the lowest is the best.
METRICS = {"accuracy": "accuracy", "roc-auc": "ROC-AUC", "mse": "MSE", "mae": "MAE"}
LOSSES = {"mse": functional.mse_loss, "mae": functional.l1_loss}
_ERRORS = frozenset(LOSSES)


class Labelled(Protocol):
    """Labels, as `uvatrain.Dataset` has them, and the features of the nodes that have them."""

    @property
    def labels(self) -> Any: ...
    @property
    def num_classes(self) -> int: ...
    @property
    def num_targets(self) -> int | None: ...
    @property
    def multi_label(self) -> bool: ...
    @property
    def feature_dim(self) -> int: ...


class Task(NamedTuple):
    """The task that a dataset's labels set."""

    #: Columns of a model's output: classes, or the numbers that are predicted.
    outputs: int
    #: Whether a node has several labels.
    is_multi_label: bool
    #: What is minimised where numbers are predicted; None: cross-entropy.
    loss: str | None
    metric: str
    #: The weight of each class in the loss of training; None: equal weights.
    weights: torch.Tensor | None = None

    @classmethod
    def of(cls, path: str, dataset: Labelled, metric: str, loss: str) -> Task:
        """That of these labels, with "auto" for what is usual. ValueError where there is none, or these are not for it."""
        if dataset.labels is None:
            raise ValueError(f"{path}: the dataset has no labels, so there is nothing to train on")
        if dataset.num_targets is not None:
            loss = "mse" if loss == "auto" else loss
            usual, outputs, classes = loss, dataset.num_targets, None
        elif loss != "auto":
            raise ValueError(
                f"--loss {loss}: only valid for float32 targets, but {path} has classes, whose loss is cross-entropy"
            )
        else:
            usual = "roc-auc" if dataset.multi_label else "accuracy"
            outputs = classes = dataset.num_classes
        if metric == "auto":
            metric = usual
        if (metric in _ERRORS) != (classes is None):
            of = "classes" if classes is not None else "float32 targets"
            fitting = " or ".join(name for name in METRICS if (name in _ERRORS) == (classes is None))
            raise ValueError(f"--metric {metric}: {path} has {of}: give {fitting}")
        if metric == "roc-auc" and not dataset.multi_label and classes != 2:
            raise ValueError(f"--metric roc-auc: it is for two classes, or several labels a node, and {path} has {classes} classes")
        return cls(outputs, dataset.multi_label, loss if classes is None else None, metric)

    def refuse_unlabelled(self, path: str, labels: torch.Tensor, ranks: Ranks) -> None:
        """ValueError, on every rank, where on some rank the training split has no label. labels: those of its nodes here."""
        is_single = self.loss is None and not self.is_multi_label
        labelled = int((labels >= 0).sum()) if is_single else len(labels)
        for rank, (nodes, found) in enumerate(ranks.gather((len(labels), labelled))):
            if found == 0:
                where = f" on rank {rank}" if ranks.together else ""
                lacks = f"the {nodes} nodes of the training split have no label" if nodes else "the training split is empty"
                raise ValueError(
                    f"{path}: {lacks}{where}, so there is nothing to train on: give labels (label.npy; -1: unlabelled), or a "
                    "training split of labelled nodes (train_idx.npy)"
                )

    def weighed(self, given: str | list[float] | None, path: str, labels: torch.Tensor, ranks: Ranks) -> Task:
        """This task with weights of classes, as `--class-weights` gives them. labels: those of the training split here.

        ValueError where labels are not one class a node, or there are more or fewer classes.
        """
        if given is None:
            return self
        shown = given if isinstance(given, str) else ",".join(f"{weight:g}" for weight in given)
        if self.loss is not None:
            raise ValueError(f"--class-weights {shown}: not supported with regression, and {path} has float32 targets")
        if self.is_multi_label:
            raise ValueError(f"--class-weights {shown}: not supported with several labels a node, and {path} has them")
        if not isinstance(given, str):
            if len(given) != self.outputs:
                raise ValueError(
                    f"--class-weights {shown}: {len(given)} weights, and {path} has {self.outputs} classes: give one for each "
                    "class"
                )
            return self._replace(weights=torch.tensor(given, device=ranks.device))
        # Where ranks have the same labels, all counts are multiples, which changes no weight.
        counted = ranks.sums(*torch.bincount(labels[labels >= 0], minlength=self.outputs).tolist())
        counts = torch.tensor(counted, dtype=torch.float64)
        occurs = counts > 0
        weights = torch.where(occurs, counts.sum() / (occurs.sum() * counts.clamp(min=1)), 0)
        return self._replace(weights=weights.to(ranks.device, torch.float32))

    def of_model(self) -> dict[str, Any]:
        """Options of the model, as checkpoints have them."""
        if self.loss is not None:
            return {"targets": self.outputs, "loss": self.loss}
        return {"classes": self.outputs, **({"multi_label": True} if self.is_multi_label else {})}

    def of_checkpoint(self) -> dict[str, Any]:
        """What a checkpoint records of the training, in addition to its model: only values other than the oldest defaults."""
        named = {"metric": (self.metric, "accuracy"), "loss": (self.loss or "mse", "mse")}
        return {name: value for name, (value, first) in named.items() if value != first}

    def is_better(self, value: float, than: float) -> bool:
        """Whether a model of this value is better than one of that."""
        return value < than if self.metric in _ERRORS else value > than

    def step(self, logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, int, int]:
        """The mean loss of a batch; how many of its labels are right; and how many there are."""
        if self.loss is not None:
            targets = y.view(len(logits), self.outputs)
            return LOSSES[self.loss](logits, targets), 0, targets.numel()
        if self.is_multi_label:
            loss = functional.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
        else:
            known = y >= 0
            logits, y = logits[known], y[known]
            if not len(y):
                # The others wait for gradients of this rank too: zeros.
                return 0 * logits.sum(), 0, 0
            loss = functional.cross_entropy(logits, y, self.weights)
        return loss, self._right(logits, y), y.numel()

    def _right(self, logits: torch.Tensor, y: torch.Tensor) -> int:
        found = (logits > 0) == (y > 0) if self.is_multi_label else logits.argmax(1) == y
        return int(found.sum())


class Evaluation:
    """How good a model is on the batches of a split."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._right = self._labelled = 0
        self._squared = self._absolute = 0.0
        #: Of each batch: how sure the model is that a node has a class, and whether it has.
        self._answers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, logits: torch.Tensor, y: torch.Tensor) -> None:
        """Counts a batch."""
        task = self._task
        if task.loss is not None:
            errors = logits.double() - y.view(len(logits), task.outputs).double()
            self._squared += errors.square().sum().item()
            self._absolute += errors.abs().sum().item()
            self._labelled += errors.numel()
            return
        if not task.is_multi_label:
            logits, y = logits[y >= 0], y[y >= 0]
        self._right += task._right(logits, y)
        self._labelled += y.numel()
        if task.metric == "roc-auc":
            if not task.is_multi_label:
                logits, y = (logits[:, 1] - logits[:, 0]).unsqueeze(1), y.unsqueeze(1)
            self._answers.append((logits.float().cpu(), (y > 0).cpu()))

    def over(self, ranks: Ranks) -> dict[str, float]:
        """The values of metrics over the batches of all ranks; none where there are no labels."""
        right, labelled, squared, absolute = ranks.sums(self._right, self._labelled, self._squared, self._absolute)
        task = self._task
        found: dict[str, float] = {}
        if labelled and task.loss is not None:
            found = {"mse": squared / labelled, "mae": absolute / labelled}
        elif labelled:
            found = {"accuracy": right / labelled}
        if task.metric == "roc-auc":
            answers = [answer for of_rank in ranks.gather(self._answers) for answer in of_rank]
            area = _mean_area([torch.cat(column) for column in zip(*answers, strict=True)]) if answers else None
            if area is not None:
                found["roc-auc"] = area
        return found


def _mean_area(answers: list[torch.Tensor]) -> float | None:
    """The mean of the areas under the ROC curves of those classes that some nodes have and some have not."""
    scores, positive = answers
    if scores.isnan().any():
        return None
    areas = [_area(score, has) for score, has in zip(scores.unbind(1), positive.unbind(1), strict=True)]
    defined = [area for area in areas if area is not None]
    return sum(defined) / len(defined) if defined else None


def _area(score: torch.Tensor, positive: torch.Tensor) -> float | None:
    """The share of pairs of a positive and a negative in which the positive scores higher, ties counting a half. It is counted in
    integers, so that the order of the answers does not matter."""
    different, place = score.unique(return_inverse=True)
    positives = torch.zeros(len(different), dtype=torch.int64).index_add_(0, place, positive.long())
    negatives = torch.zeros(len(different), dtype=torch.int64).index_add_(0, place, (~positive).long())
    pairs = int(positives.sum()) * int(negatives.sum())
    halves = int((positives * (2 * (negatives.cumsum(0) - negatives) + negatives)).sum())
    return halves / (2 * pairs) if pairs else None
