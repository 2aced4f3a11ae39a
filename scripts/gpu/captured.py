#!/usr/bin/env python3
"""A captured loop on a GPU (docs/guide/python.md, static shapes), and the same loop with each step enqueued.

    scripts/gpu/captured.py DATA [--fanouts 10,5] [--batch-size 1024] [--epochs 3]

GraphSAGE of PyG layers, each over its own block, batches of `uvatrain.Loader(device="cuda:0", pad="auto")`. Both loops run
twice, alternately. Prints a line of JSON for each: seconds and mean loss of every epoch, and how many batches had the static
shapes. Needs PyTorch with a GPU, PyG and uvatrain.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
import uvatrain
from torch_geometric.nn import SAGEConv

HIDDEN = 64
# Steps before the capture, which PyTorch requires. They train, too.
WARM_UP = 3


class Model(torch.nn.Module):
    def __init__(self, features, classes, hops):
        super().__init__()
        widths = [features, *[HIDDEN] * (hops - 1), classes]
        self.layers = torch.nn.ModuleList([SAGEConv(*ends) for ends in zip(widths, widths[1:])])

    def forward(self, x, edge_index, sizes):
        hops = zip(self.layers, reversed(edge_index), reversed(sizes))
        for number, (layer, edges, destinations) in enumerate(hops):
            x = layer((x, x[:destinations]), edges)
            x = x.relu() if number + 1 < len(self.layers) else x
        return x


def run(arguments, captured):
    dataset = uvatrain.Dataset(arguments.data)
    torch.manual_seed(0)
    model = Model(dataset.feature_dim, dataset.num_classes, len(arguments.fanouts)).cuda()
    loader = uvatrain.Loader(arguments.data, device="cuda:0", fanouts=arguments.fanouts,
                             batch_size=arguments.batch_size, pad="auto")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    sizes = [destinations for destinations, _, _ in loader.shapes.blocks]
    graph, found = None, {"captured": captured, "epoch_s": [], "losses": [], "padded": 0, "batches": 0}

    def inputs(batch):
        return [batch.x, batch.y, *batch.edge_index]

    def step(sizes, x, y, *edge_index):
        loss = F.cross_entropy(model(x, edge_index, sizes), y, ignore_index=-1)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(arguments.epochs):
        torch.cuda.synchronize()
        began, total = time.perf_counter(), torch.zeros((), device="cuda")
        for batch in loader:
            found["batches"] += 1
            found["padded"] += batch.padded
            if not batch.padded or not captured:
                optimizer.zero_grad()
                total += step([block.num_dst for block in batch.blocks], *inputs(batch)).detach()
                continue
            if graph is None:
                static = [tensor.clone() for tensor in inputs(batch)]
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(WARM_UP):
                        optimizer.zero_grad()
                        step(sizes, *static)
                torch.cuda.current_stream().wait_stream(side)
                optimizer.zero_grad()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = step(sizes, *static)
            for to, tensor in zip(static, inputs(batch)):
                to.copy_(tensor)
            graph.replay()
            total += loss.detach()
        torch.cuda.synchronize()
        found["epoch_s"].append(time.perf_counter() - began)
        found["losses"].append(total.item() / len(loader))
    loader.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--fanouts", type=lambda text: [int(part) for part in text.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    for captured in (False, True) * 2:
        print(json.dumps(run(arguments, captured)), flush=True)


if __name__ == "__main__":
    main()
