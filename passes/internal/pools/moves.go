package pools

import (
	"context"
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// Moved is a main graph before and after copies between pools.
type Moved struct {
	Before    *planner.Region
	FirstStep []int // of each of its nodes, by step: the step now
	now       *planner.Region
	problem   *tiers.Problem // of the buffers of now in the pools
}

// moveTries is how often moves are left out because something writes over a copy.
const moveTries = 4

// moved returns a main graph, whose buffers have been divided among the pools as p says, with
// copies between these where that lowers the slow traffic: SwapOut copies a tensor to a slower pool,
// and SwapIn to the fastest one, and the readers behind it read the copy. It returns nil if no moves
// do. It uses that part of the fastest pool; 0: all of it.
func moved(ctx context.Context, t *planner.Trial, p *tiers.Problem, x *planner.Search, room int64) (*Moved, error) {
	r := t.Main
	within := *p
	if room > 0 {
		within.Capacities = slices.Clone(p.Capacities)
		within.Capacities[0] = room
	}
	d := &tiers.Division{}
	var of []int // the buffers of the problem
	for k := range r.Buffers {
		if b := &r.Buffers[k]; !b.Resident {
			d.Memory = append(d.Memory, b.Pool)
			of = append(of, k)
		}
	}
	reads := reads(r, of)
	x.Fixed, x.FixedBodies = true, true // nodes and bodies were ordered before
	var best *Moved
	traffic := r.Tiered().SlowTrafficBytes
	for _, moves := range within.Moves(d, func(m tiers.Move) bool { return movable(r, p, m, reads[m.Buffer]) != graph.None }) {
		for range moveTries {
			if x.TimeIsUp() {
				x.Log.TimedOut = true
				break
			}
			now, firstStep, copies := withMoves(r, p, moves, reads)
			m := *t.Model
			m.Graph = now
			moved, err := r.Rules.Shared(&m, t.Inference.Given, r.Calls)
			if err != nil {
				return nil, err
			}
			q, err := planMoved(ctx, moved, r, firstStep, x, room)
			var full *planner.FullError
			if errors.As(err, &full) {
				break
			}
			if err != nil {
				return nil, err
			}
			for _, c := range copies {
				moved.Copies = append(moved.Copies, c.node)
			}
			wrong := overwritten(moved, q, copies)
			if len(wrong) > 0 {
				moves = slices.DeleteFunc(slices.Clone(moves), func(m tiers.Move) bool { return slices.Contains(wrong, m) })
				continue
			}
			if bytes := moved.Tiered().SlowTrafficBytes; bytes < traffic {
				traffic, best = bytes, &Moved{r, firstStep, moved, q}
			}
			break
		}
	}
	return best, nil
}

// planMoved plans the main graph up to the pools. It has the nodes of before, at these steps,
// with their scratch, and copies, which need none.
func planMoved(ctx context.Context, r *planner.Region, before *planner.Region, firstStep []int, x *planner.Search, room int64) (*tiers.Problem, error) {
	if err := r.PlanBodies(ctx, x); err != nil {
		return nil, err
	}
	if before.Scratch != nil {
		scratch := make([]int64, len(r.G.Nodes))
		for step, now := range firstStep {
			scratch[now] = before.Scratch[step]
		}
		r.AddScratch(scratch)
	}
	if err := r.Order(ctx, x); err != nil {
		return nil, err
	}
	return r.DividePart(ctx, x, room)
}

// bufferRead is a node that reads a tensor of a buffer.
type bufferRead struct {
	step int
	t    graph.TensorID
}

// reads lists what reads each of some buffers.
func reads(r *planner.Region, of []int) [][]bufferRead {
	list := make([][]bufferRead, len(of))
	for i, k := range of {
		for _, t := range r.TensorsOf(&r.Buffers[k]) {
			for _, n := range r.G.Tensors[t].Readers {
				list[i] = append(list[i], bufferRead{int(n), t})
			}
		}
	}
	return list
}

// movable returns the tensor of a buffer that a move copies; None if it cannot be made. Of
// the tensors that are made before the copy, nodes behind it must read one alone, which is
// no output of the graph. Where the buffer stays, they must read no other tensor of it.
func movable(r *planner.Region, p *tiers.Problem, m tiers.Move, reads []bufferRead) graph.TensorID {
	b := &p.Buffers[m.Buffer]
	from, stays := b.Uses[m.From].Step, m.From > 0 && m.To < len(b.Uses)
	if m.From == 0 {
		from = b.Uses[m.To-1].Step + 1
	}
	x := graph.TensorID(graph.None)
	for _, u := range reads {
		switch n := r.G.Nodes[u.step]; {
		case u.step < from:
		case len(n.Captures) > 0:
			return graph.None
		case int(r.G.Tensors[u.t].Maker) >= from:
			if stays {
				return graph.None
			}
		case x >= 0 && x != u.t, stays && len(n.Semantics.Views) > 0:
			return graph.None
		default:
			x = u.t
		}
	}
	if x < 0 {
		return graph.None
	}
	t := r.G.Tensors[x]
	if r.BetweenBytes == nil {
		r.BetweenBytes = slicing.BetweenBytes(r.G)
	}
	if r.BetweenBytes(x) || t.Output || t.Bounded || t.Dynamic != "" || !t.Type.Exact() || t.Data != nil || r.Gradients[t.Name] {
		return graph.None
	}
	return x
}

// madeCopy is a copy of a tensor.
type madeCopy struct {
	move tiers.Move
	node graph.NodeID // SwapOut or SwapIn
}

// withMoves returns the graph in which nodes copy tensors, the step of each node of r there,
// and the copies.
func withMoves(r *planner.Region, p *tiers.Problem, moves []tiers.Move, reads [][]bufferRead) (*graph.Graph, []int, []madeCopy) {
	g := r.G.Clone()
	type insert struct {
		at   int // before this node
		move tiers.Move
		node *graph.Node
	}
	moves = slices.Clone(moves)
	slices.SortStableFunc(moves, func(a, b tiers.Move) int { return a.From - b.From }) // what leaves the first memory is copied back from where it is
	slow := map[int]graph.TensorID{}
	var list []insert
	for _, m := range moves {
		b := &p.Buffers[m.Buffer]
		x := movable(r, p, m, reads[m.Buffer])
		at, until, op, suffix := b.Uses[m.From].Step, b.Uses[m.To-1].Step, graph.SwapIn, "/fast"
		if m.From == 0 {
			at, until, op, suffix = until+1, len(r.G.Nodes), graph.SwapOut, "/slow"
		}
		made := *g.Tensors[x]
		id := g.NewTensor(g.Unique(r.G.Tensors[x].Name + suffix))
		name := g.Tensors[id].Name
		made.Name, made.Capture, made.Data, made.Declared, made.Input, made.Output = name, false, nil, nil, false, false
		*g.Tensors[id] = made
		from := x
		if t, moved := slow[m.Buffer]; moved {
			from = t
		}
		if m.From == 0 {
			slow[m.Buffer] = id
		}
		for _, u := range reads[m.Buffer] {
			if u.step < at || u.step > until || u.t != x {
				continue
			}
			n := g.Nodes[u.step]
			n.Inputs = slices.Clone(n.Inputs)
			for j, t := range n.Inputs {
				if t == from {
					n.Inputs[j] = id
				}
			}
		}
		list = append(list, insert{at, m, &graph.Node{
			Name: name, Op: op, Domain: graph.SwapDomain, Inputs: []graph.TensorID{from}, Outputs: []graph.TensorID{id}, Semantics: graph.Semantics{Known: true},
		}})
	}
	slices.SortStableFunc(list, func(a, b insert) int { return a.at - b.at })
	var nodes []*graph.Node
	var copies []madeCopy
	firstStep := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for ; len(list) > 0 && list[0].at == i; list = list[1:] {
			copies = append(copies, madeCopy{list[0].move, graph.NodeID(len(nodes))})
			nodes = append(nodes, list[0].node)
		}
		firstStep[i] = len(nodes)
		nodes = append(nodes, n)
	}
	g.Nodes = nodes
	g.Link()
	return g, firstStep, copies
}

