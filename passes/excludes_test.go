package passes_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// featureOptions ask for each feature that Options has, beside what it needs.
var featureOptions = map[string]func(*passes.Options){
	"ranges":               func(o *passes.Options) { o.Ranges = map[string]string{"batch": "1..2"} },
	"train":                func(o *passes.Options) { o.Train = &autodiff.Options{} },
	"state":                func(o *passes.Options) { o.States = []string{"a=b"} },
	"adapters":             func(o *passes.Options) { o.LoRA, o.Train = &lora.Options{Rank: 1}, &autodiff.Options{} },
	"precision":            func(o *passes.Options) { o.Precision = &passes.Precision{Type: graph.BFloat16} },
	"kv-capacity":          func(o *passes.Options) { o.KVCapacity = 8 },
	"aliases":              func(o *passes.Options) { o.Aliases = passes.AliasesOn },
	"runtime":              func(o *passes.Options) { o.Runtime = "onnxruntime" },
	"default order":        func(o *passes.Options) { o.Runtime, o.RuntimeOrder = "onnxruntime", true },
	"keep-random-order":    func(o *passes.Options) { o.KeepRandomOrder = true },
	"schedule":             func(o *passes.Options) { o.Schedule = schedule.Strategies[0].Name },
	"time-limit":           func(o *passes.Options) { o.TimeLimit = 1 },
	"solver":               func(o *passes.Options) { o.Solver = bruteSolver{} },
	"limit":                func(o *passes.Options) { o.Limit = &passes.Limit{Percent: 50} },
	"extra":                func(o *passes.Options) { o.ExtraPercent = 5 },
	"frontier":             func(o *passes.Options) { o.Frontier = true },
	"slices":               func(o *passes.Options) { o.Slices = passes.SlicesExact },
	"compact":              func(o *passes.Options) { o.Compact = true },
	"slices alone":         func(o *passes.Options) { o.Slices, o.NoRecompute = passes.SlicesExact, true },
	"host":                 func(o *passes.Options) { o.Host = &passes.Host{Link: 1} },
	"pools":                func(o *passes.Options) { o.Pools = []passes.Pool{{Name: "a"}, {Name: "b"}} },
	"workspaces":           func(o *passes.Options) { o.Workspaces = &plan.Recording{} },
	"listed workspaces":    func(o *passes.Options) { o.Workspaces = &plan.Recording{OfAnyModel: true} },
	"device":               func(o *passes.Options) { o.Device = passes.DefaultDevice },
	"costs":                func(o *passes.Options) { o.Costs = map[string]int64{"a": 1} },
	"all fused gradients":  func(o *passes.Options) { o.Train = &autodiff.Options{FusedGradients: autodiff.FuseAll} },
	"attention of a model": func(o *passes.Options) { o.Attention = true },
	"attention":            func(o *passes.Options) { o.Train = &autodiff.Options{Attention: true} },
	"inline functions":     func(o *passes.Options) { o.InlineFunctions = true },
	"updates last":         func(o *passes.Options) { o.UpdatesLast = true },
}

// TestFeatures: the rows of the tables name features, each pair once, and every feature that
// Options has is asked for by the field that it names.
func TestFeatures(t *testing.T) {
	known := map[string]passes.Feature{}
	for _, f := range passes.Features() {
		if _, twice := known[f.Name]; twice {
			t.Errorf("two features have the name %q", f.Name)
		}
		known[f.Name] = f
		ask := featureOptions[f.Name]
		if (ask == nil) != (f.Field == "") {
			t.Errorf("feature %q: expected options for it if it has a field, found %v", f.Name, ask != nil)
		}
		if ask == nil {
			continue
		}
		opt := passes.Options{}
		ask(&opt)
		if field, _, _ := strings.Cut(f.Field, ":"); reflect.ValueOf(opt).FieldByName(field).IsZero() || !f.Asked(&opt) || f.Asked(&passes.Options{}) {
			t.Errorf("feature %q: not asked for by field %s alone", f.Name, f.Field)
		}
	}
	rows := map[[2]string]bool{}
	for _, x := range passes.Exclusions() {
		pair := [2]string{min(x.A, x.B), max(x.A, x.B)}
		if known[x.A].Flag == "" || known[x.B].Flag == "" || rows[pair] || x.Why == "" {
			t.Errorf("row %+v: expected two features, in no other row, and why", x)
		}
		rows[pair] = true
	}
	for _, x := range passes.Needs() {
		for _, name := range append([]string{x.A}, x.B...) {
			if known[name].Flag == "" || x.Why == "" || len(x.B) == 0 {
				t.Errorf("row %+v: expected features, and why", x)
			}
		}
	}
}

// TestPairsAreRefused: of all pairs of features that Options has, those of the table are
// refused, with its reason and the names of both fields, and no others.
func TestPairsAreRefused(t *testing.T) {
	refused := map[[2]string]passes.Exclusion{}
	for _, x := range passes.Exclusions() {
		refused[[2]string{x.A, x.B}], refused[[2]string{x.B, x.A}] = x, x
	}
	implied := map[string][]string{ // what options for a feature ask for beside it
		"default order": {"runtime"}, "slices alone": {"slices"}, "listed workspaces": {"workspaces"}, "all fused gradients": {"train"}, "adapters": {"train"}, "attention": {"train"},
	}
	var list []passes.Feature
	for _, f := range passes.Features() {
		if f.Field != "" {
			list = append(list, f)
		}
	}
	for i, a := range list {
		for _, b := range list[:i] {
			opt := passes.Options{}
			featureOptions[b.Name](&opt)
			featureOptions[a.Name](&opt)
			if !a.Asked(&opt) || !b.Asked(&opt) {
				continue // two values of one field
			}
			var want []passes.Exclusion
			for _, x := range append([]string{a.Name}, implied[a.Name]...) {
				for _, y := range append([]string{b.Name}, implied[b.Name]...) {
					if e, is := refused[[2]string{x, y}]; is && !e.Command {
						want = append(want, e)
					}
				}
			}
			err := opt.Validate()
			var e *passes.FeatureError
			switch found := errors.As(err, &e); {
			case found && len(want) == 0:
				t.Errorf("%s and %s: %v", a.Name, b.Name, err)
			case !found && len(want) > 0:
				t.Errorf("%s and %s: not refused, but found %v", a.Name, b.Name, err)
			case found:
				ok := false
				for _, x := range want {
					ok = ok || e.A.Name == x.A && e.B[0].Name == x.B && strings.HasSuffix(err.Error(), e.A.Field+" and "+e.B[0].Field+" cannot be used together: "+x.Why)
				}
				if !ok {
					t.Errorf("%s and %s: %v, expected one of %+v", a.Name, b.Name, err, want)
				}
			}
		}
	}
}
