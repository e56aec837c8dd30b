package lower

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Options says how a session runs, as vm.Options does.
type Options struct {
	Workers       int
	Seed          uint64
	MemoryLimit   int64
	Held          int64
	Separate      bool
	Poison        bool
	Guard         Guard
	HostFile      string
	NoPack        bool
	PackMore      bool
	Without       []string
	CheckLowering bool
	Device        *cuda.Device
	NoReplay      bool
	LeaveUpdates  bool
	NoBLAS        bool
	NoDNN         bool
	DNNFloat32    bool
	TF32          bool

	Uncompiled bool // device kernels are not compiled: the session cannot run
}

// Bound is the limit that a session sets.
func (o *Options) Bound() store.Bound {
	if o.Device != nil {
		return store.Bound{Limit: o.MemoryLimit, Device: o.Device} // what the caller holds is memory of the host
	}
	return store.Bound{Limit: o.MemoryLimit, Held: o.Held}
}

// Guard says whether tensors lie on pages of their own, and at which end of them.
type Guard int

// The kinds of guard.
const (
	GuardOff   Guard = iota
	GuardEnd         // a tensor ends where its pages end
	GuardFront       // a tensor begins where its pages begin
)
