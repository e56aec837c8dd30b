package passes

import (
	"fmt"
	"slices"
	"strings"
)

// Exclusion says that two features cannot be used together, and why.
type Exclusion struct {
	A, B string // names of features
	Why  string // about memory, time, or the runtime that follows the plan
	// Command says that the command line alone refuses the two: a library may set both, and one
	// has no effect.
	Command bool
}

// Need says that a feature has an effect only beside one of several others, and why.
type Need struct {
	A       string
	B       []string // any of them
	Why     string
	Command bool // as of an Exclusion
}

// Exclusions lists which features exclude each other. The slice is a copy.
func Exclusions() []Exclusion { return slices.Clone(exclusions) }

var exclusions = []Exclusion{
	{A: "runtime", B: "train", Why: "the runtime does not write updates over parameters"},
	{A: "runtime", B: "state", Why: "the runtime does not write over graph inputs"},
	{A: "runtime", B: "kv-capacity", Why: "the runtime does not write over graph inputs"},
	{A: "runtime", B: "aliases", Why: "the runtime runs Concat, Split, Slice and Gather as copies"},
	{A: "runtime", B: "slices", Why: "the runtime does not know the nodes that put rows in place"},
	{A: "runtime", B: "host", Why: "the runtime does not know the nodes that swap"},
	{A: "ranges", B: "compact", Why: "a plan for ranges lists the buffers of all nodes, and those of functions are in no list"},
	{A: "ranges", B: "workspaces", Why: "the scratch was recorded for one length: plan that length alone with it"},
	{A: "ranges", B: "all fused gradients", Why: "functions of gradients other than those of convolutions have the shapes of one length"},

	{A: "aliases", B: "pools", Why: "the parts of a tensor may be in several of them"},

	{A: "train", B: "state", Why: "a training graph keeps its parameters and states by itself"},
	{A: "train", B: "kv-capacity", Why: "a training step has no caches of keys and values: plan the decoder for inference"},

	{A: "attention", B: "inline functions", Why: "with it, functions are replaced already, and attention of a step is a call of one"},
	{A: "attention of a model", B: "ranges", Why: "the nodes that stand for attention are those of one length: plan each length with it"},
	{A: "attention of a model", B: "train", Why: "a step has attention of its own, whose gradient needs no scores either"},

	{A: "precision", B: "kv-capacity", Why: "that the rewritten decoder hides the tokens to come is shown for graphs without casts"},

	{A: "pools", B: "compact", Why: "a call does not say which rows its nodes move between pools"},

	{A: "listed workspaces", B: "slices", Why: "the list has the scratch of whole nodes: plan with slices, and record a run of that plan"},
	{A: "max-batch", B: "workspaces", Why: "the scratch was recorded for one batch", Command: true},
}

// Needs lists which features need others. The slice is a copy.
func Needs() []Need {
	const step, cost = "it says how a training step is made", "it is for plans in which nodes run again, in slices or beside transfers"
	list := []Need{
		{A: "default order", B: []string{"runtime"}, Why: "it is that of a runtime"},
		{A: "no recomputation", B: []string{"host", "slices"}, Why: "without them nothing is left that makes the peak smaller", Command: true},
		{A: "neither swaps nor recomputation", B: []string{"slices"}, Why: "without them nothing is left that makes the peak smaller", Command: true},
		{A: "slices alone", B: []string{"slices"}, Why: "without them nothing is left that makes the peak smaller"},
		{A: "slices", B: []string{"limit", "extra", "frontier", "pools"}, Why: "they say how small the memory is to be", Command: true},
		{A: "compact", B: []string{"slices"}, Why: "it is about how slices are written", Command: true},
		{A: "limit on the arena", B: []string{"limit"}, Why: "it is about what the limit bounds", Command: true},
		{A: "host", B: []string{"limit", "frontier", "extra", "pools"}, Why: "they say how small the memory is to be", Command: true},
		{A: "no swaps", B: []string{"host"}, Why: "nothing swaps without a host", Command: true},
		{A: "device", B: []string{"limit", "extra", "frontier", "slices"}, Why: cost, Command: true},
		{A: "costs", B: []string{"limit", "extra", "frontier", "slices"}, Why: cost, Command: true},
		{A: "threads", B: []string{"solver"}, Why: "the searches have their own", Command: true},
		{A: "max-batch", B: []string{"limit"}, Why: "it says what the batch is to fit", Command: true},
		{A: "batch-dim", B: []string{"max-batch"}, Why: "it says which dimension that changes", Command: true},
		{A: "frontier-svg", B: []string{"frontier"}, Why: "it is its picture", Command: true},
		{A: "adapters", B: []string{"train"}, Why: "they are what the step trains"},
		{A: "updates last", B: []string{"train"}, Why: step, Command: true},
	}
	for _, name := range []string{"no-accuracy", "inputs"} {
		list = append(list, Need{A: name, B: []string{"precision"}, Why: "it is about the outputs beside those in float32", Command: true})
	}
	list = append(list, Need{A: "keep", B: []string{"precision"}, Why: "it names what stays in float32", Command: true})
	for _, name := range trainingFlags {
		list = append(list, Need{A: name, B: []string{"train"}, Why: step, Command: true})
	}
	for _, name := range adapterFlags {
		list = append(list, Need{A: name, B: []string{"adapters"}, Why: "it says how adapters are made", Command: true})
	}
	return append(list,
		Need{A: "all fused gradients", B: []string{"train"}, Why: step, Command: true},
		Need{A: "group-set", B: []string{"group"}, Why: "it sets constants of a group", Command: true},
		Need{A: "loss-scale-set", B: []string{"dynamic scale"}, Why: "it sets constants of that scale", Command: true},
		Need{A: "class-axis", B: []string{"cross-entropy"}, Why: "other losses have no classes", Command: true},
		Need{A: "probabilities", B: []string{"bce"}, Why: "other losses take no probabilities", Command: true},
	)
}

