"""What the core offers to the Python half of the module. Nobody else should call it."""

VERSION: str

def probe() -> str:
    """What CUDA says of this machine, as JSON text. Loads CUDA into this process."""
