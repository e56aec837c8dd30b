package fit

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
)

// Help is a change that needs less memory.
type Help struct {
	Flags string // of onnxmem optimize
	What  string
	Need  Need
	Extra float64 // time, in per cent
}

// Total is what a plan takes of a memory that has the weights, too.
func (n Need) Total() int64 { return n.Arena + n.Resident }

// leastSaved is the part of the memory that a change must save to be named, in per cent.
const leastSaved = 5

// changes lists what is tried, each by itself.
var changes = []struct {
	flags, what string
	of          func(j *optimize.Job) bool // whether it changes anything of such a job
	set         func(j *optimize.Job)
}{
	{
		"--precision bf16", "16 bits", func(j *optimize.Job) bool { return !j.Train && j.Precision == "" },
		func(j *optimize.Job) { j.Precision = "bf16" },
	},
	{
		"--autocast bf16", "16 bits", func(j *optimize.Job) bool { return j.Train && j.Autocast == "" },
		func(j *optimize.Job) { j.Autocast = "bf16" },
	},
	{
		"--lora 8", "adapters of rank 8 alone are trained", func(j *optimize.Job) bool { return j.Train && j.LoRA == 0 },
		func(j *optimize.Job) { j.LoRA = 8 },
	},
	{
		"--attention", "attention without scores", func(j *optimize.Job) bool { return !j.Attention },
		func(j *optimize.Job) { j.Attention = true },
	},
	{
		"--slices exact --extra 20%", "regions run in slices", func(j *optimize.Job) bool { return !j.Train },
		func(j *optimize.Job) { j.Slices, j.Extra, j.NoRecompute = "exact", &units.Limit{Percent: 20}, true },
	},
	{
		"--extra 20%", "nodes run again", func(j *optimize.Job) bool { return j.Train },
		func(j *optimize.Job) { j.Extra = &units.Limit{Percent: 20} },
	},
	{
		"--extra 20% --host-link 12GB/s", "tensors are swapped to the host, too", func(j *optimize.Job) bool { return j.Train },
		func(j *optimize.Job) { j.Extra, j.HostLink = &units.Limit{Percent: 20}, 12_000_000_000 },
	},
}

// helps returns what needs less memory than the plan, the least first. What cannot be planned is no help.
func (f *fitter) helps(a *Answer) ([]Help, error) {
	var list []Help
	for _, c := range changes {
		job := f.job
		if !c.of(&job) {
			continue
		}
		f.began(c.flags)
		c.set(&job)
		r, err := f.plan(job, false)
		switch {
		case f.ctx.Err() != nil:
			return nil, err
		case err != nil: // such as no attention in the model
			continue
		}
		h := Help{Flags: c.flags, What: c.what, Need: needOf(r.Plan), Extra: r.Plan.Summary.Extra()}
		if slices.ContainsFunc(list, func(x Help) bool { return x.Need == h.Need && x.Extra <= h.Extra }) {
			continue // less does as much
		}
		if 100*h.Need.Total() <= (100-leastSaved)*a.Need.Total() || 100*h.Need.Arena <= (100-leastSaved)*a.Need.Arena {
			list = append(list, h)
		}
	}
	slices.SortStableFunc(list, func(x, y Help) int { return cmp.Compare(x.Need.Total(), y.Need.Total()) })
	return list, nil
}
