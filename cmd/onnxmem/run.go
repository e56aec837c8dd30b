package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// runCmd runs a planned model inside its arena.
type runCmd struct {
	Model string `arg:"" in:"the model" help:"The planned model; its external data are in its folder."`

	Plan          string            `group:"input" in:"the plan" placeholder:"FILE" help:"Its plan (default: MODEL with .plan.json for .onnx)."`
	Inputs        string            `group:"input" in:"the file of inputs" placeholder:"FILE.npz" help:"Inputs by name. Strings are arrays of dtype U or S, the items of a sequence NAME.0, NAME.1, and a map NAME.keys and NAME.values. A pattern in quotes, such as 'batches/*.npz': a file for each step, in sorted order, and again from the first when they end; -: their names on standard input, one a line."`
	Input         map[string]string `group:"input" in:"the input" placeholder:"NAME=FILE" mapsep:"none" help:"One input: .npy, .pb, or a number that fills it. .pb is a TensorProto. May be repeated. Inputs without a value are random; learning_rate is 0.001."`
	Dim           map[string]int64  `group:"input" aliases:"at" mapsep:"," placeholder:"NAME=N" help:"Length for this run of a plan for ranges. Default: that of the inputs, else the largest."`
	Seed          uint64            `group:"input" default:"0" placeholder:"N" help:"Seed of random inputs and operators (default 0)."`
	Params        string            `group:"input" in:"the parameters" placeholder:"FILE" help:"Values of parameters and states to begin with. Default: MODEL with .params.onnx, if it exists."`
	Outputs       string            `group:"output" out:"the outputs" placeholder:"FILE.npz" help:"Write the outputs of the last step. What is no tensor is written as --inputs takes it."`
	Output        map[string]string `group:"output" out:"the output" placeholder:"NAME=FILE" mapsep:"none" help:"Write one output of the last step. FILE ends in .npy or .pb (TensorProto). May be repeated."`
	Save          string            `group:"output" out:"the saved parameters" over:"the parameters" placeholder:"FILE" help:"Write the parameters and states. They are those after the last step, in the form of --params."`
	SaveModel     string            `group:"output" out:"the trained model" placeholder:"FILE" help:"Write the trained model. That is the model from which the training graph was made, with its new parameters."`
	SaveAdapter   string            `group:"output" placeholder:"DIR" help:"Write the trained adapters, as PEFT loads them. DIR gets adapter_config.json and adapter_model.safetensors. For steps of optimize --lora."`
	Source        string            `group:"output" seldom:"" in:"the model that was trained" placeholder:"FILE" help:"With --save-model: the model from which the training graph was made (default: the file that the plan names, beside MODEL)."`
	Count         *int              `group:"input" name:"steps" placeholder:"N" help:"Run N steps. Each step of a training graph starts with the updated parameters. Default 1; with a file for each step, their number."`
	Steps         int               `kong:"-"` // Count, or its default
	Decode        map[string]string `group:"input" placeholder:"INPUT=OUTPUT" mapsep:"none" help:"With --steps: greedy decoding, token by token. Each step but the first gets as INPUT (input_ids) the indices of the largest elements of OUTPUT (logits) along its last axis."`
	Mask          []string          `group:"input" seldom:"" placeholder:"INPUT" help:"With --steps: INPUT (attention_mask) shows the tokens so far: each step sets as many of its first zeros to 1 as new tokens go in. Before the first step it is as given, else all 0. May be repeated."`
	Positions     []string          `group:"input" seldom:"" placeholder:"INPUT" help:"With --steps: each step adds the number of new tokens to INPUT (position_ids), which begins as given, else with 0, 1, 2 and so on in each row. May be repeated."`
	Check         checkMode         `group:"checks" help:"Run all steps again and compare. --check or --check=bits: in another order, with no shared memory; the outputs must be equal bit for bit. --check=reference: compute every node from its actual inputs by simple loops in float64; elements may differ only by rounding. Slow."`
	Poison        bool              `group:"checks" help:"Find writes to dead bytes. Bytes are overwritten as soon as they are dead, and scratch before each node; after every step, those that a node wrote are named. Slow."`
	Guard         guardFlag         `group:"checks" placeholder:"SIDE" help:"Find accesses outside of a tensor. Each lies between inaccessible pages, and an error names it. --guard or --guard=end: the tensor touches the page after it; --guard=front: the page before it. Slow."`
	Device        string            `group:"machine" placeholder:"DEVICE" help:"Run on a GPU: cuda, cuda:N or cuda:UUID. N counts from 0. Nodes without a device kernel run on the CPU. Default: the CPU."`
	Replay        string            `group:"machine" seldom:"" default:"yes" enum:"yes,no" help:"With --device: launch steps from the third on as one CUDA graph. yes where that is possible, or no (gorgonia's machine runs every node)."`
	Profile       string            `group:"output" out:"the profile" placeholder:"FILE.json" help:"Write times, algorithms, load and lifetimes as a trace. It shows the last step, for Perfetto or Chrome."`
	CostsOut      string            `group:"output" out:"the costs" placeholder:"FILE.json" help:"Write the time of each node. It is the minimum over the steps in nanoseconds, for optimize --costs."`
	TF32          bool              `group:"machine" name:"tf32" help:"With --device: products of float32 in TF32. Convolutions, too: on tensor cores, with operands rounded to 10 bits of fraction and float32 sums. Faster than float32, and the same bits at every run. Convolutions are by cuDNN where it is found."`
	CUBLAS        string            `group:"machine" seldom:"" name:"cublas" default:"auto" enum:"auto,off" help:"With --device: matrix products by NVIDIA's cuBLAS. auto: where it is found; off: always by onnxmem's own kernels."`
	CUDNN         string            `group:"machine" seldom:"" name:"cudnn" default:"auto" enum:"auto,all,off" help:"With --device: convolutions by NVIDIA's cuDNN. Where it is found, with their gradients: those of 16 bits (auto), float32, too, for which onnxmem's own kernels were faster (all), or none (off)."`
	WorkspacesOut string            `group:"output" seldom:"" out:"the workspaces" placeholder:"FILE.json" help:"With --device: write the bytes of scratch that the kernels of each node take, for optimize --workspaces."`
	Workers       int               `group:"machine" default:"0" placeholder:"N" help:"Goroutines that share the work of a kernel. Default: one for each core. The results do not depend on it."`
	Pack          string            `group:"machine" seldom:"" default:"yes" enum:"yes,no,more" help:"Prepack constant weights for the micro-kernels, in place of their pages in the file. yes, no (slower), or more: also those that take more memory than the plan says, dequantized or in several forms."`
	Without       []string          `group:"checks" seldom:"" placeholder:"NAME,..." help:"Leave rewriters out that make one kernel of several nodes, to find the one at fault. All but qdq keep the bits of the results. docs/design/lowering.md lists them (an unknown one lists them, too)."`
	DebugLowering bool              `group:"checks" seldom:"" name:"debug-lowering" help:"Check after each rewriter that every node is in one task, and that what a task reads is there when it runs."`
	HostFile      string            `group:"machine" out:"the host pool" placeholder:"FILE" help:"Put the host pool into this new file. The plan was made with --host-link. The file is removed afterwards. Default: in memory."`
	MemoryLimit   *units.Size       `group:"machine" placeholder:"SIZE" help:"Memory that the run may use, such as 8GiB. It is checked before each allocation. Default: the free memory of the machine or its container."`
	TimeLimit     time.Duration     `group:"machine" placeholder:"TIME" help:"Stop the run after TIME, such as 60s. The node that was running is named. Default: no limit."`
	JSON          bool              `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`

	settler settler
	indexed bool                  // the position of a decoder is given
	runs    []map[string]vm.Value // inputs of all steps, for --check
}

