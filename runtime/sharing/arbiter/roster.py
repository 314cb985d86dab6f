"""`Roster`: the arbiter's side of its agents: what each is told, what it answers, and when it is given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from ....errors import InputError
from ....reprs import Shown
from ....simulator.sharing.world import SharingWorld
from ..messages import Answer, Command, Hello, Kind, State
from ..options import RunOptions

__all__ = ["AgentEnd", "Lost", "Roster"]

Gpus = tuple[int, ...]
POLL_S = 2.0
"""How long an agent's question for a command is kept open, real seconds: one that is stopped does not ask again."""
SILENT = "no sign of life for {:.0f} s: it is stopped, or hangs"
BACK_S = 2.0
"""Within what time an agent whose connection broke must be back, real seconds: many of its tries, and far less than
`RunOptions.answer_s`, as a broken connection is a surer sign than silence."""


@dataclass(frozen=True, slots=True, repr=False)
class Lost(Shown):
    """An agent that was lost before its app was done.

    Parameters
    ----------
    app : str
        Name of its app.
    at_s : float
        When it was lost, in the world's seconds.
    why : str
        The reason.
    """

    app: str
    at_s: float
    why: str

    def __str__(self) -> str:
        return f"agent of app {self.app!r} at {self.at_s:.4g} s: {self.why}"


@dataclass
class AgentEnd:
    """The arbiter's end of an agent."""

    command: Command = field(default_factory=lambda: Command(seq=0, kind="wait"))
    news: asyncio.Event = field(default_factory=asyncio.Event)
    back: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Future[State] | None = None
    hello: Hello | None = None
    gone: str = ""
    over: bool = False
    last: State | None = None
    polls: int = 0


class Roster:
    """All agents of a run.

    Parameters
    ----------
    world : SharingWorld
        Whose apps they are.
    options : RunOptions
        How long to wait for an answer.
    lose : callable
        ``lose(app)``: an agent is gone.
    """

    def __init__(self, world: SharingWorld, options: RunOptions, lose: Callable[[int], None]) -> None:
        self.world, self.options, self.lose = world, options, lose
        self.agents = [AgentEnd() for _ in world.apps]
        self.closed = False

    # ---- what the service hands on

    def hello(self, app: int, hello: Hello) -> None:
        """An agent is there."""
        if hello.app != self.world.apps[app].name:
            raise InputError(f"arbiter: app {app} is {self.world.apps[app].name!r} here (got {hello.app!r})")
        before = self.agents[app].hello
        if before is not None and before != hello:  # the same twice is a message sent again
            raise InputError(f"arbiter: app {hello.app!r} has an agent already; end that one first")
        self.agents[app].hello = hello
        self._expect(app, self.options.answer_s, SILENT)

    async def command(self, app: int, after: int) -> Command | None:
        """The next command to an agent, when there is one; None to one that is given up, and at the end: it has to
        end."""
        agent = self.agents[app]
        agent.polls += 1
        agent.back.set()
        if after > agent.command.seq:  # commands of an arbiter that ran before this one
            agent.command = Command(seq=after, kind="wait")
        if agent.command.seq <= after and not self.closed and not agent.gone:
            agent.news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(agent.news.wait(), POLL_S)
        self._expect(app, self.options.answer_s, SILENT)
        if agent.gone or self.closed:
            return None
        return agent.command if agent.command.seq > after else Command(seq=after, kind="wait")

    def left(self, app: int) -> None:
        """An agent's connection broke while it waited for a command."""
        self._expect(app, min(BACK_S, self.options.answer_s), "its connection closed")

    def _expect(self, app: int, within_s: float, why: str) -> None:
        """An agent asks for commands all its life: if it has not asked again in time, it is gone."""
        polls = self.agents[app].polls

        def check() -> None:
            if self.agents[app].polls == polls and not self.closed:
                self.gone(app, why.format(within_s))

        asyncio.get_running_loop().call_later(within_s, check)

    def answered(self, app: int, answer: Answer) -> bool:
        """An agent's answer to a command; what comes too late is dropped. Whether it was waited for."""
        agent = self.agents[app]
        if agent.answer is None or answer.seq != agent.command.seq or agent.answer.done():
            return False
        agent.answer.set_result(answer.state)
        return True

    def over(self, app: int) -> None:
        """An agent's app is done: it ends, and answers nothing that it was asked meanwhile."""
        agent = self.agents[app]
        agent.over = True
        if agent.answer is not None and not agent.answer.done():
            agent.answer.cancel()

    def gone(self, app: int, why: str) -> None:
        """An agent's process has ended, or is given up; once: who ends it hears of its end, too."""
        agent = self.agents[app]
        if agent.gone:
            return
        agent.gone = why
        if agent.answer is not None and not agent.answer.done():
            agent.answer.cancel()
        agent.news.set()
        self.lose(app)

    def close(self) -> None:
        """Answer whoever still asks for a command."""
        self.closed = True
        for agent in self.agents:
            agent.news.set()

    # ---- talking to agents

    def tell(self, app: int, command: Command) -> None:
        """Put a command where the agent finds it."""
        self.agents[app].command = command
        self.agents[app].news.set()

    def send(self, app: int, kind: Kind, at_s: float, gpus: Gpus = (), *, hold: bool = False) -> None:
        """The next command to an agent."""
        self.tell(app, Command(seq=self.agents[app].command.seq + 1, kind=kind, at_s=at_s, gpus=gpus, hold=hold))

    async def ask(self, app: int, kind: Kind, at_s: float, gpus: Gpus, *, hold: bool) -> State | None:
        """A command, and the answer to it; None if the agent is gone or done, or does not answer in time: then it is
        given up."""
        agent = self.agents[app]
        if agent.gone or agent.over:
            return None
        agent.answer = asyncio.get_running_loop().create_future()
        self.send(app, kind, at_s, gpus, hold=hold)
        done, _ = await asyncio.wait([agent.answer], timeout=self.options.answer_s)
        answer, agent.answer = agent.answer, None
        if not done:
            self.gone(app, f"did not answer {kind!r} within {self.options.answer_s:g} s")
            return None
        return None if answer.cancelled() else answer.result()
