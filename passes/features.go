package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/autodiff"
)

// Feature is something that [Options] or the command line ask for. [Exclusions] says which
// features exclude each other, and [Needs] which need others.
type Feature struct {
	Name  string // as the tables name it
	Flag  string // of the command line, with the value that asks for it
	Field string // of Options, with the value that asks for it; "": the command line alone has it

	asked func(*Options) bool // nil if Field is ""
}

// Asked reports whether the options ask for the feature. No options ask for one that the
// command line alone has.
func (f Feature) Asked(o *Options) bool { return f.asked != nil && f.asked(o) }

// Features lists the features that the tables of exclusions and needs are about. The slice is
// a copy.
func Features() []Feature { return append(optionFeatures(), commandFeatures()...) }

// optionFeatures lists the features that Options has.
func optionFeatures() []Feature {
	return []Feature{
		{"ranges", "--dim NAME=LOW..HIGH", "Ranges", (*Options).ranged},
		{"train", "--train", "Train", func(o *Options) bool { return o.Train != nil }},
		{"attention of a model", "--attention without --train", "Attention", func(o *Options) bool { return o.Attention }},
		{"precision", "--precision", "Precision", func(o *Options) bool { return o.Precision != nil }},
		{"adapters", "--lora", "LoRA", func(o *Options) bool { return o.LoRA != nil }},
		{"state", "--state", "States", func(o *Options) bool { return len(o.States) > 0 || o.StatesAuto }},
		{"kv-capacity", "--kv-capacity", "KVCapacity", func(o *Options) bool { return o.KVCapacity > 0 }},
		{"aliases", "--aliases", "Aliases: AliasesOn", func(o *Options) bool { return o.Aliases == AliasesOn }},
		{"runtime", "--runtime", "Runtime", func(o *Options) bool { return o.Runtime != "" }},
		{"default order", "--order default", "RuntimeOrder", func(o *Options) bool { return o.RuntimeOrder }},
		{"keep-random-order", "--keep-random-order", "KeepRandomOrder", func(o *Options) bool { return o.KeepRandomOrder }},
		{"schedule", "--schedule", "Schedule", func(o *Options) bool { return o.Schedule != "" }},
		{"time-limit", "--time-limit", "TimeLimit", func(o *Options) bool { return o.TimeLimit != 0 }},
		{"solver", "--solver", "Solver", func(o *Options) bool { return o.Solver != nil }},
		{"limit", "--limit", "Limit", func(o *Options) bool { return o.Limit != nil }},
		{"extra", "--extra", "ExtraPercent", func(o *Options) bool { return o.ExtraPercent > 0 }},
		{"frontier", "--frontier", "Frontier", func(o *Options) bool { return o.Frontier }},
		{"slices", "--slices", "Slices", func(o *Options) bool { return o.Slices != SlicesOff }},
		{"compact", "--compact", "Compact", func(o *Options) bool { return o.Compact }},
		{"slices alone", "--no-recompute without swaps", "NoRecompute", func(o *Options) bool { return o.NoRecompute }},
		{"host", "--host-link", "Host", func(o *Options) bool { return o.Host != nil }},
		{"pools", "--pool", "Pools", func(o *Options) bool { return len(o.Pools) > 0 }},
		{"workspaces", "--workspaces", "Workspaces", func(o *Options) bool { return o.Workspaces != nil }},
		{"listed workspaces", "--workspaces FILE.csv", "Workspaces: OfAnyModel", func(o *Options) bool { return o.Workspaces != nil && o.Workspaces.OfAnyModel }},
		{"device", "--device", "Device", func(o *Options) bool { return o.Device != Device{} }},
		{"costs", "--costs", "Costs", func(o *Options) bool { return len(o.Costs) > 0 }},
		{"all fused gradients", "--fused-gradients all", "Train: FuseAll", func(o *Options) bool { return o.Train != nil && o.Train.FusedGradients == autodiff.FuseAll }},
		{"attention", "--attention", "Train: Attention", func(o *Options) bool { return o.Train != nil && o.Train.Attention }},
		{"inline functions", "--inline-functions", "InlineFunctions", func(o *Options) bool { return o.InlineFunctions }},
		{"updates last", "--updates last", "UpdatesLast", func(o *Options) bool { return o.UpdatesLast }},
	}
}

// commandFeatures lists the flags of the command that mean nothing without others, or that
// exclude some, and that Options has not or not apart from these.
func commandFeatures() []Feature {
	list := []Feature{
		{Name: "limit on the arena", Flag: "--limit-arena"},
		{Name: "no swaps", Flag: "--no-swap"},
		{Name: "no recomputation", Flag: "--no-recompute"},
		{Name: "neither swaps nor recomputation", Flag: "--no-swap --no-recompute"},
		{Name: "max-batch", Flag: "--max-batch"},
		{Name: "batch-dim", Flag: "--batch-dim"},
		{Name: "frontier-svg", Flag: "--frontier-svg"},
		{Name: "threads", Flag: "--threads"},
		{Name: "cross-entropy", Flag: "--loss cross-entropy"},
		{Name: "bce", Flag: "--loss bce"},
		{Name: "keep", Flag: "--keep"},
		{Name: "no-accuracy", Flag: "--no-accuracy"},
		{Name: "inputs", Flag: "--inputs"},
		{Name: "dynamic scale", Flag: "--loss-scale dynamic"},
	}
	for _, name := range slices.Concat(trainingFlags, adapterFlags) {
		list = append(list, Feature{Name: name, Flag: "--" + name})
	}
	return list
}

// trainingFlags are the flags that say how a training step is made.
var trainingFlags = []string{
	"autocast", "loss", "loss-output", "class-axis", "probabilities", "optimizer", "optimizer-set", "trainable", "freeze", "untie",
	"freeze-statistics", "group", "group-set", "accumulate", "loss-scale", "loss-scale-set", "clip-norm", "keep-gradients",
	"no-lean", "fused-gradients", "decay-all", "params",
}

// adapterFlags are the flags that say how adapters are made.
var adapterFlags = []string{"lora-alpha", "lora-targets", "lora-dropout", "lora-rslora"}
