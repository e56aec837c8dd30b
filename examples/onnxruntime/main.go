//go:build linux || darwin

// Onnxruntime runs a file of onnxmem optimize --runtime onnxruntime --order default in ONNX
// Runtime, by its C API and without cgo, and writes the runtime's profile, which names the
// nodes in the order in which they ran. The C API has no option for that order: it follows
// from the file.
//
//	go run ./examples/onnxruntime libonnxruntime.so.1.31.1 listed.onnx trace
//
// The library lies in onnxruntime/capi of the Python wheel. The program prints the name of
// the profile.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: onnxruntime LIBRARY MODEL.onnx TRACE")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "onnxruntime:", err)
		os.Exit(1)
	}
}

const (
	apiVersion    = 18
	warnings      = 2 // ORT_LOGGING_LEVEL_WARNING
	optimizeNone  = 0 // ORT_DISABLE_ALL
	elementFloat  = 1 // ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
	maxDimensions = 16
)

// api has the functions of struct OrtApi (onnxruntime_c_api.h) that the program needs. They
// take handles of ONNX Runtime's objects, and most return a status: 0, or what
// errorMessage explains.
type api struct {
	errorMessage        func(status uintptr) string
	createEnv           func(level int32, name string, env *uintptr) uintptr
	createSession       func(env uintptr, model string, options uintptr, session *uintptr) uintptr
	run                 func(session, options uintptr, in, given *uintptr, inputs uintptr, out *uintptr, outputs uintptr, made *uintptr) uintptr
	createOptions       func(options *uintptr) uintptr
	enableProfiling     func(options uintptr, prefix string) uintptr
	setOptimization     func(options uintptr, level int32) uintptr
	inputCount          func(session uintptr, count *uintptr) uintptr
	outputCount         func(session uintptr, count *uintptr) uintptr
	inputTypeInfo       func(session, input uintptr, info *uintptr) uintptr
	inputName           func(session, input, allocator uintptr, name *uintptr) uintptr
	outputName          func(session, output, allocator uintptr, name *uintptr) uintptr
	createTensor        func(allocator uintptr, shape *int64, rank uintptr, element int32, value *uintptr) uintptr
	tensorData          func(value uintptr, data **float32) uintptr
	castToTensorInfo    func(info uintptr, tensor *uintptr) uintptr
	elementType         func(tensor uintptr, element *int32) uintptr
	dimensionsCount     func(tensor uintptr, rank *uintptr) uintptr
	dimensions          func(tensor uintptr, shape *int64, rank uintptr) uintptr
	defaultAllocator    func(allocator *uintptr) uintptr
	releaseEnv          func(env uintptr)
	releaseSession      func(session uintptr)
	releaseValue        func(value uintptr)
	releaseTypeInfo     func(info uintptr)
	releaseOptions      func(options uintptr)
	sessionEndProfiling func(session, allocator uintptr, name **byte) uintptr
}

// open loads the library. The numbers are the places of the functions in struct OrtApi,
// which later versions only extend.
func open(library string) (*api, error) {
	// The loader keeps the message of an error for the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	var base func() unsafe.Pointer // struct OrtApiBase, which begins with GetApi
	purego.RegisterLibFunc(&base, lib, "OrtGetApiBase")
	var get func(version uint32) unsafe.Pointer
	purego.RegisterFunc(&get, *(*uintptr)(base()))
	table := get(apiVersion)
	if table == nil {
		return nil, fmt.Errorf("%s has no API of version %d", library, apiVersion)
	}
	a := &api{}
	for place, function := range map[uintptr]any{
		2: &a.errorMessage, 3: &a.createEnv, 7: &a.createSession, 9: &a.run, 10: &a.createOptions,
		14: &a.enableProfiling, 23: &a.setOptimization, 30: &a.inputCount, 31: &a.outputCount,
		33: &a.inputTypeInfo, 36: &a.inputName, 37: &a.outputName, 48: &a.createTensor,
		51: &a.tensorData, 55: &a.castToTensorInfo, 60: &a.elementType, 61: &a.dimensionsCount,
		62: &a.dimensions, 78: &a.defaultAllocator, 92: &a.releaseEnv, 95: &a.releaseSession,
		96: &a.releaseValue, 98: &a.releaseTypeInfo, 100: &a.releaseOptions,
		110: &a.sessionEndProfiling,
	} {
		purego.RegisterFunc(function, *(*uintptr)(unsafe.Add(table, place*unsafe.Sizeof(uintptr(0)))))
	}
	return a, nil
}

