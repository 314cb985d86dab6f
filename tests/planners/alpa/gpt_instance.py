"""Auto-sharding instances of a training step of a GPT: forward, backward and update, every operator of every layer.

Tensors are matrices on a 2-D logical mesh. A spec says which mesh axes split each of the two dimensions, so there are
nine. A matmul lets each mesh axis split one of its three loops (Table 3 of the Alpa paper): nine strategies, with an
all-reduce where the summed loop is split. Moving between specs costs all-gathers and all-to-alls (Table 2).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

MESH = (2, 8)
BYTES_PER_S = (3e9, 50e9)
SPECS = [(a, b) for a, b in itertools.product([(), (0,), (1,), (0, 1)], repeat=2) if not set(a) & set(b)]


def shards(axes):
    return int(np.prod([MESH[a] for a in axes], initial=1))


def gather_s(size, axes):
    """Seconds of an all-gather to `size` bytes over the mesh axes."""
    return sum(size * (MESH[a] - 1) / MESH[a] / BYTES_PER_S[a] + 1e-5 for a in axes)


def reshard_s(size, have, want):
    """Seconds from one spec to another: gather what is not wanted, all-to-all what changes its dimension, slice."""
    cost = 0.0
    for axis in range(2):
        was = [d for d in range(2) if axis in have[d]]
        is_ = [d for d in range(2) if axis in want[d]]
        if was and was != is_:
            local = size / shards([a for d in range(2) for a in have[d] if a != axis])
            cost += gather_s(local, (axis,)) / (MESH[axis] if is_ else 1)
    return cost


@dataclass
class Graph:
    """Nodes with (spec of the output, specs of the inputs, communication seconds) for each strategy."""

    size: list = field(default_factory=list)
    strategies: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    follow: list = field(default_factory=list)
    aliases: list = field(default_factory=list)

    def add(self, shape, strategies, inputs=(), follow=-1, item=2):
        self.size.append(float(shape[0]) * shape[1] * item)
        self.strategies.append(strategies)
        self.inputs.append(tuple(inputs))
        self.follow.append(follow)
        return len(self.size) - 1

    def source(self, shape):
        return self.add(shape, [(s, (), 0.0) for s in SPECS])

    def same(self, shape, *inputs, follow=False):
        """Element-wise: all operands as the output."""
        strategies = [(s, (s,) * len(inputs), 0.0) for s in SPECS]
        leader = inputs[0]
        while follow and self.follow[leader] >= 0:
            leader = self.follow[leader]
        follow = follow and len(self.strategies[leader]) == len(SPECS) and self.inputs[leader] != ()
        return self.add(shape, strategies, inputs, leader if follow else -1)

    def rows(self, shape, x, *vectors):
        """Layer norm, softmax: rows stay whole or are reduced across the axes that split them."""
        strategies = []
        for s in SPECS:
            cost = 2 * gather_s(shape[0] * 8 / shards(s[0]), s[1])
            strategies.append((s, (s,) + (((), s[1]),) * len(vectors), cost))
        return self.add(shape, strategies, (x, *vectors))

    def matmul(self, n, m, k, a, b, ta=False, tb=False):
        """[n, m] = Σ_k a[n, k] b[k, m]; operands stored transposed where ta or tb."""
        strategies = []
        for loops in itertools.product("nmk", repeat=2):
            on = {loop: tuple(axis for axis in range(2) if loops[axis] == loop) for loop in "nmk"}
            out = (on["n"], on["m"])
            left, right = (on["n"], on["k"]), (on["k"], on["m"])
            cost = 2 * gather_s(n * m * 2 / shards(out[0] + out[1]), on["k"])
            strategies.append((out, (left[::-1] if ta else left, right[::-1] if tb else right), cost))
        return self.add((n, m), strategies, (a, b))

    def instance(self, memory_bytes):
        """The serialised form. A tensor lives from its node to its last reader; a strategy's memory is its shard."""
        n = len(self.size)
        edges, r = [], []
        for u, inputs in enumerate(self.inputs):
            for place, v in enumerate(inputs):
                edges.append((v, u))
                out = [s[0] for s in self.strategies[v]]
                want = [s[1][place] for s in self.strategies[u]]
                r.append([[reshard_s(self.size[v], a, b) for b in want] for a in out])
        last = list(range(n))
        for v, u in edges:
            last[v] = max(last[v], u)
        live = [[v for v in range(t + 1) if last[v] >= t or not self.inputs[v]] for t in range(n)]
        same = [
            [[float(a[0] != b[0]) for b in self.strategies[y]] for a in self.strategies[x]] for x, y in self.aliases
        ]
        return {
            "N": n,
            "M": memory_bytes,
            "s_len": [len(s) for s in self.strategies],
            "s_follow": self.follow,
            "E": edges,
            "A": self.aliases,
            "L": live,
            "c": [[0.0] * len(s) for s in self.strategies],
            "d": [[x[2] for x in s] for s in self.strategies],
            "m": [
                [size / shards(x[0][0] + x[0][1]) for x in s]
                for size, s in zip(self.size, self.strategies, strict=True)
            ],
            "r": [np.ravel(x).tolist() for x in r],
            "v": [np.ravel(x).tolist() for x in same],
        }


