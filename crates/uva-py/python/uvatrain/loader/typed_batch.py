"""A batch of a typed graph: its arrays by node type and relation, as tensors that look into its slot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .batch import Block, SlotBatch

if TYPE_CHECKING:
    import torch

    from .. import _core

__all__ = ["EdgesOfRelation", "Metadata", "NodesOfType", "TypedBatch"]

EdgeType = tuple[str, str, str]


class Metadata:
    """The node types and relations of a loader's batches, in their order, the types of seeds, and how edges are numbered."""

    def __init__(
        self,
        node_types: list[str],
        edge_types: list[EdgeType],
        edge_id_files: Mapping[EdgeType, str],
        target: str,
        seed_types: list[str],
    ) -> None:
        self.node_types, self.edge_types, self.target = node_types, edge_types, target
        #: The target, or the types of the nodes given in place of a split.
        self.seed_types = seed_types
        #: Of relations that have one, edge_id.npy: the row of the user's edge table for each place in the lists.
        self.edge_id_files = edge_id_files
        self._edge_ids: dict[EdgeType, Any] = {}
        self._types = {name: number for number, name in enumerate(node_types)}
        self._relations: dict[Any, int] = {names: number for number, names in enumerate(edge_types)}
        self._relations.update(("__".join(names), number) for number, names in enumerate(edge_types))

    @classmethod
    def of(cls, source: _core.Source) -> Metadata | None:
        """That of the batches of a source; None if they are of one node type."""
        if source.metadata is None:
            return None
        node_types, edge_types = source.metadata
        folder = os.path.join(source.dataset.path, "edges")
        files = {names: os.path.join(folder, "__".join(names), "edge_id.npy") for names in edge_types}
        files = {names: file for names, file in files.items() if os.path.exists(file)}
        return cls(node_types, edge_types, files, source.target or node_types[0], source.seed_types)

    def node_type(self, name: Any) -> int | None:
        """The number of a node type."""
        return self._types.get(name) if isinstance(name, str) else None

    def levels(
        self, type_sizes: list[tuple[int, int]], block_sizes: list[list[tuple[int, int, int]]]
    ) -> list[dict[str, int]]:
        """By node type the number of seeds, and of the nodes after each hop, in a batch of these sizes."""
        levels = [{name: seeds for name, (seeds, _) in zip(self.node_types, type_sizes)}]
        for of_layer in block_sizes:
            found = {names[0]: sources for names, (_, sources, _) in zip(self.edge_types, of_layer)}
            levels.append({**levels[-1], **found})
        return levels

    def edge_ids(self, names: EdgeType, places: torch.Tensor) -> torch.Tensor:
        """The rows that edges had in the user's edge table, or else their places in the relation's lists."""
        if names not in self.edge_id_files:
            return places
        import numpy
        import torch

        if names not in self._edge_ids:
            self._edge_ids[names] = numpy.load(self.edge_id_files[names], mmap_mode="r")
        return torch.from_numpy(self._edge_ids[names][places.numpy()])

    def relation(self, key: Any) -> int:
        """The number of a relation: of the triple of its names, or of these joined by two underscores."""
        found = self._relations.get(key) if isinstance(key, str | tuple) else None
        if found is None:
            known = ", ".join([*self.node_types, *("__".join(names) for names in self.edge_types)])
            raise KeyError(f"{key!r}: expected one of {known}")
        return found


