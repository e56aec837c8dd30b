package optimize

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// ModelFlags bind a model's dimensions and choose what may share memory.
type ModelFlags struct {
	Dim        Dims   `group:"dimensions" placeholder:"NAME=N" help:"Length of a dimension, by name or place (x[0]). A range LOW..HIGH, LOW..HIGH:STEP or a list N,N,N asks for one plan for all of them. May be repeated."`
	Value      Values `group:"dimensions" placeholder:"NAME=VALUE" help:"Value of an input that is always the same. Branches and shapes that depend on it are then known. A number fills the input; lists are [1,2,3] or @file.npy. May be repeated."`
	StrictDims bool   `group:"dimensions" seldom:"" help:"Refuse a model with a dimension that stays unbound, instead of taking it as 1."`
	Strict     bool   `group:"model" seldom:"" help:"Refuse a wrong model, instead of a warning. That is one that declares another shape for a tensor than the one that follows from its inputs, or whose opset does not permit the element type of an input."`
	NoInplace  bool   `group:"memory" seldom:"" help:"Never write a result over an input."`
	NoViews    bool   `group:"memory" seldom:"" help:"Give every view (Reshape and similar) its own storage."`
	Runtime    string `group:"model" placeholder:"NAME" help:"Share storage only where that runtime does. onnxruntime: what its kernels are registered with; onnxruntime-arena: also what an allocator can make them write in place. Default: all that onnxmem run shares."`
}

// PlanFlags say how a model is planned.
type PlanFlags struct {
	ModelFlags
	Align               int64         `group:"memory" default:"64" placeholder:"N" help:"Alignment of offsets and sizes (default 64). N is in bytes, a power of two."`
	Schedule            string        `group:"search" seldom:"" placeholder:"NAME" help:"Order strategy: ${schedules} (default: the best)."`
	Order               string        `group:"model" seldom:"" enum:"file,default" default:"file" help:"With --runtime: the order of the nodes in the file. default lists them so that the order that the runtime takes by default is a good one, for programs that cannot ask it for the file's order."`
	Placement           string        `group:"search" seldom:"" placeholder:"NAME" help:"Placement strategy: ${placements} (default: the best)."`
	ScheduleGoal        string        `group:"search" seldom:"" enum:"peak,area" default:"peak" help:"Choice among the orders with the smallest peak. peak takes the smallest arena, area the smallest sum of loads."`
	Points              int           `group:"dimensions" seldom:"" default:"65536" placeholder:"N" help:"Most combinations of lengths that are proven singly (default 65536). For more, one proof with bounded lengths."`
	KeepRandomOrder     bool          `group:"search" seldom:"" help:"Keep the relative order of random and unknown operators."`
	TimeLimit           time.Duration `group:"search" seldom:"" placeholder:"TIME" help:"End the searches after TIME, such as 3s, with the best so far. Results may then differ from run to run."`
	Precision           string        `group:"model" seldom:"" enum:",bf16,fp16" default:"" placeholder:"TYPE" help:"Compute in 16 bits where PyTorch's autocast does: bf16 or fp16. Inputs and outputs keep their types. --train has --autocast for it."`
	Keep                string        `group:"model" seldom:"" placeholder:"REGEXP" help:"With --precision or --autocast: nodes and tensors that stay in float32."`
	Effort              string        `group:"search" enum:"fast,default,max" default:"default" help:"Amount of search. Counted, not timed: the same result on every machine."`
	Fold                string        `group:"model" enum:"off,exact,any" default:"exact" help:"Compute once what depends on constants alone. exact (default) changes no bit of any result; any also lets products read transposed constants as they lie, which may change their last bits; off computes nothing."`
	FoldLimit           *units.Size   `group:"model" seldom:"" json:",omitempty" placeholder:"SIZE" help:"The most bytes that --fold computes in all; what does not fit stays a node (default 1GiB)."`
	State               []string      `group:"memory" placeholder:"INPUT=OUTPUT" help:"Keep a state from run to run, in one buffer. The input and the output that is its next value become one resident buffer, such as a cache of keys. May be repeated. auto: all that scatter operators write, or a Loop carries."`
	KVCapacity          int64         `group:"memory" placeholder:"N" help:"Give growing caches room for N tokens. This rewrites a decoder whose caches of keys and values grow with every token, so that they are written in place. A new input, write_index, says at which position. Refused where the results might differ."`
	Aliases             *bool         `group:"memory" seldom:"" json:",omitempty" negatable:"" help:"Share bytes of Concat, Split, Slice and Gather. A runtime need not run such nodes then; onnxmem run does not. Default: where the plan gets better, but not in graphs that --limit or --extra change, with --no-views, or with an option that excludes it (docs/excludes.md)."`
	AllowMissingWeights bool          `group:"model" seldom:"" help:"Accept missing external data. A plan does not depend on it."`
	NoVerify            bool          `group:"search" seldom:"" json:",omitempty" help:"Do not verify the plan before it is used or written. onnxmem verify does that later."`
	DebugPasses         bool          `group:"search" seldom:"" help:"Check before and after each pass, and print what it changes. Lists without order are shuffled; the graph is printed on standard error."`
	PrintAfter          []string      `group:"search" seldom:"" json:",omitempty" placeholder:"PASS" help:"Print the graph after this pass, on standard error. May be repeated."`
	DisablePass         []string      `group:"search" seldom:"" placeholder:"NAME" help:"Disable an optional pass."`
}

