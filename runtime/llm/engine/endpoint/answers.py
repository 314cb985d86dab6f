"""From tokens to OpenAI's answers: choices, usage, and the events of a stream."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from .....errors import InputError, RunError
from .....simulator.llm.policy.request import LLMRequest
from ..adapters.table import Finished
from .completions import ApiError, Completion
from .thread import EngineThread, Event, Ticket
from .tokenizer import ByteTokenizer

__all__ = ["Answer"]


class Answer:
    """One call of `/v1/completions` under way: its requests in the engine, and what came of them.

    Parameters
    ----------
    asked : Completion
        What was asked.
    model : str
        Name of the model.
    thread : EngineThread
        The engine.
    tokenizer : ByteTokenizer
        For texts.

    Raises
    ------
    ApiError
        400 if a request cannot run to its end, 503 if the engine has failed.
    """

    def __init__(self, asked: Completion, model: str, thread: EngineThread, tokenizer: ByteTokenizer) -> None:
        if thread.failure is not None:
            raise ApiError(503, f"the engine has stopped: {thread.failure}")
        self.asked, self.thread, self.tokenizer = asked, thread, tokenizer
        self.id, self.created, self.model = f"cmpl-{uuid.uuid4().hex}", int(time.time()), model
        self.events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self.open: set[str] = set()
        self._head = json.dumps(self._body([], None)).removesuffix("]}")
        self.generated = 0
        tickets = list(self._tickets())
        for ticket in tickets:
            try:
                thread.check(ticket.request)
            except InputError as error:
                raise ApiError(400, f"{error}", "prompt") from None
        for ticket in tickets:
            self.open.add(str(ticket.request.id))
            thread.submit(ticket)

    def _tickets(self) -> list[Ticket]:
        """Groups where the policy has them (the paper's vLLM shares their blocks), else a request for each choice."""
        asked, found = self.asked, list[Ticket]()
        group = asked.n > 1 and self.thread.engine.name == "vllm-0.2" and asked.sampling[0].seed is None
        for place, prompt in enumerate(asked.prompts):
            for k in range(1 if group else asked.n):
                first = place * asked.n + k
                name = f"{self.id}-{first}"
                request = LLMRequest(name, len(prompt), asked.max_tokens, best_of=asked.n if group else 1)

                def send(event: Event, first: int = first) -> None:
                    self.events.put_nowait((first, event))

                found.append(Ticket(request, prompt, asked.sampling[k], send))
        return found

    def leave(self, *_: object) -> None:
        """The client is gone: whoever waits for tokens stops waiting."""
        self.events.put_nowait((0, ("gone", None)))

    def end(self, why: str) -> None:
        """The server ends: whoever waits hears it."""
        self.events.put_nowait((0, ("error", RunError(why))))

    def abandon(self) -> None:
        """The client is gone: what is still under way leaves the engine."""
        for name in self.open:
            self.thread.abort(name)
        self.open.clear()

    async def pieces(self) -> AsyncIterator[tuple[int, int | None, str | None]]:
        """(choice, token, reason): tokens as they come, the last one of a choice with why it ended.

        Samples of a group that met a stop token before the others have ended say so when the group does: then there
        is no token.

        Raises
        ------
        ApiError
            If the engine fails.
        """
        told: set[int] = set()
        while self.open:
            first, (kind, said) = await self.events.get()
            if kind == "gone":
                return
            if kind == "token":
                index, token, reason = said
                self.generated += 1
                if reason is not None:
                    told.add(first + index)
                yield first + index, token, reason
            elif kind == "finished":
                finished: Finished = said
                self.open.discard(str(finished.request))
                for index, reason in enumerate(finished.reasons):
                    if first + index not in told:
                        yield first + index, None, reason
            else:
                raise ApiError(400 if isinstance(said, InputError) else 503, str(said))

    def usage(self) -> dict[str, int]:
        """Tokens of the prompts and of the choices so far."""
        prompts = sum(len(p) for p in self.asked.prompts)
        return {
            "prompt_tokens": prompts,
            "completion_tokens": self.generated,
            "total_tokens": prompts + self.generated,
        }

    def _body(self, choices: list[dict[str, Any]], usage: dict[str, int] | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
        return body if usage is None else {**body, "usage": usage}

    async def whole(self) -> dict[str, Any]:
        """The answer at once; of a client that is gone, as far as it came."""
        n = len(self.asked.prompts) * self.asked.n
        texts: list[list[str]] = [[] for _ in range(n)]
        reasons: list[str | None] = [None] * n
        async for choice, token, reason in self.pieces():
            if token is not None:
                texts[choice].append(self.tokenizer.decode(token))
            reasons[choice] = reason
        choices = [_choice(k, "".join(text), reasons[k]) for k, text in enumerate(texts)]
        return self._body(choices, self.usage())

    async def stream(self) -> AsyncIterator[str]:
        """Server-sent events: a token each, the last of a choice with the reason why it ended."""
        try:
            async for choice, token, reason in self.pieces():
                text = "" if token is None else self.tokenizer.decode(token)
                # By far the most frequent: the body is written around it, not built anew.
                yield f"data: {self._head}{json.dumps(_choice(choice, text, reason))}]}}\n\n"
            if self.open:
                return
            if self.asked.include_usage:
                yield _event(self._body([], self.usage()))
        except ApiError as error:  # the status is sent by now
            yield _event(error.body())
        yield "data: [DONE]\n\n"


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body)}\n\n"
