"""PyG's loaders over our tables: a loader, a feature store, a graph store and a sampler.

    from uvatrain.pyg import NeighborLoader

    loader = NeighborLoader(data, [10, 10], input_nodes=data.train_mask, batch_size=1024, shuffle=True)

takes the place of `torch_geometric.loader.NeighborLoader`. With PyG's own loaders, the stores and the sampler do:

    from torch_geometric.loader import NeighborLoader
    from uvatrain.pyg import FeatureStore, GraphStore, NeighborSampler

    dataset = uvatrain.Dataset("data/products")
    loader = NeighborLoader(
        data=(FeatureStore(dataset), GraphStore(dataset)),
        num_neighbors=[10, 10],
        input_nodes=dataset.train_idx,
        neighbor_sampler=NeighborSampler(dataset, [10, 10]),
        batch_size=1024,
        shuffle=True,
    )

Neither pyg-lib nor torch-sparse is needed. Where one of them is installed, PyG's own sampler runs over the
GraphStore as well: omit `neighbor_sampler`.
"""

try:
    import torch_geometric as _torch_geometric  # noqa: F401
except ImportError as error:
    from ..errors import Unavailable

    raise Unavailable(f"uvatrain.pyg needs torch-geometric: pip install torch-geometric ({error})") from None

from .neighbor_loader import NeighborLoader
from .sampler import NeighborSampler
from .stores import FeatureStore, GraphStore

__all__ = ["FeatureStore", "GraphStore", "NeighborLoader", "NeighborSampler"]
