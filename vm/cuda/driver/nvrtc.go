package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// compilerEntries are the addresses of NVRTC's functions.
var compilerEntries struct {
	Version, GetNumSupportedArchs, GetSupportedArchs,
	CreateProgram, DestroyProgram, CompileProgram, GetProgramLogSize, GetProgramLog,
	GetCUBINSize, GetCUBIN, GetPTXSize, GetPTX uintptr
}

var compiler struct {
	sync.Mutex
	path string
}

// LoadCompiler opens NVRTC. Further calls return at once. A GPU is not needed. newest
// is the version of CUDA that the driver supports (Version), or 0: a library of a later
// major version is not opened, since the driver could not load what it makes.
func LoadCompiler(newest int) error {
	compiler.Lock()
	defer compiler.Unlock()
	if compiler.path != "" {
		return nil
	}
	path, library, err := nvrtcLibrary.open(newest)
	if err != nil {
		return err
	}
	if err := bind(library, "nvrtc", &compilerEntries); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	compiler.path = path
	return nil
}

// UseCompiler opens the NVRTC at ONNXMEM_NVRTC in the place of one that is open.
func UseCompiler() error {
	compiler.Lock()
	compiler.path = ""
	compiler.Unlock()
	return LoadCompiler(0)
}

// CompilerPath returns the path of the opened NVRTC.
func CompilerPath() string {
	compiler.Lock()
	defer compiler.Unlock()
	return compiler.path
}

// CompilerVersion returns NVRTC's version.
func CompilerVersion() (major, minor int, err error) {
	var a, b int32
	err = checkCompiler("nvrtcVersion", call(compilerEntries.Version, uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&b))))
	return int(a), int(b), err
}

// CompilerArchs lists the architectures that NVRTC compiles for: 10 times the major
// compute capability plus the minor one, ascending.
func CompilerArchs() ([]int, error) {
	var n int32
	if err := checkCompiler("nvrtcGetNumSupportedArchs", call(compilerEntries.GetNumSupportedArchs, uintptr(unsafe.Pointer(&n)))); err != nil {
		return nil, err
	}
	list := make([]int32, max(n, 1))
	if err := checkCompiler("nvrtcGetSupportedArchs", call(compilerEntries.GetSupportedArchs, uintptr(unsafe.Pointer(&list[0])))); err != nil {
		return nil, err
	}
	archs := make([]int, n)
	for i := range archs {
		archs[i] = int(list[i])
	}
	slices.Sort(archs)
	return archs, nil
}

// Compile compiles CUDA C. arch is "sm_90" for a cubin or "compute_90" for PTX, name is
// what messages call the source, headers are the files that it can include.
func Compile(source, name, arch string, headers map[string]string, options ...string) ([]byte, error) {
	var texts, names []*byte
	for _, h := range slices.Sorted(maps.Keys(headers)) {
		texts, names = append(texts, cString(headers[h])), append(names, cString(h))
	}
	var program uintptr
	err := checkCompiler("nvrtcCreateProgram", call(compilerEntries.CreateProgram, uintptr(unsafe.Pointer(&program)),
		uintptr(unsafe.Pointer(cString(source))), uintptr(unsafe.Pointer(cString(name))), uintptr(len(texts)),
		uintptr(unsafe.Pointer(unsafe.SliceData(texts))), uintptr(unsafe.Pointer(unsafe.SliceData(names)))))
	if err != nil {
		return nil, err
	}
	defer call(compilerEntries.DestroyProgram, uintptr(unsafe.Pointer(&program)))
	var list []*byte
	for _, o := range append([]string{"--gpu-architecture=" + arch, "--std=c++17", "-default-device"}, options...) {
		list = append(list, cString(o))
	}
	if s := call(compilerEntries.CompileProgram, program, uintptr(len(list)), uintptr(unsafe.Pointer(unsafe.SliceData(list)))); s != 0 {
		log, _ := fetch("nvrtcGetProgramLog", program, compilerEntries.GetProgramLogSize, compilerEntries.GetProgramLog)
		return nil, fmt.Errorf("%s for %s: %w\n%s", name, arch, checkCompiler("nvrtcCompileProgram", s), strings.TrimRight(string(log), "\x00\n"))
	}
	if strings.HasPrefix(arch, "compute_") {
		return fetch("nvrtcGetPTX", program, compilerEntries.GetPTXSize, compilerEntries.GetPTX)
	}
	return fetch("nvrtcGetCUBIN", program, compilerEntries.GetCUBINSize, compilerEntries.GetCUBIN)
}

// fetch returns a result of a compilation.
func fetch(what string, program, size, get uintptr) ([]byte, error) {
	var n uintptr
	if err := checkCompiler(what+"Size", call(size, program, uintptr(unsafe.Pointer(&n)))); err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	return b, checkCompiler(what, call(get, program, uintptr(unsafe.Pointer(&b[0]))))
}

// checkCompiler makes an error of a status of NVRTC that is not success.
func checkCompiler(what string, s Status) error {
	if s == 0 {
		return nil
	}
	names := map[Status]string{5: "NVRTC_ERROR_INVALID_OPTION", 6: "NVRTC_ERROR_COMPILATION", 7: "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"}
	return &Error{Call: what, Status: s, Name: names[s]}
}
