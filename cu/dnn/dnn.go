// Package cudnn stands in for gorgonia.org/cu/dnn, NVIDIA's library of layers, of which
// gorgonia's engine only makes and closes a context.
package cudnn

// Context is the library's context.
type Context struct{}

// NewContext returns a context that nothing uses.
func NewContext() *Context { return &Context{} }

// Close does nothing.
func (*Context) Close() error { return nil }