// TrainFlags make a training graph.
type TrainFlags struct {
	Train            bool               `group:"training" help:"Make one training step of the model first. It has forward, loss, backward and updates."`
	Autocast         string             `group:"training" enum:",bf16,fp16" default:"" placeholder:"TYPE" help:"Train in 16 bits (bf16 or fp16). As under torch.autocast, parameters, states and statistics stay float32. fp16 has --loss-scale dynamic unless that is given."`
	Loss             string             `group:"training" default:"cross-entropy" placeholder:"LOSS" help:"${losses}. The default is cross-entropy, of the output --loss-output. mse:OUTPUT + 0.5*bce:OUTPUT sums several."`
	LossOutput       string             `group:"training" seldom:"" placeholder:"NAME" help:"Output from which the loss is computed (default: the first)."`
	ClassAxis        *int               `group:"training" seldom:"" placeholder:"N" help:"Class axis of cross-entropy (default 1; the last for rank 3)."`
	Probabilities    bool               `group:"training" seldom:"" help:"The output of --loss bce is a probability, not a logit."`
	Optimizer        string             `group:"training" default:"sgd" placeholder:"NAME" help:"${optimizers} (default sgd)."`
	OptimizerSet     map[string]float64 `group:"training" seldom:"" placeholder:"K=V" mapsep:"," help:"Constants of the optimizer: momentum, beta1, beta2, epsilon, weight_decay."`
	Trainable        string             `group:"training" placeholder:"REGEXP" help:"Initializers to train. Default: chosen by the operators that read them."`
	Freeze           string             `group:"training" seldom:"" placeholder:"REGEXP" help:"Initializers that are not trained; gradients that only they need are not computed."`
	LoRA             int                `group:"training" name:"lora" placeholder:"R" help:"Train low-rank adapters of rank R alone (LoRA). The model stays as it is; --trainable adds parameters of its own. run --save-adapter writes what PEFT loads, and merge adds it to the model."`
	LoRAAlpha        float64            `group:"training" seldom:"" name:"lora-alpha" default:"8" placeholder:"X" help:"Adapters count X / R times (default 8, as in PEFT)."`
	LoRATargets      string             `group:"training" seldom:"" name:"lora-targets" placeholder:"REGEXP" help:"Modules that get an adapter, by name: products, convolutions, embeddings. Default: the products of a network with attention but those of its heads; of any other, all products and 1 x 1 convolutions."`
	LoRADropout      float64            `group:"training" seldom:"" name:"lora-dropout" placeholder:"P" help:"Part of the inputs that an adapter does not see (default 0)."`
	LoRARSLoRA       bool               `group:"training" seldom:"" name:"lora-rslora" help:"Adapters count X / sqrt(R) times (rsLoRA)."`
	Untie            Untie              `group:"training" seldom:"" placeholder:"REGEXP" help:"Train merged initializers apart. Each node that reads one of them trains its own copy. Without REGEXP: those whose elements are all equal, which exporters merge."`
	FreezeStatistics bool               `group:"training" seldom:"" help:"BatchNormalization keeps its running statistics and uses them."`
	Group            []string           `group:"training" seldom:"" sep:"none" placeholder:"NAME=REGEXP" help:"Parameters with a learning rate of their own, the input learning_rate.NAME. May be repeated; the first that matches has a parameter."`
	GroupSet         map[string]float64 `group:"training" seldom:"" placeholder:"NAME.K=V" mapsep:"," help:"Constants of the optimizer for a group. NAME.weight_decay applies to all of its parameters."`
	Accumulate       int                `group:"training" seldom:"" placeholder:"N" help:"Update on every Nth run, by the mean of the gradients of N runs."`
	LossScale        string             `group:"training" seldom:"" placeholder:"X" help:"For 16-bit types: multiply the loss by X for the backward pass. Updates are computed in float32. dynamic: as torch.amp.GradScaler, with the scale as a state."`
	LossScaleSet     map[string]float64 `group:"training" seldom:"" placeholder:"K=V" mapsep:"," help:"Constants of --loss-scale dynamic: initial=65536, growth=2, backoff=0.5, interval=2000."`
	ClipNorm         float64            `group:"training" seldom:"" placeholder:"X" help:"Scale all gradients so that their global norm is at most X. This keeps every gradient until the last is computed."`
	Updates          string             `group:"training" seldom:"" enum:"interleaved,last" default:"interleaved" help:"When parameters are updated. interleaved: each as soon as its gradient is computed; last: all at the end, for comparison."`
	KeepGradients    bool               `group:"training" seldom:"" help:"Make the gradients of the parameters outputs."`
	NoLean           []string           `group:"training" seldom:"" placeholder:"NAME" help:"Disable techniques that reduce the memory of gradients: ${leaners}."`
	FusedGradients   string             `group:"training" seldom:"" enum:"auto,on,off,all" default:"auto" help:"Large gradients as one node each. on: those of a convolution's weights are nodes of domain onnxmem, functions for other runtimes, that onnxmem run computes without copies; all: others, too; off: none. Default: on, but off with --runtime and --inline-functions."`
	Attention        bool               `group:"model" seldom:"" help:"Keep no attention scores: one node computes attention that is spelled out as products and a Softmax. With --train another recomputes scores in the backward pass. Results differ by rounding."`
	DecayAll         bool               `group:"training" seldom:"" help:"Apply weight decay to biases and normalisation weights, too."`
}

