"""pyg_theirs.py with uvatrain's NeighborLoader and layers: other imports, and a dataset instead of the Data.

    python pyg_ours.py DATA [--epochs 10] [--seed 0]

DATA is a dataset, for example what `uvatrain import` or `uvatrain.from_pyg` wrote. Neither pyg-lib nor torch-sparse is
needed.
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
import uvatrain
from torch_geometric.utils import trim_to_layer
from uvatrain.nn import SAGEConv
from uvatrain.pyg import NeighborLoader


class Model(torch.nn.Module):
    def __init__(self, features: int, classes: int):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(features, 128), SAGEConv(128, classes)])

    def forward(self, batch: Any) -> torch.Tensor:
        x: torch.Tensor = batch.x
        edge_index = batch.edge_index
        for number, layer in enumerate(self.layers):
            # With torch-sparse PyG does not count what each hop sampled. Without counts nothing is trimmed.
            if "num_sampled_nodes" in batch:
                counts = batch.num_sampled_nodes, batch.num_sampled_edges
                x, edge_index, _ = trim_to_layer(number, *counts, x, edge_index)
            x = layer(x, edge_index)
            if number == 0:
                x = F.dropout(F.relu(x), training=self.training)
        return x[: batch.batch_size]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    data = uvatrain.Dataset(args.data)

    options: dict[str, Any] = dict(num_neighbors=[10, 5], batch_size=512)
    train = NeighborLoader(data, input_nodes=data.train_idx, shuffle=True, **options)
    test = NeighborLoader(data, input_nodes=data.test_idx, **options)
    model = Model(data.feature_dim, data.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            loss = F.cross_entropy(model(batch), batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in test:
            predicted = model(batch).argmax(1)
            right += int((predicted == batch.y[: batch.batch_size]).sum())
            total += len(predicted)
    print(f"test accuracy {right / total:.4f}")


if __name__ == "__main__":
    main()
