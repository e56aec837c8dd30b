// Package gpu runs operators on a GPU. It has one table entry (Row) per operator, in a file
// named as in package ops, which a test of that package holds it to. What several rows share
// has files of its own. The CUDA C is in the package vm/cuda/kernels, in one file for each
// program that is compiled alone: Node.kernel names it where a row launches it.
//
// The rows of elementwise operators give the computation of one element (Row.Element).
// The kernel around it is generated: for a node, or for a group of nodes that run as one
// (Kernels.PrepareGroup).
//
// A row is prepared once for the shapes, dtypes and attributes of a node, and appends
// the launches of the node, which run at every step. Tensors are known by dtype, shape
// and address; the session says where on the device an address lies. Nothing depends
// on timing or on an address beyond its alignment, so the bits of a result depend only
// on the inputs, the shapes and the device.
package gpu

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/kernels"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// ErrUnsupported is the error of a node that has no device kernel, or none for its
// dtypes or attributes: it runs on the host.
var ErrUnsupported = errors.New("no device kernel")

// unsupportedf returns an ErrUnsupported for what the format describes.
func unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w for "+format, append([]any{ErrUnsupported}, args...)...)
}

// refused is an error of what rows share with the host's kernels: what those cannot do is
// left to them.
func refused(err error) error {
	if errors.Is(err, form.ErrUnsupported) {
		return unsupportedf("%v", err)
	}
	return err
}

// Row runs one operator, in all its opset versions.
type Row struct {
	Name string
	// Make appends the launches of a node. It fails with an error that wraps
	// ErrUnsupported, or form.ErrDataDependent if it needs elements that have not
	// been computed.
	Make func(n *Node) error
	// Element, for elementwise operators, adds the computation of one element of each
	// output to an expression. Make may be nil then.
	Element func(n *Node, e *expression) error
}

// make appends the launches of a node.
func (r *Row) make(n *Node) error {
	if r.Make != nil {
		return r.Make(n)
	}
	return r.alone(n)
}

// alone appends the launch of a kernel that computes nothing but an elementwise node.
func (r *Row) alone(n *Node) error {
	e := newExpression(n, n.Out[0].Shape)
	if err := e.add(r, n); err != nil {
		return err
	}
	for _, t := range n.Out {
		if t != nil {
			e.store(t)
		}
	}
	return e.emit()
}

// rows are the operators, by domain and name.
var rows = map[string]*Row{}

func init() {
	for _, f := range families {
		for i := range f.rows {
			r := &f.rows[i]
			rows[f.domain+":"+r.Name] = r
		}
	}
}

// Lookup returns the row of an operator, or nil if it has none.
func Lookup(domain, op string) *Row { return rows[domain+":"+op] }

// Kernels prepares the nodes of a session.
type Kernels struct {
	Queue *cuda.Queue
	// At returns where on the device a tensor lies.
	At func(t *form.Tensor) (driver.Ptr, error)
	// OwnProducts keeps products in kernels of this package where there is cuBLAS, too.
	OwnProducts bool
	// OwnConvolutions keeps convolutions in kernels of this package where there is cuDNN, too.
	OwnConvolutions bool
	// LibraryFloat32 has cuDNN compute convolutions of float32, too, and not only those of 16
	// bits.
	LibraryFloat32 bool
	// TF32 has products and convolutions of float32 round their operands to TF32.
	TF32 bool

	plain     bool                    // no kernels for tensor cores: for tests
	served    int                     // nodes whose product cuBLAS computes
	noBLAS    error                   // why there is no cuBLAS, if a product asked for it
	convolved int                     // nodes that cuDNN computes
	noDNN     error                   // why there is no cuDNN, if a convolution asked for it
	refused   map[string]int          // convolutions that cuDNN does not compute, by the reason
	computed  map[Arithmetic]int      // nodes with products or convolutions
	sources   map[string]*cuda.Source // by file and definitions
	generated *generated              // elementwise kernels that are not ready yet
	checked   []checked               // nodes that can report faults
	word      *cuda.Block             // where they do; nil: nowhere
	seeds     seeds
}

// Workspace is device memory that a node has for itself while it runs; none if Bytes is 0.
type Workspace struct {
	At    driver.Ptr
	Bytes int64
}

// Prepare returns the function that puts a node's launches on the queue. It can run
// after the next call of Ready. It fails with ErrUnsupported if the node has no device
// kernel. The node's scratch lies in the queue's.
func (k *Kernels) Prepare(c *form.Call) (form.Run, error) {
	run, _, err := k.PrepareIn(c, Workspace{})
	return run, err
}

// PrepareIn is Prepare of a node whose scratch lies in a workspace, as far as it fits
// there; what does not fit lies in the queue's. scratch is the size of a workspace that
// all of it fits in wherever it begins; 0 if the node takes no scratch.
func (k *Kernels) PrepareIn(c *form.Call, w Workspace) (run form.Run, scratch int64, err error) {
	r := Lookup(c.Node.Domain, c.Node.Op)
	if r == nil {
		return nil, 0, ErrUnsupported
	}
	defer func() {
		if p := recover(); p != nil {
			if err = form.Refused(p); err == nil { // what rows share with the host's kernels may refuse a node
				panic(p)
			}
		}
	}()
	n := &Node{Call: c, k: k, space: w.aligned()}
	if err := r.make(n); err != nil {
		return nil, 0, err
	}
	if n.room > 0 {
		scratch = n.room + scratchAlign - 1
	}
	return n.run, scratch, nil
}

