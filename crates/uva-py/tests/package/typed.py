"""What type checkers make of the module: scripts/check/types.sh reads this, and nothing runs it.

A line that says `type: ignore` is a mistake of a user's. mypy fails where it does not see the mistake any more.
"""

from collections.abc import Sequence
from typing import Any

import torch
import uvatrain
from typing_extensions import assert_type
from uvatrain.nn import SAGEConv


def batches(path: str) -> None:
    with uvatrain.Loader(path, fanouts=[10, 5], batch_size=512) as loader:
        assert_type(loader, uvatrain.Loader)
        for batch in loader:
            assert_type(batch, uvatrain.Batch)
            assert_type(batch.x, torch.Tensor)
            assert_type(batch.blocks, tuple[uvatrain.Block, ...])
            assert_type(batch.blocks[0].indptr, torch.Tensor)
            # There may be no labels, and no loop has to check for them.
            assert_type(batch.y, torch.Tensor | Any)
            torch.nn.functional.cross_entropy(batch.x, batch.y)
    for batch in uvatrain.attach("valid"):
        assert_type(batch, uvatrain.Batch)
    for rows in uvatrain.HopLoader(path, batch_size=8000):
        assert_type(rows, uvatrain.HopBatch)
        assert_type(rows.xs, list[torch.Tensor])


def transformed(path: str) -> None:
    for input_nodes, output_nodes, _blocks in uvatrain.Loader(path, transform=uvatrain.Batch.to_dgl_step):
        assert_type((input_nodes, output_nodes), tuple[torch.Tensor, torch.Tensor])
    for seeds in uvatrain.Loader(path, transform=lambda batch: batch.num_seeds):
        assert_type(seeds, int)


def options(path: str) -> None:
    shared: dict[str, Any] = dict(fanouts=(10, 5), seed=1)
    uvatrain.Loader(path, split="test", **shared)
    uvatrain.Loader(path, fanouts=10)  # type: ignore[arg-type]
    uvatrain.Loader(path, batch_sise=512)  # type: ignore[call-arg]
    uvatrain.Loader(path, part=1.5)  # type: ignore[arg-type]
    uvatrain.Dataset(path).num_node  # type: ignore[attr-defined]


def layers(dataset: uvatrain.Dataset, blocks: Sequence[uvatrain.Block], x: torch.Tensor) -> torch.Tensor:
    layer = SAGEConv(dataset.feature_dim, dataset.num_classes)
    assert_type(layer.forward(x, blocks[0]), torch.Tensor)
    assert_type(uvatrain.load_model("run1").options, dict[str, Any])
    return uvatrain.infer([layer], dataset, activation=torch.relu)