// Help is the text below the flags.
func (runCmd) Help() string {
	return `Every tensor is at its planned place in one block of memory; weights are read directly from
their files. If --check finds that outputs or nodes differ, the exit status is 1.

Examples:
  onnxmem run planned.onnx --inputs in.npz --outputs out.npz
  onnxmem run planned.onnx --dim batch=2 --dim sequence=17
  onnxmem run planned.onnx --check --poison
  onnxmem run planned.onnx --check --guard
  onnxmem run planned.onnx --check=reference
  onnxmem run planned.onnx --device cuda
  onnxmem run train.onnx --inputs 'batches/*.npz' --input learning_rate=0.01 --save-model trained.onnx
  onnxmem run train.onnx --steps 100 --input images=x.npy --input labels=y.npy --input learning_rate=0.01 --save-model trained.onnx`
}

// checkMode is the value of --check; "" is no check.
type checkMode string

const (
	checkBits      checkMode = "bits"
	checkReference checkMode = "reference"
)

// Decode parses the flag, whose value may be left out.
func (m *checkMode) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*m = checkBits
		return nil
	}
	switch v := fmt.Sprint(ctx.Scan.Pop().Value); v {
	case "bits", "true":
		*m = checkBits
	case "reference":
		*m = checkReference
	case "false":
		*m = ""
	default:
		return fmt.Errorf("%q: expected bits or reference", v)
	}
	return nil
}

