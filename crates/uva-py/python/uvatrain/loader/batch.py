"""A batch: its arrays as tensors that look into the slot where they were prepared, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import Unavailable

if TYPE_CHECKING:
    import torch

    from .. import _core

__all__ = ["Batch", "Block"]

# Makes the array of this name, of a layer or of none, into a tensor. Set at the first use.
_tensor: Callable[[_core.Batch, str, int | None, int], torch.Tensor] | None = None


def _maker() -> Callable[[_core.Batch, str, int | None, int], torch.Tensor]:
    """Of torch's tensors, or of numpy's arrays where torch is not installed."""
    global _tensor
    if _tensor is None:
        try:
            from torch.utils.dlpack import from_dlpack

            def make(core: _core.Batch, name: str, layer: int | None, part: int) -> torch.Tensor:
                return from_dlpack(core.exported(name, layer, part))

        except ImportError:
            try:
                import numpy
            except ImportError:
                raise Unavailable(
                    "neither torch nor numpy is installed, and tensors need one of them: pip install torch, "
                    "or take batch.array(name), which any library with DLPack can view"
                ) from None

            def make(core: _core.Batch, name: str, layer: int | None, part: int) -> torch.Tensor:
                array: Any = numpy.from_dlpack(core.array(name, layer, part))
                return array  # type: ignore[no-any-return]  # Types are torch's, whose absence they cannot express.

        _tensor = make
    return _tensor


class Block:
    """A layer's part of the graph: which of its sources each destination was given as neighbours.

    The neighbours of destination `d` are `indices[indptr[d]:indptr[d + 1]]`, as positions among the block's
    sources. The destinations are the first `num_dst` of the sources; the sources are the first `num_src` of
    the batch's `input_nodes`.
    """

    __slots__ = ("_core", "_part", "_tensors", "folded", "layer", "num_dst", "num_edges", "num_src")

    layer: int
    #: Whether the producer has aggregated the rows of its sources: `batch.aggregated` has them, and `batch.x` has rows
    #: of its destinations at most. True of the outermost block with `Loader(..., aggregate=...)`.
    folded: bool
    #: How many destinations there are.
    num_dst: int
    #: How many sources there are, the destinations among them.
    num_src: int
    #: How many edges there are.
    num_edges: int

    def __init__(
        self, core: _core.Batch, layer: int, counts: tuple[int, int, int], folded: bool = False, part: int = 0
    ) -> None:
        self._core = core
        # The number of its relation.
        self._part = part
        self._tensors: dict[str, torch.Tensor] = {}
        self.layer = layer
        self.folded = folded
        self.num_dst, self.num_src, self.num_edges = counts

    def _tensor(self, name: str) -> torch.Tensor:
        made = self._tensors.get(name)
        if made is None:
            made = self._tensors[name] = (_tensor or _maker())(self._core, name, self.layer, self._part)
        else:
            # A fork has the tensor, but cannot access its memory.
            self._core.check_process()
        return made

    @property
    def indptr(self) -> torch.Tensor:
        """int32 [num_dst + 1]: where each destination's neighbours begin in `indices`."""
        return self._tensor("indptr")

    @property
    def indices(self) -> torch.Tensor:
        """int32 [num_edges]: positions among the block's sources."""
        return self._tensor("indices")

    @property
    def edge_ids(self) -> torch.Tensor:
        """int64 [num_edges]: the position of each edge in the dataset's `indices`, for data per edge.

        Only if requested: `Loader(..., edge_ids=True)`, `uvatrain run --edge-ids`.
        """
        return self._tensor("edge_ids")

    @property
    def edge_attr(self) -> torch.Tensor:
        """[num_edges, features]: the rows of `dataset.edge_attr` of the block's edges.

        Only if requested: `Loader(..., edge_attr=True)`, `uvatrain run --edge-attr`.
        """
        return self._tensor("edge_attr")

    @property
    def edge_type(self) -> torch.Tensor:
        """uint16 [num_edges]: the type of each edge, from `dataset.edge_type`; `.long()` is what PyG's layers take.

        Only if requested: `Loader(..., edge_type=True)`, `uvatrain run --edge-type`.
        """
        return self._tensor("edge_type")

    @property
    def weights(self) -> torch.Tensor:
        """float32 [num_edges]: what each edge counts, so that a destination's weighted sum stands for the mean over all
        its neighbours.

        Only where the kind of sampler weighs edges (`batch.weighs_edges`): "ladies", "fastgcn", "saint-node",
        "saint-edge" and "walk". With the others it is the mean over the picked ones that does. (With "walk" the sum
        is over the visited nodes, each weighted by its share of the visits.)
        """
        return self._tensor("weights")

    @property
    def edge_index(self) -> torch.Tensor:
        """int64 [2, num_edges]: row 0 is each edge's source, row 1 its destination, as PyG has it. A copy."""
        if self._core.on_host:
            return _maker()(self._core, "edge_index", self.layer, self._part)
        import torch

        # On a GPU, where only torch views it.
        indptr, indices = self.indptr, self.indices
        made = torch.empty((2, self.num_edges), dtype=torch.int64, device=indices.device)
        made[0] = indices
        destinations = torch.arange(self.num_dst, device=indices.device)
        made[1] = torch.repeat_interleave(destinations, indptr.diff(), output_size=self.num_edges)
        return made

    def __repr__(self) -> str:
        sizes = f"num_dst={self.num_dst}, num_src={self.num_src}, num_edges={self.num_edges}"
        return f"Block(layer={self.layer}, {sizes}{', folded' if self.folded else ''})"


