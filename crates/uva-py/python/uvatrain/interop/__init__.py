"""Graphs and batches of other libraries: PyG, DGL, networkx and OGB."""