// Untie is the value of --untie: a pattern of names, or, without one, all initializers
// whose elements are equal.
type Untie struct {
	Equal bool
	Names string
}

// Decode parses the flag, whose value may be left out.
func (u *Untie) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*u = Untie{Equal: true}
		return nil
	}
	switch v := fmt.Sprint(ctx.Scan.Pop().Value); v {
	case "true":
		*u = Untie{Equal: true}
	case "false":
		*u = Untie{}
	default:
		*u = Untie{Names: v}
	}
	return nil
}

// IsBool tells the parser that the next argument is not the flag's value.
func (*Untie) IsBool() bool { return true }

// Efforts are the values of --effort.
var Efforts = map[string]schedule.Effort{
	"fast": schedule.EffortFast, "default": schedule.EffortDefault, "max": schedule.EffortMax,
}

// fusions are the values of --fused-gradients.
var fusions = map[string]autodiff.Fusion{"on": autodiff.FuseOn, "off": autodiff.FuseOff, "all": autodiff.FuseAll}

// Goals are the values of --schedule-goal.
var Goals = map[string]schedule.Goal{"peak": schedule.GoalPeak, "area": schedule.GoalArea}

// Vars are the lists of names in the flags' help texts.
func Vars() map[string]string {
	var schedules, placements []string
	for _, s := range schedule.Strategies {
		schedules = append(schedules, s.Name)
	}
	for _, s := range alloc.Strategies {
		placements = append(placements, s.Name)
	}
	list := func(names []string) string { return strings.Join(names, ", ") }
	return map[string]string{
		"schedules": list(schedules), "placements": list(placements),
		"losses": list(autodiff.Losses), "leaners": list(autodiff.SavingNames()), "optimizers": list(autodiff.Optimizers()),
	}
}

