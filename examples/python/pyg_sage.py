"""PyG's GraphSAGE, with uvatrain instead of NeighborLoader.

    python pyg_sage.py DATA [--epochs 5]
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
import uvatrain
from torch_geometric.nn import GraphSAGE

#: Those of pyg_sage_run.py come from the launcher.
Batches = uvatrain.Loader | uvatrain.Session


def logits(model: GraphSAGE, batch: uvatrain.Batch) -> torch.Tensor:
    data = batch.to_pyg()
    out = model(
        data.x.float(),
        data.edge_index,
        num_sampled_nodes_per_hop=data.num_sampled_nodes,
        num_sampled_edges_per_hop=data.num_sampled_edges,
    )
    seeds: torch.Tensor = out[: data.batch_size]
    return seeds


@torch.no_grad()
def accuracy(model: GraphSAGE, batches: Batches) -> float:
    model.eval()
    right = labelled = 0
    for batch in batches:
        known = batch.y >= 0
        right += int((logits(model, batch).argmax(1) == batch.y)[known].sum())
        labelled += int(known.sum())
    return right / max(labelled, 1)


def fit(train: Batches, valid: Batches, test: Batches, epochs: int) -> None:
    torch.manual_seed(0)
    dataset = train.dataset
    model = GraphSAGE(dataset.feature_dim, 64, num_layers=2, out_channels=dataset.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        model.train()
        loss_sum = 0.0
        for batch in train:
            loss = F.cross_entropy(logits(model, batch), batch.y, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        print(f"epoch {epoch}: loss {loss_sum / len(train):.4f}, validation {accuracy(model, valid):.4f}")
    print(f"test accuracy {accuracy(model, test):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=512)
    args = parser.parse_args()

    # PyG expands only the nodes that a hop finds new; trimming layers rests on it.
    options: dict[str, Any] = dict(fanouts=[10, 5], batch_size=args.batch_size, expand="new")
    with (
        uvatrain.Loader(args.data, **options) as train,
        uvatrain.Loader(args.data, split="valid", **options) as valid,
        uvatrain.Loader(args.data, split="test", **options) as test,
    ):
        fit(train, valid, test, args.epochs)


if __name__ == "__main__":
    main()
