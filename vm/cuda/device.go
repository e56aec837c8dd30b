package cuda

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Device is an opened GPU. Several sessions may use it, also at the same time.
type Device struct {
	// Compiled is called while the kernels of a session are compiled, after each of their
	// sources: a first session takes seconds for it. Set it before sessions are made. nil is
	// allowed.
	Compiled func(done, sources int)

	device  driver.Device
	context driver.Context
	name    string
	arch    int // 10 times the major compute capability plus the minor one
	version int // of CUDA, as the driver supports it
	limits  limits
	base    int64 // bytes of device memory that the context takes

	mu      sync.Mutex
	modules map[string]*module // by the key of their cubin
	kernels int64              // bytes of device memory that the driver took for them
	blas    *driver.BLAS       // nil: not asked for, or not there
	noBLAS  error              // why it is not there
	dnn     *driver.DNN        // likewise
	noDNN   error
	closed  bool
}

// limits are the largest sizes of a launch.
type limits struct {
	threads      int // of a block
	block, grid  driver.Dim3
	shared, most int // bytes of shared memory of a block: without and with asking
}

// Open opens a GPU. name is "cuda" or "cuda:0" for the first one that
// CUDA_VISIBLE_DEVICES lets the process see, "cuda:1" for the second, or
// "cuda:GPU-…" for the one with that UUID. The error wraps driver.ErrNoDriver if the
// machine has no driver or no GPU.
func Open(name string) (*Device, error) {
	kind, which, _ := strings.Cut(name, ":")
	if kind != "cuda" {
		return nil, fmt.Errorf("device %q: expected cuda, cuda:N or cuda:UUID", name)
	}
	if err := driver.Load(); err != nil {
		var refused *driver.Error
		switch {
		case errors.As(err, &refused):
			return nil, fmt.Errorf("device %q: the driver is there, but opens no GPU: %w: `nvidia-smi` says why (is CUDA_VISIBLE_DEVICES set?)", name, err)
		case errors.Is(err, driver.ErrNoDriver):
			return nil, fmt.Errorf("device %q: %w: %s; without --device, the nodes run on the CPU", name, err, driver.HowToGet)
		}
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	dev, err := find(which)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	d := &Device{device: dev, modules: map[string]*module{}}
	if err := d.describe(); err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	if err := driver.LoadCompiler(d.version); err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	if err := d.retain(); err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return d, nil
}

// find returns the device with an index or UUID; "" is the first one.
func find(which string) (driver.Device, error) {
	n, err := driver.DeviceCount()
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: the driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)", driver.ErrNoDriver)
	}
	if which == "" {
		which = "0"
	}
	if i, err := strconv.Atoi(which); err == nil {
		if i < 0 || i >= n {
			return 0, fmt.Errorf("expected an index below %d, the number of GPUs", n)
		}
		return driver.GetDevice(i)
	}
	var seen []string
	for i := range n {
		dev, err := driver.GetDevice(i)
		if err != nil {
			return 0, err
		}
		id, err := dev.UUID()
		if err != nil {
			return 0, err
		}
		text := uuidText(id)
		if strings.EqualFold(strings.TrimPrefix(which, "GPU-"), text) {
			return dev, nil
		}
		seen = append(seen, "GPU-"+text)
	}
	return 0, fmt.Errorf("no GPU has this UUID: found %s", strings.Join(seen, ", "))
}

// uuidText writes a UUID as nvidia-smi does, without "GPU-".
func uuidText(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// describe reads the properties of the device.
func (d *Device) describe() (err error) {
	if d.name, err = d.device.Name(); err != nil {
		return err
	}
	if d.version, err = driver.Version(); err != nil {
		return err
	}
	get := func(a driver.Attribute) int {
		v, failed := d.device.Attribute(a)
		if err == nil {
			err = failed
		}
		return v
	}
	d.arch = 10*get(driver.ComputeMajor) + get(driver.ComputeMinor)
	d.limits = limits{
		threads: get(driver.MaxThreadsPerBlock),
		block:   driver.Dim3{X: uint32(get(driver.MaxBlockDimX)), Y: uint32(get(driver.MaxBlockDimY)), Z: uint32(get(driver.MaxBlockDimZ))},
		grid:    driver.Dim3{X: uint32(get(driver.MaxGridDimX)), Y: uint32(get(driver.MaxGridDimY)), Z: uint32(get(driver.MaxGridDimZ))},
		shared:  get(driver.MaxSharedPerBlock),
		most:    get(driver.MaxSharedPerBlockOptin),
	}
	return err
}

// retain makes the primary context, and measures what it takes.
func (d *Device) retain() (err error) {
	if d.context, err = d.device.RetainPrimary(); err != nil {
		return err
	}
	if err := d.Enter(); err != nil {
		return err
	}
	defer d.Leave()
	free, total, err := driver.MemInfo()
	d.base = total - free
	return err
}

// Arch is the architecture: 10 times the major compute capability plus the minor one.
func (d *Device) Arch() int { return d.arch }

// Name returns the product name.
func (d *Device) Name() string { return d.name }

// Enter locks the goroutine to its thread and makes the device's context current there.
// Each call needs a call of Leave on the same goroutine.
func (d *Device) Enter() error {
	runtime.LockOSThread()
	if err := d.context.SetCurrent(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	return nil
}

// Leave ends what Enter began.
func (d *Device) Leave() { runtime.UnlockOSThread() }

// Memory returns the bytes that are free on the device, and that it has in all. It
// needs the context.
func (d *Device) Memory() (free, total int64, err error) { return driver.MemInfo() }

// ContextBytes returns the device memory that was in use when the device was opened:
// the context's, and what other processes have.
func (d *Device) ContextBytes() int64 { return d.base }

// KernelBytes returns the device memory that the driver took for the kernels of all sessions
// when they were loaded.
func (d *Device) KernelBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kernels
}

func (d *Device) tookForKernels(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kernels += bytes
}

// Close unloads the modules and releases the context. All sessions on the device must
// have been closed.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if err := d.Enter(); err != nil {
		return err
	}
	defer d.Leave()
	var list []error
	for _, m := range d.modules {
		if m.loaded != 0 {
			list = append(list, m.loaded.Unload())
		}
	}
	return errors.Join(append(list, d.device.ReleasePrimary())...)
}
