"""The order in which the runtime ran the nodes, against the file's."""

import bisect
import dataclasses

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