// IsBool tells the parser that the next argument is not the flag's value.
func (*checkMode) IsBool() bool { return true }

// runOutput is one output in --json, with the comparison if --check was given.
type runOutput struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Identical   *bool    `json:"identical,omitempty"`
	MaxAbsError *float64 `json:"max_abs_error,omitempty"`

	updated bool // the updated value of a parameter or state
}

// runDynamic says how the tensors that the plan leaves out were placed, from the second
// step on.
type runDynamic struct {
	ArenaBytes int64 `json:"arena_bytes"`
	LowerBound int64 `json:"lower_bound_bytes"`
	Hits       int   `json:"hits"`
	Misses     int   `json:"misses"`
	Plans      int   `json:"plans"`
}

func dynamicOf(s *vm.Session) *runDynamic {
	use := s.Dynamic()
	if use.Plans == 0 {
		return nil
	}
	return &runDynamic{use.ArenaBytes, use.LowerBound, use.Hits, use.Misses, use.Plans}
}

func (d *runDynamic) print(w io.Writer) {
	if d == nil {
		return
	}
	bound := "proven"
	if d.LowerBound < d.ArenaBytes {
		bound = "proven lower bound " + units.Short(d.LowerBound)
	}
	fmt.Fprintf(w, "%-20s %s (%s), packed %d times, %d of %d blocks in it\n", "dynamic arena", units.Bytes(d.ArenaBytes), bound, d.Plans, d.Hits, d.Hits+d.Misses)
}

// runResult is what --json prints.
type runResult struct {
	began        time.Time        // when the command began
	Dims         map[string]int64 `json:"dims,omitempty"` // of a plan for ranges: those of this run
	Outputs      []runOutput      `json:"outputs"`
	ArenaBytes   int64            `json:"arena_bytes"`
	StateBytes   int64            `json:"state_bytes"`
	caches       bool             // the states are those of an inference graph
	DynamicBytes int64            `json:"dynamic_bytes"`
	Dynamic      *runDynamic      `json:"dynamic,omitempty"`
	PackedBytes  int64            `json:"packed_bytes"`
	ScratchBytes int64            `json:"scratch_bytes"`
	TableBytes   int64            `json:"table_bytes"`
	HostBytes    int64            `json:"host_bytes,omitempty"`
	DecodedBytes int64            `json:"decoded_bytes"`
	runProcess
	HeapAllocs uint64        `json:"heap_allocs_per_step"`
	Losses     []lossValue   `json:"losses,omitempty"`
	Tokens     []int64       `json:"tokens,omitempty"` // that --decode chose, of the first of the batch
	Reference  *runReference `json:"reference,omitempty"`
	Device     *runDevice    `json:"device,omitempty"`
	Times      struct {
		Prepare float64 `json:"prepare"`
		First   float64 `json:"first"` // from the beginning of the command to the result of the first step
		Step    float64 `json:"step"`  // the fastest
	} `json:"times_ms"`
}

// guardFlag is --guard or --guard=SIDE.
type guardFlag vm.Guard

// IsBool tells kong that the flag's value may be left out.
func (guardFlag) IsBool() bool { return true }

// Decode parses the value, if there is one.
func (g *guardFlag) Decode(ctx *kong.DecodeContext) error {
	*g = guardFlag(vm.GuardEnd)
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	switch v := ctx.Scan.Pop().Value; v {
	case "end", true:
	case "front":
		*g = guardFlag(vm.GuardFront)
	default:
		return fmt.Errorf("expected end or front, found %q", v)
	}
	return nil
}

// lossValue is a loss in --json: null if it is no finite number, for which JSON has no form.
type lossValue float64

