package lower

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// CountInFile counts what the session's kernels read in mapped files: the constant inputs
// that they have not packed. It fails if a MemoryLimit is given and they exceed what is left
// of it. A device, or a guard, has copies of the constants.
func (s *Site) CountInFile() error {
	if s.GPU != nil || s.Mem.Guard != nil {
		return nil
	}
	return s.Constants.CountInFile(s.readInFile, s.Options.Bound())
}

// readInFile calls found for each constant that some kernel of the session reads in place,
// with the bytes that it makes resident at most.
func (s *Site) readInFile(found func(t *kernel.Tensor, bytes int64)) {
	for _, f := range s.Frames {
		for _, st := range f.Steps {
			if st.readsNothing() {
				continue
			}
			st.inputs(func(i int, t *kernel.Tensor, packed []*kernel.Tensor) {
				if t != nil && t.Const && !slices.Contains(packed, t) && !st.hasPacked(t) {
					found(t, st.bytesRead(i, t))
				}
			})
		}
	}
}

// source is a part of a constant that a kernel has packed.
type source struct {
	at    unsafe.Pointer
	bytes int64
}

// packs notes what the step's kernel has packed.
func (st *Step) packs(k form.PackKey) {
	if k.At == nil || slices.ContainsFunc(st.Has().sources, func(s source) bool { return s.at == k.At }) {
		return
	}
	if bytes, err := k.Type.SizeBytes(units.Mul(int64(k.Len), int64(k.K))); err == nil {
		own := st.own()
		own.sources = append(own.sources, source{k.At, bytes})
	}
}

// hasPacked reports whether the step's kernel has packed all of a constant.
func (st *Step) hasPacked(t *kernel.Tensor) bool {
	left := int64(t.Bytes())
	for _, s := range st.Has().sources {
		if uintptr(s.at)-uintptr(t.At) < uintptr(t.Bytes()) {
			left -= s.bytes
		}
	}
	return left <= 0
}

// UnpackedMore is by how much more of mapped files would be resident if the session's kernels
// had packed nothing.
func (s *Site) UnpackedMore() int64 {
	from := map[unsafe.Pointer]int64{}
	for _, f := range s.Frames {
		for _, st := range f.Steps {
			if st == nil {
				continue
			}
			for _, x := range st.Has().sources {
				from[x.at] = max(from[x.at], x.bytes)
			}
		}
	}
	return s.Constants.UnpackedMore(from)
}

// readsNothing reports whether a step reads no bytes in a run: its output is a shape, or a
// constant.
func (st *Step) readsNothing() bool {
	return ops.OfShape(st.Node()) || len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Const
}

// bytesRead is how much a step makes resident of its constant input i in one run. A node that
// reads rows of a table reads no more rows than it writes.
func (st *Step) bytesRead(i int, t *kernel.Tensor) int64 {
	all := int64(t.Bytes())
	if i > 0 || len(st.Out) == 0 || st.Out[0] == nil || !st.Out[0].Exact || !ops.ReadsRows(st.Node()) {
		return all
	}
	out := &st.Out[0].Tensor
	row := 1 // elements side by side in both
	for k := 1; k <= min(len(t.Shape), len(out.Shape)) && t.Shape[len(t.Shape)-k] == out.Shape[len(out.Shape)-k]; k++ {
		row *= t.Shape[len(t.Shape)-k]
	}
	if row == 0 || out.Len() == 0 {
		return 0
	}
	rows := int64(out.Len() / row)
	each := (int64(out.Bytes())/rows+constants.Window-1)/constants.Window*constants.Window + constants.Window // it may begin and end within windows
	return min(all, units.Mul(rows, each))
}