class _EdgeIndices(Sequence[Any]):
    """Each layer's edges, made on access."""

    __slots__ = ("_blocks",)

    def __init__(self, blocks: tuple[Block, ...]) -> None:
        self._blocks = blocks

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, layer: Any) -> Any:
        if isinstance(layer, slice):
            return [block.edge_index for block in self._blocks[layer]]
        return self._blocks[layer].edge_index


class SlotBatch:
    """What batches of every sort have in common: a slot, which they keep until the next step of the loop."""

    __slots__ = ("__weakref__", "_core", "_tensors")

    def __init__(self, core: _core.Batch) -> None:
        self._core = core
        self._tensors: dict[tuple[str, int | None, int], torch.Tensor] = {}

    def _tensor(self, name: str, table: int | None = None, part: int = 0) -> torch.Tensor:
        made = self._tensors.get((name, table, part))
        if made is None:
            made = self._tensors[name, table, part] = (_tensor or _maker())(self._core, name, table, part)
        else:
            # A fork has the tensor, but cannot access its memory.
            self._core.check_process()
        return made

    @property
    def split(self) -> str:
        """ "train", "valid" or "test"."""
        return self._core.split

    @property
    def epoch(self) -> int:
        """The epoch it belongs to, from 0."""
        return self._core.epoch

    @property
    def index(self) -> int:
        """Its number in the epoch, from 0, counted over all ranks."""
        return self._core.index

    @property
    def hash(self) -> str:
        """16 hex digits that name its content, the same as in `uvatrain train --metrics`."""
        return self._core.hash

    @property
    def num_seeds(self) -> int:
        """How many seeds there are."""
        return self._core.num_seeds

    @property
    def seeds(self) -> torch.Tensor:
        """int64 [num_seeds]: the nodes to train on. Of a `Batch` they are the first of `input_nodes`."""
        return self._tensor("seeds")

    @property
    def input_id(self) -> torch.Tensor:
        """int64 [num_seeds]: each seed's position in its split, as in PyG's loaders.

        Only if requested: `Loader(..., input_id=True)`, `HopLoader(..., input_id=True)`, `uvatrain run
        --input-id`.
        """
        return self._tensor("input_id")

    @property
    def y(self) -> torch.Tensor | Any:
        """int64 [num_seeds]: the seeds' classes, -1 for none; uint8 [num_seeds, classes] if multi-label.

        With padding, -1 for its seeds too, and zeros where labels are not classes: `seed_mask` distinguishes them.
        For regression float32 [num_seeds] or [num_seeds, targets], as `label.npy` has it. None in a dataset without
        labels. A loop that trains has labels, so type checkers do not require a check of None.
        """
        return self._tensor("y") if self._core.has_labels else None

    def confirm(self) -> None:
        """Raise PeerDied if the batch was not whole when it was used.

        On a GPU a step is enqueued before its batch has arrived. Ask this once the step has been waited for,
        by `loss.item()` for example, and before its result counts. In host memory a batch is always whole.
        """
        self._core.confirm()

    def _release(self) -> None:
        """Ends the batch's own hold on its slot."""
        self._tensors = {}
        self._core.release()


