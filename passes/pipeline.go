package passes

import (
	"context"
	"fmt"
	"slices"
)

// Pass is one step on the way from a model to its plan. One of your own is a
// Pass like those of [Default], put into [Options].Passes.
type Pass struct {
	Name string // no other pass of the list has it
	Doc  string // what it does, in a line
	Run  func(context.Context, *State) error

	// Optional passes can be switched off by name ([Options].Disable): the plan is
	// then worse, and still valid. Instead runs in the place of Run where the pass
	// is off; nil: nothing does.
	Optional bool
	Instead  func(context.Context, *State) error

	// Rerun says that all that the pass fills in follows from the graph: it runs
	// again when a later pass has changed the graph ([State.Invalidate]).
	Rerun bool
}

// Default lists the passes of onnxmem in the order in which they run. The list is
// the caller's own, to insert into and to cut.
func Default() []Pass {
	return []Pass{
		{Name: "train", Doc: "make one training step out of an inference model, if asked", Run: train},
		{Name: "inline", Doc: "replace calls of local functions by their bodies, if asked", Run: inline},
		{Name: "infer", Doc: "bind dimensions, give every tensor its type and size", Run: infer, Rerun: true},
		{Name: "share", Doc: "merge views into the storage that they view", Run: share, Rerun: true},
		{Name: "bodies", Doc: "plan bodies and local functions: they are workspace", Run: bodies, Rerun: true},
		{Name: "order", Doc: "find the order of the smallest peak", Run: order, Optional: true, Instead: programOrder},
		{Name: "limit", Doc: "run nodes again, or send tensors to a host, where the best order does not fit, if asked", Run: limit},
		{Name: "place", Doc: "share buffers in place and give them offsets", Run: place},
		{Name: "annotate", Doc: "put the plan together, write offsets into the nodes", Run: annotate},
	}
}

// constraints say which pass must stand before which, and why. Where needed is
// set, the later pass cannot do without the earlier one.
var constraints = []struct {
	before, after string
	needed        bool
	why           string
}{
	{"train", "inline", false, "gradients may be calls of functions"},
	{"train", "infer", false, "the nodes that it adds need types, too"},
	{"inline", "infer", false, "the nodes that it adds need types, too"},
	{"infer", "share", true, "sizes and views are found by inference"},
	{"share", "bodies", true, "a body's captures are storages of the graph around it"},
	{"bodies", "order", true, "workspace is part of a node's load"},
	{"order", "limit", true, "the order comes first: the bytes that it saves cost no time"},
	{"limit", "place", false, "tensors that are computed again need places of their own"},
	{"order", "place", true, "lifetimes follow from the order"},
	{"place", "annotate", true, "offsets are what is written"},
}

// find gives the index of the pass of that name, -1 if the list has none.
func find(list []Pass, name string) int {
	return slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
}

// checkPasses checks a list of passes by itself and against the constraints.
func checkPasses(list []Pass) error {
	for i, p := range list {
		switch {
		case p.Name == "":
			return fmt.Errorf("pass %d has no name: expected one", i)
		case p.Run == nil:
			return fmt.Errorf("pass %q has no function: expected Run", p.Name)
		case find(list, p.Name) != i:
			return fmt.Errorf("two passes are called %q: expected names that differ", p.Name)
		}
	}
	for _, c := range constraints {
		before, after := find(list, c.before), find(list, c.after)
		switch {
		case after < 0:
		case before < 0 && c.needed:
			return fmt.Errorf("pass %q needs pass %q before it, which the list lacks: %s", c.after, c.before, c.why)
		case before > after:
			return fmt.Errorf("pass %q must stand before pass %q: %s", c.before, c.after, c.why)
		}
	}
	return nil
}

// upTo gives the passes that stand before the one of that name.
func upTo(list []Pass, name string) ([]Pass, error) {
	end := find(list, name)
	if end < 0 {
		return nil, &OptionError{fmt.Errorf("the list of passes lacks %q", name)}
	}
	return list[:end], nil
}
