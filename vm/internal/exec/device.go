package exec

import (
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// gpuSession is what a session does on a GPU at its steps (Options.Device). A node without a device
// kernel runs on the host, between copies of its inputs and, once a node on the device needs them, of
// its outputs.
type gpuSession struct {
	*device.Memory
	s       *Session
	replay  *replay
	profile *deviceProfile // nil: no times are taken
	copier  *deviceCopier  // nil: no tensor leaves the arena

	nodes int // nodes of the main graph, bodies and calls that run on the host
	ops   []string
}

// enter makes the context current for the goroutine.
func (g *gpuSession) enter() error {
	if g == nil {
		return nil
	}
	return g.Memory.Enter()
}

// leave ends what enter began.
func (g *gpuSession) leave() {
	if g != nil {
		g.Memory.Leave()
	}
}

// tally counts the nodes that run on the host. Those of bodies and functions count, the
// calls of functions do not.
func (g *gpuSession) tally() {
	if g == nil {
		return
	}
	for _, f := range g.s.Frames {
		for _, st := range f.Steps {
			if st.Device || st.Run == nil && !st.Late || st.Node().Semantics.Call != nil {
				continue
			}
			g.nodes++
			if op := st.Node().OpName(); !slices.Contains(g.ops, op) {
				g.ops = append(g.ops, op)
			}
		}
	}
}

// ready makes the prepared nodes ready to run.
func (g *gpuSession) ready() error {
	if g == nil || g.s.Options.Uncompiled {
		return nil
	}
	return g.Kernels.Ready(g.s.Mem.Take)
}

// begin starts a run: random numbers are drawn anew. A run that failed may have left copies
// from places that inputs are written to next.
func (g *gpuSession) begin() error {
	if g == nil {
		return nil
	}
	err := g.finish()
	g.Bytes, g.Syncs = 0, 0
	return errors.Join(err, g.Kernels.ClearFaults(), g.Kernels.Reseed())
}

// fault returns the error of a node on the device that found a wrong index in the last
// step: kernels cannot fail at once.
func (g *gpuSession) fault() error {
	if g == nil {
		return nil
	}
	n, err := g.Kernels.Fault()
	for _, f := range g.s.Frames {
		for _, st := range f.Steps {
			if st.Node() == n && err != nil {
				return graph.Errorf("%w", err).AtNode(f.Graph.Label(st.ID))
			}
		}
	}
	return err
}

// before brings the inputs of a node to the memory that it works on.
func (g *gpuSession) before(st *lower.Step) error {
	if g == nil || st.Run == nil && !st.Late {
		return nil
	}
	if copies(st) {
		return nil // it asks for what it reads
	}
	if !st.Device {
		if ops.OfShape(st.Node()) {
			return g.Down()
		}
		return g.Down(st.In...)
	}
	if st.Views() {
		return nil
	}
	if task := st.Task(); task != nil {
		for _, p := range task.Reads {
			if err := g.Up(p.Of); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range st.In {
		if err := g.Up(t); err != nil {
			return err
		}
	}
	return nil
}

// after notes where the outputs of a node are.
func (g *gpuSession) after(st *lower.Step) {
	if g == nil || copies(st) {
		return // what hands tensors to and from bodies notes that itself
	}
	at := values.OnHost
	if st.Device {
		at = values.OnDevice
		if st.Views() {
			at = st.In[0].Where
		}
	}
	for _, t := range st.Out {
		if t != nil {
			t.Where = at
		}
	}
	if task := st.Task(); task != nil {
		for _, p := range task.Writes {
			p.Of.Where = at
		}
	}
}

// fetch is onHost outside of a run.
func (s *Session) fetch(t *values.Tensor) error {
	if err := s.gpu.enter(); err != nil {
		return err
	}
	defer s.gpu.leave()
	if s.gpu == nil {
		return nil
	}
	return s.gpu.Down(t)
}

// runStep runs the nodes of a step: through gorgonia's machine, or as a recording of it.
func (s *Session) runStep() error {
	if s.gpu == nil {
		return s.tape.run()
	}
	if err := s.gpu.replay.upload(); err != nil {
		return err
	}
	if done, err := s.gpu.replay.run(); done || err != nil {
		return err
	}
	return s.tape.run()
}

// begins is called before the first node of a step, on the goroutine of the nodes.
func (g *gpuSession) begins() error {
	if g == nil {
		return nil
	}
	return g.replay.first()
}

// ends is called after the last node of a step, or the one that failed with an error.
func (g *gpuSession) ends(failed error) error {
	if g == nil {
		return nil
	}
	return g.replay.last(failed)
}

// finish waits for the work of a run.
func (g *gpuSession) finish() error {
	if g == nil {
		return nil
	}
	g.Stale = false
	return errors.Join(g.Queue.Stream.Synchronize(), g.copier.sync(), g.profile.read())
}

// carry notes, after a run, where the new values of parameters and states are that share
// the buffers of the old ones.
func (g *gpuSession) carry(s *Session) {
	if g == nil || s.Options.Separate {
		return
	}
	made := map[string]*values.Tensor{}
	for _, id := range s.main.Graph.Outputs {
		made[s.main.Graph.Tensors[id].Name] = s.main.Tensors[id]
	}
	for _, id := range s.main.Graph.Inputs {
		if next := made[s.Program.Next[s.main.Graph.Tensors[id].Name]]; next != nil {
			s.main.Tensors[id].Where = next.Where
		}
	}
}

// close frees the device's memory.
func (g *gpuSession) close() error {
	if g == nil {
		return nil
	}
	if err := g.Device.Enter(); err != nil {
		return err
	}
	defer g.Device.Leave()
	return errors.Join(g.profile.close(), g.replay.close(), g.copier.close(), g.Memory.Close())
}
