"""The random words of docs/spec/reproducible-batches.md, and what is made of them."""

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1

SPLITS = {"train": 0, "valid": 1, "test": 2}
PURPOSES = {
    "neighbors": 0,
    "seed_shuffle": 1,
    "walks": 2,
    "subgraphs": 3,
    "negatives": 4,
    "weights": 5,
    "hop_rows": 6,
    "proximity": 7,
}


def philox4x32(key, counter):
    """Philox 4x32-10: four words from a key of two words and a counter of four."""
    k0, k1 = key
    x0, x1, x2, x3 = counter
    for _ in range(10):
        a = 0xD2511F53 * x0
        b = 0xCD9E8D57 * x2
        x0, x1, x2, x3 = (b >> 32) ^ x1 ^ k0, b & MASK32, (a >> 32) ^ x3 ^ k1, a & MASK32
        k0 = (k0 + 0x9E3779B9) & MASK32
        k1 = (k1 + 0xBB67AE85) & MASK32
    return [x0, x1, x2, x3]


def counter_of(stream, block):
    """The Philox counter of one block of a stream."""
    node, layer = stream["node"], stream["layer"]
    purpose, split = PURPOSES[stream["purpose"]], SPLITS[stream["split"]]
    assert 0 <= node < 2**40 and 0 <= layer < 32 and 0 <= stream["epoch"] < 2**30 and 0 <= block < 2**16
    return [
        node & MASK32,
        block | layer << 16 | purpose << 21 | (node >> 32) << 24,
        stream["batch"],
        stream["epoch"] | split << 30,
    ]


def words_of(stream):
    """The words of a stream, one after the other."""
    seed = stream["seed"]
    block = 0
    while True:
        yield from philox4x32([seed & MASK32, seed >> 32], counter_of(stream, block))
        block += 1


def bounded(words, n):
    """A uniform integer in [0, n): 32-bit Lemire with rejection."""
    threshold = 2**32 % n
    while True:
        product = next(words) * n
        if product % 2**32 >= threshold:
            return product >> 32


def bounded64(words, n):
    """A uniform integer in [0, n) for n up to 64 bits: the same out of pairs of words, the low one first."""
    threshold = 2**64 % n
    while True:
        low = next(words)
        product = (next(words) << 32 | low) * n
        if product % 2**64 >= threshold:
            return product >> 64


def mix(z):
    """splitmix64's finaliser."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK64
    return z ^ (z >> 31)


LOG2 = [
    1901360720, 1196802686, 868614893, 680046808, 555475204, 456913028, 355293914, 236551560, 118923742, 38334212,
    5783109,
]  # fmt: skip


def exponential(word):
    """-log2((word + 1/2) / 2**32), in units of 2**-32."""
    x = 2 * word + 1
    e = x.bit_length() - 1
    t = x * 2 ** (32 - e) - 2**32
    q = 0
    for coefficient in reversed(LOG2):
        q = coefficient - q * t // 2**32
        assert 0 <= q < 2**32
    bow = t * (2**32 - 1 - t) // 2**30
    return (33 - e) * 2**32 - t - bow * q // 2**34


def under(stream, number):
    """The stream under the seed of a relation, a node type or a segment of a list."""
    return dict(stream, seed=stream["seed"] ^ mix(number))


def word_at(stream, position, relation=0):
    """Word `position` of a node, however long its list in the relation is."""
    at, segment = position % 2**18, position // 2**18
    stream = under(stream, segment if relation == 0 else relation + (segment << 32))
    return philox4x32([stream["seed"] & MASK32, stream["seed"] >> 32], counter_of(stream, at // 4))[at % 4]
