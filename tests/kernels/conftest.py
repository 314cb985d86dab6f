"""Cases of paged attention, the same sums number by number in fp64, and Triton kernels run with or without a GPU."""

import pickle
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

WORKER = Path(__file__).with_name("triton_worker.py")


@dataclass(frozen=True)
class Case:
    """A cache with sequences in it, as numpy arrays; all that no token of them uses is NaN."""

    q: np.ndarray
    k_cache: np.ndarray
    v_cache: np.ndarray
    tables: np.ndarray
    lens: np.ndarray
    scale: float
    starts: np.ndarray

    def arguments(self):
        return self.q, self.k_cache, self.v_cache, self.tables, self.lens, self.scale

    def prefill_arguments(self):
        return self.q, self.k_cache, self.v_cache, self.tables, self.starts, self.lens, self.scale

    def tokens(self, row):
        """Keys and values of a sequence in fp64, gathered one by one."""
        size = self.k_cache.shape[1]
        at = [(self.tables[row, i // size], i % size) for i in range(self.lens[row])]
        shape = (0, *self.k_cache.shape[2:])
        keys = np.array([self.k_cache[place] for place in at], dtype=np.float64) if at else np.zeros(shape)
        values = np.array([self.v_cache[place] for place in at], dtype=np.float64) if at else np.zeros(shape)
        return keys, values

    def attention(self, query, keys, values):
        """(o, m, s) of one query, ``[heads, width]``, head by head; m is −inf and s is 0 without keys."""
        heads, width = query.shape
        group = heads // self.k_cache.shape[2]
        o, m, s = np.zeros((heads, width)), np.full(heads, -np.inf), np.zeros(heads)
        for head in range(heads if len(keys) else 0):
            score = self.scale * keys[:, head // group] @ query[head].astype(np.float64)
            m[head] = score.max()
            weight = np.exp(score - m[head])
            s[head] = weight.sum()
            o[head] = weight @ values[:, head // group] / s[head]
        return o, m, s

    def decoded(self):
        return np.stack([self.attention(self.q[row], *self.tokens(row))[0] for row in range(len(self.lens))])

    def pieces(self, splits):
        """o, m, s of every piece, from the definition: ceil(blocks / splits) blocks each."""
        rows = []
        for row, length in enumerate(self.lens):
            keys, values = self.tokens(row)
            size = self.k_cache.shape[1]
            piece = max(1, -(-(-(-int(length) // size)) // splits)) * size  # noqa: B002 (two ceilings)
            parts = [
                self.attention(self.q[row], keys[j * piece : (j + 1) * piece], values[j * piece : (j + 1) * piece])
                for j in range(splits)
            ]
            rows.append([np.stack(x, axis=1) for x in zip(*parts, strict=True)])
        return [np.stack(x) for x in zip(*rows, strict=True)]

    def prefilled(self):
        found = np.zeros(self.q.shape)
        for row, length in enumerate(self.lens):
            first, past = self.starts[row], self.starts[row + 1]
            keys, values = self.tokens(row)
            for i in range(first, past):
                seen = length - (past - first) + (i - first) + 1
                found[i] = self.attention(self.q[i], keys[:seen], values[:seen])[0]
        return found


@pytest.fixture(scope="session")
def make_case():
    """``make_case(lens, …)``: random numbers, blocks in random order, with queries one per sequence or as given."""

    def make(lens, *, queries=None, heads=4, kv_heads=2, width=16, block_size=4, dtype="float32", seed=0):
        random = np.random.default_rng(seed)
        lens = np.asarray(lens, dtype=np.int32)
        table_width = max(1, -(-int(max(lens, default=0)) // block_size)) + 1
        blocks = len(lens) * table_width + 1
        shape = (blocks, block_size, kv_heads, width)
        k_cache, v_cache = (random.standard_normal(shape).astype(dtype) for _ in range(2))
        order = random.permutation(blocks)[: len(lens) * table_width].reshape(len(lens), table_width)
        used = np.zeros(shape[:2], dtype=bool)
        for row, length in enumerate(lens):
            for i in range(length):
                used[order[row, i // block_size], i % block_size] = True
            order[row, -(-int(length) // block_size) :] = -1  # past its context a table holds nothing of use
        k_cache[~used] = np.nan
        v_cache[~used] = np.nan
        counts = np.ones(len(lens), dtype=np.int32) if queries is None else np.asarray(queries, dtype=np.int32)
        q = random.standard_normal((int(counts.sum()), heads, width)).astype(dtype)
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return Case(q, k_cache, v_cache, order.astype(np.int32), lens, width**-0.5, starts)

    return make


class Interpreter:
    """Calls functions of a module in the worker process, with numpy arrays for tensors."""

    def __init__(self):
        command = [sys.executable, "-W", "ignore", str(WORKER)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, module, function, *arguments, **keywords):
        """What the function gives, and its arguments as it left them."""
        pickle.dump((module, function, arguments, keywords), self.process.stdin)
        self.process.stdin.flush()
        fine, found, left = pickle.load(self.process.stdout)
        assert fine, found
        return found, left

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


class Device:
    """The same on the GPU that is here."""

    def __call__(self, module, function, *arguments, **keywords):
        import torch

        given = [torch.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x for x in arguments]
        found = getattr(import_module(module), function)(*given, **keywords)
        torch.cuda.synchronize()
        back = tuple(x.cpu().numpy() for x in found) if isinstance(found, tuple) else found
        back = back.cpu().numpy() if isinstance(back, torch.Tensor) else back
        return back, [x.cpu().numpy() if isinstance(x, torch.Tensor) else x for x in given]

    def close(self):
        pass


@pytest.fixture(scope="session", params=["interpreter", "gpu"])
def triton_call(request):
    """``triton_call(module, function, …)`` under the interpreter, and again on a GPU where there is one."""
    pytest.importorskip("torch")
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed (pip install triton)")
    if request.param == "gpu":
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device here; the interpreter and the compiler stand for it")
    call = Interpreter() if request.param == "interpreter" else Device()
    yield call
    call.close()
