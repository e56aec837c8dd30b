package trace

import (
	"fmt"

	"github.com/onnxmem/onnxmem/plan"
)

// Recorded returns the iteration with the places that its blocks had in the recording; nil
// if that has none, or more than one repetition. Blocks without a place count as kept. A
// block that was written over another takes that one's bytes from it.
func (it *Iteration) Recorded(alignment int64) *Packed {
	c := *it
	c.Buffers, c.Kept = nil, Count{}
	k := &Packed{Iteration: &c, Alignment: alignment}
	if it.Repeats != 1 {
		return nil
	}
	last := map[int64]int{} // by offset: the block that was allocated there last
	for step := range it.Length {
		e := it.trace.Events[it.first+step]
		if e.Free {
			continue
		}
		b := &it.trace.Blocks[e.Block]
		offset, ok := it.trace.Offsets[e.Block]
		if !ok {
			c.Kept.add(b.Size)
			continue
		}
		free := it.Length
		if b.Free >= 0 && b.Free < it.end {
			free = b.Free - it.first
		}
		if i, ok := last[offset]; ok && c.Buffers[i].Free > step && c.Buffers[i].Size == b.Size {
			c.Buffers[i].Free = step
		}
		last[offset] = len(c.Buffers)
		c.Buffers = append(c.Buffers, Buffer{b.Size, b.Stream, step, free})
		k.Offsets = append(k.Offsets, offset)
		k.Arena = max(k.Arena, offset+(b.Size+alignment-1)/alignment*alignment)
	}
	if len(c.Buffers) == 0 {
		return nil
	}
	k.Load = k.Problem().MaxLoad()
	k.LowerBound = k.Load
	return k
}

// Plan returns the placed iteration in the form in which package report draws plans:
// its events are the steps, from the one on before which the fewest bytes are live. A
// block that is cut in two there is two buffers of one name and place. Nothing but the
// pictures may use it: there is no model for it.
func (k *Packed) Plan(name string) *plan.Plan {
	steps := k.Steps()
	p := &plan.Plan{
		Format: plan.Format, Version: plan.Version, Mode: "recording", Alignment: k.Alignment,
		Source: plan.File{File: name}, Steps: make([]plan.Step, steps), Pools: []plan.Pool{{Name: plan.Arena, Bytes: k.Arena}},
	}
	change := make([]int64, steps+1) // of the load
	at := func(event int) int { return (event%steps + steps - k.quiet) % steps }
	for i, b := range k.Buffers {
		p.Steps[at(b.Alloc)] = plan.Step{Name: fmt.Sprintf("alloc %d", i), Op: "alloc"}
		if b.Free < steps {
			p.Steps[at(b.Free)] = plan.Step{Name: fmt.Sprintf("free %d", i), Op: "free"}
		}
		whole := k.buffer(b)
		parts := [][2]int{{whole.First, whole.Last}}
		for _, g := range whole.Gaps {
			parts = [][2]int{{whole.First, g.First - 1}, {g.Last + 1, whole.Last}}
		}
		kind := plan.KindActivation
		switch {
		case len(parts) > 1, whole.Last == steps-1:
			kind = plan.KindState // it goes over into the next iteration
		}
		label := fmt.Sprintf("block %d", i)
		if b.Stream != 0 {
			label += fmt.Sprintf(" of stream %d", b.Stream)
		}
		size := (b.Size + k.Alignment - 1) / k.Alignment * k.Alignment
		for _, part := range parts {
			p.Buffers = append(p.Buffers, plan.Buffer{Pool: plan.Arena, Offset: k.Offsets[i], Bytes: size, First: part[0], Last: part[1], Kind: kind, Tensors: []string{label}})
			change[part[0]] += size
			change[part[1]+1] -= size
		}
		p.Summary.NaiveBytes += size
	}
	s, load := &p.Summary, int64(0)
	s.NaiveBytes /= int64(k.Unrolled)
	for i := range p.Steps {
		if p.Steps[i].Name == "" {
			p.Steps[i] = plan.Step{Name: "not placed", Op: "none"}
		}
		load += change[i]
		p.Steps[i].LoadBytes = load
		if load > s.PeakBytes {
			s.PeakBytes, s.PeakStep = load, i
		}
		p.ProgramOrder.Steps = append(p.ProgramOrder.Steps, i)
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, load)
	}
	s.Nodes, s.Tensors = steps, len(k.Buffers)
	s.ProgramPeakBytes, s.ArenaBytes, s.TotalBytes, s.LowerBoundBytes = s.PeakBytes, k.Arena, k.Arena, k.LowerBound
	s.ScheduleOptimal, s.PlacementOptimal = true, k.Optimal()
	return p
}
