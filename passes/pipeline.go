package passes

import (
	"fmt"
	"slices"
)

// Default returns the passes of onnxmem in the order in which they run. The slice
// is a copy that the caller may change.
func Default() []Pass {
	return []Pass{
		{Name: "adapt", Doc: "add low-rank adapters to a model that is to be trained, if asked", Run: adapt},
		{Name: "attention", Doc: "replace attention that is spelled out by one operator, if asked", Run: replaceAttention},
		{Name: "precision", Doc: "put the graph into 16 bits, if asked", Run: putInto16Bits},
		{Name: "train", Doc: "make a training graph of an inference model, if asked", Run: train},
		{Name: "inline", Doc: "replace calls of local functions by their bodies, if asked", Run: inline},
		{Name: "kv", Doc: "give growing caches of keys and values a fixed capacity, if asked", Run: keepCaches},
		{Name: "infer", Doc: "bind dimensions and infer the type and size of every tensor", Run: infer, Rerun: true},
		{Name: "fold", Doc: "compute once what depends on constants alone", Run: fold, Optional: true},
		{Name: "slice", Doc: "run regions in slices to make the peak smaller than any order can, if asked", Run: slice},
		{Name: "loss", Doc: "run the loss of a training step in slices of its rows where that makes the peak smaller, unless an option excludes it", Run: lossInRows, Optional: true},
		{Name: "share", Doc: "merge views into the storage of their base", Run: share, Rerun: true},
		{Name: "bodies", Doc: "plan bodies and local functions, the workspace of their nodes", Run: bodies, Rerun: true},
		{Name: "range", Doc: "choose and prove one order and one stacking for ranges of dimensions, if asked", Run: ranges},
		{Name: "order", Doc: "find the order with the smallest peak", Run: order, Optional: true, Instead: order},
		{Name: "limit", Doc: "recompute or swap tensors if the best order exceeds the limit, if asked", Run: limit},
		{Name: "recast", Doc: "run casts of what stays again where that makes the peak smaller, unless a limit is asked for", Run: recast, Optional: true},
		{Name: "place", Doc: "merge in-place results into buffers and assign offsets", Run: place},
		{Name: "alias", Doc: "share the bytes of Concat, Split, Slice and Gather, unless an option excludes it", Run: aliases},
		{Name: "annotate", Doc: "assemble the plan and write offsets into the nodes", Run: annotate},
	}
}

// constraints lists which pass must run before which, and why. If needed is set,
// the later pass requires the earlier one.
var constraints = []struct {
	before, after string
	needed        bool
	why           string
}{
	{"adapt", "train", false, "the step trains the adapters"},
	{"adapt", "precision", false, "adapters run in 16 bits, too"},
	{"attention", "precision", false, "the operator runs in 16 bits, and casts would stand among the nodes that it replaces"},
	{"attention", "kv", false, "caches are found among the nodes that run"},
	{"attention", "infer", false, "the nodes that it adds need types"},
	{"precision", "train", false, "gradients flow through the casts, so that parameters stay float32"},
	{"precision", "inline", false, "local functions are replaced by their bodies before"},
	{"precision", "kv", false, "caches are found among the nodes that run"},
	{"precision", "infer", false, "the nodes that it adds need types"},
	{"train", "inline", false, "gradients may call local functions"},
	{"train", "infer", false, "the nodes that it adds need types"},
	{"inline", "infer", false, "the nodes that it adds need types"},
	{"infer", "share", true, "inference finds the sizes and the views"},
	{"train", "kv", false, "a training graph has no caches, and is refused"},
	{"inline", "kv", false, "caches and masks in functions are found when these are nodes of the graph"},
	{"kv", "infer", false, "the caches that it changes need types"},
	{"infer", "fold", true, "types say how large the results are"},
	{"fold", "slice", false, "what depends on constants alone needs no slices"},
	{"infer", "slice", true, "inference finds the shapes that slices divide"},
	{"slice", "share", false, "the nodes that it adds need storages"},
	{"infer", "loss", true, "inference finds the shapes that slices divide"},
	{"slice", "loss", false, "where regions are looked for, that of the loss is among them"},
	{"loss", "share", false, "the nodes that it adds need storages"},
	{"fold", "share", false, "the nodes that it removes need no storage"},
	{"share", "bodies", true, "the tensors that a body captures are storages of the outer graph"},
	{"bodies", "range", true, "the stacking includes the workspaces"},
	{"range", "order", false, "the order is that of all points"},
	{"bodies", "order", true, "the load of a node includes its workspace"},
	{"order", "limit", true, "memory that a better order saves costs no time"},
	{"order", "recast", true, "a cast runs again only where that makes the peak of the best order smaller"},
	{"limit", "recast", false, "beside a limit, the search for it decides what runs again, and the frontier is that of the best order"},
	{"recast", "place", false, "casts that run again need offsets of their own"},
	{"limit", "alias", false, "aliases are tried before nodes run again, and after that"},
	{"limit", "place", false, "recomputed tensors need offsets of their own"},
	{"order", "place", true, "lifetimes follow from the order"},
	{"place", "alias", true, "aliases are kept only if they make the plan better"},
	{"alias", "annotate", false, "the plan says which bytes are shared"},
	{"place", "annotate", true, "the offsets are written into the nodes"},
}

// find returns the index of the pass with that name, or -1.
func find(list []Pass, name string) int {
	return slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
}

// checkPasses checks a list of passes, including its constraints.
func checkPasses(list []Pass) error {
	for i, p := range list {
		switch {
		case p.Name == "":
			return fmt.Errorf("pass %d has no name: expected one", i)
		case p.Run == nil:
			return fmt.Errorf("pass %q has no function: expected a value for Run", p.Name)
		case find(list, p.Name) != i:
			return fmt.Errorf("two passes have the name %q: expected unique names", p.Name)
		}
	}
	for _, c := range constraints {
		before, after := find(list, c.before), find(list, c.after)
		switch {
		case after < 0:
		case before < 0 && c.needed:
			return fmt.Errorf("pass %q needs pass %q before it, which is missing from the list: %s", c.after, c.before, c.why)
		case before > after:
			return fmt.Errorf("pass %q must run before pass %q: %s", c.before, c.after, c.why)
		}
	}
	return nil
}

// upTo returns the passes before the one with that name.
func upTo(list []Pass, name string) ([]Pass, error) {
	end := find(list, name)
	if end < 0 {
		return nil, &OptionError{fmt.Errorf("pass %q is missing from the list", name)}
	}
	return list[:end], nil
}
