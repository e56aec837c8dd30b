// Package fit says on which devices a model runs or trains: whether its plan fits, the largest
// batch that does, what the least extra time is where it does not, and what would help.
//
//	devices.go  the devices, what the runtime takes of them, files of devices
//	fit.go      one model beside all devices
//	batch.go    the largest batch that a memory has room for
//	help.go     what to change first
//	process.go  what a process of onnxmem run usually takes
package fit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// Need is what a plan takes, in bytes.
type Need struct {
	Arena    int64
	Resident int64 // weights and, of a training step, optimizer states
	Inputs   int64 // values of inputs, which a process of onnxmem run holds beside their places in the arena
	Bound    int64 // no order of the same nodes has a smaller arena
}

// Row is a device beside the model.
type Row struct {
	Device
	Taken   int64 // by the runtime itself, at most
	Trained bool  // what is resident changes, and cannot lie in flash
	Fits    bool

	// Why a plan does not fit: a sentence with the figure that it rests on. Proven says that it holds of any
	// order of the nodes, and of any plan with nodes that run again or, if they were asked for, slices.
	Why    string
	Proven bool

	// Of a plan that fits only with extra time: its arena, and that time in per cent; nil if none was found.
	LimitedArena int64
	Extra        *float64

	// Batch is the largest length of the batch dimension whose plan fits without extra time; 0: it was not
	// sought, or not even 1 fits.
	Batch int64
}

// room is what the device has for a plan's arena beside the other things that the plan needs.
func (r *Row) room(n Need) int64 {
	room := r.Bytes - r.Taken
	if !r.inFlash() {
		room -= n.Resident
	}
	if r.Kind == Process {
		room -= n.Inputs
	}
	return room
}

// inFlash reports whether what is resident lies beside the memory that is compared.
func (r *Row) inFlash() bool { return r.Kind == Microcontroller && !r.Trained }

// Answer is a model beside all devices.
type Answer struct {
	Plan     *plan.Plan // of the lengths that were given, or 1
	Need     Need
	Process  int64  // what a process of onnxmem run usually takes on the CPU
	BatchDim string // "": the model has no symbolic batch
	Length   int64  // of BatchDim in Plan
	Rows     []Row
	Helps    []Help
	Warnings []string
	Missing  []string // external data that was not found: what it would be in 16 bits, or folded, is not known
}

// fitter plans one model in several ways.
type fitter struct {
	ctx     context.Context
	job     optimize.Job
	open    func() (*onnx.File, error)
	began   func(work string) // tells the progress
	batches map[int64]Need    // by the length of the batch
	missing []string          // external data that was not found
}

// Model plans a job's model, which open reads anew for each plan, writes nothing, and compares it with the devices. The job has neither --limit
// nor --extra, which are what the devices ask for. began is told what is done next. Errors are those of reading and planning
// the model as it is given; what fails beside that is in no row.
func Model(ctx context.Context, job optimize.Job, open func() (*onnx.File, error), devices []Device, began func(work string)) (*Answer, error) {
	f := &fitter{ctx: ctx, job: job, open: open, began: began, batches: map[int64]Need{}}
	began("plan")
	r, err := f.plan(job, true)
	if err != nil {
		return nil, err
	}
	a := &Answer{Plan: r.Plan, Need: needOf(r.Plan), Process: usual(r.Plan, r.Model), Warnings: r.Warnings, Missing: f.missing}
	if a.BatchDim = f.batchDim(); a.BatchDim != "" {
		a.Length = r.Plan.Dims[a.BatchDim].Value
		f.batches[a.Length] = a.Need
	}
	for _, d := range devices {
		row := Row{Device: d, Taken: d.Taken(r.Plan), Trained: job.Train}
		began(d.Name)
		if row.Fits = row.fits(a.Need); !row.Fits {
			if err := f.price(&row, a); err != nil {
				return nil, err
			}
		}
		if a.Length > 0 {
			if row.Batch, err = f.largest(&row, a); err != nil {
				return nil, err
			}
		}
		a.Rows = append(a.Rows, row)
	}
	a.Helps, err = f.helps(a)
	return a, err
}

// batchDim returns the dimension that is the batch, "" if there is none.
func (f *fitter) batchDim() string {
	file, err := f.open()
	if err != nil {
		return ""
	}
	defer file.Close()
	name, err := optimize.BatchDim(file.Model, "")
	if err != nil {
		return ""
	}
	return name
}

func needOf(p *plan.Plan) Need {
	s := &p.Summary
	return Need{Arena: s.ArenaBytes, Resident: s.ResidentBytes, Inputs: optimize.InputBytes(p), Bound: s.LowerBoundBytes}
}

// plan plans a job's model; verify says whether the plan is verified.
func (f *fitter) plan(job optimize.Job, verify bool) (*passes.Result, error) {
	file, err := f.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	opt, err := (&optimize.Task{Job: job}).Options()
	if err != nil {
		return nil, err
	}
	opt.NoVerify = opt.NoVerify || !verify
	r, err := passes.Optimize(f.ctx, file.Model, opt)
	f.missing = file.Missing
	if errors.As(err, new(*passes.RefusedError)) {
		err = fmt.Errorf("%s: %w", units.Name(job.In), err)
	}
	return r, err
}

// fits reports whether a plan fits the device.
func (r *Row) fits(n Need) bool { return n.Arena <= r.room(n) && !r.flashFull(n) }

func (r *Row) flashFull(n Need) bool { return r.inFlash() && r.Flash > 0 && n.Resident > r.Flash }

// price looks for a plan that fits with extra time, and says why there is none.
func (f *fitter) price(row *Row, a *Answer) error {
	room := row.room(a.Need)
	switch {
	case row.flashFull(a.Need):
		row.Why, row.Proven = fmt.Sprintf("the weights take %s of flash", units.Short(a.Need.Resident)), true
		return nil
	case room <= 0:
		row.Why, row.Proven = fmt.Sprintf("weights and runtime take %s", units.Short(a.Need.Resident+row.Taken)), true
		return nil
	}
	var last error
	for _, slices := range f.ways() {
		job := f.job
		job.Slices = slices
		job.Limit, job.LimitArena = &units.Limit{Bytes: room}, true
		r, err := f.plan(job, true)
		switch {
		case err == nil:
			extra := r.Plan.Summary.Extra()
			row.LimitedArena, row.Extra = r.Plan.Summary.ArenaBytes, &extra
			return nil
		case errors.As(err, new(*passes.LimitError)):
			last = err
		default:
			return err
		}
	}
	var limit *passes.LimitError
	errors.As(last, &limit)
	row.Why, row.Proven = reason(limit), limit.Impossible
	return nil
}

// ways lists the slices that a limit is tried with: none, then exact ones, unless some were asked for.
func (f *fitter) ways() []string {
	if f.job.Slices != "" && f.job.Slices != "off" {
		return []string{f.job.Slices}
	}
	return []string{"off", "exact"}
}

// reason is the text of a limit's error behind the limit, without the tensors.
func reason(e *passes.LimitError) string {
	_, why, _ := strings.Cut(e.Error(), ": ")
	why, _, _ = strings.Cut(why, `, for "`)
	return why
}
