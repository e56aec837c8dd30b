package cuda

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Kernel is a function of a source.
type Kernel struct {
	Source *Source
	Name   string
}

// Room is a part of some scratch, as a parameter: of that at Base, or, if Base is 0, of
// the queue's, whose address is known when the launches are made ready. Every launch may
// overwrite all of the queue's scratch.
type Room struct {
	Base       driver.Ptr
	Off, Bytes int64
}

// Launch is a kernel with its parameters, which can be put on its queue's stream any
// number of times without an allocation.
type Launch struct {
	q           *Queue
	kernel      Kernel
	grid, block driver.Dim3
	shared      int
	sizes       []int // of the parameters, in bytes
	params      unsafe.Pointer
	ready       driver.Launch
}

// Launch prepares a kernel over a grid of blocks with the given bytes of dynamic shared
// memory. Parameters are numbers of fixed size, driver.Ptr, Room, Table, and structs of
// numbers laid out as in C. It can run after the next call of Ready.
func (q *Queue) Launch(k Kernel, grid, block driver.Dim3, shared int, params ...any) (*Launch, error) {
	if err := q.Device.limits.check(grid, block, shared); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	l := &Launch{q: q, kernel: k, grid: grid, block: block, shared: shared}
	if err := l.write(params); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	q.pending = append(q.pending, l)
	return l, nil
}

// check fails unless the device can launch such a grid.
func (l *limits) check(grid, block driver.Dim3, shared int) error {
	if over(grid, l.grid) || over(block, l.block) || int64(block.X)*int64(block.Y)*int64(block.Z) > int64(l.threads) {
		return fmt.Errorf("a grid of %v blocks of %v threads: expected at most %v of %v, and %d threads", grid, block, l.grid, l.block, l.threads)
	}
	if shared > max(l.shared, l.most) {
		return fmt.Errorf("%d bytes of shared memory: expected at most %d", shared, max(l.shared, l.most))
	}
	return nil
}

// over reports whether a size is 0 or beyond a limit.
func over(n, most driver.Dim3) bool {
	return n.X == 0 || n.Y == 0 || n.Z == 0 || n.X > most.X || n.Y > most.Y || n.Z > most.Z
}

// write copies the parameters to memory that the driver reads at every launch.
func (l *Launch) write(params []any) error {
	if len(params) == 0 {
		return nil
	}
	list, err := l.q.params.take(len(params) * 8)
	if err != nil {
		return err
	}
	l.params = list
	for i, p := range params {
		v := reflect.ValueOf(p)
		size := int(v.Type().Size())
		r, isRoom := p.(Room)
		t, isTable := p.(Table)
		if isRoom || isTable {
			size = 8
		}
		at, err := l.q.params.take(size)
		if err != nil {
			return err
		}
		switch {
		case isRoom:
			l.q.lodge((*uint64)(at), r)
		case isTable:
			l.q.tables.pending = append(l.q.tables.pending, pendingTable{(*uint64)(at), t})
		default:
			reflect.NewAt(v.Type(), at).Elem().Set(v)
		}
		*(*unsafe.Pointer)(unsafe.Add(list, 8*i)) = at
		l.sizes = append(l.sizes, size)
	}
	return nil
}

// Set changes a parameter, to a value of the same type. Launches that were put on the stream
// keep the value that they had then.
func (l *Launch) Set(i int, value any) {
	at := *(*unsafe.Pointer)(unsafe.Add(l.params, 8*i))
	v := reflect.ValueOf(value)
	reflect.NewAt(v.Type(), at).Elem().Set(v)
}

// SetBlocks changes the number of blocks along x of a launch that is ready: at least 1, and
// at most as many as it was made with.
func (l *Launch) SetBlocks(x int) { l.ready.SetBlocks(x) }

// resolve finds the kernel's function, and checks the sizes of the parameters.
func (l *Launch) resolve(m *module) error {
	f, err := m.function(l.kernel.Name)
	if err != nil {
		return err
	}
	if err := f.CheckParams(l.sizes); err != nil {
		return err
	}
	if l.shared > l.q.Device.limits.shared {
		if err := f.AllowShared(l.shared); err != nil {
			return err
		}
	}
	l.ready = driver.PrepareLaunch(f, l.grid, l.block, l.shared, l.params)
	return nil
}

// Run puts the kernel on the queue's stream. It needs the context.
func (l *Launch) Run() error { return l.ready.Run(l.q.Stream) }