class Batch(SlotBatch):
    """A mini-batch: seed nodes, the neighbourhood that was sampled for them, and its features.

    Tensors view the batch's slot: making them copies nothing, and they can be written to. The batch ends at
    the next step of the loop. A tensor of it that is kept longer keeps the slot, so `.clone()` what is needed
    after the step. Results computed from the tensors are independent of the slot.
    """

    __slots__ = ("_blocks",)

    def __init__(self, core: _core.Batch) -> None:
        super().__init__(core)
        self._blocks: tuple[Block, ...] | None = None

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, the seeds among them."""
        return self._core.num_nodes

    @property
    def padded(self) -> bool:
        """Whether it is padded to the sizes of `loader.shapes`, as `Loader(..., pad="auto")` does.

        Its arrays and its other counts then include padding. False where it did not fit, and without padding.
        """
        return self._core.padded

    @property
    def real_nodes(self) -> list[int]:
        """Nodes of each level without padding: the seeds, then those that each hop found.

        Level `k` begins at `sum(loader.shapes.nodes[:k])` in a padded batch, and its real nodes come first.
        """
        return self._core.real_nodes

    @property
    def real_edges(self) -> list[int]:
        """Edges of each block without padding."""
        return self._core.real_edges

    @property
    def seed_mask(self) -> torch.Tensor:
        """uint8 [num_seeds]: 1 for a seed, 0 for one of padding. Only with `Loader(..., pad="auto")`."""
        return self._tensor("seed_mask")

    @property
    def expand(self) -> str:
        """Which nodes its hops drew neighbours for: "all" so far, or the "new" ones only."""
        return self._core.expand

    @property
    def sampler_kind(self) -> str:
        """The kind of sampler that made it, as requested of the loader."""
        return self._core.sampler_kind

    @property
    def weighs_edges(self) -> bool:
        """Whether blocks have `weights`."""
        return self._core.weighs_edges

    @property
    def x(self) -> torch.Tensor:
        """[num_nodes, features], of the dataset's type or as `feature_type` says: row `i` belongs to `input_nodes[i]`.

        With `Loader(..., aggregate=...)` only [blocks[-1].num_dst, features], the rows of the folded block's
        destinations. With `aggregate="gcn"` there is none (ValueError): their own rows are in `aggregated`.
        """
        return self._tensor("x")

    @property
    def aggregate(self) -> str | None:
        """What the producer made of the outermost hop's rows: "mean", "sum", "max" or "gcn". None: nothing."""
        return self._core.aggregate

    @property
    def aggregated(self) -> torch.Tensor:
        """float32 [blocks[-1].num_dst, features]: for each destination of the outermost block, its neighbours' rows as
        `aggregate` says.

        Only if requested: `Loader(..., aggregate="mean")`, `uvatrain run --aggregate mean`.
        """
        return self._tensor("aggregated")

    @property
    def argmax(self) -> torch.Tensor:
        """int32, of the shape of `aggregated`: the position in `input_nodes` of the node whose row has each maximum.

        Of equal values it is the first in the list's order, and the first NaN; -1 where the list is empty. Only if
        requested: `Loader(..., aggregate="max", aggregate_argmax=True)`, `uvatrain run --aggregate max
        --aggregate-argmax`.
        """
        return self._tensor("argmax")

    @property
    def has_input_id(self) -> bool:
        """Whether `input_id` was requested of the loader."""
        return self._core.has_input_id

    @property
    def has_edge_ids(self) -> bool:
        """Whether `edge_ids` was requested of the loader."""
        return self._core.has_edge_ids

    @property
    def has_edge_attr(self) -> bool:
        """Whether `edge_attr` was requested of the loader."""
        return self._core.has_edge_attr

    @property
    def has_edge_type(self) -> bool:
        """Whether `edge_type` was requested of the loader."""
        return self._core.has_edge_type

    @property
    def input_nodes(self) -> torch.Tensor:
        """int64 [num_nodes]: every node of the batch, in the order in which they joined it."""
        return self._tensor("input_nodes")

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One for each layer. Index 0 is the hop at the seeds, which a model runs last."""
        if self._blocks is None:
            core = self._core
            folded = len(core.counts) - 1 if core.aggregate is not None else None
            self._blocks = tuple(
                Block(core, layer, counts, layer == folded) for layer, counts in enumerate(core.counts)
            )
        return self._blocks

    @property
    def _remaining(self) -> tuple[Block, ...]:
        """The blocks that are left to a model: all but the one that the producer has folded."""
        return self.blocks if self.aggregate is None else self.blocks[:-1]

    @property
    def _remaining_nodes(self) -> torch.Tensor:
        """Their nodes, to which the rows of `x` and `aggregated` belong."""
        return self.input_nodes if self.aggregate is None else self.input_nodes[: self.blocks[-1].num_dst]

    @property
    def _rows(self) -> dict[str, torch.Tensor]:
        """The arrays of these nodes' rows, by name."""
        names = {"x": self._core.has_x, "aggregated": self.aggregate is not None}
        return {name: getattr(self, name) for name, there in names.items() if there}

    @property
    def edge_index(self) -> Sequence[torch.Tensor]:
        """int64 [2, edges] of each layer, the hop at the seeds first: row 0 each edge's source, row 1 its destination.

        Both are positions in `input_nodes`, as PyG has them. Each is made on access: a copy, which outlives
        the batch.
        """
        return _EdgeIndices(self.blocks)

    def array(self, name: str, layer: int | None = None) -> _core.Array:
        """One of the arrays without conversion, for any library with DLPack, JAX or CuPy for example.

        name: "x", "aggregated", "argmax", "y", "seeds", "input_nodes", "degrees" (with `aggregate="gcn"`); or with a layer,
        "indptr", "indices", "edge_ids", "edge_attr", "edge_type" or "weights".
        """
        return self._core.array(name, layer)

    def to_pyg(self, as_edge_index: bool = False) -> Any:
        """The batch as one `torch_geometric.data.Data`, with what PyG's `trim_to_layer` needs.

        Make the loader with `expand="new"`: the `Data` is then exactly what the blocks compute. With "all", each node
        keeps the neighbours that its first hop drew, and those that later hops drew again are omitted
        (docs/guide/python.md). A `UvatrainWarning` reports their share of a batch, once a process.

        `x` and `y` view the slot; `edge_index` is a copy. `y` has the seeds' labels only, and is left out in a dataset
        without labels. `e_id` is there with `Loader(..., edge_ids=True)`, `edge_attr` with `edge_attr=True`,
        and `edge_type` with `edge_type=True`.

        With `Loader(..., aggregate=...)` it is what remains: the nodes, edges and hops without the outermost hop.
        The `Data` has `aggregated` next to `x`.

        as_edge_index: makes `edge_index` a `torch_geometric.EdgeIndex`, which knows that edges are sorted by target.
        """
        from ..interop.to_pyg import to_pyg

        return to_pyg(self, as_edge_index)

    def to_dgl(self) -> Any:
        """The batch as DGL's blocks, a list in the order in which a model runs them: the outermost hop first.

        `blocks[i].edata["weight"]` are the weights, where the kind of sampler weighs edges.
        `blocks[i].edata[dgl.EID]` are the edge ids, where the loader was made with `edge_ids=True`, and
        `edata["feat"]` their features with `edge_attr=True`.
        `blocks[0].srcdata["feat"]` is `x`, `blocks[-1].dstdata["label"]` is `y` if there are labels, and `dgl.NID`
        names the nodes of each. All of them view the slot. Unavailable where DGL is not installed.

        With `Loader(..., aggregate=...)` the outermost hop is omitted: `blocks[0].srcdata` has "aggregated" and
        "feat". A single layer leaves no block (ValueError).
        """
        from ..interop.dgl import to_dgl

        return to_dgl(self)

    def to_dgl_step(self) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """What DGL's DataLoader yields: `(input_nodes, output_nodes, blocks)`. The output nodes are the seeds.

        `Loader(..., transform=Batch.to_dgl_step)` makes a loop that was written for DGL's. The input nodes are those of
        the first block.
        """
        return self._remaining_nodes, self.seeds, self.to_dgl()

    def to_graphbolt(self) -> Any:
        """The batch with the fields of GraphBolt's `MiniBatch` (`uvatrain.graphbolt`). DGL is not needed.

        `Loader(..., transform=Batch.to_graphbolt)` makes a loop that was written for GraphBolt's.
        """
        from ..graphbolt import minibatch

        return minibatch(self)

    def _release(self) -> None:
        if self._blocks is not None:
            for block in self._blocks:
                block._tensors = {}
        super()._release()

    def __repr__(self) -> str:
        gone = ", gone" if self._core.gone else ""
        return (
            f"Batch({self.split}, epoch={self.epoch}, index={self.index}, num_seeds={self.num_seeds}, "
            f"num_nodes={self.num_nodes}, hash={self.hash}{gone})"
        )