// failed returns the first error of some statuses.
func (a *api) failed(statuses ...uintptr) error {
	for _, status := range statuses {
		if status != 0 {
			return errors.New(a.errorMessage(status))
		}
	}
	return nil
}

// run runs the model once, with inputs of zeros, and prints the name of the profile.
func run(out io.Writer, library, model, trace string) error {
	a, err := open(library)
	if err != nil {
		return err
	}
	s := &session{api: a}
	defer s.close()
	if err := s.open(model, trace); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.failed(s.run(s.session, 0, &s.in[0], &s.given[0], uintptr(len(s.given)), &s.out[0], uintptr(len(s.made)), &s.made[0])); err != nil {
		return err
	}
	var name *byte
	if err := s.failed(s.sessionEndProfiling(s.session, s.allocator, &name)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, goText(name))
	return err
}

// goText is the text of C at an address.
func goText(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// session is a model in ONNX Runtime, with its inputs and outputs.
type session struct {
	*api
	env, options, session, allocator uintptr

	in, out     []uintptr // names, in C's memory
	given, made []uintptr // values
}

// open loads a model as it is in the file: optimizations would give it other nodes.
func (s *session) open(model, trace string) error {
	if err := s.failed(s.createEnv(warnings, "onnxmem", &s.env)); err != nil {
		return err
	}
	if err := s.failed(s.createOptions(&s.options)); err != nil {
		return err
	}
	if err := s.failed(s.setOptimization(s.options, optimizeNone), s.enableProfiling(s.options, trace)); err != nil {
		return err
	}
	if err := s.failed(s.createSession(s.env, model, s.options, &s.session)); err != nil {
		return err
	}
	return s.failed(s.defaultAllocator(&s.allocator))
}

// prepare finds the names of inputs and outputs, and makes the inputs.
func (s *session) prepare() error {
	var inputs, outputs uintptr
	if err := s.failed(s.inputCount(s.session, &inputs), s.outputCount(s.session, &outputs)); err != nil {
		return err
	}
	if inputs == 0 || outputs == 0 {
		return fmt.Errorf("expected a model with inputs and outputs, found %d and %d", inputs, outputs)
	}
	s.in, s.given = make([]uintptr, inputs), make([]uintptr, inputs)
	s.out, s.made = make([]uintptr, outputs), make([]uintptr, outputs)
	for i := range inputs {
		if err := s.failed(s.inputName(s.session, i, s.allocator, &s.in[i])); err != nil {
			return err
		}
		if err := s.zeros(i); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	for i := range outputs {
		if err := s.failed(s.outputName(s.session, i, s.allocator, &s.out[i])); err != nil {
			return err
		}
	}
	return nil
}

// zeros makes an input: a float tensor, each open dimension of which is 1.
func (s *session) zeros(input uintptr) error {
	var info, tensor, rank uintptr
	var element int32
	if err := s.failed(s.inputTypeInfo(s.session, input, &info)); err != nil {
		return err
	}
	defer s.releaseTypeInfo(info)
	if err := s.failed(s.castToTensorInfo(info, &tensor)); err != nil {
		return err
	}
	if err := s.failed(s.elementType(tensor, &element), s.dimensionsCount(tensor, &rank)); err != nil {
		return err
	}
	if element != elementFloat || rank > maxDimensions {
		return fmt.Errorf("expected float32 and at most %d dimensions, found element type %d and %d", maxDimensions, element, rank)
	}
	shape := make([]int64, maxDimensions)
	if err := s.failed(s.dimensions(tensor, &shape[0], rank)); err != nil {
		return err
	}
	count := int64(1)
	for i := range shape[:rank] {
		shape[i] = max(shape[i], 1)
		count *= shape[i]
	}
	if err := s.failed(s.createTensor(s.allocator, &shape[0], rank, elementFloat, &s.given[input])); err != nil {
		return err
	}
	var data *float32
	if err := s.failed(s.tensorData(s.given[input], &data)); err != nil {
		return err
	}
	clear(unsafe.Slice(data, count))
	return nil
}

func (s *session) close() {
	for _, v := range append(s.given, s.made...) {
		if v != 0 {
			s.releaseValue(v)
		}
	}
	if s.session != 0 {
		s.releaseSession(s.session)
	}
	if s.options != 0 {
		s.releaseOptions(s.options)
	}
	if s.env != 0 {
		s.releaseEnv(s.env)
	}
}
