"""A model of letters: your module, your data, your weights, trained by a plan on two cores.

As a script it does all in Python. On the command line:

    meshwright plan training --model examples/training/letters.py:build --planner alpa --devices 2 --device cpu-core \
        --global-batch 16 --microbatches 2 --out letters.json
    meshwright run letters.json --iterations 20 --data examples/training/letters.py:batches --weights module \
        --optimizer adamw:lr=1e-2,weight_decay=0.1 --save letters.safetensors
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, and "
    "what is the use of a book, thought Alice, without pictures or conversation?"  # Lewis Carroll, 1865
)
LETTERS = sorted(set(TEXT))
LENGTH, WIDTH = 16, 32


class Letters(nn.Module):
    """Guesses the next letter of the last ones; its output is tied to its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, len(LETTERS), bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, letters: Tensor) -> Tensor:
        """For each place, how likely each letter is to follow."""
        x = self.embedding(letters) + self.places
        y = self.norm1(x)
        scores = self.query(y) @ self.key(y).mT / WIDTH**0.5
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        x = x + scores.masked_fill(later, float("-inf")).softmax(-1) @ self.value(y)
        x = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return self.head(self.norm3(x))


def build() -> dict[str, object]:
    """What `from_torch` takes: the module, an example of its input, and its loss."""
    torch.manual_seed(0)
    letters = torch.zeros(2, LENGTH, dtype=torch.int64)
    return {"module": Letters(), "inputs": (letters,), "loss": "cross_entropy", "labels": letters}


def batches() -> Iterator[dict[str, Tensor]]:
    """Sixteen pieces of the text at a time, and for each letter the one that follows it; without end."""
    codes = torch.tensor([LETTERS.index(letter) for letter in TEXT])
    random = torch.Generator().manual_seed(1)
    while True:
        first = torch.randint(len(codes) - LENGTH, (16, 1), generator=random) + torch.arange(LENGTH)
        yield {"letters": codes[first], "labels": codes[first + 1]}


def main() -> None:
    """Plan it for two cores, train it there, and take the weights back."""
    from meshwright.planners.alpa import plan as alpa
    from meshwright.profiles.graph import from_torch
    from meshwright.profiles.graph.module_loss import ModuleLoss
    from meshwright.runtime.training import Group, Own, Schedule, TorchOptimizer, run_training
    from meshwright.simulator import Cluster

    made = build()
    graph = from_torch(**made, name="letters")
    plan = alpa(graph, Cluster(1, 2, "cpu-core"), global_batch=16, microbatches=2)
    module = ModuleLoss(**made)
    optimizer = TorchOptimizer(
        "AdamW", {"lr": 1e-2, "weight_decay": 0.1, "betas": (0.9, 0.95)},
        groups=(Group(("*norm*", "*.bias"), {"weight_decay": 0.0}),),
        schedule=Schedule("cosine", warmup=2, until=20, least=0.1), clip_norm=1.0,
    )  # fmt: skip
    own = Own(data=batches(), state=module.module.state_dict(), optimizer=optimizer, module=module)
    run = run_training(plan, graph, iterations=20, own=own)
    print(f"loss {run.losses[0]:.3f} -> {run.losses[-1]:.3f} in {len(run.losses)} iterations")
    module.module.load_state_dict(run.state_dict(), strict=True)
    batch = next(batches())
    loss = functional.cross_entropy(module.module(batch["letters"]).flatten(0, 1), batch["labels"].flatten())
    print(f"the module itself, with the trained weights: {loss.item():.3f} on the first batch")


if __name__ == "__main__":
    main()
