package program

import (
	"sync"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// DeviceConstants is the constants of a program on one device: of its main graph, its bodies
// and its functions. All sessions there read them in one block, into which each constant is
// copied when the first node needs it. The last session that closes frees it.
type DeviceConstants struct {
	Block   *cuda.Block  // nil: there are none
	mem     *store.Share // counts it, for all sessions once
	offsets map[*graph.Data]int64
	Planned int64 // bytes of those that the plan places in the resident pool
	users   int   // sessions

	mu     sync.Mutex
	onHost map[ExtentOnHost]int64 // offsets, by the bytes on the host
	placed map[int64]bool         // offsets of those that have been copied
}

// constantAlign is what the offset of a constant is a multiple of, in bytes.
const constantAlign = 64

func AlignedConstant(bytes int64) int64 { return (bytes + constantAlign - 1) &^ (constantAlign - 1) }

// ConstantsOn returns the constants of the program on the device of a session, whose bound
// holds for them if it is the first there. It needs the context. Each call needs one of
// releaseConstants.
func (p *Program) ConstantsOn(d *cuda.Device, bound store.Bound) (*DeviceConstants, error) {
	p.deviceLock.Lock()
	defer p.deviceLock.Unlock()
	c := p.onDevice[d]
	if c != nil {
		c.users++
		return c, nil
	}
	c = &DeviceConstants{
		mem: &store.Share{Of: p.Constants.Mem.Of, Bound: bound}, offsets: map[*graph.Data]int64{}, users: 1,
		onHost: map[ExtentOnHost]int64{}, placed: map[int64]bool{},
	}
	planned := plannedConstants(p)
	bytes := int64(0)
	for _, x := range constantsOf(p.Model.Graph, map[*graph.Data]bool{}) {
		size, _ := x.Type.SizeBytes(x.Elements())
		c.offsets[x] = bytes
		if bytes += AlignedConstant(size); planned[x] {
			c.Planned += AlignedConstant(size)
		}
	}
	if bytes > 0 {
		if err := c.mem.Take(bytes); err != nil {
			return nil, err
		}
		var err error
		if c.Block, err = d.Take(bytes, "constants"); err != nil {
			c.mem.Close()
			return nil, err
		}
	}
	if p.onDevice == nil {
		p.onDevice = map[*cuda.Device]*DeviceConstants{}
	}
	p.onDevice[d] = c
	return c, nil
}

// ConstantBytesOn returns the bytes of a program's constants on a device.
func ConstantBytesOn(p *Program) (sum int64) {
	for _, x := range constantsOf(p.Model.Graph, map[*graph.Data]bool{}) {
		size, _ := x.Type.SizeBytes(x.Elements())
		sum = units.Add(sum, AlignedConstant(size))
	}
	return sum
}

// ReleaseConstants ends a session's use of the constants. It needs the context.
func (p *Program) ReleaseConstants(c *DeviceConstants, d *cuda.Device) error {
	if c == nil {
		return nil
	}
	p.deviceLock.Lock()
	defer p.deviceLock.Unlock()
	if c.users--; c.users > 0 {
		return nil
	}
	delete(p.onDevice, d)
	c.mem.Close()
	return c.Block.Free()
}

// plannedConstants returns the constants that the plan places.
func plannedConstants(pr *Program) map[*graph.Data]bool {
	g := pr.Model.Graph
	named := ByName(g)
	planned := map[*graph.Data]bool{}
	for i := range pr.Plan.Buffers {
		b := &pr.Plan.Buffers[i]
		if b.Pool != plan.Resident || b.Kind != plan.KindConstant {
			continue
		}
		for _, name := range b.Tensors {
			if d := constants.Of(g, g.Tensors[named[name]]); d != nil {
				planned[d] = true
			}
		}
	}
	return planned
}

// constantsOf lists the constants of a graph, its bodies and the functions that it calls,
// without strings and those that were seen.
func constantsOf(g *graph.Graph, seen map[*graph.Data]bool) (list []*graph.Data) {
	for _, t := range g.Tensors {
		if d := constants.Of(g, t); d != nil && !seen[d] {
			seen[d] = true
			if _, err := d.Type.SizeBytes(d.Elements()); err == nil && d.Type != graph.String {
				list = append(list, d)
			}
		}
	}
	eachInner(g, func(inner *graph.Graph) { list = append(list, constantsOf(inner, seen)...) })
	return list
}

// FixedBytes is the room for what computeFixed may make constants of, in a graph, its bodies
// and the functions that it calls.
func FixedBytes(g *graph.Graph) (sum int64) {
	for _, t := range g.Tensors {
		if constants.Of(g, t) == nil && IsFew(t) {
			sum += AlignedConstant(t.Bytes)
		}
	}
	eachInner(g, func(inner *graph.Graph) { sum += FixedBytes(inner) })
	return sum
}

// eachInner calls f for the bodies of a graph's nodes and the functions that they call.
func eachInner(g *graph.Graph, f func(inner *graph.Graph)) {
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, body := range a.All() {
				f(body)
			}
		}
		if n.Semantics.Call != nil {
			f(n.Semantics.Call.Body)
		}
	}
}

// Found notes where a constant is on the host.
func (c *DeviceConstants) Found(d *graph.Data, t *kernel.Tensor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if off, is := c.offsets[d]; is && t.Bytes() > 0 {
		c.onHost[ExtentOf(t)] = off
	}
}

// At returns where a constant is on the device, to which it copies it at the first call. It
// reports false if t is none of the program's.
func (c *DeviceConstants) At(t *kernel.Tensor) (p driver.Ptr, is bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	off, is := c.onHost[ExtentOf(t)]
	if !is {
		return 0, false, nil
	}
	p = c.Block.At + driver.Ptr(off)
	if !c.placed[off] {
		if err := driver.UploadNow(p, t.At, int64(t.Bytes())); err != nil {
			return 0, true, err
		}
		mapped.Release(t.At, t.Bytes())
		c.placed[off] = true
	}
	return p, true, nil
}

// Bytes is the size of the block.
func (c *DeviceConstants) Bytes() int64 {
	if c.Block == nil {
		return 0
	}
	return c.Block.Bytes
}

// ExtentOnHost is the bytes of a constant; constants may begin at the same byte of a file.
type ExtentOnHost struct {
	at    unsafe.Pointer
	bytes int
}

func ExtentOf(t *kernel.Tensor) ExtentOnHost { return ExtentOnHost{t.At, t.Bytes()} }

// IsFew reports whether a tensor holds a few integers or bools.
func IsFew(t *graph.Tensor) bool {
	n, ok := t.Type.Elements()
	return ok && n <= ops.FoldLimit && (t.Type.Elem.Integer() || t.Type.Elem == graph.Bool)
}
