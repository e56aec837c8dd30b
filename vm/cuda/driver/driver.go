package driver

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// The handles of the driver. All are addresses.
type (
	Ptr      uintptr // an address in the device's memory
	Context  uintptr
	Stream   uintptr // 0: the context's default stream
	Event    uintptr
	Module   uintptr
	Function uintptr
	Graph    uintptr // a captured graph
	Exec     uintptr // an instantiated graph
	Device   int32   // an ordinal
)

// Status is a result of the driver; 0 is success.
type Status int32

// The statuses that callers tell apart.
const (
	statusInvalidValue   Status = 1
	statusOutOfMemory    Status = 2
	statusNotInitialized Status = 3
	statusNoDevice       Status = 100
	statusNotFound       Status = 500
)

// Error is a call that failed.
type Error struct {
	Call   string
	Status Status
	Name   string // the driver's name of the status; "" if it gives none
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: status %d", e.Call, e.Status)
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Status)
}

// Is makes errors.Is find ErrOutOfMemory and ErrNoDriver.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrOutOfMemory:
		return e.Status == statusOutOfMemory
	case ErrNoDriver:
		return e.Status == statusNoDevice
	}
	return false
}

// ErrNoDriver is wrapped by the error of Load where there is no driver or no GPU.
var ErrNoDriver = errors.New("no CUDA driver")

// ErrOutOfMemory is what errors.Is finds in the error of an allocation that the device
// has no room for.
var ErrOutOfMemory = errors.New("out of device memory")

// HowToGet says how to get what ErrNoDriver says is missing.
const HowToGet = howToGet

// entries are the addresses of libcuda's functions, each found by the name of its field
// after "cu". Fields of optional are 0 if the driver is too old to have them.
var entries struct {
	Init, DriverGetVersion,
	DeviceGetCount, DeviceGet, DeviceGetName, DeviceGetUuid_v2, DeviceGetAttribute, DeviceTotalMem_v2,
	DevicePrimaryCtxRetain, DevicePrimaryCtxRelease_v2, CtxSetCurrent, CtxSynchronize,
	MemGetInfo_v2, MemAlloc_v2, MemFree_v2, MemAllocHost_v2, MemFreeHost,
	MemcpyHtoDAsync_v2, MemcpyDtoHAsync_v2, MemcpyDtoDAsync_v2, MemcpyHtoD_v2, MemcpyDtoH_v2,
	MemsetD8Async, MemsetD32Async,
	StreamCreate, StreamDestroy_v2, StreamSynchronize, StreamWaitEvent,
	EventCreate, EventDestroy_v2, EventRecord, EventSynchronize, EventElapsedTime,
	StreamBeginCapture_v2, StreamEndCapture, GraphInstantiateWithFlags, GraphLaunch, GraphExecDestroy, GraphDestroy,
	ModuleLoadData, ModuleUnload, ModuleGetFunction, FuncSetAttribute, LaunchKernel,
	GetErrorName uintptr
}

// optional are entries that can be missing: what asks for them does without.
var optional struct {
	FuncGetParamInfo uintptr // CUDA 12.4
	CtxGetDevice     uintptr // every driver has it; only the CUDA build of onnxmem asks
}

var loading struct {
	sync.Mutex
	done bool
}

// Load opens the driver library and initializes it. Further calls return at once. The
// error wraps ErrNoDriver if there is no library, or no device that it serves.
func Load() error {
	loading.Lock()
	defer loading.Unlock()
	if loading.done {
		return nil
	}
	names := driverNames
	if path := os.Getenv("ONNXMEM_LIBCUDA"); path != "" {
		names = []string{path}
	}
	library, err := openFirst(names)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	if err := bind(library, "cu", &entries); err != nil {
		return fmt.Errorf("%w: the driver library is too old or damaged: %w", ErrNoDriver, err)
	}
	_ = bind(library, "cu", &optional) // the missing ones stay 0
	if err := check("cuInit", call(entries.Init, 0)); err != nil {
		return err
	}
	loading.done = true
	return nil
}

// openFirst opens the first of some libraries that opens. If none does, the error is that of
// one that is there but damaged or of another system; else it lists what was looked for.
func openFirst(names []string) (library uintptr, err error) {
	for _, name := range names {
		library, failed := open(name)
		if failed == nil {
			return library, nil
		}
		if err == nil && !absent(failed) {
			err = failed
		}
	}
	if err == nil {
		err = fmt.Errorf("no %s", strings.Join(names, ", "))
	}
	return 0, err
}

// bind sets each field of a struct to the address of the function of that name.
func bind(library uintptr, prefix string, to any) error {
	v := reflect.ValueOf(to).Elem()
	var missing []string
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Name
		p, err := symbol(library, name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		v.Field(i).SetUint(uint64(p))
	}
	if missing != nil {
		return fmt.Errorf("it lacks %s", strings.Join(missing, ", "))
	}
	return nil
}

// check makes an error of a status that is not success.
func check(what string, s Status) error {
	if s == 0 {
		return nil
	}
	e := &Error{Call: what, Status: s}
	if entries.GetErrorName != 0 {
		var name *byte
		call(entries.GetErrorName, uintptr(s), uintptr(unsafe.Pointer(&name)))
		e.Name = goString(name)
	}
	return e
}

// goString copies a C string.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// cString returns a C string.
func cString(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// Version returns the version of CUDA that the driver supports: 1000 times the major
// version plus 10 times the minor one.
func Version() (int, error) {
	var v int32
	err := check("cuDriverGetVersion", call(entries.DriverGetVersion, uintptr(unsafe.Pointer(&v))))
	return int(v), err
}
