"""Random programs with random times, for tests that hold engines against each other."""

from hypothesis import strategies as st
from meshwright.simulator.training import Action, Link, Op, Program, Timing, make_program

__all__ = ["ANY", "WHOLE", "cases", "orders", "programs", "timings"]

# Whole seconds meet at the same instant all the time; other numbers hardly ever do.
WHOLE = st.integers(0, 2).map(float)
ANY = st.floats(0.0, 2.0, allow_subnormal=False)


@st.composite
def programs(draw):
    schedule = draw(st.sampled_from(["gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "inference"]))
    m = draw(st.integers(1, 6))
    meshes = draw(st.integers(1, 4))
    if schedule == "zb_v":
        n, homes = 2 * meshes, None
    elif schedule == "interleaved_1f1b":
        n, m = meshes * draw(st.integers(1, 2)), meshes * draw(st.integers(1, 2))
        homes = [s % meshes for s in range(n)]
    else:
        n = meshes
        homes = draw(st.permutations(range(n)))
        homes = homes if schedule in ("gpipe", "1f1b", "inference") else None
    edges = [(s, s + 1, True) for s in range(n - 1)]
    for _ in range(draw(st.integers(0, 2)) if n > 2 else 0):
        a = draw(st.integers(0, n - 3))
        edges.append((a, draw(st.integers(a + 2, n - 1)), draw(st.booleans())))
    tied = [draw(st.sets(st.integers(0, n - 1), min_size=2))] if n > 1 and draw(st.booleans()) else []
    return make_program(schedule, n, m, mesh_of=homes, transfers=edges, tied=[sorted(t) for t in tied])


@st.composite
def orders(draw):
    """A program of no schedule: passes in any order that ends, sends and receives wherever they can be."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    edges = [(a, b) for a in range(n) for b in range(a + 1, n) if draw(st.booleans())]
    homes = list(range(n))
    todo = [(s, k) for s in range(n) for k in range(m)]
    done, sent = set(), []
    actions = [[] for _ in range(n)]
    while todo or sent:
        ready = [(s, k) for s, k in todo if all((a, k) in done for a, b in edges if b == s)]
        pick = draw(st.integers(0, len(ready) + len(sent) - 1))
        if pick < len(ready):
            s, k = ready[pick]
            todo.remove((s, k))
            done.add((s, k))
            actions[s] += [Action(Op.RECV_F, s, k, a) for a, b in edges if b == s]
            actions[s].append(Action(Op.F, s, k))
            actions[s] += [Action(Op.SEND_F, s, k, b) for a, b in edges if a == s]
        else:
            sent.pop(pick - len(ready))
    return Program(actions, homes, m)


@st.composite
def timings(draw, program):
    n = program.n_stages
    seconds = draw(st.sampled_from([WHOLE, ANY]))
    columns = [draw(st.lists(seconds, min_size=n, max_size=n)) for _ in range(5)]
    links = {}
    for kind in ("forward", "backward", "tied"):
        for a in range(n):
            for b in range(n):
                if a != b and draw(st.integers(0, 9)):
                    ports = tuple(draw(st.sets(st.sampled_from("pqrs"), max_size=2)))
                    own = (("out", program.mesh_of[a]), ("in", program.mesh_of[b]))
                    links[kind, a, b] = Link(draw(seconds), draw(seconds), own + ports)
    return Timing(*columns, links, draw(st.booleans()))


@st.composite
def cases(draw):
    program = draw(st.one_of(programs(), orders()))
    return program, draw(timings(program))
