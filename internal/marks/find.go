package marks

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Found is a group in a graph, whole and as its table has it.
type Found struct {
	Group *Group
	Nodes []graph.NodeID            // in the order of the table
	Of    map[string]graph.TensorID // what they make, by role, and the operands by name
}

// Find returns the groups of a graph, in the order of their last nodes. It goes from a node with
// the last role to the makers of its operands, which must have the roles of the table, the
// operators, the attributes, and the same group and number in their marks. What the last node
// does not need is found by its mark and first operand.
//
// So a copy of a node, which has the node's mark, belongs to the group of those that read it.
// Where some read the node and some the copy, one name stands for two tensors, and that is no
// group; nor is a part of one. No node is in two groups. O(nodes).
func Find(g *graph.Graph) []*Found {
	f := &finder{g: g, marked: map[reader]graph.NodeID{}, taken: map[graph.NodeID]bool{}}
	var ends []graph.NodeID
	for i, n := range g.Nodes {
		mark, _ := n.Prop(Key)
		group, _, role := cut(mark)
		if group == nil || len(n.Inputs) == 0 || len(n.Outputs) != 1 || !f.read(n.Outputs[0]) {
			continue
		}
		if at := (reader{mark, n.Inputs[0]}); f.marked[at] == 0 {
			f.marked[at] = graph.NodeID(i) + 1
		}
		if role == group.Nodes[len(group.Nodes)-1].Role {
			ends = append(ends, graph.NodeID(i))
		}
	}
	var list []*Found
	for _, end := range ends {
		if found := f.whole(end); found != nil {
			list = append(list, found)
		}
	}
	return list
}

// reader is a mark and the first tensor that its node reads.
type reader struct {
	mark string
	of   graph.TensorID
}

type finder struct {
	g      *graph.Graph
	marked map[reader]graph.NodeID // 1 more than the first such node that is read; 0: none
	taken  map[graph.NodeID]bool   // nodes of groups that are found
}

// read reports whether somebody reads a tensor: a copy may stand for a node that nobody reads.
func (f *finder) read(t graph.TensorID) bool {
	return t >= 0 && (f.g.Tensors[t].Output || len(f.g.Tensors[t].Readers) > 0)
}

// whole returns the group that ends in a node; nil if it is not whole.
func (f *finder) whole(end graph.NodeID) *Found {
	mark, _ := f.g.Nodes[end].Prop(Key)
	group, instance, _ := cut(mark)
	b := &binder{finder: f, group: group, instance: instance, nodes: map[string]graph.NodeID{}, of: map[string]graph.TensorID{}}
	if !b.take(group.Nodes[len(group.Nodes)-1].Role, f.g.Nodes[end].Outputs) {
		return nil
	}
	found := &Found{Group: group, Of: b.of}
	for i := range group.Nodes {
		n := &group.Nodes[i]
		if _, is := b.of[n.Role]; !is {
			of, known := b.of[n.In[0]]
			id := f.marked[reader{instance + " " + n.Role, of}] - 1
			if !known || id < 0 || !b.take(n.Role, f.g.Nodes[id].Outputs) {
				return nil
			}
		}
		found.Nodes = append(found.Nodes, b.nodes[n.Role])
	}
	for _, id := range found.Nodes {
		f.taken[id] = true
	}
	return found
}

// binder binds the names of a table to the tensors of a graph.
type binder struct {
	*finder
	group    *Group
	instance string
	nodes    map[string]graph.NodeID
	of       map[string]graph.TensorID
}

// take binds a name to the one tensor of a list, and all that its maker reads, if the name is a
// role. It reports false if the graph is not as the table says.
func (b *binder) take(name string, list []graph.TensorID) bool {
	if len(list) != 1 || list[0] < 0 {
		return false
	}
	t := list[0]
	if bound, is := b.of[name]; is {
		return bound == t
	}
	b.of[name] = t
	row := b.group.Node(name)
	if row == nil {
		return true
	}
	id := b.g.Tensors[t].Maker
	if id < 0 || b.taken[id] || !row.describes(b.g.Nodes[id], b.instance) {
		return false
	}
	b.nodes[name] = id
	for i, in := range row.In {
		if !b.take(in, b.g.Nodes[id].Inputs[i:i+1]) {
			return false
		}
	}
	return true
}

// describes reports whether a node has the operator, the attributes and the mark of a row, and
// as many operands.
func (row *Node) describes(n *graph.Node, instance string) bool {
	mark, _ := n.Prop(Key)
	return n.Domain == "" && n.Op == row.Op && len(n.Inputs) == len(row.In) && len(n.Outputs) == 1 && mark == instance+" "+row.Role &&
		len(n.Attrs) == len(row.Attrs) && !slices.ContainsFunc(row.Attrs, func(want *graph.Attr) bool {
		a := n.Attr(want.Name)
		return a == nil || a.Type != want.Type || a.Int != want.Int || a.Ref != ""
	})
}
