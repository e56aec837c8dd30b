package exec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// device is the part of a session that lies on a GPU (Options.Device). The arena has a
// block of device memory of the same size, and so has the part of the resident pool with
// parameters and states. Each tensor has the same offset in both, so layouts, areas and
// plans are as on the CPU. Of the pool in host memory only the pages are ever touched that
// nodes on the host use. Constants are in a block that sessions share. A node without a device kernel runs on
// the host, between copies of its inputs and, once a node on the device needs them, of
// its outputs.
type device struct {
	s       *Session
	d       *cuda.Device
	queue   *cuda.Queue
	kernels *gpu.Kernels

	mirrors   []mirror
	constants *program.DeviceConstants // the program's
	made      *cuda.Block              // what the session makes constants of (computeFixed)
	used      int64                    // bytes of it
	tables    []*deviceTable
	placed    map[program.ExtentOnHost]driver.Ptr // what is there

	scratch      map[graph.NodeID]int64 // that nodes of the main graph take, in bytes
	inWorkspaces int64                  // of it, the most that one has in the arena

	poison  *gpu.Poison // of Options.Poison
	replay  *replay
	profile *deviceProfile // nil: no times are taken
	copier  *deviceCopier  // nil: no tensor leaves the arena

	stale bool // a copy between the memories may not have been done yet
	counts
}

// counts says what a session did on the host although it has a device.
type counts struct {
	nodes int   // nodes of the main graph, bodies and calls that run on the host
	bytes int64 // copied between the memories for nodes, in the last run
	syncs int   // waits of the host for the device, in the last run
	ops   []string
}

// mirror is a part of a block of host memory, and its block of device memory.
type mirror struct {
	host *store.Block
	from int64 // the first byte of the part
	dev  *cuda.Block
}

