"""Flows on shared links, compiled: how fast each goes, and when the next ends.

A flow stands in a slot. `flows` are the arrays of slots: when it ends (inf: empty), what is left, its rate, since when,
its load (−1: none, it goes at rate 1). `net` are those of links: which links a load takes, what share, how much all
flows ask of each link; and scratch.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner
from .rates import SLACK

__all__ = ["begin_flow", "end_flow"]


@inner
def begin_flow(slot, seconds, load, now, flows, net):
    """Put work that takes so many seconds alone into a slot."""
    end, left, rate, since, of_slot = flows
    links, shares, asked = net[0], net[1], net[2]
    left[slot], rate[slot], since[slot], of_slot[slot] = seconds, 1.0, now, load
    end[slot] = now + seconds
    if load < 0:
        return
    tight = False
    for k in range(links.shape[1]):
        link = links[load, k]
        if link >= 0:
            asked[link] += shares[load, k]
            tight |= asked[link] > 1.0 + SLACK
    if tight:
        _share(slot, now, flows, net)


@inner
def end_flow(slot, now, flows, net):
    """Take a flow out of its slot; those that shared its links go on faster."""
    end, load = flows[0], flows[4][slot]
    links, shares, asked = net[0], net[1], net[2]
    end[slot] = np.inf
    flows[4][slot] = -1
    if load < 0:
        return
    tight = False
    for k in range(links.shape[1]):
        link = links[load, k]
        if link >= 0:
            tight |= asked[link] > 1.0 + SLACK
    if tight:
        flows[4][slot] = load  # it still says whose links these were
        _share(slot, now, flows, net)
        flows[4][slot] = -1
    for k in range(links.shape[1]):
        link = links[load, k]
        if link >= 0:
            asked[link] -= shares[load, k]


@inner
def _share(slot, now, flows, net):
    """New rates of all flows that full links join to this one, itself left out where it has ended.

    A link that is not full ties nobody: rates are at most 1, so that it is never what holds a flow back.
    """
    end, left, rate, since, of_slot = flows
    links, shares, asked, marked, level_of, room, member, stack = net
    width = links.shape[1]
    n, top = 1, 0
    stack[0] = slot
    member[slot] = 1
    while top < n:  # whose links these are, and who else is on those of them that are full
        load = of_slot[stack[top]]
        top += 1
        for k in range(width):
            link = links[load, k]
            if link < 0 or marked[link] or asked[link] <= 1.0 + SLACK:
                continue
            marked[link] = 1
            for other in range(len(end)):
                if member[other] or of_slot[other] < 0:
                    continue
                for j in range(width):
                    if links[of_slot[other], j] == link:
                        member[other] = 1
                        stack[n] = other
                        n += 1
                        break
    for i in range(n):
        for k in range(width):
            link = links[of_slot[stack[i]], k]
            if link >= 0:
                room[link], marked[link] = 1.0, 0
    rising = 0
    for i in range(n):
        s = stack[i]
        if end[s] == np.inf:
            member[s] = 0  # it has ended
            continue
        left[s] = max(0.0, left[s] - rate[s] * (now - since[s]))
        since[s] = now
        rate[s] = 0.0
        rising += 1
    while rising > 0:
        for i in range(n):
            for k in range(width):
                link = links[of_slot[stack[i]], k]
                if link >= 0:
                    level_of[link] = 0.0
        for i in range(n):
            s = stack[i]
            if member[s] and rate[s] == 0.0:
                for k in range(width):
                    link = links[of_slot[s], k]
                    if link >= 0:
                        level_of[link] += shares[of_slot[s], k]
        level = np.inf
        for i in range(n):
            s = stack[i]
            if member[s] and rate[s] == 0.0:
                for k in range(width):
                    link = links[of_slot[s], k]
                    if link >= 0:
                        level = min(level, room[link] / level_of[link])
        every = level >= 1.0 - SLACK
        for i in range(n):
            s = stack[i]
            if not member[s] or rate[s] != 0.0:
                continue
            held = every
            for k in range(width):
                link = links[of_slot[s], k]
                if link >= 0 and room[link] / level_of[link] <= level * (1.0 + SLACK):
                    held = True
            if held:
                # Marked as a negative rate until all of this round are found: their share is taken off after it.
                rate[s] = -1.0 if every else -level
        for i in range(n):
            s = stack[i]
            if rate[s] < 0.0:
                rate[s] = -rate[s]
                rising -= 1
                end[s] = now + left[s] / rate[s]
                for k in range(width):
                    link = links[of_slot[s], k]
                    if link >= 0:
                        room[link] = max(0.0, room[link] - rate[s] * shares[of_slot[s], k])
    for i in range(n):
        member[stack[i]] = 0
