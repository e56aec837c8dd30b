package ops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// maxCalls bounds the distinct instances of local functions: a model in which
// each call has other shapes is possible, one with a hundred thousand of them
// is an attack.
const maxCalls = 10_000

// instance is a local function with the types of one call.
type instance struct {
	call *graph.Call
	outs []Arg
}

// function finds the local function that a node calls, nil if it calls none.
func (inf *inferrer) function(n *graph.Node) *graph.Function {
	for _, f := range inf.model.Functions {
		if f.Name == n.Op && f.Domain == n.Domain && f.Overload == n.Overload {
			return f
		}
	}
	return nil
}

// call infers a call of a local function by looking into it. Calls with the
// same types, small values and attributes share one instance.
func (inf *inferrer) call(c *Call, f *graph.Function) error {
	if len(c.In) > len(f.Body.Inputs) {
		return c.Errf("function %s takes %d inputs, found %d", f.Name, len(f.Body.Inputs), len(c.In))
	}
	if len(c.Out) > len(f.Body.Outputs) {
		return c.Errf("function %s makes %d outputs, expected %d", f.Name, len(f.Body.Outputs), len(c.Out))
	}
	id := callKey(c, f)
	if inst := inf.calls[id]; inst != nil {
		inf.useCall(c, inst)
		return nil
	}
	if slices.Contains(inf.active, f) {
		return c.Errf("function %s calls itself", f.Name)
	}
	if inf.pairs++; inf.pairs > maxCalls {
		return c.Errf("function %s: more than %d calls with different types", f.Name, maxCalls)
	}
	inf.active = append(inf.active, f)
	defer func() { inf.active = inf.active[:len(inf.active)-1] }()

	body := f.Body.Clone()
	substitute(body, c.Node, f)
	args := make([]Arg, len(body.Inputs))
	for i := range args {
		args[i] = c.Arg(i)
	}
	s := &scope{g: body, opsets: f.Opsets}
	if err := inf.graph(s, args); err != nil {
		return err
	}
	inst := &instance{&graph.Call{Function: f, Body: body}, s.outputs()}
	inf.calls[id] = inst
	inf.useCall(c, inst)
	return nil
}

func (inf *inferrer) useCall(c *Call, inst *instance) {
	c.Node.Meaning.Known = true
	c.Node.Meaning.Call = inst.call
	for i := range c.Out {
		c.SetType(i, inst.outs[i].Type)
		c.SetValue(i, inst.outs[i].Value)
	}
	for _, n := range inst.call.Body.Nodes {
		c.Node.Meaning.FLOPs += n.Meaning.FLOPs
		c.Node.Meaning.Random = c.Node.Meaning.Random || n.Meaning.Random
	}
}

// callKey spells out all that the inference of a call depends on.
func callKey(c *Call, f *graph.Function) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", f.Domain, f.Name, f.Overload)
	for _, a := range c.In {
		if !a.Present {
			b.WriteString(" -")
			continue
		}
		b.WriteString(" " + a.Type.String())
		if a.Value != nil {
			fmt.Fprintf(&b, "%v", *a.Value)
		}
	}
	for _, a := range c.Node.Attrs {
		// Two attributes that hold the same tensor or graph are told apart by
		// where they stand: that costs an instance and no mistake.
		fmt.Fprintf(&b, " %q=%v %v %q %v %v %q %v", a.Name, a.Float, a.Int, a.String, a.Floats, a.Ints, a.Strings, a.Span)
	}
	return b.String()
}

// substitute puts a call's attributes in the place of those that refer to them,
// in the body and the bodies within it.
func substitute(g *graph.Graph, call *graph.Node, f *graph.Function) {
	for _, n := range g.Nodes {
		attrs := n.Attrs[:0]
		for _, a := range n.Attrs {
			if a.Ref != "" {
				given := call.Attr(a.Ref)
				for _, d := range f.Defaults {
					if given == nil && d.Name == a.Ref {
						given = d
					}
				}
				if given == nil {
					continue // stays at the operator's own default
				}
				g := given.Clone()
				g.Name = a.Name
				a = g
			}
			for _, b := range append(a.Graphs, a.Graph) {
				if b != nil {
					substitute(b, call, f)
				}
			}
			attrs = append(attrs, a)
		}
		n.Attrs = attrs
	}
}