class NodesOfType:
    """The nodes of one type in a batch."""

    __slots__ = ("_batch", "_number", "num_nodes", "num_seeds")

    #: How many nodes there are, the seeds among them.
    num_nodes: int
    #: How many seeds there are: the first of the nodes.
    num_seeds: int

    def __init__(self, batch: TypedBatch, number: int) -> None:
        self._batch, self._number = batch, number
        self.num_seeds, self.num_nodes = batch._type_sizes[number]

    @property
    def x(self) -> torch.Tensor | None:
        """[num_nodes, features]: row `i` belongs to `n_id[i]`. None if the type has no features."""
        return self._if_there("x")

    @property
    def y(self) -> torch.Tensor | None:
        """The labels of the seeds, as `Batch.y` has them. None if the type has no labels."""
        return self._if_there("y")

    @property
    def n_id(self) -> torch.Tensor:
        """int64 [num_nodes]: ids of the type's nodes, the seeds first."""
        return self._batch._tensor("input_nodes", None, self._number)

    @property
    def seeds(self) -> torch.Tensor:
        """int64 [num_seeds]: the nodes to train on."""
        return self._batch._tensor("seeds", None, self._number)

    @property
    def input_id(self) -> torch.Tensor:
        """int64 [num_seeds]: each seed's position in its split. Only with `Loader(..., input_id=True)`."""
        return self._batch._tensor("input_id", None, self._number)

    @property
    def seed_mask(self) -> torch.Tensor:
        """uint8 [num_seeds]: 1 for a seed, 0 for one of padding. Only with `Loader(..., pad="auto")`."""
        return self._batch._tensor("seed_mask", None, self._number)

    @property
    def tree(self) -> torch.Tensor | None:
        """int32 [num_nodes]: the tree of each node; trees number through the seeds of all types. None without trees
        (`Loader(..., disjoint=True)`, or `time_rule`)."""
        return self._if_there("tree")

    @property
    def seed_time(self) -> torch.Tensor | None:
        """int64 [num_seeds]: the time of each seed. None without `Loader(..., time_rule=...)`."""
        return self._if_there("seed_time")

    @property
    def num_sampled_nodes(self) -> list[int]:
        """The seeds, and the nodes that each hop found."""
        return self._added(self._batch._levels)

    @property
    def real_nodes(self) -> list[int]:
        """`num_sampled_nodes` without padding. Of each level, real nodes come first."""
        core = self._batch._core
        return self._added(self._batch._metadata.levels(core.real_type_sizes, core.real_block_sizes))

    def _added(self, levels: list[dict[str, int]]) -> list[int]:
        name = self._batch._metadata.node_types[self._number]
        nodes = [level[name] for level in levels]
        return [nodes[0], *(after - before for before, after in zip(nodes, nodes[1:]))]

    def _if_there(self, name: str) -> torch.Tensor | None:
        return self._batch._tensor(name, None, self._number) if self._batch._core.has(name, self._number) else None


class EdgesOfRelation:
    """The edges of one relation in a batch. Only with `Loader(..., expand="new")`, whose hops keep earlier picks."""

    __slots__ = ("_batch", "_names", "_number")

    def __init__(self, batch: TypedBatch, number: int) -> None:
        if batch._core.expand != "new":
            raise ValueError(
                'the edges of a relation are those of all hops with expand="new"; with expand="all" take batch.blocks'
            )
        self._batch, self._number, self._names = batch, number, batch._metadata.edge_types[number]

    @property
    def _block(self) -> Block:
        return self._batch.blocks[-1][self._names]

    @property
    def edge_index(self) -> torch.Tensor:
        """int64 [2, edges], a copy: row 0 is each edge's source, row 1 its destination, positions in the `n_id` of their
        types; the edges of the hop at the seeds first."""
        return self._block.edge_index

    @property
    def e_id(self) -> torch.Tensor:
        """int64 [edges]: the row that each edge had in the user's edge table, or else its place in the relation's lists.

        Only with `Loader(..., edge_ids=True)`.
        """
        return self._batch._metadata.edge_ids(self._names, self._block.edge_ids)

    @property
    def edge_attr(self) -> torch.Tensor | None:
        """[edges, features]: the feature rows of the edges. None if the relation has no features.

        Only with `Loader(..., edge_attr=True)`.
        """
        core = self._batch._core
        if core.has_edge_attr and not core.has("edge_attr", self._number):
            return None
        return self._block.edge_attr

    @property
    def num_sampled_edges(self) -> list[int]:
        """Edges that each hop sampled."""
        edges = [of_layer[self._number][2] for of_layer in self._batch._block_sizes]
        return [after - before for before, after in zip([0, *edges], edges)]


