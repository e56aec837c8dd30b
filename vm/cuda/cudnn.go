package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// MostConvolutionScratch bounds the workspace of a convolution by cuDNN, in bytes.
const MostConvolutionScratch = 256 << 20

// DNN is cuDNN for the work of a queue.
type DNN struct {
	q       *Queue
	handle  *driver.DNNHandle
	path    string
	version string
	taken   int64 // device memory that its state takes
	list    []*driver.DNNConvolution
}

// DNN opens cuDNN for the queue at the first call. The error wraps driver.ErrNoDNN where
// there is none. It needs the context.
func (q *Queue) DNN() (*DNN, error) {
	if q.dnn == nil && q.noDNN == nil {
		q.dnn, q.noDNN = q.openDNN()
	}
	return q.dnn, q.noDNN
}

func (q *Queue) openDNN() (*DNN, error) {
	lib, err := q.Device.openDNN()
	if err != nil {
		return nil, err
	}
	var h *driver.DNNHandle
	taken, err := q.Device.Measure(func() (err error) {
		h, err = lib.NewHandle(q.Stream)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", lib.Path(), err)
	}
	return &DNN{q: q, handle: h, path: lib.Path(), version: dotted(lib.Version()), taken: taken}, nil
}

// openDNN opens the library, once.
func (d *Device) openDNN() (*driver.DNN, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dnn == nil && d.noDNN == nil {
		d.dnn, d.noDNN = driver.OpenDNN(d.version)
	}
	return d.dnn, d.noDNN
}

// Version is the version of the library, such as 9.28.1.
func (d *DNN) Version() string { return d.version }

// Path is the file of the library.
func (d *DNN) Path() string { return d.path }

// close frees the library's descriptors and state.
func (d *DNN) close() error {
	if d == nil {
		return nil
	}
	var list []error
	for _, c := range d.list {
		list = append(list, c.Destroy())
	}
	return errors.Join(append(list, d.handle.Destroy())...)
}

// Convolution is a convolution of cuDNN that can be put on the queue's stream any number of
// times.
type Convolution struct {
	q     *Queue
	ready *driver.PreparedConvolution
	work  *uint64 // the address of the workspace, once it is known
	bytes int64
}

// errNoAlgorithm is the error of a convolution for which cuDNN lists no algorithm that
// onnxmem takes.
var errNoAlgorithm = errors.New("no algorithm that is deterministic and takes at most 256 MiB")

// Convolution prepares a convolution with alpha 1 and beta 0. For the operands, first and
// second, see driver.DNNConvolution.Prepare; all addresses are multiples of 16. The
// algorithm is the first of cuDNN's list, which rests on the shapes and the device alone,
// that is deterministic, has sums of float32, without TF32 unless the shape asks for it, and needs no workspace beyond
// MostConvolutionScratch. The convolution lives as long as the queue.
func (d *DNN) Convolution(s *driver.DNNShape, first, second, out driver.Ptr) (*Convolution, error) {
	c, err := d.handle.Describe(s)
	if err != nil {
		return nil, err
	}
	a, bytes, err := choose(c, s)
	if err != nil {
		return nil, errors.Join(err, c.Destroy())
	}
	at, err := d.q.params.take(16)
	if err != nil {
		return nil, errors.Join(err, c.Destroy())
	}
	d.list = append(d.list, c)
	factors := (*[2]float32)(at)
	factors[0], factors[1] = 1, 0
	return &Convolution{
		q: d.q, ready: c.Prepare(a, first, second, out, at, unsafe.Pointer(&factors[1]), bytes),
		work: (*uint64)(unsafe.Add(at, 8)), bytes: bytes,
	}, nil
}

// choose sets the arithmetic of a convolution and chooses its algorithm. float32 must not
// become TF32 unless that was asked for, and never float16. Products of 16-bit elements are
// exact in float32, with tensor cores, too.
func choose(c *driver.DNNConvolution, s *driver.DNNShape) (driver.DNNAlgorithm, int64, error) {
	m := driver.DNNAnyMath
	if s.Type == driver.DNNFloat32 && !s.TF32 {
		m = driver.DNNFMA
	}
	if err := c.SetMath(m); err != nil {
		return driver.DNNAlgorithm{}, 0, err
	}
	list, err := c.Algorithms()
	if err != nil {
		return driver.DNNAlgorithm{}, 0, err
	}
	for _, a := range list {
		switch {
		case !a.Deterministic || a.Math == driver.DNNConverting:
			continue
		case m == driver.DNNFMA && a.Math == driver.DNNTensorCores:
			continue
		case a.Fourier: // its rounding depends on the largest element of an image
			continue
		case a.Winograd && m != driver.DNNFMA: // what it transforms would be rounded to fewer bits
			continue
		}
		if m != driver.DNNFMA { // what is listed is for the arithmetic that the list says
			if err := c.SetMath(a.Math); err != nil {
				return driver.DNNAlgorithm{}, 0, err
			}
		}
		if bytes, err := c.WorkspaceBytes(a); err == nil && bytes <= MostConvolutionScratch {
			return a, bytes, nil
		}
	}
	return driver.DNNAlgorithm{}, 0, errNoAlgorithm
}

// WorkspaceBytes is the size of the workspace that the convolution needs while it runs.
func (c *Convolution) WorkspaceBytes() int64 { return c.bytes }

// Use gives the convolution its workspace. It can run after the next call of Ready.
func (c *Convolution) Use(work Room) { c.q.lodge(c.work, work) }

// Run puts the convolution on the queue's stream. It needs the context.
func (c *Convolution) Run() error { return c.ready.Run(driver.Ptr(*c.work)) }
