package driver

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"unsafe"
)

// DNN is an opened cuDNN.
type DNN struct {
	path    string
	entries struct {
		Create, Destroy, SetStream, GetVersion, GetCudartVersion, GetLastErrorString,
		CreateTensorDescriptor, DestroyTensorDescriptor, SetTensorNdDescriptor,
		CreateFilterDescriptor, DestroyFilterDescriptor, SetFilterNdDescriptor,
		CreateConvolutionDescriptor, DestroyConvolutionDescriptor,
		SetConvolutionNdDescriptor, SetConvolutionGroupCount, SetConvolutionMathType,
		GetConvolutionForwardAlgorithm_v7, GetConvolutionForwardWorkspaceSize, ConvolutionForward,
		GetConvolutionBackwardDataAlgorithm_v7, GetConvolutionBackwardDataWorkspaceSize, ConvolutionBackwardData,
		GetConvolutionBackwardFilterAlgorithm_v7, GetConvolutionBackwardFilterWorkspaceSize, ConvolutionBackwardFilter uintptr
	}
}

// OpenDNN opens cuDNN. newest is the version of CUDA that the driver supports (Version), or
// 0: a library that was made for a later major version is not opened. The error wraps
// ErrNoDNN if there is none, if it lacks a function, or if ONNXMEM_CUDNN is "off".
func OpenDNN(newest int) (*DNN, error) {
	if os.Getenv("ONNXMEM_CUDNN") == "off" {
		return nil, fmt.Errorf("%w: ONNXMEM_CUDNN is off", ErrNoDNN)
	}
	path, handle, err := dnnLibrary.open(newest)
	if err != nil {
		return nil, err
	}
	d := &DNN{path: path}
	if err := bind(handle, "cudnn", &d.entries); err != nil {
		return nil, fmt.Errorf("%w that onnxmem can use: %s: %w", ErrNoDNN, path, err)
	}
	if v := int(call(d.entries.GetCudartVersion)); newest != 0 && v/1000 > newest/1000 {
		return nil, fmt.Errorf("%w that the driver can use: %s is made for CUDA %d, the driver supports %d", ErrNoDNN, path, v/1000, newest/1000)
	}
	// Some of its algorithms multiply by cuBLAS, which it looks for by name: an opened library
	// is found. It does without them where there is none.
	_, _, _ = blasLibrary.open(newest)
	return d, nil
}

// Path returns the path of the library.
func (d *DNN) Path() string { return d.path }

// Version returns the version of the library: 10000 times the major version, plus 100 times
// the minor one, plus the patch.
func (d *DNN) Version() int { return int(call(d.entries.GetVersion)) }

// check makes an error of a status of cuDNN that is not success.
func (d *DNN) check(what string, s Status) error {
	if s == 0 {
		return nil
	}
	return d.failed(what, s)
}

// failed asks cuDNN what went wrong in the last call of this thread.
func (d *DNN) failed(what string, s Status) error {
	var text [512]byte
	call(d.entries.GetLastErrorString, uintptr(unsafe.Pointer(&text)), uintptr(len(text)-1))
	detail, _, _ := strings.Cut(strings.TrimSpace(goString(&text[0])), "\n")
	return &DNNError{Error{Call: "cudnn" + what, Status: s, Name: s.dnnName()}, detail}
}

// dnnName is cuDNN's name of a status, or that of its category: the thousands.
func (s Status) dnnName() string {
	names := map[Status]string{
		1001: "CUDNN_STATUS_NOT_INITIALIZED", 1002: "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", 1008: "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
		3002: "CUDNN_STATUS_NOT_SUPPORTED_SHAPE", 3007: "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH",
		4004: "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
		2000: "CUDNN_STATUS_BAD_PARAM", 3000: "CUDNN_STATUS_NOT_SUPPORTED", 4000: "CUDNN_STATUS_INTERNAL_ERROR", 5000: "CUDNN_STATUS_EXECUTION_FAILED",
	}
	if name := names[s]; name != "" {
		return name
	}
	return names[s/1000*1000]
}

