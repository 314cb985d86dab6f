"""The page's examples run, and what it says of them holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "alpa-intra.md"


def test_the_examples_of_the_page():
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    exec(blocks[0], names)
    plan, options = names["plan"], names["options"]
    needed = plan.state_bytes + options.in_flight * plan.activation_bytes + plan.work_bytes
    assert needed <= options.memory_bytes
    assert plan.status == "optimal"
    megatron = names["score"](
        *(names["graph"], 0, plan.last, names["mesh"], names["costs"], names["megatron"], options),
    )
    assert megatron.objective >= plan.objective
    exec(blocks[1], names)
    assert names["table"].exact
