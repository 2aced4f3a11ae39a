"""GraphSAGE with DGL's GraphBolt: OnDiskDataset, ItemSampler, its stages and DataLoader. graphbolt_ours.py is the same
script with uvatrain, without DGL.

    python graphbolt_theirs.py DATA [--epochs 10] [--seed 0]

DATA is the directory of an OnDiskDataset, for example what `uvatrain export --to graphbolt` wrote. GraphBolt adds a
directory `preprocessed` to it.
"""

import argparse
import os
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl  # noqa: E402
import dgl.graphbolt as gb  # noqa: E402
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

    dataset = gb.OnDiskDataset(args.data).load()
    task = dataset.tasks[0]

    def loader(items: gb.ItemSet, shuffle: bool) -> gb.DataLoader:
        pipe = gb.ItemSampler(items, batch_size=512, shuffle=shuffle)
        # One fanout a layer, the layer at the features first.
        pipe = pipe.sample_neighbor(dataset.graph, [5, 10])
        pipe = pipe.fetch_feature(dataset.feature, node_feature_keys=["feat"])
        return gb.DataLoader(pipe)

    train, test = loader(task.train_set, True), loader(task.test_set, False)
    features = dataset.feature.size("node", None, "feat")[0]
    model = Model(features, task.metadata["num_classes"])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            logits = model(batch.blocks, batch.node_features["feat"])
            loss = F.cross_entropy(logits, batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in test:
            predicted = model(batch.blocks, batch.node_features["feat"]).argmax(1)
            right += int((predicted == batch.labels).sum())
            total += len(predicted)
    print(f"test accuracy {right / total:.4f}")


if __name__ == "__main__":
    main()
