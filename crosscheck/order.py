"""Compare the order in which the runtime ran the nodes with the file's."""

import bisect
import dataclasses
import heapq

# Operators that ONNX Runtime runs as early as it can, whatever the order; their results have a few bytes.
EARLY = {"Shape", "Size"}


@dataclasses.dataclass
class Order:
    """ran and missing count nodes of the main graph; moved is a smallest set of nodes
    that explains the difference from the file's order."""

    ran: int
    missing: list
    moved: list
    inserted: int  # nodes that the runtime inserted


def compare(nodes, events, known):
    """nodes: the main graph's as listed; events: as run; known: names of all nodes of the file."""
    place = {n.name: i for i, n in enumerate(nodes) if n.op_type != "Constant"}
    ran = [place[e.name] for e in events if e.name in place]
    missing = [nodes[i] for i in sorted(set(place.values()) - set(ran))]
    follow = [i for i in ran if nodes[i].op_type not in EARLY]
    moved = [nodes[i].name for i in outside_longest_run(follow)]
    return Order(len(ran), missing, moved, sum(e.name not in known for e in events))


def follows(nodes, events, own):
    """Report whether the nodes ran in the file's order as far as the inserted nodes
    permit. own is the runtime's own graph. The runtime appends inserted nodes to the
    list, so their readers wait while nodes that are ready run: at each step, the
    ready node that is first in the list must run."""
    place = {n.name: i for i, n in enumerate(nodes)}
    maker = {t: i for i, n in enumerate(own) for t in n.output if t}
    waits, readers = [0] * len(own), [[] for _ in own]
    for i, n in enumerate(own):
        for m in {maker[t] for t in n.input if t in maker}:
            waits[i] += 1
            readers[m].append(i)

    def rank(i):
        return own[i].op_type not in EARLY, place.get(own[i].name, len(place) + i), i

    ready, order = [rank(i) for i, w in enumerate(waits) if not w], []
    heapq.heapify(ready)
    while ready:
        i = heapq.heappop(ready)[2]
        order.append(own[i])
        for r in readers[i]:
            waits[r] -= 1
            if not waits[r]:
                heapq.heappush(ready, rank(r))
    ran = [e.name for e in events if e.name in place and e.op not in EARLY]
    listed = set(ran)
    return ran == [n.name for n in order if n.name in listed and n.op_type not in EARLY]


def outside_longest_run(sequence):
    """Return the members of a sequence of distinct numbers outside one longest increasing
    subsequence: a smallest set whose removal leaves the sequence sorted."""
    tails, links, at = [], {}, []
    for x in sequence:
        k = bisect.bisect_left(tails, x)
        links[x] = at[k - 1] if k else None
        if k == len(tails):
            tails.append(x)
            at.append(x)
        else:
            tails[k] = at[k] = x
    keep, x = set(), at[-1] if at else None
    while x is not None:
        keep.add(x)
        x = links[x]
    return [x for x in sequence if x not in keep]
