"""Runs Triton kernels under its CPU interpreter, in a process of its own: it must be chosen before Triton is imported.

Reads pickled (module, function, arguments, keywords) from standard input, and answers with (True, result, arguments) or
(False, traceback). Tensors travel as numpy arrays; a function that works in place is seen in the arguments.
"""

import os
import pickle
import sys
import traceback

os.environ["TRITON_INTERPRET"] = "1"


def main():
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what kernels print must not mix with the answers
    import numpy as np
    import torch

    torch.set_num_threads(1)

    def packed(value):
        if isinstance(value, tuple):
            return tuple(packed(part) for part in value)
        return value.numpy() if isinstance(value, torch.Tensor) else value

    while True:
        try:
            module, function, arguments, keywords = pickle.load(requests)
        except EOFError:
            return
        try:
            given = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arguments]
            found = getattr(__import__(module, fromlist=[function]), function)(*given, **keywords)
            answer = (True, packed(found), [packed(x) for x in given])
        except Exception:
            answer = (False, traceback.format_exc(), None)
        pickle.dump(answer, answers)
        answers.flush()


main()
