package ops

import (
	"slices"
	"sync"

	"github.com/onnxmem/onnxmem/graph"
)

// Check decides whether a kernel may run a node. It is the only gate between a
// model and kernels that write to memory without bounds checks. A kernel relies
// on
//
//   - the signature (signatures.txt): required inputs and outputs are present,
//     and element types that must agree do;
//   - Infer, with the present shapes: every output has the type that follows
//     from the inputs;
//   - Op.Check, for faults that Infer lets pass because planning tolerates them.
//
// Kernels themselves check the values of indices and lengths that are data.
//
// c.In have values where elements are few and known. If an input has no exact
// type, only the signature is checked, as far as types are known. c.Out[k].Type
// is the type that output k was given; the zero Type means that it follows from
// the node, and Check fills it in. open reports that the shape of some output is
// not proven: it depends on elements that are not yet known, or only the kernel
// finds it; or such elements ask for a shape that may contradict the inputs.
func Check(c *Call) (open bool, err error) {
	op := Lookup(c.Node.Domain, c.Node.Op)
	if op == nil {
		return false, c.Errf("operator %s is not known: its kernel cannot be checked", c.Node.OpName())
	}
	if c.Version < 1 {
		return false, c.Errf("opset_import has version %d of the domain of %s, expected one from 1 on", c.Version, c.Node.OpName())
	}
	s, f := signatureOf(c.Node.Domain, c.Node.Op, c.Version)
	if f == nil {
		return false, c.Errf("operator %s has no signature: its kernel cannot be checked", c.Node.OpName())
	}
	for i := range c.In {
		if a := &c.In[i]; a.Present && !a.settled() {
			return true, s.check(f, c)
		}
	}
	if open, err = c.inferAndCompare(op); err != nil {
		return false, err
	}
	open = open || c.asksForShape()
	if err := s.check(f, c); err != nil {
		return false, err
	}
	if err := c.checkFlags(); err != nil {
		return false, err
	}
	if op.Check != nil && c.makesElements() {
		err = op.Check(c)
	}
	return open, err
}

// asksForShape reports whether elements that are not known ask for a shape, which Infer may
// prove without them: it is the only one for which the node is right. Whether they ask for
// that one must be seen when they are known.
func (c *Call) asksForShape() bool {
	if n := c.Node; n.Domain != "" || !slices.Contains([]string{"Expand", "Reshape", "Squeeze"}, n.Op) || !c.Has(1) {
		return false
	}
	v := c.In[1].Value
	return v == nil || slices.ContainsFunc(v.Elems, func(e Scalar) bool { return e.State != Known })
}

// settled reports whether the type of a value is known: of a tensor, its lengths; of a
// sequence or an optional, those of all items.
func (a *Arg) settled() bool {
	switch a.Kind {
	case graph.KindMap:
		return true
	case graph.KindSequence, graph.KindOptional:
		return a.Value != nil && a.Value.Items != nil && !slices.ContainsFunc(a.Value.Items, func(i Arg) bool { return !i.settled() })
	}
	return a.Exact()
}

// flags are the attributes that every operator treats as boolean.
var flags = map[string]bool{
	"align_corners": true, "allowzero": true, "antialias": true, "ceil_mode": true, "center_point_box": true,
	"count_include_pad": true, "detect_negative": true, "detect_positive": true, "do_rotary": true,
	"exclude_outside": true, "exclusive": true, "fmod": true, "input_forget": true, "interleaved": true,
	"is_case_sensitive": true, "is_causal": true, "keepdims": true, "largest": true, "linear_before_reset": true,
	"noop_with_empty_axes": true, "onesided": true, "periodic": true, "reverse": true, "saturate": true,
	"select_last_index": true, "storage_order": true, "training_mode": true, "transA": true, "transB": true,
	"transBatchA": true, "transBatchB": true, "unidirectional": true,
}

// checkFlags refuses a flag that is neither 0 nor 1: runtimes disagree on the
// meaning of other numbers.
func (c *Call) checkFlags() error {
	for _, a := range c.Node.Attrs {
		if flags[a.Name] && a.Type == graph.AttrInt && uint64(a.Int) > 1 {
			return c.Errf("%s is %d, expected 0 or 1", a.Name, a.Int)
		}
	}
	return nil
}

// makesElements reports whether some output has, or may have, an element. Kernels run
// only then.
func (c *Call) makesElements() bool {
	for k := range c.Out {
		if c.Out[k].Present && elements(c.Out[k].Type) != 0 {
			return true
		}
	}
	return false
}

// spareCalls are calls that inferAndCompare has used: a graph has many nodes.
var spareCalls = sync.Pool{New: func() any { return &Call{} }}

// inferAndCompare infers the outputs and compares them with the given types.
func (c *Call) inferAndCompare(op *Op) (open bool, err error) {
	fresh := spareCalls.Get().(*Call)
	out := fresh.Out[:0]
	defer func() {
		clear(fresh.Out)
		*fresh = Call{Out: fresh.Out}
		spareCalls.Put(fresh)
	}()
	*fresh = *c
	fresh.Out = slices.Grow(out, len(c.Out))[:len(c.Out)]
	for k := range c.Out {
		fresh.Out[k] = Arg{Present: c.Out[k].Present}
	}
	if err := op.Infer(fresh); err != nil {
		return false, err
	}
	for k := range c.Out {
		out := &c.Out[k]
		if !out.Present {
			continue
		}
		given, made := out.Type, fresh.Out[k].Type
		if given.Kind == graph.KindUnknown {
			out.Type = made
			open = open || !made.Exact()
			continue
		}
		if made.Elem != graph.Undefined && given.Elem != made.Elem || made.Ranked && given.Ranked && !sameLengths(given.Shape, made.Shape) {
			return false, c.Errf("output %d%s is %v, expected %v, which follows from the inputs", k, c.outputName(k), given, made)
		}
		open = open || !made.Exact()
	}
	return open, nil
}

// sameLengths reports whether a shape equals the inferred one where that is
// exact, and is within its bounds.
func sameLengths(given, made []graph.Dim) bool {
	if len(given) != len(made) {
		return false
	}
	for i, d := range given {
		most, bounded := made[i].Max()
		if differ(d, made[i]) || d.Exact() && bounded && int64(d) > most {
			return false
		}
	}
	return true
}

// outputName is a space and the name of output k, for errors; "" if it has none.
func (c *Call) outputName(k int) string {
	if k >= len(c.Node.Outputs) {
		return ""
	}
	return c.name(c.Node.Outputs[k])
}
