"""Lower bounds of the load of a node, whatever the order: docs/formats/bounds.md."""

import collections

UNLIMITED = 1 << 62
MOST_NODES = 4000  # of a graph for which minimum cuts are computed here
MOST_MATCHINGS = 16  # for which a cut each is computed


def matching(pairs, sizes):
    """The bytes of a largest matching of pairs (result, over), whose sizes are those of over."""
    holder = {}

    def take(result, tried):
        for over in (o for r, o in pairs if r == result and o not in tried):
            tried.add(over)
            if over not in holder or take(holder[over], tried):
                holder[over] = result
                return True
        return False

    for result in dict.fromkeys(r for r, _ in pairs):
        take(result, set())
    return sum(sizes[over] for over in holder)


def maximal(pairs):
    """All matchings of pairs to which none of the others can be added."""
    if not pairs:
        return [[]]
    (result, over), rest = pairs[0], pairs[1:]
    with_ = [[pairs[0], *m] for m in maximal([p for p in rest if p[0] != result and p[1] != over])]
    without = maximal(rest)
    return with_ + [m for m in without if any(r == result or o == over for r, o in m)]


class Bounds:
    """The bounds of one graph.

    storages are those that count, each with bytes, maker (-1: none), readers and output;
    before has for each node those whose results it reads, pairs its in-place pairs as
    indices of storages. None of them is a state of a training step.
    """

    def __init__(self, storages, before, pairs):
        self.storages, self.before, self.pairs = storages, before, pairs
        self.after = [[] for _ in before]
        for n, list_ in enumerate(before):
            for m in list_:
                self.after[m].append(n)
        self.sizes = {i: s.bytes for i, s in storages.items()}
        self.made, self.read = collections.defaultdict(set), collections.defaultdict(set)
        for i, s in storages.items():
            self.made[s.maker].add(i)
            for r in s.readers:
                self.read[r].add(i)

    def own(self, n):
        """The first bound: the tensors of the node."""
        return sum(self.sizes[i] for i in self.made[n] | self.read[n]) - matching(self.pairs[n], self.sizes)

    def certificate(self, kind, nodes):
        """What a certificate proves, by the three bounds."""
        least = min(map(self.own, nodes))
        if len(self.before) > MOST_NODES:
            return least
        first, last = kind == "first-of-set", kind == "last-of-set"
        beyond = self.reach(nodes, self.after if first else self.before) if first or last else set()
        cuts = []
        for n in (n for n in nodes if n not in beyond):
            run, not_yet = self.reach([n], self.before), self.reach([n], self.after) | {n}
            run |= (beyond | set(nodes) - {n}) if last else set()
            not_yet |= (beyond | set(nodes)) if first else set()
            matchings = maximal(self.pairs[n])
            if len(matchings) > MOST_MATCHINGS:
                cuts.append(self.cut(n, run, not_yet, []) - matching(self.pairs[n], self.sizes))
            else:
                cuts += [self.cut(n, run, not_yet, m) - sum(self.sizes[o] for _, o in m) for m in matchings]
        return max(least, min(cuts))

    def reach(self, nodes, arrows):
        seen, stack = set(), list(nodes)
        while stack:
            fresh = [m for m in arrows[stack.pop()] if m not in seen]
            seen.update(fresh)
            stack += fresh
        return seen

    def cut(self, n, run, not_yet, matched):
        """The least live bytes of all states in which n can run, and what n makes.

        A matched pair costs its bytes in a state in which another node has yet to read them.
        """
        net, always = Network(), sum(self.sizes[i] for i in self.made[n])
        side = lambda m: "source" if m in run or m < 0 else "sink" if m in not_yet else m
        held = [(i, s.bytes, s.maker, s.readers, s.output) for i, s in self.storages.items() if s.bytes]
        held += [(("pair", o), self.sizes[o], -1, self.storages[o].readers - {n}, False) for _, o in matched]
        first_step = len(run) == 0 and len(not_yet) == len(self.before)
        for i, bytes, maker, readers, output in held:
            unread = i in self.storages and maker < 0 and not readers
            keepers = {side(r) for r in readers} | ({"sink"} if output or unread and first_step else set())
            if side(maker) == "source" and "sink" in keepers:
                always += bytes
            elif side(maker) != "sink":
                net.add(side(maker), ("storage", i), bytes)
                for keeper in keepers - {"source"}:
                    net.add(("storage", i), keeper, UNLIMITED)
        for m, list_ in enumerate(self.before):
            for k in list_:
                net.add(side(m), side(k), UNLIMITED)
        return always + net.flow()


class Network:
    """A flow network from "source" to "sink"; its greatest flow is the least cut."""

    def __init__(self):
        self.capacity = collections.defaultdict(dict)

    def add(self, a, b, bytes):
        if a != b and a != "sink" and b != "source":
            self.capacity[a][b] = self.capacity[a].get(b, 0) + bytes
            self.capacity[b].setdefault(a, 0)

    def flow(self):
        """Push flow along the shortest paths until there is none."""
        total = 0
        while True:
            came, queue = {"source": None}, collections.deque(["source"])
            while queue and "sink" not in came:
                a = queue.popleft()
                for b, bytes in self.capacity[a].items():
                    if bytes > 0 and b not in came:
                        came[b] = a
                        queue.append(b)
            if "sink" not in came:
                return total
            path, b = [], "sink"
            while came[b] is not None:
                path.append((came[b], b))
                b = came[b]
            push = min(self.capacity[a][b] for a, b in path)
            for a, b in path:
                self.capacity[a][b] -= push
                self.capacity[b][a] += push
            total += push
