package lower

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Site is what the frames of a session are built on and run in.
type Site struct {
	values.Space
	Program   *program.Program
	Options   Options
	Constants *constants.Set // the program's, or those of a guarded session
	GPU       *device.Memory // of Options.Device; nil: there is none
	Scratch   scratch
	Lender    *Site // whose scratch it uses; nil: its own
	Frames    []*Frame
	Runs      uint64 // so far

	Flow     Flow
	Compared Comparisons // nil: nobody compares node by node

	checks  checks
	Missing unsupported

	widens  map[*graph.Tensor]bool // computed constants with more bytes than those that they are made of
	widened int64                  // how many more
}

// Flow makes the kernels of nodes that run bodies.
type Flow interface {
	Called(body *Frame, st *Step) kernel.Run
	Branch(st *Step, then, otherwise *Frame) kernel.Run
	Loop(st *Step, body *Frame) (kernel.Run, error)
	Scan(st *Step, body *Frame) (kernel.Run, error)
	SequenceMap(st *Step, body *Frame) (kernel.Run, error)
}

// Comparisons are of each node's results with those of an evaluator.
type Comparisons interface {
	AddSteps(f *Frame)                    // that will run
	LeaveOut(st *Step)                    // nobody reads its output
	CompareOnce(st *Step, run kernel.Run) // it computes a constant when the session is built
}

// nodeHeap is what a node of a session, its tensors and its part of the graph take of Go's
// heap, estimated from above. Up to 3 KiB are live (networks of 170 to 24,070 nodes), and
// until a collection Go lets the heap grow to twice of that.
const nodeHeap = 6 << 10

// takeHeap counts Go's heap for the nodes of a graph.
func (s *Site) takeHeap(nodes int) error {
	if s.Options.Device != nil { // the limit is one of the device
		return nil
	}
	bytes := int64(nodes) * nodeHeap
	if err := s.Mem.Take(bytes); err != nil {
		return err
	}
	s.Mem.Heap += bytes
	return nil
}

// ScratchFor records the scratch that a prepared kernel asks for, and reports
// whether the session's scratch must grow. In a guarded session every node has its
// own scratch.
func (s *Site) ScratchFor(st *Step) (grown bool, err error) {
	c := st.Call()
	if s.Mem.Guard != nil {
		return false, s.guardScratch(st)
	}
	if grown = c.SharedBytes > s.Scratch.Shared || c.EachBytes > s.Scratch.Each; grown {
		s.Scratch.Largest = st
	}
	s.Scratch.Shared, s.Scratch.Each = max(s.Scratch.Shared, c.SharedBytes), max(s.Scratch.Each, c.EachBytes)
	return grown, nil
}

// ScratchBytes is the size of the scratch that the prepared kernels ask for.
func (s *Site) ScratchBytes() int64 {
	each, workers := int64(s.Scratch.Each), int64(s.Pool.Workers())
	if each > math.MaxInt64/workers {
		return math.MaxInt64
	}
	return units.Add(units.Add(int64(s.Scratch.Shared), int64(s.Scratch.Keep)), each*workers)
}

// GrowScratch makes the scratch as large as the prepared kernels need.
func (s *Site) GrowScratch() error {
	if s.Mem.Guard != nil {
		return nil
	}
	owner := s
	if s.Lender != nil {
		owner = s.Lender
	}
	bytes, has := s.ScratchBytes(), int64(0)
	if owner.Scratch.Block != nil {
		has = int64(len(owner.Scratch.Block.Bytes))
	}
	if owner.Scratch.Block == nil || has < bytes {
		if err := owner.Mem.Take(bytes - has); err != nil {
			return err
		}
		if err := owner.Scratch.Block.Free(); err != nil {
			return err
		}
		owner.Scratch.Block = nil
		b, err := store.NewBlock(bytes, "scratch")
		if err != nil {
			owner.Mem.Give(bytes)
			return err
		}
		owner.Scratch.Block = b
	}
	s.Scratch.Block = owner.Scratch.Block
	s.Pool.SetScratch(s.Scratch.Block.Base, s.Scratch.Block.At(int64(s.Scratch.Shared+s.Scratch.Keep)), s.Scratch.Each)
	return nil
}

// walls returns the layout of a kernel's guarded scratch; nil without a guard.
func (s *Site) walls() *kernel.Walls {
	if s.Mem.Guard == nil {
		return nil
	}
	return &kernel.Walls{Page: pages.Size, Front: s.Mem.Guard.Front}
}

// guardScratch replaces a node's scratch by what its prepared kernel asks for.
func (s *Site) guardScratch(st *Step) error {
	w, workers := st.Call().Walls, s.Pool.Workers()
	var runs, sizes []int
	var names []string
	label := st.Frame.Graph.Label(st.ID)
	add := func(parts []int, what string) {
		for i, n := range parts {
			runs, sizes = append(runs, w.Pages(n)), append(sizes, n)
			names = append(names, fmt.Sprintf("part %d of %s of %s", i, what, label))
		}
	}
	add(w.Shared, "scratch")
	for k := range workers {
		add(w.Each, fmt.Sprintf("scratch of worker %d", k))
	}
	want := 0
	for _, n := range runs {
		want += (n + 1) * w.Page
	}
	if have := st.Call().SharedBytes + workers*st.Call().EachBytes; have != want {
		return fmt.Errorf("internal error: scratch of %d bytes, its parts take %d", have, want)
	}
	if list := st.Has().Scratch; len(list) > 0 {
		st.More.Scratch = nil
		if err := s.Mem.Guard.GiveParts(list); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}
	made, err := s.Mem.Guard.Parts(names, runs, sizes)
	if err == nil {
		st.own().Scratch = made
	}
	return err
}

// UseScratch hands a node's scratch to its kernel, which is about to run. It is
// filled with poison first, since kernels must not rely on its content.
func (st *Step) UseScratch(w *work.Pool) {
	scratch := st.Has().Scratch
	if len(scratch) == 0 {
		w.SetScratch(nil, nil, 0)
		return
	}
	for _, p := range scratch {
		p.Spoil()
	}
	base := scratch[0].Base()
	w.SetScratch(base, unsafe.Add(base, st.Call().SharedBytes), st.Call().EachBytes)
}

// constant returns a constant as kernels see it.
func (s *Site) constant(d *graph.Data) (*kernel.Tensor, error) {
	if d.Type != graph.String {
		return s.Constants.Tensor(d, s.Options.Bound())
	}
	if t := s.Words[d]; t != nil {
		return t, nil
	}
	list, err := constants.Texts(s.Program.Model.Source, d)
	if err != nil {
		return nil, values.About(d.Name, err)
	}
	t := &kernel.Tensor{Type: graph.String, Shape: make([]int, len(d.Dims)), Const: true, At: unsafe.Pointer(&values.Empty)}
	for i, n := range d.Dims {
		t.Shape[i] = int(n)
	}
	if len(list) > 0 {
		b, err := s.Mem.Side.Hold("constant "+values.NameOf(d.Name), 8*int64(len(list)))
		if err != nil {
			return nil, values.About(d.Name, err)
		}
		if err := s.StoreTexts(b, list); err != nil {
			return nil, values.About(d.Name, err)
		}
		t.At = unsafe.Pointer(unsafe.SliceData(b))
	}
	if s.Words == nil {
		s.Words = map[*graph.Data]*kernel.Tensor{}
	}
	s.Words[d] = t
	return t, nil
}
