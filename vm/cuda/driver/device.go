package driver

import (
	"bytes"
	"unsafe"
)

// Attribute is a property of a device, with the number that the driver API gives it.
type Attribute int32

// The attributes that we ask for.
const (
	MaxThreadsPerBlock     Attribute = 1
	MaxBlockDimX           Attribute = 2
	MaxBlockDimY           Attribute = 3
	MaxBlockDimZ           Attribute = 4
	MaxGridDimX            Attribute = 5
	MaxGridDimY            Attribute = 6
	MaxGridDimZ            Attribute = 7
	MaxSharedPerBlock      Attribute = 8
	WarpSize               Attribute = 10
	Multiprocessors        Attribute = 16
	ComputeMajor           Attribute = 75
	ComputeMinor           Attribute = 76
	MaxSharedPerBlockOptin Attribute = 97
)

// DeviceCount returns the number of devices.
func DeviceCount() (int, error) {
	var n int32
	err := check("cuDeviceGetCount", call(entries.DeviceGetCount, uintptr(unsafe.Pointer(&n))))
	return int(n), err
}

// GetDevice returns the device with an index below DeviceCount.
func GetDevice(i int) (Device, error) {
	var d Device
	err := check("cuDeviceGet", call(entries.DeviceGet, uintptr(unsafe.Pointer(&d)), uintptr(i)))
	return d, err
}

// Name returns the product name of a device.
func (d Device) Name() (string, error) {
	var b [256]byte
	err := check("cuDeviceGetName", call(entries.DeviceGetName, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(d)))
	name, _, _ := bytes.Cut(b[:], []byte{0})
	return string(name), err
}

// UUID returns the identifier of a device, as nvidia-smi shows it after "GPU-".
func (d Device) UUID() ([16]byte, error) {
	var b [16]byte
	err := check("cuDeviceGetUuid", call(entries.DeviceGetUuid_v2, uintptr(unsafe.Pointer(&b[0])), uintptr(d)))
	return b, err
}

// Attribute returns a property of a device.
func (d Device) Attribute(a Attribute) (int, error) {
	var v int32
	err := check("cuDeviceGetAttribute", call(entries.DeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(d)))
	return int(v), err
}

// RetainPrimary returns the device's primary context, which everything in the process
// shares. Each call needs a call of ReleasePrimary.
func (d Device) RetainPrimary() (Context, error) {
	var c Context
	err := check("cuDevicePrimaryCtxRetain", call(entries.DevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c)), uintptr(d)))
	return c, err
}

// ReleasePrimary ends one use of the primary context.
func (d Device) ReleasePrimary() error {
	return check("cuDevicePrimaryCtxRelease", call(entries.DevicePrimaryCtxRelease_v2, uintptr(d)))
}

// SetCurrent makes a context current on this thread; 0: none.
func (c Context) SetCurrent() error {
	return check("cuCtxSetCurrent", call(entries.CtxSetCurrent, uintptr(c)))
}

// CurrentDevice returns the device of the context that is current on this thread. It
// fails if there is none.
func CurrentDevice() (Device, error) {
	if optional.CtxGetDevice == 0 {
		return 0, &Error{Call: "cuCtxGetDevice", Status: statusNotFound}
	}
	var d Device
	err := check("cuCtxGetDevice", call(optional.CtxGetDevice, uintptr(unsafe.Pointer(&d))))
	return d, err
}

// Synchronize waits for all work of the current context.
func Synchronize() error { return check("cuCtxSynchronize", call(entries.CtxSynchronize)) }