// autoStates as a value of --state finds states.
const autoStates = "auto"

// Options are those of the passes.
func (f *PlanFlags) Options() passes.Options {
	dims, ranges := f.Dim.Split()
	states := slices.DeleteFunc(slices.Clone(f.State), func(entry string) bool { return entry == autoStates })
	return passes.Options{
		States: states, StatesAuto: len(states) < len(f.State), KVCapacity: f.KVCapacity,
		Dims: dims, Ranges: ranges, RangePoints: f.Points, Values: f.Value, StrictDims: f.StrictDims, Strict: f.Strict, Align: f.Align, NoInplace: f.NoInplace, NoViews: f.NoViews, Runtime: f.Runtime,
		RuntimeOrder: f.Order == "default", Schedule: f.Schedule, Effort: Efforts[f.Effort], Placement: f.Placement,
		Goal: Goals[f.ScheduleGoal], Aliases: f.aliases(), KeepRandomOrder: f.KeepRandomOrder, TimeLimit: f.TimeLimit,
		NoVerify: f.NoVerify, Check: f.DebugPasses, PrintAfter: f.PrintAfter, Disable: f.DisablePass, Fold: f.fold(), FoldLimit: f.foldLimit(),
	}
}

// half are the values of --precision and --autocast.
var half = map[string]graph.DType{"bf16": graph.BFloat16, "fp16": graph.Float16}

// precision sets the option of --precision, --autocast and --keep.
func (t *Task) precision(opt *passes.Options) error {
	elem := half[t.PlanFlags.Precision]
	switch {
	case opt.Train == nil:
	case elem != graph.Undefined:
		return &UsageError{"--precision and --train cannot be used together: --autocast puts a training step into 16 bits"}
	default:
		elem = half[t.Autocast]
	}
	if elem == graph.Undefined {
		return nil
	}
	opt.Precision = &passes.Precision{Type: elem}
	if t.Keep == "" {
		return nil
	}
	var err error
	if opt.Precision.Keep, err = regexp.Compile(t.Keep); err != nil {
		return &UsageError{fmt.Sprintf("--keep: %v", err)}
	}
	return nil
}

// fold is the option of --fold: off if nothing may be computed.
func (f *PlanFlags) fold() passes.Fold {
	if f.FoldLimit != nil && *f.FoldLimit == 0 {
		return passes.FoldOff
	}
	return passes.Folds[f.Fold]
}

func (f *PlanFlags) foldLimit() int64 {
	if f.FoldLimit == nil {
		return 0
	}
	return int64(*f.FoldLimit)
}

// aliases is the option of --aliases or --no-aliases.
func (f *PlanFlags) aliases() passes.Aliases {
	switch {
	case f.Aliases == nil:
		return passes.AliasesAuto
	case *f.Aliases:
		return passes.AliasesOn
	}
	return passes.AliasesOff
}