// scratchAlign is what the addresses of scratch are multiples of.
const scratchAlign = 256

// aligned is the part of a workspace that begins at a multiple of scratchAlign.
func (w Workspace) aligned() Workspace {
	skip := int64(-w.At & (scratchAlign - 1))
	if w.Bytes <= skip {
		return Workspace{}
	}
	return Workspace{w.At + driver.Ptr(skip), w.Bytes - skip}
}

// Ready makes all prepared nodes ready to run. take is called before device memory is
// allocated, and can refuse it. It needs the context.
func (k *Kernels) Ready(take func(bytes int64) error) error {
	k.generated.finish()
	k.generated = nil
	return k.Queue.Ready(take)
}

// Node is a node that is being prepared, and then its launches.
type Node struct {
	*form.Call
	k     *Kernels
	work  []func() error
	space Workspace // of the node
	room  int64     // bytes of scratch, so far
}

// run puts the node's work on the queue.
func (n *Node) run(*work.Pool) error {
	for _, f := range n.work {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// at returns where on the device a tensor lies; 0 for an omitted one.
func (n *Node) at(t *form.Tensor) (driver.Ptr, error) {
	if t == nil {
		return 0, nil
	}
	if p, is := n.k.seeds.at[t]; is {
		return p, nil
	}
	return n.k.At(t)
}

// addresses returns where tensors lie on the device.
func (n *Node) addresses(list ...*form.Tensor) ([]driver.Ptr, error) {
	out := make([]driver.Ptr, len(list))
	for i, t := range list {
		var err error
		if out[i], err = n.at(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// source returns a file of the package kernels, compiled with definitions such as
// "ELEMENT=float".
func (k *Kernels) source(file string, definitions ...string) *cuda.Source {
	key := file
	var options []string
	for _, d := range definitions {
		key += " " + d
		options = append(options, "-D"+d)
	}
	s := k.sources[key]
	if s == nil {
		program := kernels.Text(file)
		s = &cuda.Source{Name: file, Text: program, Headers: kernels.Headers(program), Options: options}
		if k.sources == nil {
			k.sources = map[string]*cuda.Source{}
		}
		k.sources[key] = s
	}
	return s
}

// kernel returns a kernel of a file that is compiled with definitions.
func (n *Node) kernel(file, name string, definitions ...string) cuda.Kernel {
	return cuda.Kernel{Source: n.k.source(file, definitions...), Name: name}
}

// launch appends a launch of a kernel with threads in a row: blocks blocks of threads
// threads.
func (n *Node) launch(k cuda.Kernel, blocks, threads int, params ...any) error {
	return n.launch3(k, driver.Dim3{X: uint32(blocks), Y: 1, Z: 1}, driver.Dim3{X: uint32(threads), Y: 1, Z: 1}, 0, params...)
}

// launch3 appends a launch of a kernel over a grid of blocks of threads, with bytes of
// dynamic shared memory.
func (n *Node) launch3(k cuda.Kernel, grid, block driver.Dim3, shared int, params ...any) error {
	l, err := n.k.Queue.Launch(k, grid, block, shared, params...)
	if err != nil {
		return err
	}
	n.work = append(n.work, l.Run)
	return nil
}

// copy appends a copy within the device's memory.
func (n *Node) copy(to, from driver.Ptr, bytes int64) {
	if to == from || bytes == 0 {
		return
	}
	n.work = append(n.work, func() error { return driver.Copy(to, from, bytes, n.k.Queue.Stream) })
}

// zero appends the zeroing of device memory.
func (n *Node) zero(at driver.Ptr, bytes int64) {
	if bytes > 0 {
		n.work = append(n.work, func() error { return driver.Fill8(at, 0, bytes, n.k.Queue.Stream) })
	}
}

// scratch asks for bytes of scratch, which the node has for itself while it runs. Its
// content is undefined at first, its address a multiple of 256.
func (n *Node) scratch(bytes int64) cuda.Room {
	r := cuda.Room{Off: n.room, Bytes: bytes}
	if n.room+bytes <= n.space.Bytes {
		r.Base = n.space.At
	}
	n.room += (bytes + scratchAlign - 1) &^ (scratchAlign - 1)
	return r
}

// threadsPerBlock is the size of a block of a kernel in which each thread works alone.
const threadsPerBlock = 256

// blocksFor returns the number of blocks for n elements, of which each thread takes one
// or, of very many, several: kernels stride over them.
func blocksFor(n int) int { return max(1, min((n+threadsPerBlock-1)/threadsPerBlock, 1<<16)) }

// cType names the dtypes in the kernels.
var cType = map[graph.DType]string{
	graph.Float32: "float", graph.Float64: "double", graph.Float16: "f16", graph.BFloat16: "bf16",
	graph.Int8: "i8", graph.Int16: "i16", graph.Int32: "int", graph.Int64: "i64",
	graph.Uint8: "u8", graph.Uint16: "u16", graph.Uint32: "u32", graph.Uint64: "u64", graph.Bool: "bool",
}

// typeOf returns the name of a tensor's dtype in the kernels.
func typeOf(t *form.Tensor) (string, error) {
	name, ok := cType[t.Type]
	if !ok {
		return "", unsupportedf("dtype %v", t.Type)
	}
	return name, nil
}

// isFloat reports whether a tensor holds reals.
func isFloat(t *form.Tensor) bool {
	return slices.Contains([]graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16}, t.Type)
}
