#!/usr/bin/env python3
"""What time and memory cost as a graph grows: made, opened, verified, sampled and planned for, from 1 M edges on.

    scripts/measure/growth.py [--binary target/release/uvatrain] [--dir DIR] [--edges 1e6,1e7,1e8,1e9]
                      [--out docs/results/growth.json] [--svg docs/growth.svg]
    scripts/measure/growth.py --edges none --out docs/results/growth.json --svg docs/growth.svg      draws what is measured already

Each graph has 20 edges a node, 4 features and 2 % of its nodes to train on, and is removed again; 1 G edges need 6 GB in
DIR. Sizes that --out holds already and that are not requested stay. "Own" memory is the most that was seen, every 5 ms, of
pages that no file backs (RssAnon and RssShmem): those of the dataset's files are the kernel's, which takes them away where
it needs them. Times are CPU time of all threads and wall-clock time; the first is what is plotted, since other work of the
machine changes it less. Up to 10 M edges each is the median of five. Best with a program without libtorch
(--no-default-features): with it each step has 59 MiB more of its own, and 0.2 s. Needs only Python.
"""
import argparse
import json
import math
import shutil
import statistics
import tempfile
from pathlib import Path

from watched import machine, watched

ROOT = Path(__file__).resolve().parents[2]
DEGREE, FEATURES, BATCH = 20, 4, 1000

# What is measured of each graph; the first makes it. Of `open` the edges' check is left out, which the run before has made.
STEPS = {
    "generate": "generate",
    "open-first": "open the first time",
    "open": "open again",
    "verify": "verify all",
    "sample": "sample",
    "plan": "plan",
}


def together(rounds):
    """Medians of the times, and the largest of the memories."""
    of = lambda key, how: how(one[key] for one in rounds)
    times = {key: round(of(key, statistics.median), 4) for key in ("seconds", "cpu_seconds")}
    return {"rounds": len(rounds)} | times | {key: of(key, max) for key in ("own_peak_bytes", "peak_bytes")}


