"""dgl_theirs.py with uvatrain's loader. Model and loops are DGL's, unchanged.

    python dgl_ours.py DATA [--epochs 10] [--seed 0]

DATA is a dataset, for example what `uvatrain import` wrote.
"""

import argparse
import os
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import uvatrain  # noqa: E402
from dgl.nn import SAGEConv  # noqa: E402


class Model(torch.nn.Module):
    def __init__(self, features: int, classes: int):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(features, 128, "mean"), SAGEConv(128, classes, "mean")])

    def forward(self, blocks: Any, x: torch.Tensor) -> torch.Tensor:
        for number, (layer, block) in enumerate(zip(self.layers, blocks)):
            x = layer(block, x)
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
    train, test = (
        uvatrain.Loader(dataset, split=split, transform=uvatrain.Batch.to_dgl_step, **options)
        for split in ("train", "test")
    )
    model = Model(dataset.feature_dim, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(args.epochs):
        model.train()
        for input_nodes, output_nodes, blocks in train:
            logits = model(blocks, blocks[0].srcdata["feat"])
            loss = F.cross_entropy(logits, blocks[-1].dstdata["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model.eval()
    right = total = 0
    with torch.no_grad():
        for input_nodes, output_nodes, blocks in test:
            predicted = model(blocks, blocks[0].srcdata["feat"]).argmax(1)
            right += int((predicted == blocks[-1].dstdata["label"]).sum())
            total += len(predicted)
    print(f"test accuracy {right / total:.4f}")


if __name__ == "__main__":
    main()
