package ops

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// maxCalls limits the distinct instances of local functions: a model in which
// each call has other shapes is plausible, one with a hundred thousand instances
// is an attack.
const maxCalls = 10_000

// functionID identifies the local function that a node calls.
type functionID struct{ domain, name, overload string }

// callID is a digest of everything on which the inference of a call depends.
type callID [sha256.Size]byte

// instance is a local function with the types of one call.
type instance struct {
	call   *graph.Call
	outs   []Arg
	flops  int64
	random bool
}

// collectFunctions lists the model's local functions and refuses recursive ones,
// even if nobody calls them.
func (inf *inferrer) collectFunctions() error {
	inf.functions = make(map[functionID]*graph.Function, len(inf.model.Functions))
	for _, f := range inf.model.Functions {
		id := functionID{f.Domain, f.Name, f.Overload}
		if inf.functions[id] == nil {
			inf.functions[id] = f
		}
	}
	const active, done = 1, 2
	state := make(map[*graph.Function]int, len(inf.functions))
	var path []*graph.Function
	var walk func(f *graph.Function) error
	walk = func(f *graph.Function) error {
		switch state[f] {
		case done:
			return nil
		case active:
			return recursion(append(path, f))
		}
		state[f] = active
		path = append(path, f)
		if err := inf.eachCallee(f.Body, walk); err != nil {
			return err
		}
		path = path[:len(path)-1]
		state[f] = done
		return nil
	}
	for _, f := range inf.model.Functions {
		if err := walk(f); err != nil {
			return err
		}
	}
	return nil
}

