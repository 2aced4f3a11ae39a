"""Seconds of an epoch of uvatrain.pyg.NeighborLoader and of uvatrain.Loader with to_pyg(), as one JSON object.

    python crates/uva-py/benches/neighbor_loader.py DATASET [--fanouts 15,10] [--batch-size 1024] [--epochs 5]

Epochs of the loaders alternate, and the first one of each does not count. "loader" has what NeighborLoader's batches have too:
edge ids, `input_id`, and edge features if there are any. "data" is NeighborLoader over the same graph as a PyG `Data`.
"""

import argparse
import json
import statistics
import time
import warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()

    import torch
    from torch_geometric.data import Data

    import uvatrain
    from uvatrain.pyg import NeighborLoader

    warnings.simplefilter("ignore", uvatrain.UvatrainWarning)
    torch.set_num_threads(1)
    dataset = uvatrain.Dataset(options.dataset)
    fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
    columns = dict(edge_ids=True, input_id=True, edge_attr=dataset.edge_attr is not None)
    targets = torch.repeat_interleave(torch.arange(dataset.num_nodes), dataset.indptr.diff())
    data = Data(x=dataset.features, y=dataset.labels, edge_index=torch.stack([dataset.indices.long(), targets]))
    if columns["edge_attr"]:
        data.edge_attr = dataset.edge_attr
    like_pyg = dict(input_nodes=dataset.train_idx, batch_size=options.batch_size, shuffle=True)
    loaders = {
        "loader": uvatrain.Loader(
            dataset, fanouts=fanouts, batch_size=options.batch_size, expand="new", transform=uvatrain.Batch.to_pyg, **columns
        ),
        "neighbor_loader": NeighborLoader(dataset, fanouts, **like_pyg),
        "data": NeighborLoader(data, fanouts, **like_pyg),
    }
    seconds = {name: [] for name in loaders}
    for epoch in range(options.epochs + 1):
        for name, loader in loaders.items():
            begin = time.perf_counter()
            for batch in loader:
                batch.x, batch.y, batch.edge_index
            if epoch:
                seconds[name].append(time.perf_counter() - begin)
    found = {name: statistics.median(epochs) for name, epochs in seconds.items()}
    ratios = {name: found[name] / found["loader"] for name in found}
    print(json.dumps({"benchmark": "neighbor_loader", **vars(options), "seconds": found, "ratios": ratios}))


if __name__ == "__main__":
    main()