// DNNError is a call of cuDNN that failed. Its statuses are not those of the driver.
type DNNError struct {
	e      Error
	detail string // what cuDNN says of it
}

func (e *DNNError) Error() string {
	if e.detail == "" {
		return e.e.Error()
	}
	return e.e.Error() + ": " + e.detail
}

// Short is the error without what cuDNN says of the one call.
func (e *DNNError) Short() string { return e.e.Error() }

// DNNHandle is the state of the library for the work of one stream.
type DNNHandle struct {
	d  *DNN
	at uintptr
}

// NewHandle creates the state for a stream, in the current context.
func (d *DNN) NewHandle(s Stream) (*DNNHandle, error) {
	h := &DNNHandle{d: d}
	if err := d.check("Create", call(d.entries.Create, uintptr(unsafe.Pointer(&h.at)))); err != nil {
		return nil, err
	}
	if err := d.check("SetStream", call(d.entries.SetStream, h.at, uintptr(s))); err != nil {
		return nil, errors.Join(err, h.Destroy())
	}
	return h, nil
}

// Destroy frees the state.
func (h *DNNHandle) Destroy() error { return h.d.check("Destroy", call(h.d.entries.Destroy, h.at)) }

// DNNType is the type of elements, as cuDNN numbers them.
type DNNType int32

// The types of elements.
const (
	DNNFloat32  DNNType = 0
	DNNFloat16  DNNType = 2
	DNNBFloat16 DNNType = 9
)

// DNNMath is the arithmetic of a convolution. Sums are of float32 in either.
type DNNMath int32

// The kinds of arithmetic.
const (
	DNNAnyMath     DNNMath = 0 // cuDNN's choice: with TF32 for float32
	DNNTensorCores DNNMath = 1 // with TF32 for float32
	DNNConverting  DNNMath = 2 // operands of float32 become float16
	DNNFMA         DNNMath = 3 // without tensor cores
)

// DNNPass is what a convolution computes from the other two of its image, weights and
// result.
type DNNPass int

// The passes.
const (
	DNNForward        DNNPass = iota // the result, from image and weights
	DNNBackwardData                  // the gradient of the image, from weights and the result's
	DNNBackwardFilter                // the gradient of the weights, from image and the result's
)

var dnnPassNames = [...]string{"ConvolutionForward", "ConvolutionBackwardData", "ConvolutionBackwardFilter"}

// String is the name of the pass's function, without "cudnn".
func (p DNNPass) String() string { return dnnPassNames[p] }

// The numbers of algorithms, by pass: those whose sums are atomic, and so not reproducible,
// and those that multiply in a transformed space.
var dnnAtomic, dnnFourier, dnnWinograd = [3][]int32{{}, {0}, {0, 3}}, [3][]int32{{4, 5}, {2, 3}, {2, 6}}, [3][]int32{{6, 7}, {4, 5}, {4, 5}}

// DNNShape is a convolution: a cross-correlation of dense tensors of two or three spatial
// axes. Image and Result are images x channels x axes, Weights the channels of the result x
// those of a group of the image x axes. Padding is the same at both ends of an axis.
type DNNShape struct {
	Pass                   DNNPass
	Type                   DNNType
	Groups                 int32
	Image, Weights, Result []int32
	Pad, Stride, Dilation  []int32
	TF32                   bool // the operands, which are DNNFloat32, are rounded to TF32
}

// DNNConvolution is a convolution that is described to cuDNN.
type DNNConvolution struct {
	h                        *DNNHandle
	pass                     DNNPass
	image, weights, result   uintptr
	sliding                  uintptr
	first, second, out       *uintptr // of image, weights and result
	choose, workspace, start uintptr  // the pass's functions
}

