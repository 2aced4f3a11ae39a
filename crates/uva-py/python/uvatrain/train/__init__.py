"""The built-in models trained over ranks: `torchrun … -m uvatrain.train DATA`.

`options` reads the command line, `ranks` joins the processes, `loop` trains, and `checkpoint` keeps what `uvatrain train`
keeps, so that either goes on with a checkpoint of the other.
"""