func (v lossValue) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// runReference is the result of --check=reference, in --json.
type runReference struct {
	Compared   int            `json:"compared_nodes"`
	Uncompared map[string]int `json:"uncompared"` // nodes by operator
	Idle       int            `json:"idle_nodes"` // in branches that were not taken
	Wrong      int            `json:"wrong_nodes"`
	First      string         `json:"first_wrong,omitempty"`
	Worst      float64        `json:"worst"` // of the correct elements: the largest deviation, as a part of its tolerance
	WorstAt    string         `json:"worst_node,omitempty"`
	Seconds    float64        `json:"seconds"`
}

// Run reads the model and its plan, and runs it.
func (c *runCmd) Run(e *env) error {
	ctx, d, end := c.deadline(e)
	defer end()
	err := limitFailure(c.run(ctx, e, d))
	var b *bug.Error
	switch {
	case errors.As(err, &b): // whatever it wraps, its stack is more useful
	case errors.Is(err, vm.ErrStray), errors.Is(err, vm.ErrFault), errors.Is(err, vm.ErrHost): // the input is not to blame
		return &failure{exitFailed, err.Error()}
	}
	return err
}

func (c *runCmd) run(ctx context.Context, e *env, d *deadline) error {
	if c.Steps = 1; c.Count != nil {
		c.Steps = *c.Count
	}
	switch {
	case c.Steps < 1:
		return usagef("--steps %d: expected 1 or more", c.Steps)
	case c.Workers < 0:
		return usagef("--workers %d: expected 0 or more", c.Workers)
	case c.WorkspacesOut != "" && c.Device == "":
		return usagef("--workspaces-out needs --device")
	case c.TF32 && c.Device == "":
		return usagef("--tf32 needs --device: the CPU computes in float32")
	case c.TimeLimit < 0:
		return usagef("--time-limit %v: expected 0 or more", c.TimeLimit)
	}
	if err := vm.CheckWithout(c.Without); err != nil {
		return usagef("--without: %v", err)
	}
	r := &runResult{began: time.Now()}
	defer c.settler.prepared()
	path := c.Plan
	if path == "" {
		path = optimize.PlanPath(c.Model)
	}
	e.files.Reads("the plan", path)
	if err := e.files.Err(); err != nil {
		return err
	}
	defer collectAt(c.settler.reading(path))()
	p, f, err := openPlanned(path, c.Model, onnx.ReadOptions{})
	if err != nil {
		return err
	}
	defer f.Close()
	defer collectAt(c.settler.read(p, len(f.Model.Graph.Nodes)))()
	e.readsExternal("the model", f.Model)
	if err := e.files.Err(); err != nil {
		return err
	}
	program, err := vm.New(f.Model, p)
	if err != nil {
		return err
	}
	defer program.Close()
	if c.Profile == "" && c.CostsOut == "" && c.Device == "" && c.Guard == 0 && !c.Poison {
		program.Trim()
	}
	if err := c.checkOutputs(program); err != nil {
		return err
	}
	if err := c.checkAdapters(e, f.Model); err != nil {
		return err
	}
	source, err := c.source(e, program, p) // before hours of training
	if err != nil {
		return err
	}
	if source != nil {
		defer source.Close()
	}
	params, err := c.params(e, program)
	if err != nil {
		return err
	}
	defer params.Close()
	c.writesBeside(e, source)
	if err := e.files.Err(); err != nil {
		return err
	}
	b, err := c.batches(e)
	if err != nil {
		return err
	}
	given, err := c.given(program, b)
	if err != nil {
		return err
	}
	if program, err = c.at(program, p, given); err != nil {
		return err
	}
	if err := b.check(program); err != nil {
		return err
	}
	stated := map[string]bool{}
	for name := range given {
		stated[name] = true
	}
	for name := range c.Input {
		stated[name] = true
	}
	inputs, err := c.values(e, program, given)
	if err != nil {
		return err
	}
	began := time.Now()
	opt := c.options()
	values := retainedBytes(inputs)
	if len(b.files) > 1 { // the first file's arrays stay, beside those of a step
		values *= 2
	}
	opt.Held = values + runtimeBytes
	if c.Device != "" {
		if opt.Device, err = cuda.Open(c.Device); err != nil {
			return &failure{exitUsage, err.Error()}
		}
		defer opt.Device.Close()
	}
	bar := newProgress(e.stderr, 1)
	defer func() { bar.stop() }()
	bar.step("preparing")
	if opt.Device != nil {
		opt.Device.Compiled = bar.showKernels
	}
	c.settler.settle()
	s, err := program.NewSession(opt)
	bar.stop()
	if err != nil {
		return c.beyondDevice(err, p)
	}
	defer s.Close()
	d.running.Store(s)
	if c.HostFile != "" && s.Memory().HostBytes == 0 && c.Guard == 0 {
		e.say("this plan swaps no tensors: %s is not created", c.HostFile)
	}
	r.Dims, r.ValueBytes = program.Point(), values
	r.sawHeap()
	r.Times.Prepare = millis(time.Since(began))
	if err := params.set(s, inputs); err != nil {
		return err
	}
	decoder, err := c.newDecoder(program)
	if err != nil {
		return err
	}
	if err := decoder.begin(c, inputs, stated); err != nil {
		return err
	}
	c.settler.steady()
	if err := c.steps(ctx, e, program, s, b, decoder, inputs, r); err != nil {
		return err
	}
	memory.DropProgram()
	first := maps.Clone(params.values)
	maps.Copy(first, inputs)
	bar = newProgress(e.stderr, 1)
	bar.step("checking")
	bits, err := c.check(ctx, program, opt, first, r)
	if err != nil {
		return err
	}
	found, err := c.reference(ctx, program, opt, first, r)
	if err != nil {
		return err
	}
	bar.stop()
	if err := c.print(e, r); err != nil {
		return err
	}
	if err := verdict(bits, found); err != nil {
		return err
	}
	if err := params.Close(); err != nil { // the file may be replaced now
		return err
	}
	return c.save(s, f.Model, source)
}

