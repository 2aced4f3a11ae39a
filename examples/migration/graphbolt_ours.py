"""graphbolt_theirs.py with uvatrain's loader and layers. DGL is not needed, and any torch will do.

    uvatrain import --from graphbolt ONDISK DATA
    python graphbolt_ours.py DATA [--epochs 10] [--seed 0]
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
import uvatrain
from uvatrain.nn import SAGEConv


class Model(torch.nn.Module):
    def __init__(self, features: int, classes: int):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(features, 128), SAGEConv(128, classes)])

    def forward(self, blocks: tuple[uvatrain.Block, ...], x: torch.Tensor) -> torch.Tensor:
        # Block 0 is the hop at the seeds, which a model runs last.
        for number, (layer, block) in enumerate(zip(self.layers, reversed(blocks))):
            x = layer(x, block)
            if number == 0:
                x = F.dropout(F.relu(x), training=self.training)
        return x


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    dataset = uvatrain.Dataset(args.data)

    # One fanout a hop, from the seeds outward. The training split is shuffled.
    options: dict[str, Any] = dict(fanouts=[10, 5], batch_size=512, seed=args.seed)
    train, test = (uvatrain.Loader(dataset, split=split, **options) for split in ("train", "test"))
    model = Model(dataset.feature_dim, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            logits = model(batch.blocks, batch.x)
            loss = F.cross_entropy(logits, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in test:
            predicted = model(batch.blocks, batch.x).argmax(1)
            right += int((predicted == batch.y).sum())
            total += len(predicted)
    print(f"test accuracy {right / total:.4f}")


if __name__ == "__main__":
    main()
