package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Queue is the order of a session's work on a device: a stream, and the launches that
// are put on it again and again. It takes all its memory when the launches are made
// ready.
type Queue struct {
	Device *Device
	Stream driver.Stream

	params  parameters
	pending []*Launch
	rooms   []room
	tables  tables
	scratch *Block
	largest int64 // bytes of scratch that a launch asks for

	blas   *BLAS // nil: not asked for, or not there
	noBLAS error // why it is not there
	dnn    *DNN  // likewise
	noDNN  error
}

// room is a parameter that is an address in the scratch.
type room struct {
	param *uint64
	off   int64
}

// lodge sets a parameter to the address of a room, as soon as it is known.
func (q *Queue) lodge(param *uint64, r Room) {
	if r.Base != 0 {
		*param = uint64(r.Base) + uint64(r.Off)
		return
	}
	q.rooms = append(q.rooms, room{param, r.Off})
	q.largest = max(q.largest, r.Off+r.Bytes)
}

// NewQueue creates a queue. It needs the context.
func (d *Device) NewQueue() (*Queue, error) {
	s, err := driver.NewStream()
	if err != nil {
		return nil, err
	}
	return &Queue{Device: d, Stream: s}, nil
}

// Close waits for the queue's work and frees its memory. It needs the context.
func (q *Queue) Close() error {
	return errors.Join(q.Stream.Synchronize(), q.blas.close(), q.dnn.close(), q.scratch.Free(), q.tables.free(), q.Stream.Destroy(), q.params.free())
}

// ScratchBytes is the size of the scratch that launches share.
func (q *Queue) ScratchBytes() int64 { return q.largest }

// Taken returns the device memory that the driver took for the scratch and the tables, and
// for the states of cuBLAS and cuDNN.
func (q *Queue) Taken() (scratch, tables, libraries int64) {
	if q.scratch != nil {
		scratch = q.scratch.Taken
	}
	for _, b := range q.tables.blocks {
		tables += b.Taken
	}
	if q.blas != nil {
		libraries = q.blas.taken
	}
	if q.dnn != nil {
		libraries += q.dnn.taken
	}
	return scratch, tables, libraries
}

// TableBytes is the size of the tables that launches read.
func (q *Queue) TableBytes() int64 { return q.tables.bytes() }

// Ready compiles and loads what the launches prepared since the last call need, copies
// their tables, and allocates their scratch: afterwards they can run. take is called before device memory
// is allocated, and can refuse it. It needs the context.
func (q *Queue) Ready(take func(bytes int64) error) error {
	if err := q.load(); err != nil {
		return err
	}
	if err := q.tables.place(q.Device, take); err != nil {
		return err
	}
	return q.growScratch(take)
}

// load compiles and loads what the pending launches need.
func (q *Queue) load() error {
	taken, err := q.Device.Measure(func() error {
		modules, err := q.Device.modulesOf(q.Sources())
		if err != nil {
			return err
		}
		for _, l := range q.pending {
			if err := l.resolve(modules[l.kernel.Source]); err != nil {
				return fmt.Errorf("kernel %s of %s: %w", l.kernel.Name, l.kernel.Source.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.pending = q.pending[:0]
	q.Device.tookForKernels(taken)
	return nil
}

// Sources lists the sources of the launches that are not ready yet.
func (q *Queue) Sources() (sources []*Source) {
	for _, l := range q.pending {
		if !slices.Contains(sources, l.kernel.Source) {
			sources = append(sources, l.kernel.Source)
		}
	}
	return sources
}

// growScratch makes the scratch as large as the launches ask for, and tells them its
// address.
func (q *Queue) growScratch(take func(bytes int64) error) error {
	if q.largest > 0 && (q.scratch == nil || q.scratch.Bytes < q.largest) {
		has := int64(0)
		if q.scratch != nil {
			has = q.scratch.Bytes
		}
		if err := take(q.largest - has); err != nil {
			return err
		}
		if err := errors.Join(q.Stream.Synchronize(), q.scratch.Free()); err != nil {
			return err
		}
		b, err := q.Device.Take(q.largest, "scratch")
		if err != nil {
			return err
		}
		q.scratch = b
	}
	if q.scratch == nil {
		return nil // rooms without bytes have no address
	}
	for _, r := range q.rooms {
		*r.param = uint64(q.scratch.At) + uint64(r.off)
	}
	return nil
}

// Scratch returns the address of the scratch; 0 if no launch needs any.
func (q *Queue) Scratch() *Block { return q.scratch }