// check runs the steps again if --check=bits was given.
func (c *runCmd) check(ctx context.Context, program *vm.Program, opt vm.Options, first map[string]vm.Value, r *runResult) (*vm.Check, error) {
	if c.Check != checkBits {
		return nil, nil
	}
	check, err := program.CheckRun(ctx, c.stepInputs(first), besideSession(opt))
	if err != nil {
		return nil, err
	}
	for i, d := range check.Outputs {
		r.Outputs[i].Identical, r.Outputs[i].MaxAbsError = &d.Identical, &d.MaxAbsError
		if math.IsInf(d.MaxAbsError, 0) {
			r.Outputs[i].MaxAbsError = nil
		}
	}
	return check, nil
}

// stepInputs lists the inputs of all steps. Those of the first are first and what the step
// had.
func (c *runCmd) stepInputs(first map[string]vm.Value) []map[string]vm.Value {
	runs := slices.Clone(c.runs)
	runs[0] = maps.Clone(first)
	maps.Copy(runs[0], c.runs[0])
	return runs
}

// besideSession returns the options of a check that runs beside an existing
// session.
func besideSession(opt vm.Options) vm.Options {
	if opt.HostFile != "" { // the session uses the file itself
		opt.HostFile += ".check"
	}
	return opt
}

// reference compares every node with the reference evaluator if --check=reference
// was given.
func (c *runCmd) reference(ctx context.Context, program *vm.Program, opt vm.Options, first map[string]vm.Value, r *runResult) (*vm.ReferenceCheck, error) {
	if c.Check != checkReference {
		return nil, nil
	}
	began := time.Now()
	found, err := program.CheckReference(ctx, c.stepInputs(first), besideSession(opt))
	if err != nil {
		return nil, err
	}
	r.Reference = summarize(found, time.Since(began))
	return found, nil
}

// summarize converts the findings to the form of --json.
func summarize(found *vm.ReferenceCheck, took time.Duration) *runReference {
	r := &runReference{
		Compared: found.Compared, Uncompared: found.Uncompared, Idle: found.Idle, Wrong: found.Wrong,
		Worst: found.Worst, WorstAt: found.WorstAt, Seconds: took.Seconds(),
	}
	if found.First != nil {
		r.First = found.First.Error()
	}
	return r
}