// overwritten returns the moves behind whose copies something is written into the buffer of
// the copy or of what was copied while the other is used.
func overwritten(r *planner.Region, p *tiers.Problem, copies []madeCopy) (list []tiers.Move) {
	at := problemBuffers(r)
	for _, c := range copies {
		n := r.G.Nodes[c.node]
		a, b := &p.Buffers[at[r.StorageOf[n.Inputs[0]]]], &p.Buffers[at[r.StorageOf[n.Outputs[0]]]]
		behind := slices.ContainsFunc(a.Uses, func(u tiers.Use) bool { return u.Step > int(c.node) })
		if behind && (writes(a, int(c.node)) || writes(b, int(c.node))) {
			list = append(list, c.move)
		}
	}
	return list
}

// writes reports whether something is written into a buffer behind a step.
func writes(b *tiers.Buffer, step int) bool {
	return slices.ContainsFunc(b.Uses, func(u tiers.Use) bool { return u.Step > step && u.Written > 0 })
}

// problemBuffers returns the buffer of each storage in the problem of the pools.
func problemBuffers(r *planner.Region) map[int32]int {
	at, next := map[int32]int{}, 0
	for k := range r.Buffers {
		if b := &r.Buffers[k]; !b.Resident {
			for _, i := range b.Storages {
				at[i] = next
			}
			next++
		}
	}
	return at
}
