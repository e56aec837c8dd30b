package cu

import (
	"errors"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// ContextFlags say how a thread waits for a device. They have no meaning for a primary
// context, which exists already.
type ContextFlags uint

// SchedAuto is the driver's choice.
const SchedAuto ContextFlags = 0

// CUContext is a context of the driver.
type CUContext struct{ context driver.Context }

// MakeContext returns the device's primary context and makes it current on this thread.
// Ctx.Close gives it back.
func (d Device) MakeContext(ContextFlags) (CUContext, error) {
	c, err := driver.Device(d).RetainPrimary()
	if err != nil {
		return CUContext{}, err
	}
	if err := c.SetCurrent(); err != nil {
		return CUContext{}, errors.Join(err, driver.Device(d).ReleasePrimary())
	}
	return CUContext{c}, nil
}

// SetCurrentContext makes a context current on this thread.
func SetCurrentContext(c CUContext) error { return c.context.SetCurrent() }

// Context is a context and the thread that serves it: an engine of gorgonia runs the
// functions that it receives from Work and sends their results to ErrChan.
type Context interface {
	CUDAContext() CUContext
	Do(f func() error) error // runs a function on that thread
	Work() <-chan func() error
	ErrChan() chan error
	Close() error
}

// Ctx is the one kind of Context.
type Ctx struct {
	device  Device
	context CUContext
	work    chan func() error
	results chan error
}

// CtxFromCUContext returns the Context of what MakeContext returned.
func CtxFromCUContext(d Device, c CUContext, _ ContextFlags) *Ctx {
	return &Ctx{d, c, make(chan func() error), make(chan error)}
}

// CUDAContext returns the driver's context.
func (c *Ctx) CUDAContext() CUContext { return c.context }

// Do waits until the engine has run a function, and returns its error.
func (c *Ctx) Do(f func() error) error {
	c.work <- f
	return <-c.results
}

// Work is where the engine receives functions.
func (c *Ctx) Work() <-chan func() error { return c.work }

// ErrChan is where the engine sends their results.
func (c *Ctx) ErrChan() chan error { return c.results }

// Close gives the primary context back. It stays as long as others use it.
func (c *Ctx) Close() error { return driver.Device(c.device).ReleasePrimary() }
