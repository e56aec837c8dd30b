package cu

import (
	"fmt"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Device is a GPU by its ordinal, or CPU.
type Device int

// CPU is the host.
const CPU Device = -1

// String is the name that gorgonia prints.
func (d Device) String() string {
	if d == CPU {
		return "CPU"
	}
	return fmt.Sprintf("GPU(%d)", int(d))
}

// NumDevices returns the number of GPUs. It opens the driver if nobody has.
func NumDevices() (int, error) {
	if err := driver.Load(); err != nil {
		return 0, err
	}
	return driver.DeviceCount()
}

// GetDevice returns the device that gorgonia numbers i. Gorgonia numbers the devices of a
// program from 0, and a session has one: number 0 is the device whose context is current
// on the calling thread. Without a context it is the first one of the machine.
func GetDevice(i int) (Device, error) {
	if i == 0 {
		if d, err := driver.CurrentDevice(); err == nil {
			return Device(d), nil
		}
	}
	d, err := driver.GetDevice(i)
	return Device(d), err
}

// DeviceAttribute is a property of a device.
type DeviceAttribute int

// The properties that gorgonia reads.
const (
	MaxThreadsPerBlock = DeviceAttribute(driver.MaxThreadsPerBlock)
	MaxBlockDimX       = DeviceAttribute(driver.MaxBlockDimX)
	MaxBlockDimY       = DeviceAttribute(driver.MaxBlockDimY)
	MaxBlockDimZ       = DeviceAttribute(driver.MaxBlockDimZ)
	MaxGridDimX        = DeviceAttribute(driver.MaxGridDimX)
	MaxGridDimY        = DeviceAttribute(driver.MaxGridDimY)
	MaxGridDimZ        = DeviceAttribute(driver.MaxGridDimZ)
	WarpSize           = DeviceAttribute(driver.WarpSize)
)

// Attributes returns properties of a device, in the order of the list.
func (d Device) Attributes(list ...DeviceAttribute) ([]int, error) {
	values := make([]int, len(list))
	for i, a := range list {
		var err error
		if values[i], err = driver.Device(d).Attribute(driver.Attribute(a)); err != nil {
			return nil, err
		}
	}
	return values, nil
}