// FeatureError says that features cannot be used together, or that one needs others.
type FeatureError struct {
	A     Feature
	B     []Feature // one that A excludes, or those of which A needs one
	Needs bool
	Why   string
}

// Error names the fields of [Options].
func (e *FeatureError) Error() string {
	return e.text("option ", func(f Feature) string { return f.Field })
}

// Flags is the error as one of the command line: it names the flags.
func (e *FeatureError) Flags() string { return e.text("", func(f Feature) string { return f.Flag }) }

func (e *FeatureError) text(what string, name func(Feature) string) string {
	if !e.Needs {
		if what != "" {
			what = "options "
		}
		return fmt.Sprintf("%s%s and %s cannot be used together: %s", what, name(e.A), name(e.B[0]), e.Why)
	}
	var list []string
	for _, f := range e.B {
		list = append(list, name(f))
	}
	any := list[len(list)-1]
	if rest := list[:len(list)-1]; len(rest) > 0 {
		any = strings.Join(rest, ", ") + " or " + any
	}
	return fmt.Sprintf("%s%s needs %s: %s", what, name(e.A), any, e.Why)
}

// CheckFeatures returns the first exclusion or need that is not met by the features that are
// asked for, nil if all are. A message names only features that known reports.
func CheckFeatures(asked, known func(Feature) bool) *FeatureError {
	return checkFeatures(asked, known, true)
}

func checkFeatures(asked, known func(Feature) bool, command bool) *FeatureError {
	named := map[string]Feature{}
	for _, f := range Features() {
		named[f.Name] = f
	}
	for _, x := range exclusions {
		if a, b := named[x.A], named[x.B]; (command || !x.Command) && asked(a) && asked(b) {
			return &FeatureError{A: a, B: []Feature{b}, Why: x.Why}
		}
	}
	for _, x := range Needs() {
		if !command && x.Command || !asked(named[x.A]) {
			continue
		}
		e, met := &FeatureError{A: named[x.A], Needs: true, Why: x.Why}, false
		for _, b := range x.B {
			if met = met || asked(named[b]); known(named[b]) {
				e.B = append(e.B, named[b])
			}
		}
		if !met && len(e.B) > 0 {
			return e
		}
	}
	return nil
}

// checkFeatures refuses options that exclude each other.
func (o *Options) checkFeatures() error {
	asked := func(f Feature) bool { return f.Asked(o) }
	if e := checkFeatures(asked, func(f Feature) bool { return f.asked != nil }, false); e != nil {
		return e
	}
	return nil
}

// excludes reports whether the options ask for something that excludes a feature.
func (o *Options) excludes(name string) bool {
	for _, f := range optionFeatures() {
		if f.Asked(o) && slices.ContainsFunc(exclusions, func(x Exclusion) bool {
			return x.A == name && x.B == f.Name || x.B == name && x.A == f.Name
		}) {
			return true
		}
	}
	return false
}