// verdict fails, with exit status 1, if one of the checks found a difference. A
// check that did not run is nil.
func verdict(bits *vm.Check, reference *vm.ReferenceCheck) error {
	switch {
	case reference != nil && reference.First != nil:
		return &failure{exitFailed, fmt.Sprintf("differs from the reference: %v%s", reference.First, othersText(reference.Wrong-1))}
	case bits == nil || bits.Identical():
		return nil
	case bits.First != nil:
		return &failure{exitFailed, fmt.Sprintf("differs from an unplanned run: %v", bits.First)}
	}
	return &failure{exitFailed, "differs from an unplanned run"}
}

func (c *runCmd) options() vm.Options {
	opt := vm.Options{Workers: c.Workers, Seed: c.Seed, Poison: c.Poison, Guard: vm.Guard(c.Guard), NoPack: c.Pack == "no", PackMore: c.Pack == "more", NoReplay: c.Replay == "no", NoBLAS: c.CUBLAS == "off", NoDNN: c.CUDNN == "off", DNNFloat32: c.CUDNN == "all", TF32: c.TF32, HostFile: c.HostFile, Without: c.Without, CheckLowering: c.DebugLowering, LeaveUpdates: true}
	if c.MemoryLimit != nil {
		opt.MemoryLimit = max(int64(*c.MemoryLimit), 1) // 0 would mean the free memory
	}
	return opt
}

