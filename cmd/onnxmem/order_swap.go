package main

import (
	"context"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// swapLimit makes plans with transfers and repetitions from the orders found.
func (o *ordering) swapLimit(ctx context.Context) error {
	solver, err := budget.NewSwapper(o.problem, o.found.Orders, budget.SwapOptions{
		Effort: optimize.Efforts[o.cmd.Effort], Link: int64(o.cmd.HostLink), NoRecompute: o.cmd.NoRecompute,
	})
	if err != nil {
		return &failure{exitRefused, fmt.Sprintf("%s: %v", o.file, err)}
	}
	if list := o.limits(false); list != nil {
		o.limited.swap = solver.Solve(ctx, list[0])
		o.limited.plan = &o.limited.swap.Plan
	}
	if list := o.limits(true); list != nil {
		for _, x := range solver.Frontier(ctx, list) {
			o.limited.frontier = append(o.limited.frontier, &x.Plan)
		}
	}
	return nil
}

// swapJSON has the fields that --host-link adds to limitJSON.
type swapJSON struct {
	Link    int64               `json:"host_link_bytes_per_second"`
	Swapped int                 `json:"swapped_buffers"`
	Bytes   int64               `json:"swapped_bytes"`
	Waiting float64             `json:"waiting_percent"` // part of extra_cost_percent
	Swaps   []swappedTensorJSON `json:"swaps"`
}

// swappedTensorJSON is a tensor that is swapped out and in; out and in are indices into
// steps.
type swappedTensorJSON struct {
	Tensor int32 `json:"tensor"`
	Bytes  int64 `json:"bytes"`
	Out    int   `json:"out"`
	In     int   `json:"in"`
}

func (l *limited) swapJSON(link units.Rate) *swapJSON {
	if l.swap == nil {
		return nil
	}
	s := &swapJSON{Link: int64(link), Swapped: len(l.swap.Swaps), Waiting: l.waitingPercent(), Swaps: []swappedTensorJSON{}}
	for _, x := range l.swap.Swaps {
		s.Bytes += x.Bytes
		s.Swaps = append(s.Swaps, swappedTensorJSON{x.Tensor, x.Bytes, x.Out, x.In})
	}
	return s
}

func (l *limited) waitingPercent() float64 {
	return 100 * float64(l.swap.Waiting) / float64(max(l.swap.PlainCost, 1))
}

// swapText describes the swaps.
func (o *ordering) swapText(w io.Writer) {
	l := &o.limited
	var bytes int64
	for _, x := range l.swap.Swaps {
		bytes += x.Bytes
	}
	fmt.Fprintf(w, "swapped              %s tensors, %s, over %v each way; steps wait %.2f %% for them\n", units.Group(int64(len(l.swap.Swaps))), units.Bytes(bytes), o.cmd.HostLink, l.waitingPercent())
	fmt.Fprintf(w, "extra time           %.2f %% of a step\n", l.plan.ExtraPercent)
}