// eachCallee calls visit for the local functions that the nodes of g, and of the
// bodies within it, call.
func (inf *inferrer) eachCallee(g *graph.Graph, visit func(*graph.Function) error) error {
	if g == nil {
		return nil
	}
	for _, n := range g.Nodes {
		if f := inf.function(n); f != nil {
			if err := visit(f); err != nil {
				return err
			}
		}
		for _, a := range n.Attrs {
			if err := inf.eachCallee(a.Graph, visit); err != nil {
				return err
			}
			for _, b := range a.Graphs {
				if err := inf.eachCallee(b, visit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// recursion names the cycle that the last function of the path closes.
func recursion(path []*graph.Function) error {
	last := path[len(path)-1]
	for path[0] != last {
		path = path[1:]
	}
	var names []string
	for i, f := range path {
		if i < 4 || i >= len(path)-2 {
			names = append(names, fmt.Sprintf("%q", graph.Short(f.Name)))
		} else if i == 4 {
			names = append(names, "…")
		}
	}
	return graph.Errorf("function %q calls itself: %s", graph.Short(last.Name), strings.Join(names, " -> "))
}

// function returns the local function that a node calls; nil if it calls none.
func (inf *inferrer) function(n *graph.Node) *graph.Function {
	if len(inf.functions) == 0 {
		return nil
	}
	return inf.functions[functionID{n.Domain, n.Op, n.Overload}]
}

// call infers a call of a local function by inferring its body. Calls with the
// same types, small values and attributes share one instance.
func (inf *inferrer) call(c *Call, f *graph.Function) error {
	if len(c.In) > len(f.Body.Inputs) {
		return c.Errf("function %s has %d inputs, found %d", graph.Short(f.Name), len(f.Body.Inputs), len(c.In))
	}
	if len(c.Out) > len(f.Body.Outputs) {
		return c.Errf("function %s has %d outputs, expected %d", graph.Short(f.Name), len(f.Body.Outputs), len(c.Out))
	}
	c.In = anonymousArgs(c.In)
	id := identify(c, f)
	if inst := inf.calls[id]; inst != nil {
		inf.useCall(c, inst)
		return nil
	}
	if len(inf.calls) >= maxCalls {
		return c.Errf("function %s: more than %d calls with different types", graph.Short(f.Name), maxCalls)
	}
	if inf.cloned += sizeOf(f.Body); inf.cloned > maxCloned {
		return c.Errf("function %s: the calls of functions with different types have more than %d nodes and tensors", graph.Short(f.Name), maxCloned)
	}
	body := f.Body.Clone()
	if err := substitute(body, c.Node, f); err != nil {
		return err
	}
	args := make([]Arg, len(body.Inputs))
	for i := range args {
		args[i] = c.Arg(i)
	}
	s := &scope{g: body, opsets: f.Opsets}
	if err := inf.graph(s, args); err != nil {
		return err
	}
	inst := &instance{call: &graph.Call{Function: f, Body: body}, outs: anonymousArgs(s.outputs())}
	for _, n := range body.Nodes {
		inst.flops = addFLOPs(inst.flops, n.Semantics.FLOPs)
		inst.random = inst.random || n.Semantics.Random
	}
	inf.calls[id] = inst
	inf.useCall(c, inst)
	return nil
}

// sizeOf counts the nodes and tensors of g and of the bodies within it.
func sizeOf(g *graph.Graph) int {
	if g == nil {
		return 0
	}
	w := 1 + len(g.Nodes) + len(g.Tensors)
	for _, n := range g.Nodes {
		for _, a := range n.Attrs {
			w += sizeOf(a.Graph)
			for _, b := range a.Graphs {
				w += sizeOf(b)
			}
		}
	}
	return w
}

func (inf *inferrer) useCall(c *Call, inst *instance) {
	c.Node.Semantics.Known = true
	c.Node.Semantics.Call = inst.call
	c.Node.Semantics.FLOPs, c.Node.Semantics.Random = inst.flops, inst.random
	for i := range c.Out {
		c.SetType(i, inst.outs[i].Type)
		c.SetValue(i, inst.outs[i].Value)
	}
}

// identify returns the digest of the types, values and attributes of a call.
func identify(c *Call, f *graph.Function) callID {
	d := digest{sha256.New(), nil}
	d.text(f.Domain)
	d.text(f.Name)
	d.text(f.Overload)
	d.args(c.In)
	for _, a := range c.Node.Attrs {
		d.text(a.Name)
		d.text(a.String)
		d.number(int64(a.Type), int64(math.Float32bits(a.Float)), a.Int, int64(len(a.Floats)))
		for _, x := range a.Floats {
			d.number(int64(math.Float32bits(x)))
		}
		d.number(int64(len(a.Ints)))
		d.number(a.Ints...)
		d.number(int64(len(a.Strings)))
		for _, x := range a.Strings {
			d.text(x)
		}
		// Attributes that hold tensors or graphs are distinguished by address:
		// two equal ones cost an instance, but cause no error.
		d.text(fmt.Sprintf("%v %p %p %p %p", a.Span, a.Tensor, a.Sparse, a.Graph, a.TypeOf))
		for _, x := range a.Tensors {
			d.text(fmt.Sprintf("%p", x))
		}
		for _, x := range a.Graphs {
			d.text(fmt.Sprintf("%p", x))
		}
	}
	return callID(d.h.Sum(nil))
}

// digest hashes values together with their lengths, so that different lists have
// different digests.
type digest struct {
	h   hash.Hash
	buf []byte
}

func (d *digest) number(v ...int64) {
	d.buf = d.buf[:0]
	for _, x := range v {
		d.buf = binary.LittleEndian.AppendUint64(d.buf, uint64(x))
	}
	d.h.Write(d.buf)
}

func (d *digest) text(s string) {
	d.number(int64(len(s)))
	d.buf = append(d.buf[:0], s...)
	d.h.Write(d.buf)
}

func (d *digest) args(args []Arg) {
	d.number(int64(len(args)))
	for _, a := range args {
		if !a.Present {
			d.number(-1)
			continue
		}
		d.typ(a.Type)
		if a.Value == nil {
			d.number(-1)
			continue
		}
		d.number(int64(len(a.Value.Shape)), int64(len(a.Value.Elems)))
		d.number(a.Value.Shape...)
		for _, e := range a.Value.Elems {
			d.number(int64(e.State), e.I, int64(math.Float64bits(e.F)))
		}
		if a.Value.Items != nil {
			d.args(a.Value.Items)
		}
	}
}

func (d *digest) typ(t graph.Type) {
	rank := int64(t.Rank())
	d.number(int64(t.Kind), int64(t.Elem), rank)
	for _, n := range t.Shape {
		d.number(int64(n))
	}
	if t.Of == nil {
		d.number(-1)
		return
	}
	d.number(1)
	d.typ(*t.Of)
}

// substitute replaces references to the function's attributes by the attributes
// of the call, in the body and the bodies within it.
func substitute(g *graph.Graph, call *graph.Node, f *graph.Function) error {
	for _, n := range g.Nodes {
		attrs := n.Attrs[:0]
		for _, a := range n.Attrs {
			if a.Ref == "" {
				for _, b := range a.All() {
					if err := substitute(b, call, f); err != nil {
						return err
					}
				}
				attrs = append(attrs, a)
				continue
			}
			given := call.Attr(a.Ref)
			for _, d := range f.Defaults {
				if given == nil && d.Name == a.Ref {
					given = d
				}
			}
			if given == nil {
				continue // the operator's default applies
			}
			for _, b := range given.All() {
				if len(b.Captures) > 0 {
					return graph.Errorf("attribute %q of a call of function %s captures tensors of the calling graph: expected a graph without captures",
						graph.Short(a.Ref), graph.Short(f.Name))
				}
			}
			put := given.Clone()
			put.Name = a.Name
			attrs = append(attrs, put)
		}
		n.Attrs = attrs
	}
	return nil
}