// Training are the options of the training graph; nil without --train.
func (f *TrainFlags) Training() (*autodiff.Options, error) {
	if !f.Train {
		return nil, nil
	}
	opt := &autodiff.Options{
		Loss: f.Loss, LossOutput: f.LossOutput, ClassAxis: f.ClassAxis, Probabilities: f.Probabilities,
		Optimizer: f.Optimizer, Constants: f.OptimizerSet, ClipNorm: f.ClipNorm, DecayAll: f.DecayAll,
		FreezeStatistics: f.FreezeStatistics, KeepGradients: f.KeepGradients, FusedGradients: fusions[f.FusedGradients], NoLean: f.NoLean, Attention: f.Attention,
		UntieEqual: f.Untie.Equal, Accumulate: f.Accumulate,
	}
	var err error
	if opt.Groups, err = f.groups(); err != nil {
		return nil, err
	}
	if opt.LossScale, err = f.lossScale(); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		flag, text string
		to         **regexp.Regexp
	}{{"--trainable", f.Trainable, &opt.Trainable}, {"--freeze", f.Freeze, &opt.Freeze}, {"--untie", f.Untie.Names, &opt.Untie}} {
		if p.text == "" {
			continue
		}
		r, err := regexp.Compile(p.text)
		if err != nil {
			return nil, &UsageError{fmt.Sprintf("%s: %v", p.flag, err)}
		}
		*p.to = r
	}
	return opt, nil
}

// Adapters are the options of --lora; nil without.
func (f *TrainFlags) Adapters() (*lora.Options, error) {
	if f.LoRA == 0 {
		return nil, nil
	}
	opt := &lora.Options{Rank: f.LoRA, Alpha: f.LoRAAlpha, Dropout: f.LoRADropout, RankStabilized: f.LoRARSLoRA}
	if f.LoRATargets != "" {
		r, err := regexp.Compile(f.LoRATargets)
		if err != nil {
			return nil, &UsageError{fmt.Sprintf("--lora-targets: %v", err)}
		}
		opt.Targets = r
	}
	if err := opt.Validate(); err != nil {
		return nil, &UsageError{"--lora: " + err.Error()}
	}
	return opt, nil
}

// groups are the parameter groups of --group and --group-set.
func (f *TrainFlags) groups() ([]autodiff.ParamGroup, error) {
	var list []autodiff.ParamGroup
	known := map[string]int{}
	for _, text := range f.Group {
		name, pattern, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &UsageError{fmt.Sprintf("--group %s: expected NAME=REGEXP", text)}
		}
		match, err := regexp.Compile(pattern)
		if err != nil {
			return nil, &UsageError{fmt.Sprintf("--group: %v", err)}
		}
		known[name] = len(list)
		list = append(list, autodiff.ParamGroup{Name: name, Match: match, Constants: map[string]float64{}})
	}
	for _, key := range slices.Sorted(maps.Keys(f.GroupSet)) {
		k := strings.LastIndexByte(key, '.')
		if k < 0 {
			return nil, &UsageError{fmt.Sprintf("--group-set %s: expected NAME.CONSTANT=VALUE", key)}
		}
		i, ok := known[key[:k]]
		if !ok {
			return nil, &UsageError{fmt.Sprintf("--group-set %s: expected the name of a --group, found %q", key, key[:k])}
		}
		list[i].Constants[key[k+1:]] = f.GroupSet[key]
	}
	return list, nil
}

// dynamicScale as a value of --loss-scale asks for a scale that adapts itself.
const dynamicScale = "dynamic"

// lossScale is the loss scale of --loss-scale and --loss-scale-set; nil without.
func (f *TrainFlags) lossScale() (*autodiff.LossScale, error) {
	switch f.LossScale {
	case "":
		return nil, nil
	case dynamicScale:
		l := autodiff.DynamicScale()
		for _, key := range slices.Sorted(maps.Keys(f.LossScaleSet)) {
			v := f.LossScaleSet[key]
			switch key {
			case "initial":
				l.Initial = v
			case "growth":
				l.Growth = v
			case "backoff":
				l.Backoff = v
			case "interval":
				if l.Interval = int64(v); float64(l.Interval) != v {
					return nil, &UsageError{fmt.Sprintf("--loss-scale-set: interval is %g: expected a whole number", v)}
				}
			default:
				return nil, &UsageError{fmt.Sprintf("--loss-scale-set: found %q, expected one of initial, growth, backoff, interval", key)}
			}
		}
		return l, nil
	}
	v, err := strconv.ParseFloat(f.LossScale, 64)
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("--loss-scale %s: expected a number or %s", f.LossScale, dynamicScale)}
	}
	return &autodiff.LossScale{Initial: v}, nil
}