// newDevice begins the device's part of a session.
func newDevice(s *Session, d *cuda.Device) (*device, error) {
	q, err := d.NewQueue()
	if err != nil {
		return nil, err
	}
	g := &device{s: s, d: d, queue: q, placed: map[program.ExtentOnHost]driver.Ptr{}, scratch: map[graph.NodeID]int64{}}
	g.kernels = &gpu.Kernels{Queue: q, At: g.at, OwnProducts: s.opt.NoBLAS, OwnConvolutions: s.opt.NoDNN, LibraryFloat32: s.opt.DNNFloat32}
	if err := g.kernels.WatchFaults(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	g.constants, err = s.pr.ConstantsOn(d, s.opt.bound())
	if bytes := program.FixedBytes(s.pr.Model.Graph); err == nil && bytes > 0 {
		if err = s.Mem.Take(bytes); err == nil {
			g.made, err = d.Take(bytes, "computed constants")
		}
	}
	if err == nil {
		return g, nil
	}
	if failed := errors.Join(s.pr.ReleaseConstants(g.constants, d), g.kernels.Close(), q.Close()); failed != nil {
		err = errors.Join(err, failed)
	}
	return nil, err
}

// mirror gives a block of host memory its block on the device.
func (g *device) mirror(b *store.Block, what string) error {
	if g == nil || b == nil {
		return nil
	}
	return g.mirrorPart(b, 0, int64(len(b.Bytes)), what)
}

// mirrorPart gives bytes [from, end) of a block of host memory their block on the device.
func (g *device) mirrorPart(b *store.Block, from, end int64, what string) error {
	if from == end {
		return nil
	}
	dev, err := g.d.Take(end-from, what)
	if err != nil {
		return err
	}
	g.mirrors = append(g.mirrors, mirror{b, from, dev})
	return nil
}

// errNoPlace is the error for a tensor that has no place on the device.
var errNoPlace = fmt.Errorf("%w for a tensor in the side pool", gpu.ErrUnsupported)

// at returns where a tensor lies on the device. It uploads a constant at the first call of
// any session.
func (g *device) at(t *kernel.Tensor) (driver.Ptr, error) {
	if t.Bytes() == 0 {
		return 0, nil
	}
	if t.Const {
		return g.constant(t)
	}
	if p, found := g.address(t.At); found {
		return p, nil
	}
	return 0, errNoPlace
}

func (g *device) constant(t *kernel.Tensor) (driver.Ptr, error) {
	if t.Type == graph.String {
		return 0, errNoPlace
	}
	if p, is, err := g.constants.At(t); is {
		return p, err
	}
	if p, ok := g.placed[program.ExtentOf(t)]; ok {
		return p, nil
	}
	bytes := int64(t.Bytes())
	if g.made == nil || g.used+bytes > g.made.Bytes {
		return 0, fmt.Errorf("%w for a constant that the session makes", gpu.ErrUnsupported)
	}
	p := g.made.At + driver.Ptr(g.used)
	if err := driver.UploadNow(p, t.At, bytes); err != nil {
		return 0, err
	}
	g.used += program.AlignedConstant(bytes)
	g.placed[program.ExtentOf(t)] = p
	return p, nil
}

// prepare puts a node on the device. It reports false if the node runs on the host.
// Its scratch lies in the workspace that the plan has for it.
func (g *device) prepare(st *step, w workspace) (bool, error) {
	if g == nil {
		return false, nil
	}
	run, scratch, err := g.kernels.PrepareIn(&st.call().Call, w.space)
	switch {
	case errors.Is(err, gpu.ErrUnsupported), errors.Is(err, form.ErrDataDependent):
		return false, nil
	case err != nil:
		return false, err
	}
	st.run, st.device = run, true
	st.describe(st.call().Way)
	g.took(w, scratch)
	return true, nil
}

// took notes that a node takes scratch.
func (g *device) took(w workspace, scratch int64) {
	g.scratch[w.node] = max(g.scratch[w.node], scratch)
	if w.space.Bytes > 0 {
		g.inWorkspaces = max(g.inWorkspaces, min(scratch, w.space.Bytes))
	}
}

// tally counts the nodes that run on the host. Those of bodies and functions count, the
// calls of functions do not.
func (g *device) tally() {
	if g == nil {
		return
	}
	for _, f := range g.s.frames {
		for _, st := range f.steps {
			if st.device || st.run == nil && !st.late || st.n().Semantics.Call != nil {
				continue
			}
			g.nodes++
			if op := st.n().OpName(); !slices.Contains(g.ops, op) {
				g.ops = append(g.ops, op)
			}
		}
	}
}

// ready makes the prepared nodes ready to run.
func (g *device) ready() error {
	if g == nil || g.s.opt.uncompiled {
		return nil
	}
	return g.kernels.Ready(g.s.Mem.Take)
}

// begin starts a run: random numbers are drawn anew. A run that failed may have left copies
// from places that inputs are written to next.
func (g *device) begin() error {
	if g == nil {
		return nil
	}
	err := g.finish()
	g.bytes, g.syncs = 0, 0
	return errors.Join(err, g.kernels.ClearFaults(), g.kernels.Reseed())
}

// fault returns the error of a node on the device that found a wrong index in the last
// step: kernels cannot fail at once.
func (g *device) fault() error {
	if g == nil {
		return nil
	}
	n, err := g.kernels.Fault()
	for _, f := range g.s.frames {
		for _, st := range f.steps {
			if st.n() == n && err != nil {
				return graph.Errorf("%w", err).AtNode(f.g.Label(st.node))
			}
		}
	}
	return err
}

// before brings the inputs of a node to the memory that it works on.
func (g *device) before(st *step) error {
	if g == nil || st.run == nil && !st.late {
		return nil
	}
	if st.copies() {
		return nil // it asks for what it reads
	}
	if !st.device {
		if ops.OfShape(st.n()) {
			return g.Down()
		}
		return g.Down(st.in...)
	}
	if st.views() {
		return nil
	}
	inputs := st.in
	if task := st.task(); task != nil {
		inputs = task.reads
	}
	for _, t := range inputs {
		if err := g.up(t); err != nil {
			return err
		}
	}
	return nil
}

// after notes where the outputs of a node are.
func (g *device) after(st *step) {
	if g == nil || st.copies() {
		return // what hands tensors to and from bodies notes that itself
	}
	at := values.OnHost
	if st.device {
		at = values.OnDevice
		if st.views() {
			at = st.in[0].Where
		}
	}
	for _, t := range st.out {
		if t != nil {
			t.Where = at
		}
	}
	if task := st.task(); task != nil {
		for _, t := range task.writes {
			t.Where = at
		}
	}
}

// views reports whether the output of a node on the device is its first input, in place
// and unchanged: its elements are where those of the input are.
func (st *step) views() bool {
	return st.task() == nil && len(st.n().Semantics.Views) > 0 && len(st.out) == 1 && st.out[0] != nil && st.in[0] != nil && st.out[0].At == st.in[0].At && !st.in[0].Const
}

// up brings the elements of a tensor to the device.
func (g *device) up(t *values.Tensor) error {
	if t == nil || t.Const || t.Where&values.OnDevice != 0 || t.Bytes() == 0 {
		return nil
	}
	p, err := g.at(&t.Tensor)
	if err != nil {
		return err
	}
	g.stale = true
	g.bytes += int64(t.Bytes())
	t.Where |= values.OnDevice
	return driver.Upload(p, t.At, int64(t.Bytes()), g.queue.Stream)
}

// Down brings the elements of tensors to the host, and waits for them, and for copies
// from places that a node on the host may now write to.
func (g *device) Down(list ...*values.Tensor) error {
	for _, t := range list {
		if t == nil || t.Const || t.Where != values.OnDevice || t.Bytes() == 0 {
			continue
		}
		p, err := g.at(&t.Tensor)
		if err != nil {
			return err
		}
		g.stale = true
		g.bytes += int64(t.Bytes())
		t.Where |= values.OnHost
		if err := driver.Download(t.At, p, int64(t.Bytes()), g.queue.Stream); err != nil {
			return err
		}
	}
	if !g.stale {
		return nil
	}
	g.stale = false
	g.syncs++
	return g.queue.Stream.Synchronize()
}

// Assign copies a tensor that lies on the device to another one's place there. It reports
// false if the host has to do it.
func (g *device) Assign(to, from *values.Tensor) (bool, error) {
	if g == nil || from.Where&values.OnDevice == 0 || from.Const || to.At == from.At {
		return false, nil
	}
	a, err := g.at(&to.Tensor)
	if err != nil {
		return false, nil
	}
	b, err := g.at(&from.Tensor)
	if err != nil {
		return false, nil
	}
	to.Where = values.OnDevice
	return true, driver.Copy(a, b, int64(from.Bytes()), g.queue.Stream)
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

// enter makes the context current for the goroutine.
func (g *device) enter() error {
	if g == nil {
		return nil
	}
	return g.d.Enter()
}

// begins is called before the first node of a step, on the goroutine of the nodes.
func (g *device) begins() error {
	if g == nil {
		return nil
	}
	return g.replay.first()
}

// ends is called after the last node of a step, or the one that failed with an error.
func (g *device) ends(failed error) error {
	if g == nil {
		return nil
	}
	return g.replay.last(failed)
}

// leave ends what enter began.
func (g *device) leave() {
	if g != nil {
		g.d.Leave()
	}
}

// finish waits for the work of a run.
func (g *device) finish() error {
	if g == nil {
		return nil
	}
	g.stale = false
	return errors.Join(g.queue.Stream.Synchronize(), g.copier.sync(), g.profile.read())
}

// carry notes, after a run, where the new values of parameters and states are that share
// the buffers of the old ones.
func (g *device) carry(s *Session) {
	if g == nil || s.opt.Separate {
		return
	}
	made := map[string]*values.Tensor{}
	for _, id := range s.main.g.Outputs {
		made[s.main.g.Tensors[id].Name] = s.main.tensors[id]
	}
	for _, id := range s.main.g.Inputs {
		if next := made[s.pr.Next[s.main.g.Tensors[id].Name]]; next != nil {
			s.main.tensors[id].Where = next.Where
		}
	}
}

// close frees the device's memory.
func (g *device) close() error {
	if g == nil {
		return nil
	}
	if err := g.d.Enter(); err != nil {
		return err
	}
	defer g.d.Leave()
	list := []error{g.profile.close(), g.replay.close(), g.poison.Close(), g.kernels.Close(), g.copier.close(), g.queue.Close(), g.made.Free(), g.s.pr.ReleaseConstants(g.constants, g.d)}
	for _, t := range g.tables {
		list = append(list, t.block.Free())
	}
	for _, m := range g.mirrors {
		list = append(list, m.dev.Free())
	}
	return errors.Join(list...)
}