class TypedBatch(SlotBatch):
    """A mini-batch of a typed graph. `batch["paper"]` are the nodes of a type, `batch["author", "writes", "paper"]` the
    edges of a relation, and `batch.blocks[layer]` the blocks of a layer by relation.

    Its tensors view the batch's slot, as those of a `Batch` do.
    """

    def __init__(self, core: _core.Batch, metadata: Metadata) -> None:
        super().__init__(core)
        self._metadata = metadata
        # Numbers of seeds and nodes of each type; destinations, sources and edges of each relation, layer by layer.
        self._type_sizes, self._block_sizes = core.type_sizes, core.block_sizes

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """The node types, and the relations as triples of names, as PyG has them."""
        return self._metadata.node_types, self._metadata.edge_types

    def __getitem__(self, key: Any) -> Any:
        number = self._metadata.node_type(key)
        if number is not None:
            return NodesOfType(self, number)
        return EdgesOfRelation(self, self._metadata.relation(key))

    @cached_property
    def blocks(self) -> tuple[_Blocks, ...]:
        """One for each layer, with a block for each relation. Index 0 is the hop at the seeds, which a model runs last."""
        return tuple(_Blocks(self, layer, sizes) for layer, sizes in enumerate(self._block_sizes))

    @property
    def seeds(self) -> torch.Tensor:
        """int64 [`batch[target].num_seeds`]: the nodes to train on, of the target. `num_seeds` counts those of all types."""
        return self._target.seeds

    @property
    def input_id(self) -> torch.Tensor:
        """int64 [`batch[target].num_seeds`]: the position of each of `seeds` in its split. Only with
        `Loader(..., input_id=True)`."""
        return self._target.input_id

    @property
    def y(self) -> torch.Tensor | Any:
        """The labels of `seeds`; None if the target has no labels."""
        return self._target.y

    @property
    def _target(self) -> NodesOfType:
        target: NodesOfType = self[self._metadata.target]
        return target

    @property
    def seed_mask(self) -> torch.Tensor:
        """uint8 [`batch[target].num_seeds`]: 1 for a seed, 0 for one of padding. Only with `Loader(..., pad="auto")`."""
        return self._target.seed_mask

    @property
    def num_nodes(self) -> int:
        """How many nodes of all types there are."""
        return self._core.num_nodes

    @property
    def padded(self) -> bool:
        """Whether it is padded to the sizes of `loader.shapes`, as `Batch.padded`."""
        return self._core.padded

    @property
    def real_nodes_dict(self) -> dict[str, list[int]]:
        """`real_nodes` of each node type."""
        return self._of_types("real_nodes")

    @property
    def real_edges_dict(self) -> dict[EdgeType, list[int]]:
        """Edges of the block of each layer without padding, by relation."""
        layers = self._core.real_block_sizes
        edge_types = self._metadata.edge_types
        return {names: [of_layer[at][2] for of_layer in layers] for at, names in enumerate(edge_types)}

    @property
    def x_dict(self) -> dict[str, torch.Tensor | None]:
        """`x` of each node type; None for types without features."""
        return self._of_types("x")

    @property
    def n_id_dict(self) -> dict[str, torch.Tensor]:
        """`n_id` of each node type."""
        return self._of_types("n_id")

    @property
    def num_sampled_nodes_dict(self) -> dict[str, list[int]]:
        """`num_sampled_nodes` of each node type."""
        return self._of_types("num_sampled_nodes")

    @property
    def edge_index_dict(self) -> dict[EdgeType, torch.Tensor]:
        """`edge_index` of each relation."""
        return self._of_relations("edge_index")

    @property
    def e_id_dict(self) -> dict[EdgeType, torch.Tensor]:
        """`e_id` of each relation."""
        return self._of_relations("e_id")

    @property
    def edge_attr_dict(self) -> dict[EdgeType, torch.Tensor | None]:
        """`edge_attr` of each relation; None for relations without features."""
        return self._of_relations("edge_attr")

    @property
    def num_sampled_edges_dict(self) -> dict[EdgeType, list[int]]:
        """`num_sampled_edges` of each relation."""
        return self._of_relations("num_sampled_edges")

    def to_pyg(self) -> Any:
        """The batch as `torch_geometric.data.HeteroData`, as PyG's NeighborLoader makes them.

        Requires `Loader(..., expand="new")`. Types without features have no `x`, and `y` has the seeds' labels only. `e_id`
        is there with `Loader(..., edge_ids=True)`, `input_id` with `input_id=True`.
        """
        from ..interop.to_hetero import to_hetero

        return to_hetero(self)

    def to_dgl(self) -> Any:
        """The batch as DGL's blocks, a list in the order in which a model runs them: the outermost hop first.

        `blocks[0].srcnodes["paper"].data["feat"]` is the type's `x`, `blocks[-1].dstnodes["paper"].data["label"]` is `y`, and
        `dgl.NID` names the nodes of each. `blocks[i].edges["author", "writes", "paper"].data[dgl.EID]` are the edges' `e_id`,
        where the loader was made with `edge_ids=True`. Unavailable where DGL is not installed.
        """
        from ..interop.dgl import typed_to_dgl

        return typed_to_dgl(self)

    def to_dgl_step(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], Any]:
        """What DGL's DataLoader yields: `(input_nodes, output_nodes, blocks)`, ids by node type."""
        return self.n_id_dict, self._of_seeds("seeds"), self.to_dgl()

    def to_graphbolt(self) -> Any:
        """The batch with the fields of GraphBolt's `MiniBatch` (`uvatrain.graphbolt`), which are dicts by node type and by
        relation, such as "author:writes:paper". DGL is not needed."""
        from ..graphbolt import typed_minibatch

        return typed_minibatch(self)

    @cached_property
    def _levels(self) -> list[dict[str, int]]:
        """By node type the number of seeds, and of the nodes after each hop."""
        return self._metadata.levels(self._type_sizes, self._block_sizes)

    def _edge_rows(self, layer: int) -> dict[EdgeType, torch.Tensor] | None:
        """The `e_id` of a layer's edges by relation; None without `Loader(..., edge_ids=True)`."""
        if not self._core.has_edge_ids:
            return None
        return {names: self._metadata.edge_ids(names, block.edge_ids) for names, block in self.blocks[layer].items()}

    def _edge_features(self, layer: int) -> dict[EdgeType, torch.Tensor]:
        """The feature rows of a layer's edges, of relations that have them; empty without `Loader(..., edge_attr=True)`."""
        if not self._core.has_edge_attr:
            return {}
        blocks, number = self.blocks[layer], self._metadata.relation
        return {of: block.edge_attr for of, block in blocks.items() if self._core.has("edge_attr", number(of))}

    def _of_seeds(self, name: str) -> dict[str, Any]:
        """An attribute of each type of seeds that has it."""
        found = {of: getattr(self[of], name) for of in self._metadata.seed_types}
        return {of: value for of, value in found.items() if value is not None}

    def _of_types(self, name: str) -> dict[str, Any]:
        return {of: getattr(self[of], name) for of in self._metadata.node_types}

    def _of_relations(self, name: str) -> dict[EdgeType, Any]:
        return {of: getattr(self[of], name) for of in self._metadata.edge_types}

    def _release(self) -> None:
        for blocks in self.__dict__.pop("blocks", ()):
            blocks.release()
        super()._release()

    def __repr__(self) -> str:
        gone = ", gone" if self._core.gone else ""
        return (
            f"TypedBatch({self.split}, epoch={self.epoch}, index={self.index}, num_seeds={self.num_seeds}, "
            f"num_nodes={self.num_nodes}, hash={self.hash}{gone})"
        )


class _Blocks(Mapping[Any, Block]):
    """The blocks of a layer by relation."""

    def __init__(self, batch: TypedBatch, layer: int, sizes: list[tuple[int, int, int]]) -> None:
        self._metadata = batch._metadata
        self._blocks = [Block(batch._core, layer, size, part=part) for part, size in enumerate(sizes)]

    def __getitem__(self, key: Any) -> Block:
        return self._blocks[self._metadata.relation(key)]

    def __iter__(self) -> Any:
        return iter(self._metadata.edge_types)

    def __len__(self) -> int:
        return len(self._blocks)

    def release(self) -> None:
        """Ends the blocks' own hold on their slot."""
        for block in self._blocks:
            block._tensors = {}
