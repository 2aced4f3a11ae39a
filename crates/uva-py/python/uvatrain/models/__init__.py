"""Trained models in PyTorch, and inference with models of one's own.

`load_model` reads a checkpoint of `uvatrain train` into a `torch.nn.Module`.
"""

from .hop_model import KINDS, HopModel
from .loading import load_model, load_tensors, tensors_of
from .model import LAYERS, Model
from .relation_model import RelationModel

__all__ = ["KINDS", "LAYERS", "HopModel", "Model", "RelationModel", "load_model", "load_tensors", "tensors_of"]
