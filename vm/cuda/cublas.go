package cuda

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// BLAS is cuBLAS for the work of a queue.
type BLAS struct {
	q       *Queue
	handle  *driver.BLASHandle
	path    string
	version string
	taken   int64 // device memory that its state takes
}

// BLAS opens cuBLAS for the queue at the first call. The error wraps driver.ErrNoBLAS where
// there is none. It needs the context.
func (q *Queue) BLAS() (*BLAS, error) {
	if q.blas == nil && q.noBLAS == nil {
		q.blas, q.noBLAS = q.openBLAS()
	}
	return q.blas, q.noBLAS
}

func (q *Queue) openBLAS() (*BLAS, error) {
	lib, err := q.Device.openBLAS()
	if err != nil {
		return nil, err
	}
	var h *driver.BLASHandle
	taken, err := q.Device.Measure(func() (err error) {
		h, err = lib.NewHandle(q.Stream)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", lib.Path(), err)
	}
	v, err := h.Version()
	if err != nil {
		_ = h.Destroy()
		return nil, fmt.Errorf("%s: %w", lib.Path(), err)
	}
	return &BLAS{q, h, lib.Path(), dotted(v), taken}, nil
}

// dotted is the version of one of NVIDIA's libraries as it is written.
func dotted(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// openBLAS opens the library, once.
func (d *Device) openBLAS() (*driver.BLAS, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blas == nil && d.noBLAS == nil {
		d.blas, d.noBLAS = driver.OpenBLAS(d.version)
	}
	return d.blas, d.noBLAS
}

// Version is the version of the library, such as 13.1.0.
func (b *BLAS) Version() string { return b.version }

// Path is the file of the library.
func (b *BLAS) Path() string { return b.path }

// close frees the library's state.
func (b *BLAS) close() error {
	if b == nil {
		return nil
	}
	return b.handle.Destroy()
}

// WorkspaceBytes is the size of the workspace that cuBLAS would allocate for itself on the
// device, and that its products are given instead.
func (b *BLAS) WorkspaceBytes() int64 {
	if b.q.Device.arch >= 90 {
		return 32 << 20
	}
	return 4 << 20
}

// Product is a product of cuBLAS that can be put on the queue's stream any number of times.
type Product struct {
	handle *driver.BLASHandle
	ready  *driver.PreparedProduct
	work   *uint64 // the address of the workspace, once it is known
	bytes  int64
}

// Product prepares a product with a workspace of its own while it runs. It can run after
// the next call of Ready.
func (b *BLAS) Product(p *driver.BLASProduct, alpha, beta float32, work Room) (*Product, error) {
	at, err := b.q.params.take(16)
	if err != nil {
		return nil, err
	}
	factors := (*[2]float32)(at)
	factors[0], factors[1] = alpha, beta
	r := &Product{
		handle: b.handle, ready: b.handle.Prepare(p, at, unsafe.Pointer(&factors[1])),
		work: (*uint64)(unsafe.Add(at, 8)), bytes: work.Bytes,
	}
	b.q.lodge(r.work, work)
	return r, nil
}

// Run puts the product on the queue's stream. It needs the context.
func (p *Product) Run() error {
	if err := p.handle.SetWorkspace(driver.Ptr(*p.work), p.bytes); err != nil {
		return err
	}
	return p.ready.Run()
}