// steps runs the planned model and writes the requested files.
func (c *runCmd) steps(ctx context.Context, e *env, program *vm.Program, s *vm.Session, b *batches, d *decoder, inputs map[string]vm.Value, r *runResult) error {
	var profile *vm.Profile
	if c.Profile != "" || c.CostsOut != "" {
		profile = s.Profile()
	}
	var out map[string]vm.Value
	var before, after runtime.MemStats
	bar := newProgress(e.stderr, c.Steps)
	defer bar.stop()
	for i := range c.Steps {
		bar.step(fmt.Sprintf("step %d of %d", i+1, c.Steps))
		last := i == c.Steps-1
		if last {
			runtime.ReadMemStats(&before)
		}
		batch, err := b.next(program, i, inputs)
		if err != nil {
			return err
		}
		began := time.Now()
		now, err := d.next(i, batch, out)
		if err != nil {
			return err
		}
		if c.Check != "" {
			if b.files != nil {
				b.room -= retainedBytes(batch) // they stay until they are compared
			}
			c.runs = append(c.runs, now)
		}
		if out, err = s.Run(ctx, now); err != nil {
			return err
		}
		took := millis(time.Since(began))
		if last {
			runtime.ReadMemStats(&after)
			r.HeapAllocs = after.Mallocs - before.Mallocs
		}
		if i == 0 {
			r.Times.First = millis(time.Since(r.began))
			c.settler.stepped()
		}
		if i == 0 || took < r.Times.Step {
			r.Times.Step = took
		}
		r.sawHeap()
		if loss, ok := out["loss"]; ok && len(loss.Data) <= 8 {
			if v, ok := loss.Reals(); ok && len(v) == 1 {
				r.Losses = append(r.Losses, lossValue(v[0]))
				if !c.JSON {
					bar.stop() // these lines show the progress
					fmt.Fprintf(e.stdout, "step %d: loss %.6g\n", i+1, v[0])
				}
			}
		}
	}
	r.stepped(program.Plan())
	r.Tokens = d.tokens
	m := s.Memory()
	r.ArenaBytes, r.StateBytes, r.DynamicBytes, r.ScratchBytes, r.TableBytes, r.DecodedBytes, r.PackedBytes = m.ArenaBytes, m.StateBytes, m.DynamicBytes, m.ScratchBytes, m.TableBytes, m.DecodedBytes, m.PackedBytes
	r.HostBytes = m.HostBytes
	r.Device, r.Dynamic = deviceOf(s), dynamicOf(s)
	r.caches = len(program.Caches()) > 0
	for _, t := range program.Outputs() {
		o := runOutput{Name: t.Name, Type: t.Type.String()}
		if v, is := out[t.Name]; is {
			o.Type = v.String()
		} else {
			o.updated = true
		}
		r.Outputs = append(r.Outputs, o)
	}
	if c.Outputs != "" || len(c.Output) > 0 {
		made, err := s.Updates()
		if err != nil {
			return err
		}
		maps.Copy(out, made)
	}
	if c.Outputs != "" {
		if err := writeArrays(c.Outputs, program, out); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Output)) {
		if err := writeValue(c.Output[name], name, out[name]); err != nil {
			return err
		}
	}
	if c.CostsOut != "" {
		if err := writeWith(c.CostsOut, func(w io.Writer) error { return writeJSON(w, profile.Costs()) }); err != nil {
			return err
		}
	}
	if c.WorkspacesOut != "" {
		w := s.Workspaces()
		w.Tool = tool()
		if err := writeWith(c.WorkspacesOut, w.Write); err != nil {
			return err
		}
	}
	if c.Profile != "" {
		return writeWith(c.Profile, profile.Write)
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// print prints the result.
func (c *runCmd) print(e *env, r *runResult) error {
	if c.JSON {
		return writeJSON(e.stdout, r)
	}
	if r.Dims != nil {
		fmt.Fprintf(e.stdout, "%-20s %s\n", "dimensions", pointText(r.Dims))
	}
	if len(r.Tokens) > 0 {
		fmt.Fprintf(e.stdout, "%-20s %s\n", "tokens", strings.Trim(fmt.Sprint(r.Tokens), "[]"))
	}
	updated, differ := 0, 0
	for _, o := range r.Outputs {
		same := o.Identical == nil || *o.Identical
		if o.updated { // a training step has hundreds: too many for a line each
			updated++
			if same {
				continue
			}
			differ++
		}
		fmt.Fprintf(e.stdout, "%-20s %s%s\n", units.Name(o.Name), o.Type, o.verdict())
	}
	if updated > 0 {
		verdict := ""
		switch {
		case differ > 0:
			verdict = fmt.Sprintf(", %d differ from unplanned", differ)
		case c.Check == checkBits:
			verdict = "  same bits as unplanned"
		}
		what := "parameters and states"
		if r.caches {
			what = "caches"
		}
		fmt.Fprintf(e.stdout, "%-20s %d %s%s\n", "updated", updated, what, verdict)
	}
	for _, row := range []struct {
		name  string
		bytes int64
	}{
		{"arena", r.ArenaBytes}, {"host", r.HostBytes}, {"states", r.StateBytes}, {"dynamic", r.DynamicBytes}, {"scratch", r.ScratchBytes}, {"decoded", r.DecodedBytes}, {"packed", r.PackedBytes},
	} {
		if row.bytes > 0 {
			fmt.Fprintf(e.stdout, "%-20s %s\n", row.name, units.Bytes(row.bytes))
		}
	}
	r.Dynamic.print(e.stdout)
	r.Device.print(e.stdout)
	r.runProcess.print(e.stdout, r, c.HostFile != "")
	fmt.Fprintf(e.stdout, "%-20s %.3f ms, %d allocations\n", "step", r.Times.Step, r.HeapAllocs)
	if r.Reference != nil {
		r.Reference.print(e.stdout)
	}
	return nil
}

// print prints how many nodes were compared, and which were not.
func (r *runReference) print(w io.Writer) {
	verdict := "all correct"
	if r.Wrong > 0 {
		verdict = fmt.Sprintf("%d wrong", r.Wrong)
	}
	if r.Worst > 0 {
		verdict += fmt.Sprintf("; the largest deviation is %.2g of its tolerance: %s", r.Worst, units.Name(r.WorstAt))
	}
	fmt.Fprintf(w, "%-20s %d nodes: %s\n", "reference", r.Compared, verdict)
	var left []string
	for _, op := range slices.Sorted(maps.Keys(r.Uncompared)) {
		left = append(left, fmt.Sprintf("%d %s", r.Uncompared[op], units.Name(op)))
	}
	if r.Idle > 0 {
		left = append(left, fmt.Sprintf("%d that never ran", r.Idle))
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "%-20s %s\n", "not compared", strings.Join(left, ", "))
	}
}

// othersText counts the wrong nodes that are not named.
func othersText(n int) string {
	switch {
	case n < 1:
		return ""
	case n == 1:
		return " (and 1 more node)"
	}
	return fmt.Sprintf(" (and %d more nodes)", n)
}

// verdict compares the output with that of an unplanned run, if there was one.
func (o *runOutput) verdict() string {
	switch {
	case o.Identical == nil:
		return ""
	case *o.Identical:
		return "  same bits as unplanned"
	case o.MaxAbsError == nil:
		return "  differs from unplanned"
	}
	return fmt.Sprintf("  differs from unplanned by %.3g", *o.MaxAbsError)
}
