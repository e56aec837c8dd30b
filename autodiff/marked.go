package autodiff

import (
	"github.com/onnxmem/onnxmem/internal/marks"
)

// operands are the operands of a marked group, by name: a tensor (ID), a list of integers
// ([]int64), or a number (float64) of the type of the node's first operand.
type operands map[string]any

// marked emits the nodes of a group of package marks from the group's table, with their marks.
// So a runtime that has one kernel for the group finds it again in the file.
type marked struct {
	e      *emitter
	group  *marks.Group
	number int
	given  operands
	made   map[string]ID
}

// marked begins a group.
func (e *emitter) marked(g *marks.Group, given operands) *marked {
	e.groups++
	return &marked{e: e, group: g, number: e.groups - 1, given: given, made: map[string]ID{}}
}

// make emits the nodes that the tensor of a role needs, as far as they are not there yet, in the
// order of the table. A group of which something is never asked for is not whole: runtimes run
// its nodes one by one.
func (m *marked) make(role string) ID {
	needed := map[string]bool{}
	m.need(role, needed)
	for i := range m.group.Nodes {
		if n := &m.group.Nodes[i]; needed[n.Role] {
			m.made[n.Role] = m.emit(n)
		}
	}
	return m.made[role]
}

// need adds a role and those that it needs, but for what is there.
func (m *marked) need(role string, needed map[string]bool) {
	n := m.group.Node(role)
	if _, there := m.made[role]; n == nil || there {
		return
	}
	needed[role] = true
	for _, name := range n.In {
		m.need(name, needed)
	}
}

// emit emits a node whose operands are there.
func (m *marked) emit(n *marks.Node) ID {
	var in []ID
	for _, name := range n.In {
		in = append(in, m.operand(name, in))
	}
	a := attrs{}
	for _, at := range n.Attrs {
		a[at.Name] = at.Int
	}
	t := m.e.with(n.Op, a, in...)
	if maker := m.e.makers[t]; maker != nil {
		maker.SetProp(marks.Key, m.group.Mark(m.number, n.Role))
	}
	return t
}

// operand returns a tensor by name, behind some operands of its reader.
func (m *marked) operand(name string, before []ID) ID {
	switch v := m.given[name].(type) {
	case ID:
		return v
	case []int64:
		return m.e.list(v...)
	case float64:
		return m.e.scalar(before[0], v)
	}
	return m.made[name]
}
