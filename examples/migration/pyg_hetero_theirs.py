"""Heterogeneous GraphSAGE with PyG. pyg_hetero_ours.py is the same script with uvatrain's NeighborLoader.

    python pyg_hetero_theirs.py DATA.pt TARGET [--epochs 10] [--seed 0]

DATA.pt is a HeteroData that torch.save wrote, with train_idx and test_idx of the type TARGET. PyG needs pyg-lib or
torch-sparse to sample.
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import HeteroConv, Linear, SAGEConv


class Model(torch.nn.Module):
    def __init__(self, metadata: tuple[list[str], list[tuple[str, str, str]]], classes: int):
        super().__init__()
        node_types, edge_types = metadata
        self.first = torch.nn.ModuleDict({name: Linear(-1, 64) for name in node_types})
        self.layers = torch.nn.ModuleList(
            HeteroConv({names: SAGEConv(64, 64) for names in edge_types}) for _ in range(2)
        )
        self.last = torch.nn.Linear(64, classes)

    def forward(self, batch: Any, target: str) -> torch.Tensor:
        x: dict[str, torch.Tensor] = {name: F.relu(self.first[name](rows)) for name, rows in batch.x_dict.items()}
        for layer in self.layers:
            # A type that no relation leads to keeps its rows.
            x = {**x, **{name: F.relu(rows) for name, rows in layer(x, batch.edge_index_dict).items()}}
        logits: torch.Tensor = self.last(x[target][: batch[target].batch_size])
        return logits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("target")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    data, target = torch.load(args.data, weights_only=False), args.target

    options: dict[str, Any] = dict(num_neighbors=[10, 5], batch_size=512)
    train = NeighborLoader(data, input_nodes=(target, data[target].train_idx), shuffle=True, **options)
    test = NeighborLoader(data, input_nodes=(target, data[target].test_idx), **options)
    model = Model(data.metadata(), int(data[target].y.max()) + 1)
    model(next(iter(train)), target)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(args.epochs):
        for batch in train:
            loss = F.cross_entropy(model(batch, target), batch[target].y[: batch[target].batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    right = total = 0
    with torch.no_grad():
        for batch in test:
            predicted = model(batch, target).argmax(1)
            right += int((predicted == batch[target].y[: batch[target].batch_size]).sum())
            total += len(predicted)
    print(f"test accuracy {right / total:.4f}")


if __name__ == "__main__":
    main()
