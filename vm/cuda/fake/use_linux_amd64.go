//go:build linux && amd64 && !nocuda

package fake

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Supported reports whether the fake runs on this system.
const Supported = true

// Fake is the loaded library.
type Fake struct {
	mode, strict, memory, failAllocation, skipWait, failDNN, counters, resetCounters uintptr
}

// loaded is the library of the process, which is opened once.
var loaded struct {
	sync.Mutex
	fake *Fake
	err  error
}

// Use makes the fake the process's driver and compiler, in its initial settings: mode
// lazy, 8 GiB of memory, not strict. It skips the test where there is no C++ compiler. A
// real driver that the process has opened before stays, so tests of one package use either
// this or a GPU.
func Use(t testing.TB) *Fake {
	t.Helper()
	f, err := open()
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Mode("lazy")
	f.Strict(false)
	f.Memory(8 << 30)
	f.FailAllocation(0)
	f.SkipWait(0)
	f.FailDNN("")
	f.ResetCounters()
	return f
}

// UseBLAS makes the fake the cuBLAS of devices that are opened until the test ends. Without
// it they have none.
func (f *Fake) UseBLAS(t testing.TB) {
	t.Helper()
	t.Setenv("ONNXMEM_CUBLAS", os.Getenv("ONNXMEM_LIBCUDA"))
}

// UseDNN makes the fake the cuDNN of devices that are opened until the test ends. Without it
// they have none.
func (f *Fake) UseDNN(t testing.TB) {
	t.Helper()
	t.Setenv("ONNXMEM_CUDNN", os.Getenv("ONNXMEM_LIBCUDA"))
}

func open() (*Fake, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.fake != nil || loaded.err != nil {
		return loaded.fake, loaded.err
	}
	loaded.fake, loaded.err = load()
	return loaded.fake, loaded.err
}

// Environment returns the variables with which a new process of onnxmem has the fake for
// its driver and compiler. FAKECUDA is then the mode, FAKECUDA_BYTES the memory in all,
// FAKECUDA_DNN what fails of cuDNN (Fake.FailDNN). The error wraps ErrNoCompiler where there is no C++ compiler.
func Environment() (map[string]string, error) {
	library, compiler, include, err := Build()
	if err != nil {
		return nil, err
	}
	return map[string]string{"ONNXMEM_LIBCUDA": library, "ONNXMEM_NVRTC": library, "ONNXMEM_CUBLAS": "off", "ONNXMEM_CUDNN": "off", "FAKECUDA_CXX": compiler, "FAKECUDA_INCLUDE": include}, nil
}

func load() (*Fake, error) {
	variables, err := Environment()
	if err != nil {
		return nil, err
	}
	path := variables["ONNXMEM_LIBCUDA"]
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil { // for the process: the library stays loaded
			return nil, err
		}
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	f := &Fake{}
	for name, to := range map[string]*uintptr{
		"fakecuda_mode": &f.mode, "fakecuda_strict": &f.strict, "fakecuda_memory": &f.memory,
		"fakecuda_fail_allocation": &f.failAllocation, "fakecuda_skip_wait": &f.skipWait, "fakecuda_fail_dnn": &f.failDNN, "fakecuda_counters": &f.counters, "fakecuda_reset_counters": &f.resetCounters,
		"fakecuda_setenv": &setenv,
	} {
		if *to, err = purego.Dlsym(library, name); err != nil {
			return nil, err
		}
	}
	// Go's environment is not C's.
	for _, name := range []string{"FAKECUDA_CXX", "FAKECUDA_INCLUDE"} {
		key, value := cString(name), cString(os.Getenv(name))
		purego.SyscallN(setenv, uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(value)))
		runtime.KeepAlive(key)
		runtime.KeepAlive(value)
	}
	return f, nil
}

// setenv is the library's function that sets a variable of C's environment.
var setenv uintptr

func cString(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// Mode says when work is done: "eager", at once; "lazy", when somebody waits for it;
// "random:SEED", in any order that streams and events allow; "null", launches never.
func (f *Fake) Mode(mode string) {
	text := cString(mode)
	purego.SyscallN(f.mode, uintptr(unsafe.Pointer(text)))
	runtime.KeepAlive(text)
}

// Strict closes device memory to the host: touching it is a fault.
func (f *Fake) Strict(on bool) {
	n := uintptr(0)
	if on {
		n = 1
	}
	purego.SyscallN(f.strict, n)
}

// Memory sets the bytes of device memory in all.
func (f *Fake) Memory(bytes int64) { purego.SyscallN(f.memory, uintptr(bytes)) }

// FailAllocation makes the n-th allocation of device or pinned memory from now on fail; 0:
// none.
func (f *Fake) FailAllocation(n int) { purego.SyscallN(f.failAllocation, uintptr(n)) }

// SkipWait makes the n-th wait of a stream for an event from now on do nothing, as if the
// caller had forgotten it; 0: none.
func (f *Fake) SkipWait(n int) { purego.SyscallN(f.skipWait, uintptr(n)) }

// FailDNN makes cuDNN fail from now on. With "cuda", it is made for a later CUDA. With
// "create" there is no handle, with "descriptor" no descriptor of a convolution, and with
// "list" no list of algorithms. With "algorithms" none in the list may be chosen; with
// "workspace" none has a small workspace. With "run", a convolution that was prepared fails.
// "": nothing fails.
func (f *Fake) FailDNN(what string) {
	text := cString(what)
	purego.SyscallN(f.failDNN, uintptr(unsafe.Pointer(text)))
	runtime.KeepAlive(text)
}

// Counters returns the counters.
func (f *Fake) Counters() Counters {
	var c Counters
	purego.SyscallN(f.counters, uintptr(unsafe.Pointer(&c)))
	return c
}

// ResetCounters sets the counters to 0, except those of live memory.
func (f *Fake) ResetCounters() { purego.SyscallN(f.resetCounters) }