// Describe makes the descriptors of a convolution. They need no GPU.
func (h *DNNHandle) Describe(s *DNNShape) (*DNNConvolution, error) {
	e := &h.d.entries
	c := &DNNConvolution{h: h, pass: s.Pass}
	switch s.Pass {
	case DNNForward:
		c.first, c.second, c.out = &c.image, &c.weights, &c.result
		c.choose, c.workspace, c.start = e.GetConvolutionForwardAlgorithm_v7, e.GetConvolutionForwardWorkspaceSize, e.ConvolutionForward
	case DNNBackwardData:
		c.first, c.second, c.out = &c.weights, &c.result, &c.image
		c.choose, c.workspace, c.start = e.GetConvolutionBackwardDataAlgorithm_v7, e.GetConvolutionBackwardDataWorkspaceSize, e.ConvolutionBackwardData
	case DNNBackwardFilter:
		c.first, c.second, c.out = &c.image, &c.result, &c.weights
		c.choose, c.workspace, c.start = e.GetConvolutionBackwardFilterAlgorithm_v7, e.GetConvolutionBackwardFilterWorkspaceSize, e.ConvolutionBackwardFilter
	}
	if err := c.describe(s); err != nil {
		return nil, errors.Join(err, c.Destroy())
	}
	return c, nil
}

func (c *DNNConvolution) describe(s *DNNShape) error {
	const (
		channelsFirst    = 0 // CUDNN_TENSOR_NCHW
		crossCorrelation = 1
	)
	d := c.h.d
	e := &d.entries
	for _, t := range []struct {
		at   *uintptr
		dims []int32
	}{{&c.image, s.Image}, {&c.result, s.Result}} {
		if err := d.check("CreateTensorDescriptor", call(e.CreateTensorDescriptor, uintptr(unsafe.Pointer(t.at)))); err != nil {
			return err
		}
		steps := make([]int32, len(t.dims))
		step := int32(1)
		for i := len(steps) - 1; i >= 0; i-- {
			steps[i] = step
			step *= t.dims[i]
		}
		if err := d.check("SetTensorNdDescriptor", call(e.SetTensorNdDescriptor, *t.at, uintptr(s.Type), uintptr(len(t.dims)), uintptr(unsafe.Pointer(&t.dims[0])), uintptr(unsafe.Pointer(&steps[0])))); err != nil {
			return err
		}
	}
	if err := d.check("CreateFilterDescriptor", call(e.CreateFilterDescriptor, uintptr(unsafe.Pointer(&c.weights)))); err != nil {
		return err
	}
	if err := d.check("SetFilterNdDescriptor", call(e.SetFilterNdDescriptor, c.weights, uintptr(s.Type), channelsFirst, uintptr(len(s.Weights)), uintptr(unsafe.Pointer(&s.Weights[0])))); err != nil {
		return err
	}
	if err := d.check("CreateConvolutionDescriptor", call(e.CreateConvolutionDescriptor, uintptr(unsafe.Pointer(&c.sliding)))); err != nil {
		return err
	}
	if err := d.check("SetConvolutionNdDescriptor", call(e.SetConvolutionNdDescriptor, c.sliding, uintptr(len(s.Pad)),
		uintptr(unsafe.Pointer(&s.Pad[0])), uintptr(unsafe.Pointer(&s.Stride[0])), uintptr(unsafe.Pointer(&s.Dilation[0])), crossCorrelation, uintptr(DNNFloat32))); err != nil {
		return err
	}
	return d.check("SetConvolutionGroupCount", call(e.SetConvolutionGroupCount, c.sliding, uintptr(s.Groups)))
}

// Destroy frees the descriptors.
func (c *DNNConvolution) Destroy() error {
	e := &c.h.d.entries
	var list []error
	for _, t := range []struct {
		what    string
		destroy uintptr
		at      *uintptr
	}{
		{"DestroyTensorDescriptor", e.DestroyTensorDescriptor, &c.image},
		{"DestroyTensorDescriptor", e.DestroyTensorDescriptor, &c.result},
		{"DestroyFilterDescriptor", e.DestroyFilterDescriptor, &c.weights},
		{"DestroyConvolutionDescriptor", e.DestroyConvolutionDescriptor, &c.sliding},
	} {
		if *t.at != 0 {
			list = append(list, c.h.d.check(t.what, call(t.destroy, *t.at)))
			*t.at = 0
		}
	}
	return errors.Join(list...)
}

