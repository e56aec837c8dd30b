package device

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// mostSlicePieces bounds the copies of a slice whose bytes are not in one piece: beyond it
// the host copies them, since each one costs a call of the driver.
const mostSlicePieces = 16

// LoadSlice copies slice k along an axis of whole, which lies on the device, to the place of
// slice there. It reports false if the host has to do it.
func (g *Memory) LoadSlice(slice, whole *values.Tensor, axis, k int) (bool, error) {
	if g == nil || whole.Where&values.OnDevice == 0 || whole.Const {
		return false, nil
	}
	done, err := g.copySlice(slice, whole, axis, k, true)
	if done {
		slice.Where = values.OnDevice
	}
	return done, err
}

// StoreSlice copies slice to slice k along an axis of whole, on the device. The first slice
// that is stored decides where whole is: there if slice is. It reports false if the host has
// to do it.
func (g *Memory) StoreSlice(whole, slice *values.Tensor, axis, k int, first bool) (bool, error) {
	switch {
	case g == nil,
		first && (slice.Where&values.OnDevice == 0 || slice.Const),
		!first && whole.Where != values.OnDevice:
		return false, nil
	}
	if err := g.Up(slice); err != nil {
		return false, err
	}
	done, err := g.copySlice(slice, whole, axis, k, false)
	if done {
		whole.Where = values.OnDevice
	}
	return done, err
}

// copySlice copies slice k along an axis of whole to slice (out), or from it.
func (g *Memory) copySlice(slice, whole *values.Tensor, axis, k int, out bool) (bool, error) {
	outer := 1
	for _, n := range whole.Shape[:axis] {
		outer *= n
	}
	if outer > mostSlicePieces || slice.Bytes() == 0 || values.PackedBits(slice) != 0 {
		return false, nil
	}
	part, err := g.At(&slice.Tensor)
	if err != nil {
		return false, nil
	}
	all, err := g.At(&whole.Tensor)
	if err != nil {
		return false, nil
	}
	inner, step := slice.Bytes()/outer, whole.Bytes()/outer
	for o := range outer {
		a, b := part+driver.Ptr(o*inner), all+driver.Ptr(o*step+k*inner)
		if !out {
			a, b = b, a
		}
		if err := driver.Copy(a, b, int64(inner), g.Queue.Stream); err != nil {
			return false, err
		}
	}
	return true, nil
}

// AppendRow copies a row behind used bytes of a planned tensor, on the device. The first row
// decides where the tensor is, as in storeSlice. It reports false if the host has to do it.
func (g *Memory) AppendRow(out, row *values.Tensor, used int, first bool) (bool, error) {
	switch {
	case g == nil, row.Bytes() == 0,
		first && (row.Where&values.OnDevice == 0 || row.Const),
		!first && out.Where != values.OnDevice:
		return false, nil
	}
	place := &values.Tensor{Tensor: row.Tensor}
	place.Const, place.Shape, place.At = false, slices.Clone(row.Shape), unsafe.Add(out.At, used)
	to, err := g.At(&place.Tensor)
	if err != nil {
		return false, nil
	}
	if err := g.Up(row); err != nil {
		return false, err
	}
	from, err := g.At(&row.Tensor)
	if err != nil {
		return false, nil
	}
	out.Where = values.OnDevice
	return true, driver.Copy(to, from, int64(row.Bytes()), g.Queue.Stream)
}