def gpt_instance(layers, memory_bytes=0, tokens=8192, hidden=2048, vocab=51200):
    """About sixty nodes a layer, no layer merged with another."""
    g = Graph()
    weights, gradients, saved = [], {}, []

    def weight(shape):
        weights.append(g.source(shape))
        return weights[-1]

    def linear(x, n_in, n_out):
        w, b = weight((n_in, n_out)), weight((1, n_out))
        y = g.matmul(tokens, n_out, n_in, x, w)
        bias = g.add((tokens, n_out), [(s, (s, ((), s[1])), 0.0) for s in SPECS], (y, b))
        saved.append((x, w, b, n_in, n_out))
        return bias

    def back(gradient):
        x, w, b, n_in, n_out = saved.pop()
        gradients[b] = g.add(
            (1, n_out), [(((), s[1]), (s,), gather_s(n_out * 4 / shards(s[1]), s[0])) for s in SPECS], (gradient,)
        )
        gradients[w] = g.matmul(n_in, n_out, tokens, x, gradient, ta=True)
        return g.matmul(tokens, n_in, n_out, gradient, w, tb=True)

    wide, narrow = (tokens, 4 * hidden), (tokens, hidden)
    x = g.matmul(tokens, hidden, vocab, g.source((tokens, vocab)), weight((vocab, hidden)))
    states = []
    for _ in range(layers):
        n1, s1 = len(weights), weight((1, hidden))
        h = g.rows(narrow, x, s1)
        qkv = linear(h, hidden, 3 * hidden)
        att = g.rows(narrow, g.add(narrow, [(s, (s,), 0.0) for s in SPECS if not s[1] or s[1] == (1,)], (qkv,)))
        out = linear(g.same(narrow, att, follow=True), hidden, hidden)
        y = g.same(narrow, g.same(narrow, out, follow=True), x)
        s2 = weight((1, hidden))
        h2 = g.rows(narrow, y, s2)
        up = linear(h2, hidden, 4 * hidden)
        gelu = g.same(wide, g.same(wide, up, follow=True), follow=True)
        down = linear(gelu, 4 * hidden, hidden)
        z = g.same(narrow, g.same(narrow, down, follow=True), y)
        states.append((x, s1, qkv, y, s2, up, n1))
        x = z
    grad = g.rows(narrow, x)
    for x0, s1, qkv, y, s2, up, _ in reversed(states):
        inner = back(grad)
        inner = g.same(wide, g.same(wide, inner, up), follow=True)
        inner = back(inner)
        ln = g.rows(narrow, g.same(narrow, inner, y), s2)
        gradients[s2] = g.add((1, hidden), [(((), s[1]), (s,), gather_s(hidden * 4, s[0])) for s in SPECS], (ln,))
        mid = g.same(narrow, ln, grad)
        inner = back(mid)
        inner = g.same((tokens, 3 * hidden), g.same((tokens, 3 * hidden), g.rows(narrow, inner), qkv), follow=True)
        inner = back(inner)
        ln = g.rows(narrow, g.same(narrow, inner, x0), s1)
        gradients[s1] = g.add((1, hidden), [(((), s[1]), (s,), gather_s(hidden * 4, s[0])) for s in SPECS], (ln,))
        grad = g.same(narrow, ln, mid)
    for w in weights:
        if w in gradients:
            update = g.same((1, g.size[w] / 2), gradients[w], w)
            g.aliases.append((w, update))
    return g.instance(memory_bytes)
