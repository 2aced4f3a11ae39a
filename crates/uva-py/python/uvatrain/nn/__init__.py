"""Layers of PyG's over our loops: `SAGEConv`, `GCNConv`, `GATConv`, `HeteroConv` and `HGTConv` as PyTorch modules.

    from uvatrain.nn import SAGEConv    # from torch_geometric.nn import SAGEConv

Constructors, parameters and results are those of PyG's layers: `load_state_dict` works both ways. A layer takes a
`Block` of a batch, or an `edge_index` as PyG's layers do, and those over several node types take `batch.blocks[layer]` of
a typed batch. PyG itself is not needed.

On the CPU, float32 and float64 go through loops of ours, which allocate nothing per edge. Other types, and tensors on a
GPU, go through PyTorch's operations, with the same results.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from ..errors import Unavailable

    raise Unavailable(f"uvatrain.nn needs torch: pip install torch ({error})") from None

from .gat_conv import GATConv
from .gcn_conv import GCNConv
from .hetero_conv import HeteroConv
from .hgt_conv import HGTConv
from .lists import Lists
from .sage_conv import SAGEConv

__all__ = ["GATConv", "GCNConv", "HGTConv", "HeteroConv", "Lists", "SAGEConv"]
