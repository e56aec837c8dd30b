package device

import (
	"errors"
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Memory is the memory of a session on a GPU. The arena has a block of device memory of the same
// size, and so has the part of the resident pool with parameters and states. Each tensor has the
// same offset in both, so layouts, areas and plans are as on the CPU. Of the pool in host memory
// only the pages are ever touched that nodes on the host use. Constants are in a block that
// sessions share.
type Memory struct {
	mem     *store.Store
	pr      *program.Program
	Device  *cuda.Device
	Queue   *cuda.Queue
	Kernels *gpu.Kernels

	mirrors   []mirror
	Constants *program.DeviceConstants // the program's
	made      *cuda.Block              // what the session makes constants of (foldShapes)
	used      int64                    // bytes of it
	tables    []*deviceTable
	placed    map[program.ExtentOnHost]driver.Ptr // what is there

	Scratch      map[graph.NodeID]int64 // that nodes of the main graph take, in bytes
	inWorkspaces int64                  // of it, the most that one has in the arena

	Poison *gpu.Poison // of Options.Poison

	Stale bool  // a copy between the memories may not have been done yet
	Bytes int64 // copied between the memories for nodes, in the last run
	Syncs int   // waits of the host for the device, in the last run
}

// Libraries says which products and convolutions are left to NVIDIA's libraries, and whether
// those of float32 are computed in TF32.
type Libraries struct{ NoBLAS, NoDNN, Float32, TF32 bool }

// mirror is a part of a block of host memory, and its block of device memory.
type mirror struct {
	host *store.Block
	from int64 // the first byte of the part
	dev  *cuda.Block
}

// NewRoom begins the device's part of a session's memory.
func NewRoom(d *cuda.Device, pr *program.Program, mem *store.Store, by Libraries) (*Memory, error) {
	q, err := d.NewQueue()
	if err != nil {
		return nil, err
	}
	g := &Memory{mem: mem, pr: pr, Device: d, Queue: q, placed: map[program.ExtentOnHost]driver.Ptr{}, Scratch: map[graph.NodeID]int64{}}
	g.Kernels = &gpu.Kernels{Queue: q, At: g.At, OwnProducts: by.NoBLAS, OwnConvolutions: by.NoDNN, LibraryFloat32: by.Float32, TF32: by.TF32}
	if err := g.Kernels.WatchFaults(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	g.Constants, err = pr.ConstantsOn(d, mem.Bound)
	if bytes := program.FixedBytes(pr.Model.Graph); err == nil && bytes > 0 {
		if err = mem.Take(bytes); err == nil {
			g.made, err = d.Take(bytes, "computed constants")
		}
	}
	if err == nil {
		return g, nil
	}
	if failed := errors.Join(pr.ReleaseConstants(g.Constants, d), g.Kernels.Close(), q.Close()); failed != nil {
		err = errors.Join(err, failed)
	}
	return nil, err
}

// Close frees the device's memory. The context is current.
func (g *Memory) Close() error {
	list := []error{g.Poison.Close(), g.Kernels.Close(), g.Queue.Close(), g.made.Free(), g.pr.ReleaseConstants(g.Constants, g.Device)}
	for _, t := range g.tables {
		list = append(list, t.block.Free())
	}
	for _, m := range g.mirrors {
		list = append(list, m.dev.Free())
	}
	return errors.Join(list...)
}

// Mirror gives a block of host memory its block on the device.
func (g *Memory) Mirror(b *store.Block, what string) error {
	if g == nil || b == nil {
		return nil
	}
	return g.MirrorPart(b, 0, int64(len(b.Bytes)), what)
}

// MirrorPart gives bytes [from, end) of a block of host memory their block on the device.
func (g *Memory) MirrorPart(b *store.Block, from, end int64, what string) error {
	if from == end {
		return nil
	}
	dev, err := g.Device.Take(end-from, what)
	if err != nil {
		return err
	}
	g.mirrors = append(g.mirrors, mirror{b, from, dev})
	return nil
}

// errNoPlace is the error for a tensor that has no place on the device.
var errNoPlace = fmt.Errorf("%w for a tensor in the side pool", gpu.ErrUnsupported)

// At returns where a tensor lies on the device. It uploads a constant at the first call of
// any session.
func (g *Memory) At(t *kernel.Tensor) (driver.Ptr, error) {
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

func (g *Memory) constant(t *kernel.Tensor) (driver.Ptr, error) {
	if t.Type == graph.String {
		return 0, errNoPlace
	}
	if p, is, err := g.Constants.At(t); is {
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

// Took notes that a node takes scratch.
func (g *Memory) Took(w Workspace, scratch int64) {
	g.Scratch[w.Node] = max(g.Scratch[w.Node], scratch)
	if w.Space.Bytes > 0 {
		g.inWorkspaces = max(g.inWorkspaces, min(scratch, w.Space.Bytes))
	}
}

// Up brings the elements of a tensor to the device.
func (g *Memory) Up(t *values.Tensor) error {
	if t == nil || t.Const || t.Where&values.OnDevice != 0 || t.Bytes() == 0 {
		return nil
	}
	p, err := g.At(&t.Tensor)
	if err != nil {
		return err
	}
	g.Stale = true
	g.Bytes += int64(t.Bytes())
	t.Where |= values.OnDevice
	return driver.Upload(p, t.At, int64(t.Bytes()), g.Queue.Stream)
}

// Down brings the elements of tensors to the host, and waits for them, and for copies
// from places that a node on the host may now write to.
func (g *Memory) Down(list ...*values.Tensor) error {
	for _, t := range list {
		if t == nil || t.Const || t.Where != values.OnDevice || t.Bytes() == 0 {
			continue
		}
		p, err := g.At(&t.Tensor)
		if err != nil {
			return err
		}
		g.Stale = true
		g.Bytes += int64(t.Bytes())
		t.Where |= values.OnHost
		if err := driver.Download(t.At, p, int64(t.Bytes()), g.Queue.Stream); err != nil {
			return err
		}
	}
	if !g.Stale {
		return nil
	}
	g.Stale = false
	g.Syncs++
	return g.Queue.Stream.Synchronize()
}

// Assign copies a tensor that lies on the device to another one's place there. It reports
// false if the host has to do it.
func (g *Memory) Assign(to, from *values.Tensor) (bool, error) {
	if g == nil || from.Where&values.OnDevice == 0 || from.Const || to.At == from.At {
		return false, nil
	}
	a, err := g.At(&to.Tensor)
	if err != nil {
		return false, nil
	}
	b, err := g.At(&from.Tensor)
	if err != nil {
		return false, nil
	}
	to.Where = values.OnDevice
	return true, driver.Copy(a, b, int64(from.Bytes()), g.Queue.Stream)
}

// Enter makes the context current for the goroutine.
func (g *Memory) Enter() error {
	if g == nil {
		return nil
	}
	return g.Device.Enter()
}

// Leave ends what enter began.
func (g *Memory) Leave() {
	if g != nil {
		g.Device.Leave()
	}
}

// Table returns device memory that keeps bytes from one step to another.
func (g *Memory) Table(bytes int64, from, to int) (driver.Ptr, error) {
	for _, t := range g.tables {
		if t.until < from && t.block.Bytes >= bytes {
			t.until = to
			return t.block.At, nil
		}
	}
	if err := g.mem.Take(bytes); err != nil {
		return 0, err
	}
	block, err := g.Device.Take(bytes, "sums of gradients")
	if err != nil {
		return 0, err
	}
	g.tables = append(g.tables, &deviceTable{block, to})
	return block.At, nil
}

// deviceTable is device memory for what steps leave to later ones.
type deviceTable struct {
	block *cuda.Block
	until int // the last step that reads it
}

// taken returns the bytes of device memory in use beyond those at the opening of the device;
// 0 if that is unknown.
func (g *Memory) taken() int64 {
	if g.Enter() != nil {
		return 0
	}
	defer g.Leave()
	free, total, err := g.Device.Memory()
	if err != nil {
		return 0
	}
	return max(total-free-g.Device.ContextBytes(), 0)
}
