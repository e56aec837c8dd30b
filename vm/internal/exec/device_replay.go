package exec

import (
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// replay runs a session's steps as one CUDA graph, from the third on. The first step runs
// through gorgonia's machine and shows whether the host has a part in it; the second one
// is recorded while it runs; then the recording is launched in the machine's place. All
// addresses are fixed and inputs are copied before, so nothing that changes from step to
// step is part of the recording. Transfers to and from the host pool are: the stream of
// each joins the recording at the event that it waits for first, and the nodes wait for
// its last one.
type replay struct {
	g       *gpuSession
	state   replayState
	exec    driver.Exec
	uploads []*values.Tensor // inputs that nodes on the device, or transfers from it, read
	after   []values.Memory  // where each tensor of the main graph is after a step
	steps   int              // that were replayed
	taken   int64            // bytes of device memory that the recording takes
}

type replayState int

const (
	replayOff     replayState = iota
	replayWaiting             // for the first step
	replayRecords             // the second one
	replayRuns
)

// newReplay returns the replay of a session. It is off if a step has a part that cannot be
// recorded. Such are bodies, nodes on the host that depend on data, transfers to a host pool
// in a file, which is not pinned, and anything that looks at the nodes while they run.
func newReplay(g *gpuSession) *replay {
	r := &replay{g: g}
	s := g.s
	if s.Options.NoReplay || s.Options.Poison || s.watch.comparer != nil || s.Mem.Host != nil && s.Options.HostFile != "" || !g.onlyFixedOnHost() {
		return r
	}
	read := map[*values.Tensor]bool{}
	for _, st := range s.main.Steps {
		list := st.In
		if task := st.Task(); task != nil {
			list = slices.Concat(list, lower.Tensors(task.Reads))
		}
		for _, t := range list {
			read[t] = read[t] || st.Device
		}
	}
	if g.copier != nil {
		for _, t := range g.copier.all {
			read[t.from] = true
		}
	}
	for _, id := range s.main.Graph.Inputs {
		if t := s.main.Tensors[id]; read[t] {
			r.uploads = append(r.uploads, t)
		}
	}
	r.state = replayWaiting
	return r
}

// onlyFixedOnHost reports whether the nodes on the host compute the same at every step:
// they read only constants, shapes, and what such nodes make, and draw no numbers.
func (g *gpuSession) onlyFixedOnHost() bool {
	fixed := map[*values.Tensor]bool{}
	for _, st := range g.s.main.Steps {
		if st.Device || st.Run == nil && !st.Late {
			continue // a kernel, or part of one
		}
		if st.Late || st.Boxes || st.Kernel == nil && st.Run != nil || st.Node().Semantics.Random {
			return false
		}
		for _, t := range st.In {
			if t != nil && !t.Const && !fixed[t] && !ops.OfShape(st.Node()) {
				return false
			}
		}
		for _, t := range st.Out {
			if t != nil {
				fixed[t] = true
			}
		}
	}
	return true
}

// upload copies the inputs of a step to the device, before its nodes.
func (r *replay) upload() error {
	for _, t := range r.uploads {
		if err := r.g.Up(t); err != nil {
			return err
		}
	}
	r.g.Bytes = 0 // copies from here on are for nodes
	return nil
}

// first begins the recording, if it is time, before the first node of a step.
func (r *replay) first() error {
	if r.state != replayRecords {
		return nil
	}
	return r.g.Queue.Stream.BeginCapture()
}

// last ends the recording after the last node of a step, or after the one that failed, and
// runs what was recorded.
func (r *replay) last(failed error) error {
	if r.state == replayWaiting {
		r.state = replayRecords
		if r.g.Bytes > 0 || r.g.Syncs > 0 || failed != nil || len(r.g.s.tape.before)+len(r.g.s.tape.after) > 0 {
			r.state = replayOff
		}
		return nil
	}
	if r.state != replayRecords {
		return nil
	}
	r.state = replayOff
	recorded, err := r.g.Queue.Stream.EndCapture()
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	r.after = r.after[:0]
	for _, t := range r.g.s.main.Tensors {
		at := values.Memory(0)
		if t != nil {
			at = t.Where
		}
		r.after = append(r.after, at)
	}
	r.taken, err = r.g.Device.Measure(func() error {
		r.exec, err = recorded.Instantiate()
		if err = errors.Join(err, recorded.Destroy()); err != nil {
			return err
		}
		return r.exec.Launch(r.g.Queue.Stream) // a driver may take memory as late as here
	})
	if err == nil {
		r.state = replayRuns
	}
	return err
}

// run replays a step. It reports false if the machine has to run it.
func (r *replay) run() (bool, error) {
	if r.state != replayRuns {
		return false, nil
	}
	r.steps++
	for i, t := range r.g.s.main.Tensors {
		if t != nil {
			t.Where = r.after[i]
		}
	}
	return true, r.exec.Launch(r.g.Queue.Stream)
}

// close frees the recording.
func (r *replay) close() error {
	if r == nil || r.exec == 0 {
		return nil
	}
	return r.exec.Destroy()
}
