package ops

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// signals lists transforms of signals, and the weights of windows and filters.
var signals = family{"", []Op{
	{Name: "DFT", Class: Other, Infer: dft},
	{Name: "STFT", Class: Other, Infer: stft, Rounds: always},
	{Name: "HannWindow", Class: Other, Infer: inferWindow},
	{Name: "HammingWindow", Class: Other, Infer: inferWindow},
	{Name: "BlackmanWindow", Class: Other, Infer: inferWindow},
	{Name: "MelWeightMatrix", Class: Other, Infer: inferMelWeightMatrix, Rounds: always},
}}

// dft covers DFT: the last axis holds real and imaginary parts. axis is an
// attribute up to version 19 (default 1), an input from 20 on (default -2).
// onesided keeps the first half of the spectrum; inverse with onesided takes such
// a half and returns real numbers.
func dft(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	a := c.In[0]
	if !a.Ranked {
		c.SetUnranked(0, a.Elem)
		return nil
	}
	rank := len(a.Shape)
	if last := a.Shape[rank-1]; differ(last, 1) && differ(last, 2) {
		return c.BadInput(0, "1 (real) or 2 (complex) along the last axis")
	}
	inverse, onesided := c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0
	parts := graph.Dim(2)
	if inverse && onesided {
		parts = 1
	}
	shape := with(a.Shape, rank-1, parts)
	axis, known := c.Int("axis", 1), true
	if c.Version >= 20 {
		axis = -2
		if c.Has(2) {
			axis, known = c.In[2].Value.Int()
		}
	}
	length, err := c.lengthArg(1, "dft_length")
	if err != nil {
		return err
	}
	transformed := func(n graph.Dim) graph.Dim {
		switch {
		case c.Has(1):
			n = length
		case inverse && onesided:
			n = Mono(n, func(n int64) int64 { return clampMul(n-1, 2) })
		}
		if onesided && !inverse {
			n = Mono(n, func(n int64) int64 { return n/2 + 1 })
		}
		return n
	}
	if !known {
		for i, n := range a.Shape[:rank-1] {
			shape[i] = unionDim(n, transformed(n)) // it may be the transformed axis
		}
		c.Set(0, a.Elem, shape)
		return nil
	}
	k, err := attr.Axis("axis", axis, rank)
	if err != nil {
		return err
	}
	if k == rank-1 {
		return c.Errf("axis is %d, the one of the real and imaginary parts: expected another", axis)
	}
	shape[k] = transformed(a.Shape[k])
	c.Set(0, a.Elem, shape)
	return nil
}

// stft covers STFT: signal [batch length parts], scalars frame_step and
// frame_length; the output is [batch frames bins 2].
func stft(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.WantRank(0, 2, 3); err != nil {
		return err
	}
	if err := c.WantRank(2, 1); err != nil {
		return err
	}
	length := c.DimOf(0, 1)
	frame := length
	switch window := c.DimOf(2, 0); {
	case c.Has(3):
		var err error
		if frame, err = c.lengthArg(3, "frame_length"); err != nil {
			return err
		}
		if differ(frame, window) {
			return c.BadInput(2, "the frame_length %s", frame)
		}
		frame = TakeDim(frame, window)
	case c.Has(2):
		frame = window
	}
	if frame.Exact() && length.Exact() && frame > length {
		return c.BadInput(0, "at least the frame_length %s along axis 1", frame)
	}
	// If one of the two is unknown, its smallest value gives a bound.
	step, known := c.In[1].Value.Int()
	if known && step < 1 {
		return c.Errf("frame_step is %d, expected at least 1", step)
	}
	step = max(step, 1)
	least := int64(1)
	if frame.Exact() {
		least = int64(frame)
	}
	frames := Mono(length, func(n int64) int64 { return (n-least)/step + 1 })
	if !known || !frame.Exact() {
		frames = boundOf(frames)
	}
	bins := frame
	if c.Int("onesided", 1) != 0 {
		bins = Mono(frame, func(n int64) int64 { return n/2 + 1 })
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(0, 0), frames, bins, 2})
	return nil
}

// clampMul is a · b, or the largest integer if that overflows.
func clampMul(a, b int64) int64 {
	if p, ok := mulChecked(a, b); ok {
		return p
	}
	return int64(^uint64(0) >> 1)
}

// inferWindow covers HannWindow, HammingWindow and BlackmanWindow.
func inferWindow(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	elem, err := c.elemAttr("output_datatype", graph.Float32)
	if err != nil {
		return err
	}
	n, err := c.lengthArg(0, "length")
	if err != nil {
		return err
	}
	c.Set(0, elem, []graph.Dim{n})
	return nil
}

// inferMelWeightMatrix: [dft_length/2 + 1, num_mel_bins].
func inferMelWeightMatrix(c *Call) error {
	if err := c.takes(5, 5); err != nil {
		return err
	}
	elem, err := c.elemAttr("output_datatype", graph.Float32)
	if err != nil {
		return err
	}
	bins, err := c.lengthArg(0, "number of bins")
	if err != nil {
		return err
	}
	length, err := c.lengthArg(1, "length of the transform")
	if err != nil {
		return err
	}
	for i := 2; i < 5; i++ {
		if err := c.needOneElement(i, "frequency"); err != nil {
			return err
		}
	}
	c.Set(0, elem, []graph.Dim{Mono(length, func(n int64) int64 { return n/2 + 1 }), bins})
	return nil
}
