"""The built-in models trained over ranks: `torchrun … -m uvatrain.train DATA`.

`options` reads the command line, `ranks` joins the processes, `data` opens what they train on, `loop` trains, and `checkpoint`
writes the files of `uvatrain train`. So `uvatrain train` resumes from a checkpoint of ranks, and ranks from one of
`uvatrain train`.
"""
