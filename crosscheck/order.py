"""Compare the order in which the runtime ran the nodes with the file's."""

import bisect
import dataclasses
import heapq

# What ONNX Runtime runs as early as it can, whatever the order; it holds a few bytes.
EARLY = {"Shape", "Size"}


@dataclasses.dataclass
class Order:
    """ran and missing count nodes of the main graph; moved names those that ran
    out of the file's order, as few as explain what happened."""

    ran: int
    missing: list
    moved: list
    inserted: int  # nodes that the runtime put in


def compare(nodes, events, known):
    """nodes: the main graph's as listed; events: as run; known: names of all nodes of the file."""
    place = {n.name: i for i, n in enumerate(nodes) if n.op_type != "Constant"}
    ran = [place[e.name] for e in events if e.name in place]
    missing = [nodes[i] for i in sorted(set(place.values()) - set(ran))]
    follow = [i for i in ran if nodes[i].op_type not in EARLY]
    moved = [nodes[i].name for i in outside_longest_run(follow)]
    return Order(len(ran), missing, moved, sum(e.name not in known for e in events))


def follows(nodes, events, own):
    """Whether the nodes ran in the file's order as far as what the runtime put in
    lets them: own is its own graph. It puts nodes at the end of the list, so what
    reads them waits, and what is ready meanwhile runs; the order is then that of
    the ready node that stands first."""
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
    """The members of a sequence of distinct numbers that do not belong to one
    longest increasing subsequence: the fewest whose removal leaves it sorted."""
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
