"""The same model under the launcher: sampler and producer are processes, this script is the consumer.

    uvatrain run DATA --fanouts 10,5 --batch-size 512 --expand new -- python pyg_sage_run.py [--epochs 5]

How batches are made is the launcher's; which pass comes next is the script's.
"""

import argparse

import torch
import torch.nn.functional as F
import uvatrain
from pyg_sage import accuracy, logits
from torch_geometric.nn import GraphSAGE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    train, valid, test = (uvatrain.attach(split) for split in ("train", "valid", "test"))
    dataset = train.dataset
    model = GraphSAGE(dataset.feature_dim, 64, num_layers=2, out_channels=dataset.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
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


if __name__ == "__main__":
    main()
