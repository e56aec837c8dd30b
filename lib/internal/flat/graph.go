package flat

import (
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/bare"
	"github.com/onnxmem/onnxmem/schedule"
)

// Graph is nodes, in program order, and the tensors that they read and make. All lists but
// Size and Producer may be nil; lists of lists are as [lists] says.
type Graph struct {
	Nodes           int
	Workspace, Cost []int64 // by node: bytes, nanoseconds
	Once            []uint8 // by node: not 0: it must not run again
	WriteBegin      []int64
	Write           []int32 // by node: tensors that it overwrites in place

	Size          []int64
	Producer      []int32
	ConsumerBegin []int64
	Consumer      []int32
	Output        []uint8
	Resident      []uint8
	ReuseBegin    []int64
	Reuse         []int32 // by tensor: those that it may be written over

	Parent []int32 // the tensor of which this is a range; -1: none
	Offset []int64 // where the range begins, in bytes
}

// edges are the lists of a graph.
type edges struct{ consumers, reuses, writes lists }

func (g *Graph) edges() (e edges, err error) {
	if e.consumers, err = listsOf("consumers", len(g.Size), g.ConsumerBegin, g.Consumer); err != nil {
		return e, err
	}
	if e.reuses, err = listsOf("reuses", len(g.Size), g.ReuseBegin, g.Reuse); err != nil {
		return e, err
	}
	e.writes, err = listsOf("writes", g.Nodes, g.WriteBegin, g.Write)
	return e, err
}

// problem returns the bare scheduling problem, in which no tensor is a range of another.
func (g *Graph) problem() (*schedule.Problem, error) {
	p, _, err := g.joined()
	return p, err
}

// joined returns the problem, and the ranges that were in it; nil: none.
func (g *Graph) joined() (*schedule.Problem, *ranges, error) {
	e, err := g.edges()
	if err != nil {
		return nil, nil, err
	}
	p := &schedule.Problem{Nodes: make([]schedule.Node, g.Nodes), Tensors: make([]schedule.Tensor, len(g.Size))}
	for i := range p.Nodes {
		p.Nodes[i] = schedule.Node{Workspace: at(g.Workspace, i, 0), Cost: at(g.Cost, i, 0), Once: at(g.Once, i, 0) != 0, Writes: slices.Clone(e.writes.of(i))}
	}
	for i := range p.Tensors {
		p.Tensors[i] = schedule.Tensor{
			Bytes: g.Size[i], Producer: g.Producer[i], Consumers: slices.Clone(e.consumers.of(i)),
			Output: at(g.Output, i, 0) != 0, Resident: at(g.Resident, i, 0) != 0, Reuses: slices.Clone(e.reuses.of(i)),
		}
	}
	if err := p.Validate(); err != nil {
		return nil, nil, &Refused{err}
	}
	if g.Parent == nil {
		return p, nil, nil
	}
	r, err := g.ranges(p)
	if err != nil {
		return nil, nil, err
	}
	if err := g.join(p, r); err != nil {
		return nil, nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, nil, &Refused{err}
	}
	return p, r, nil
}

// checked returns the graph for the verifier, which joins ranges itself.
func (g *Graph) checked() (*bare.Problem, error) {
	e, err := g.edges()
	if err != nil {
		return nil, err
	}
	b := &bare.Problem{Nodes: make([]bare.Node, g.Nodes), Tensors: make([]bare.Tensor, len(g.Size))}
	for i := range b.Nodes {
		b.Nodes[i] = bare.Node{Workspace: at(g.Workspace, i, 0), Once: at(g.Once, i, 0) != 0, Writes: e.writes.of(i)}
	}
	for i := range b.Tensors {
		b.Tensors[i] = bare.Tensor{
			Bytes: g.Size[i], Producer: g.Producer[i], Consumers: e.consumers.of(i),
			Resident: at(g.Resident, i, 0) != 0, Output: at(g.Output, i, 0) != 0, Over: e.reuses.of(i),
		}
		if parent := at(g.Parent, i, -1); parent >= 0 {
			b.Ranges = append(b.Ranges, bare.Range{Tensor: int32(i), Of: parent, Offset: at(g.Offset, i, 0)})
		}
	}
	if err := b.Validate(); err != nil {
		return nil, &Refused{err}
	}
	return b, nil
}