// SetMath sets the arithmetic of the convolution.
func (c *DNNConvolution) SetMath(m DNNMath) error {
	return c.h.d.check("SetConvolutionMathType", call(c.h.d.entries.SetConvolutionMathType, c.sliding, uintptr(m)))
}

// DNNAlgorithm is a way to compute a convolution: a number that means another one in each
// pass.
type DNNAlgorithm struct {
	Number            int32
	Math              DNNMath
	Deterministic     bool
	Fourier, Winograd bool // it multiplies in the space of that transform
}

// dnnPerf is the struct cudnnConvolutionFwdAlgoPerf_t, and that of the other passes.
type dnnPerf struct {
	Number, Status    int32
	Time              float32
	_                 int32
	Memory            uint64
	Determinism, Math int32
	_                 [4]int32 // three are reserved
}

// Algorithms lists the algorithms for the convolution, the one that cuDNN expects to be the
// fastest first: from shapes and the device, without a measurement. Those that it says are
// not supported are left out.
func (c *DNNConvolution) Algorithms() ([]DNNAlgorithm, error) {
	var (
		perf  [24]dnnPerf
		count int32
	)
	what := "Get" + c.pass.String() + "Algorithm_v7"
	err := c.h.d.check(what, call(c.choose, c.h.at, *c.first, *c.second, c.sliding, *c.out, uintptr(len(perf)), uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&perf))))
	if err != nil {
		return nil, err
	}
	var list []DNNAlgorithm
	for _, p := range perf[:min(max(int(count), 0), len(perf))] {
		if p.Status != 0 {
			continue
		}
		list = append(list, DNNAlgorithm{
			Number: p.Number, Math: DNNMath(p.Math), Deterministic: p.Determinism == 1 && !slices.Contains(dnnAtomic[c.pass], p.Number),
			Fourier: slices.Contains(dnnFourier[c.pass], p.Number), Winograd: slices.Contains(dnnWinograd[c.pass], p.Number),
		})
	}
	return list, nil
}

// WorkspaceBytes is the size of the workspace that an algorithm needs.
func (c *DNNConvolution) WorkspaceBytes(a DNNAlgorithm) (int64, error) {
	var size uint64
	what := "Get" + c.pass.String() + "WorkspaceSize"
	err := c.h.d.check(what, call(c.workspace, c.h.at, *c.first, *c.second, c.sliding, *c.out, uintptr(a.Number), uintptr(unsafe.Pointer(&size))))
	return int64(min(size, math.MaxInt64)), err
}

// PreparedConvolution is a convolution with everything that a call needs; a call costs no
// allocation.
type PreparedConvolution struct {
	c    *DNNConvolution
	args [13]uintptr
}

// Prepare returns a convolution that can be put on the stream. The operands first and second
// and the output of the pass are in the order of image, weights and result. Of
// DNNBackwardData, the first operand is the weights. At alpha and beta are two float32
// outside of Go's heap: out becomes alpha times the convolution plus beta times out.
func (c *DNNConvolution) Prepare(a DNNAlgorithm, first, second, out Ptr, alpha, beta unsafe.Pointer, workBytes int64) *PreparedConvolution {
	return &PreparedConvolution{c, [13]uintptr{
		c.h.at, uintptr(alpha), *c.first, uintptr(first), *c.second, uintptr(second), c.sliding,
		uintptr(a.Number), 0, uintptr(workBytes), uintptr(beta), *c.out, uintptr(out),
	}}
}

// Run puts the convolution on the stream, with a workspace.
func (p *PreparedConvolution) Run(work Ptr) error {
	p.args[8] = uintptr(work)
	if s := call(p.c.start, p.args[:]...); s != 0 {
		return p.c.h.d.failed(p.c.pass.String(), s)
	}
	return nil
}
