"""GraphSAGE with DGL: its DataLoader, its NeighborSampler, its layers. dgl_ours.py is the same script with uvatrain.

    python dgl_theirs.py DATA [--epochs 10] [--seed 0]

DATA is a directory of .npy files, as docs/reference/data-format.md describes it.
"""

import argparse
import os
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
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
    dgl.seed(args.seed)

    def load(name: str) -> torch.Tensor:
        return torch.from_numpy(np.load(f"{args.data}/{name}.npy"))

    indptr, indices = load("indptr"), load("indices").long()
    graph = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))), num_nodes=len(indptr) - 1)
    graph.ndata["feat"], graph.ndata["label"] = load("feat"), load("label")

    # One fanout a layer, the layer at the features first.
    sampler = dgl.dataloading.NeighborSampler([5, 10], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    train, test = (
        dgl.dataloading.DataLoader(graph, load(f"{split}_idx"), sampler, batch_size=512, shuffle=split == "train")
        for split in ("train", "test")
    )
    model = Model(graph.ndata["feat"].shape[1], int(graph.ndata["label"].max()) + 1)
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
