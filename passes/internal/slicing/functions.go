package slicing

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// The largest numbers of calls, and of the nodes in all of them, stay well below what
// inference accepts.
const (
	mostCalls  = 5_000
	mostCalled = 100_000
)

// write replaces the nodes of calls in a model whose graph is a copy of c's.
func (c *compact) write(m *graph.Model) error {
	count := map[string]int{}
	for _, r := range c.runs {
		for _, s := range r.calls {
			text, _, _ := c.interfaces(r, s)
			count[text]++
		}
	}
	size, calls := 0, 0
	for _, r := range c.runs {
		r.calls = slices.DeleteFunc(slices.Clone(r.calls), func(s span) bool {
			if text, _, _ := c.interfaces(r, s); count[text] < 2 { // a function would not make the file smaller
				return true
			}
			// Each call has its own types, so inference copies the function for it.
			calls, size = calls+1, size+s.to-s.from
			return calls > mostCalls || size > mostCalled
		})
	}
	c.renumber()
	f := functions{m: m, known: map[string]*graph.Function{}, taken: map[string]bool{}, labels: map[string]bool{}}
	for _, have := range m.Functions {
		if have.Domain == graph.SwapDomain {
			f.taken[have.Name] = true
		}
	}
	note(m.Graph, map[string]bool{}, f.labels)
	g := m.Graph
	gone := make([]bool, len(g.Tensors))
	replaced := map[graph.NodeID]*graph.Node{} // the last node of a call: the call
	inner := map[graph.NodeID]bool{}
	for _, r := range c.runs {
		for _, s := range r.calls {
			text, inputs, outputs := c.interfaces(r, s)
			fn := f.known[text]
			if fn == nil {
				var err error
				if fn, err = f.add(c, r, s, inputs, outputs); err != nil {
					return err
				}
				f.known[text] = fn
			}
			for _, v := range r.nodes[s.from:s.to] {
				inner[v] = true
				for _, t := range g.Nodes[v].Outputs {
					if t >= 0 && !slices.Contains(outputs, t) {
						gone[t] = true
					}
				}
			}
			call := &graph.Node{
				Name: unique(fmt.Sprintf("%s/r%d/s%d", fn.Name, r.region, r.slice), f.labels),
				Op:   fn.Name, Domain: fn.Domain, Inputs: inputs, Outputs: outputs,
			}
			call.SetProp(Prop, fmt.Sprintf("%d %d %s %s", r.region, r.slice, RoleCall, fn.Name))
			setPurpose(call, g.Nodes[r.nodes[s.to-1]])
			replaced[r.nodes[s.to-1]] = call
		}
	}
	var nodes []*graph.Node
	for i, n := range g.Nodes {
		switch call := replaced[graph.NodeID(i)]; {
		case call != nil:
			nodes = append(nodes, call)
		case !inner[graph.NodeID(i)]:
			nodes = append(nodes, n)
		}
	}
	g.Nodes = nodes
	g.DropTensors(func(t graph.TensorID) bool { return gone[t] })
	g.Link()
	return nil
}

// renumber leaves out the names to which no function refers.
func (c *compact) renumber() {
	all := c.names
	c.names = make([][]string, len(all))
	index := map[regionTensor]int{}
	for _, r := range c.runs {
		for _, s := range r.calls {
			for i := s.from; i < s.to; i++ {
				key := regionTensor{r.region, all[r.region][r.roles[i].index]}
				k, known := index[key]
				if !known {
					k = len(c.names[r.region])
					index[key] = k
					c.names[r.region] = append(c.names[r.region], key.tensor)
				}
				r.roles[i].index = k
			}
		}
	}
}

// interfaces returns the shape of nodes with what they give to others, and the inputs and
// outputs of a call.
func (c *compact) interfaces(r *run, s span) (text string, inputs, outputs []graph.TensorID) {
	text, inputs = c.shape(r, s)
	for i := s.from; i < s.to; i++ {
		for k, t := range c.g.Nodes[r.nodes[i]].Outputs {
			if t >= 0 && c.readBehind(r, s, t) {
				text += fmt.Sprintf("out %d %d\n", i-s.from, k)
				outputs = append(outputs, t)
			}
		}
	}
	return text, inputs, outputs
}

// functions are the local functions of a model that is made compact.
type functions struct {
	m      *graph.Model
	known  map[string]*graph.Function
	taken  map[string]bool // names in the domain
	labels map[string]bool // names of nodes
	made   int
}

// add adds a function with copies of nodes.
func (f *functions) add(c *compact, r *run, s span, inputs, outputs []graph.TensorID) (*graph.Function, error) {
	fn := &graph.Function{Domain: graph.SwapDomain, Name: unique(fmt.Sprintf("Region%d", f.made), f.taken), Body: &graph.Graph{}}
	f.made++
	b := fn.Body
	to := map[graph.TensorID]graph.TensorID{}
	tensor := func(t graph.TensorID, name string) graph.TensorID {
		to[t] = b.NewTensor(name)
		return to[t]
	}
	for i, t := range inputs {
		b.Inputs = append(b.Inputs, tensor(t, fmt.Sprintf("x%d", i)))
	}
	for i := s.from; i < s.to; i++ {
		old := c.g.Nodes[r.nodes[i]]
		n := &graph.Node{Name: fmt.Sprintf("%s_%d", old.Op, i-s.from), Op: old.Op, Domain: old.Domain, Overload: old.Overload}
		for _, t := range old.Inputs {
			if t >= 0 {
				t = to[t]
			}
			n.Inputs = append(n.Inputs, t)
		}
		for _, t := range old.Outputs {
			if t >= 0 {
				t = tensor(t, fmt.Sprintf("t%d", len(b.Tensors)-len(inputs)))
			}
			n.Outputs = append(n.Outputs, t)
		}
		for _, a := range old.Attrs {
			own := a.Clone()
			own.Span = graph.Span{}
			n.Attrs = append(n.Attrs, own)
		}
		n.SetProp(Prop, fmt.Sprintf("%s %d", r.roles[i].what, r.roles[i].index))
		b.Nodes = append(b.Nodes, n)
		if graph.FindOpset(fn.Opsets, n.Domain) == 0 {
			version := f.m.Opset(n.Domain)
			if version == 0 {
				return nil, fmt.Errorf("function %s: the model imports no version of domain %q", fn.Name, n.Domain)
			}
			fn.Opsets = append(fn.Opsets, graph.Opset{Domain: n.Domain, Version: version})
		}
	}
	for _, t := range outputs {
		b.Outputs = append(b.Outputs, to[t])
	}
	b.Link()
	f.m.AddOwn(fn)
	return fn, nil
}
