package kernel

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// signals lists the transforms of signals, and the generators of window functions and
// filter weights.
var signals = family{"", []Kernel{
	{Name: "DFT", Make: makeDFT},
	{Name: "STFT", Make: makeSTFT},
	{Name: "HannWindow", Make: cosines(0.5, -0.5, 0), Half: true},
	{Name: "HammingWindow", Make: cosines(25.0/46, -21.0/46, 0), Half: true},
	{Name: "BlackmanWindow", Make: cosines(0.42, -0.5, 0.08), Half: true},
	{Name: "MelWeightMatrix", Make: makeMelWeightMatrix, Half: true},
}}

// cosines makes the kernel of a sum of cosines over a period.
func cosines(constant, once, twice float64) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		out := c.Out[0]
		set, ok := form.Writer(out.Type)
		if !ok {
			return nil, unsupported(out.Type)
		}
		n := out.Len()
		period := float64(n)
		if c.Int("periodic", 1) == 0 {
			period--
		}
		part := func(p, _ int) {
			for i := p * grain; i < min((p+1)*grain, n); i++ {
				angle := 2 * math.Pi * float64(i) / period
				set(out.At, i, constant+once*math.Cos(angle)+twice*math.Cos(2*angle))
			}
		}
		return func(w *work.Pool) error {
			w.For(cuts(n, grain), part)
			return nil
		}, nil
	}
}

// makeMelWeightMatrix makes triangular filters over the bins of a spectrum, with corners
// at equal distances on the mel scale.
func makeMelWeightMatrix(c *Invocation) (Run, error) {
	out := c.Out[0]
	set, ok := form.Writer(out.Type)
	if !ok || out.Rank() != 2 {
		return nil, unsupported(out.Type)
	}
	bins, bands := out.Shape[0], out.Shape[1]
	return func(*work.Pool) error {
		length, rate := c.Number(1), c.Number(2)
		mel := func(hertz float64) float64 { return 2595 * math.Log10(1+hertz/700) }
		low := mel(c.Number(3))
		step := (mel(c.Number(4)) - low) / float64(bands+2)
		m := c.Meter()
		corner := func(i int) (int, error) {
			m.Add(8)
			hertz := 700 * (math.Pow(10, (low+float64(i)*step)/2595) - 1)
			bin := math.Floor((length + 1) * hertz / rate)
			if !(bin >= 0 && bin < float64(bins)) {
				return 0, fmt.Errorf("band edge %d lies at bin %v, expected one of [0, %d)", i, bin, bins)
			}
			return int(bin), nil
		}
		left, err := corner(0)
		if err != nil {
			return err
		}
		centre, err := corner(1)
		if err != nil {
			return err
		}
		c.Clear(raw(out))
		for i := range bands {
			right, err := corner(i + 2)
			if err != nil {
				return err
			}
			m.Add(max(right-left, 0))
			for j := left; j < centre; j++ {
				set(out.At, j*bands+i, float64(j-left)/float64(centre-left))
			}
			set(out.At, centre*bands+i, 1)
			for j := centre + 1; j < right; j++ {
				set(out.At, j*bands+i, float64(right-j)/float64(right-centre))
			}
			left, centre = centre, right
		}
		return nil
	}, nil
}