def measure(binary, directory, edges):
    rounds = 5 if edges <= 10_000_000 else 1
    graph, nodes = directory / f"{edges}", edges // DEGREE
    found = {"nodes": nodes}

    def step(name, *command, before=lambda: None):
        said, times = [], []
        for _ in range(rounds):
            before()
            one = watched([binary, *command])
            said.append(one[0])
            times.append(one[1])
        found[name] = together(times)
        print(f"{edges:>13,} edges  {STEPS[name]:<20} {found[name]['seconds']:>9.3f} s  "
              f"{found[name]['cpu_seconds']:>9.3f} s CPU  {found[name]['own_peak_bytes'] / 2**20:>9.1f} MiB own  "
              f"{found[name]['peak_bytes'] / 2**20:>9.1f} MiB with files", flush=True)
        return said

    step("generate", "generate", graph, "--nodes", nodes, "--avg-degree", DEGREE, "--feat-dim", FEATURES,
         "--train-share", "0.02", before=lambda: shutil.rmtree(graph, ignore_errors=True))
    # A run stores the result of its check of the edges with the files: without it, the next run checks them again.
    stamp = graph / ".uvatrain-stamp.json"
    said = step("open-first", "info", graph, "--json", before=lambda: stamp.unlink(missing_ok=True))
    info = json.loads(said[0])
    found["edges"] = info["edges"]
    step("open", "info", graph, "--json")
    step("verify", "info", graph, "--verify", "--json")
    said = step("sample", "bench", "sample", graph, "--batch-size", BATCH, "--batches", 64, "--json")
    found["sample"]["sampled_edges"] = json.loads(said[0])["edges"]
    # A tenth of lists and rows.
    bytes_of = lambda name: (graph / name).stat().st_size
    budget = (bytes_of("indices.npy") + bytes_of("indptr.npy") + bytes_of("feat.npy")) // 10
    step("plan", "plan", graph, "--gpu-cache", f"{budget // 2**20 or 1}MiB", "--batch-size", BATCH, "--json")
    found["plan"]["batches_an_epoch"] = -(-info["splits"]["train"] // BATCH)
    found["disk_bytes"] = sum(file.stat().st_size for file in graph.iterdir())
    shutil.rmtree(graph)
    return found


def nanoseconds(run, step):
    """CPU time per edge: of the graph, or of sampling of those that were sampled."""
    if step == "sample":
        return 1e9 * run[step]["cpu_seconds"] / run[step]["sampled_edges"]
    return 1e9 * run[step]["cpu_seconds"] / run["edges"]


STYLE = """
    text { fill: #202124; font-size: 13px }
    .title { font-weight: 600; font-size: 14px }
    .tick { fill: #5f6368; font-size: 12px }
    .grid { stroke: #dadce0; stroke-width: 1 }
    .page { fill: #ffffff }
    .line { fill: none; stroke-width: 2 }
    .a { stroke: #d55e00 } .b { stroke: #0072b2 } .c { stroke: #9a7000 } .d { stroke: #007d5a } .e { stroke: #a64d79 }
    .f { stroke: #5f6368; stroke-dasharray: 5 4 }
    .name-a { fill: #b34e00 } .name-b { fill: #0072b2 } .name-c { fill: #806000 } .name-d { fill: #007d5a }
    .name-e { fill: #a64d79 } .name-f { fill: #5f6368 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e8eaed } .tick { fill: #bdc1c6 } .grid { stroke: #3c4043 } .page { fill: #202124 }
      .a { stroke: #ff8a3d } .b { stroke: #6cb8f0 } .c { stroke: #e6c04c } .d { stroke: #4fd6ac } .e { stroke: #e69ac0 }
      .f { stroke: #bdc1c6 }
      .name-a { fill: #ff8a3d } .name-b { fill: #6cb8f0 } .name-c { fill: #e6c04c } .name-d { fill: #4fd6ac }
      .name-e { fill: #e69ac0 } .name-f { fill: #bdc1c6 }
    }
"""
# Each step's line keeps its class in both panels. The classes also differ for readers who do not distinguish red and green.
CLASSES = {"generate": "a", "open-first": "e", "open": "f", "verify": "c", "sample": "d", "plan": "b"}


def panel(x, title, unit, curves):
    """One chart, both axes logarithmic, with each curve's name at its end."""
    left, top, width, height = x + 66, 56, 270, 320
    xs = [point[0] for curve in curves.values() for point in curve]
    ys = [point[1] for curve in curves.values() for point in curve]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    begin, end = math.floor(math.log10(min(xs)) + 0.1), math.ceil(math.log10(max(xs)) - 0.1)
    across = lambda value: left + width * (math.log10(value) - begin) / (end - begin or 1)
    up = lambda value: top + height * (1 - (math.log10(value) - low) / (high - low or 1))
    parts = [f'<text class="title" x="{left}" y="26">{title}</text>',
             f'<text class="tick" x="{left}" y="44">{unit}</text>']
    for power in range(low, high + 1):
        y = up(10.0**power)
        label = f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    names = {6: "1 M", 7: "10 M", 8: "100 M", 9: "1 G"}
    for power in range(begin, end + 1):
        at = across(10.0**power)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{top + height}"/>')
        label = names.get(power, f"1e{power}")
        parts.append(f'<text class="tick" x="{at:.1f}" y="{top + height + 18}" text-anchor="middle">{label}</text>')
    # Names are at the curves' ends, moved apart where two ends coincide.
    ends = sorted((up(curve[-1][1]), name) for name, curve in curves.items())
    places, lowest = [], top + height
    for y, _ in ends:
        places.append(max(y, places[-1] + 15) if places else y)
    for place in reversed(range(len(places))):
        places[place] = lowest = min(places[place], lowest)
        lowest -= 15
    for at, (_, name) in zip(places, ends):
        x = left + width + 10
        parts.append(f'<text class="name-{CLASSES[name]}" x="{x}" y="{at + 4:.1f}">{STEPS[name]}</text>')
    for name, curve in curves.items():
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve)
        parts.append(f'<polyline class="line {CLASSES[name]}" points="{points}"/>')
        parts.extend(f'<circle class="line {CLASSES[name]}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2"/>'
                     for x, y in curve)
    return parts


def plot(runs):
    """Time and memory against edges, as an SVG text for light and dark pages."""
    times = {step: [(run["edges"], nanoseconds(run, step)) for run in runs] for step in STEPS}
    memory = {step: [(run["edges"], run[step]["own_peak_bytes"] / 2**20) for run in runs] for step in STEPS}
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 410" role="img" aria-labelledby="title description" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif\">",
        '<title id="title">Time and memory against the number of edges</title>',
        '<desc id="description">Two charts with logarithmic axes, a line for each of: generate, open, verify, sample, plan. '
        "The figures are in docs/results/growth.json.</desc>",
        f"<style>{STYLE}</style>",
        '<rect class="page" width="980" height="410"/>',
        *panel(0, "CPU time per edge", "nanoseconds, against edges; of sampling per edge that was sampled", times),
        *panel(490, "Memory of the process's own, peak", "MiB, against edges; pages of the dataset's files left out", memory),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--dir", type=Path)
    arguments.add_argument("--edges", default="1e6,1e7,1e8,1e9")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--svg", type=Path)
    chosen = arguments.parse_args()
    sizes = [] if chosen.edges == "none" else [int(float(edges)) for edges in chosen.edges.split(",")]
    kept = json.loads(chosen.out.read_text()) if chosen.out and chosen.out.exists() else {"runs": []}
    runs = {run["nodes"]: run for run in kept["runs"]}
    with tempfile.TemporaryDirectory(dir=chosen.dir) as directory:
        for edges in sizes:
            run = measure(chosen.binary, Path(directory), edges)
            runs[run["nodes"]] = run
            if chosen.out:
                kept = {"machine": machine(), "runs": [runs[nodes] for nodes in sorted(runs)]}
                chosen.out.write_text(json.dumps(kept, indent=1) + "\n")
    if chosen.svg:
        chosen.svg.write_text(plot([runs[nodes] for nodes in sorted(runs)]))


if __name__ == "__main__":
    main()
