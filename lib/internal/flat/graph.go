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

// problem returns the bare scheduling problem.
func (g *Graph) problem() (*schedule.Problem, error) {
	consumers, err := listsOf("consumers", len(g.Size), g.ConsumerBegin, g.Consumer)
	if err != nil {
		return nil, err
	}
	reuses, err := listsOf("reuses", len(g.Size), g.ReuseBegin, g.Reuse)
	if err != nil {
		return nil, err
	}
	writes, err := listsOf("writes", g.Nodes, g.WriteBegin, g.Write)
	if err != nil {
		return nil, err
	}
	p := &schedule.Problem{Nodes: make([]schedule.Node, g.Nodes), Tensors: make([]schedule.Tensor, len(g.Size))}
	for i := range p.Nodes {
		p.Nodes[i] = schedule.Node{Workspace: at(g.Workspace, i, 0), Cost: at(g.Cost, i, 0), Once: at(g.Once, i, 0) != 0, Writes: slices.Clone(writes.of(i))}
	}
	for i := range p.Tensors {
		p.Tensors[i] = schedule.Tensor{
			Bytes: g.Size[i], Producer: g.Producer[i], Consumers: slices.Clone(consumers.of(i)),
			Output: at(g.Output, i, 0) != 0, Resident: at(g.Resident, i, 0) != 0, Reuses: slices.Clone(reuses.of(i)),
		}
	}
	if err := p.Validate(); err != nil {
		return nil, &Refused{err}
	}
	if g.Parent != nil {
		if err := g.parts(p); err != nil {
			return nil, err
		}
		if err := p.Validate(); err != nil {
			return nil, &Refused{err}
		}
	}
	return p, nil
}

// checked returns the problem for the verifier.
func (g *Graph) checked() (*bare.Problem, error) {
	p, err := g.problem()
	if err != nil {
		return nil, err
	}
	b := &bare.Problem{Nodes: make([]bare.Node, len(p.Nodes)), Tensors: make([]bare.Tensor, len(p.Tensors))}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		b.Nodes[i] = bare.Node{Workspace: n.Workspace, Once: n.Once, Writes: n.Writes}
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		b.Tensors[i] = bare.Tensor{Bytes: t.Bytes, Producer: t.Producer, Consumers: t.Consumers, Resident: t.Resident, Output: t.Output, Over: t.Reuses}
	}
	return b, nil
}
