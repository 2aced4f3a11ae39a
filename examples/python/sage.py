"""GraphSAGE in plain PyTorch, over the blocks of uvatrain's batches.

    python sage.py DATA [--epochs 5]

DATA is a directory that `uvatrain generate`, `uvatrain import` or `uvatrain.write_dataset` made.
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
import uvatrain


class SageLayer(torch.nn.Module):
    """h'(v) = W_self h(v) + W_neighbours mean of h(u) over the sampled in-neighbours u of v."""

    def __init__(self, width_in: int, width_out: int):
        super().__init__()
        self.own = torch.nn.Linear(width_in, width_out)
        self.neighbours = torch.nn.Linear(width_in, width_out, bias=False)

    def forward(self, h: torch.Tensor, block: uvatrain.Block) -> torch.Tensor:
        source, destination = block.edge_index
        total = h.new_zeros(block.num_dst, h.shape[1]).index_add_(0, destination, h[source])
        degree = block.indptr.diff().clamp(min=1).unsqueeze(1)
        # Destinations are the first of the sources, so no ids are needed.
        rows: torch.Tensor = self.own(h[: block.num_dst]) + self.neighbours(total / degree)
        return rows


class Sage(torch.nn.Module):
    def __init__(self, width_in: int, hidden: int, classes: int, layers: int):
        super().__init__()
        widths = [width_in, *[hidden] * (layers - 1), classes]
        self.layers = torch.nn.ModuleList(map(SageLayer, widths, widths[1:]))

    def forward(self, batch: uvatrain.Batch) -> torch.Tensor:
        h = batch.x.float()
        # Layer 0 is the hop at the seeds, so the outermost comes first.
        for number, (layer, block) in enumerate(zip(self.layers, reversed(batch.blocks))):
            h = layer(h, block)
            if number < len(self.layers) - 1:
                h = F.dropout(F.relu(h), training=self.training)
        return h


@torch.no_grad()
def accuracy(model: Sage, batches: uvatrain.Loader) -> float:
    model.eval()
    right = labelled = 0
    for batch in batches:
        known = batch.y >= 0
        right += int((model(batch).argmax(1) == batch.y)[known].sum())
        labelled += int(known.sum())
    return right / max(labelled, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--fanouts", type=lambda text: [int(f) for f in text.split(",")], default=[10, 5])
    args = parser.parse_args()

    torch.manual_seed(0)
    options: dict[str, Any] = dict(fanouts=args.fanouts, batch_size=args.batch_size)
    with (
        uvatrain.Loader(args.data, **options) as train,
        uvatrain.Loader(args.data, split="valid", **options) as valid,
        uvatrain.Loader(args.data, split="test", **options) as test,
    ):
        dataset = train.dataset
        model = Sage(dataset.feature_dim, 64, dataset.num_classes, len(args.fanouts))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(args.epochs):
            model.train()
            loss_sum = 0.0
            for batch in train:
                loss = F.cross_entropy(model(batch), batch.y, ignore_index=-1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss_sum += loss.item()
            print(f"epoch {epoch}: loss {loss_sum / len(train):.4f}, validation {accuracy(model, valid):.4f}")
        print(f"test accuracy {accuracy(model, test):.4f}")


if __name__ == "__main__":
    main()
