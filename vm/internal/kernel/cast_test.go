package kernel

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// The loops for a pair of dtypes write the bytes of the functions that convert one element,
// also of an odd number of elements and from the middle of a tensor.
func TestCastLoops(t *testing.T) {
	wholes := []graph.DType{
		graph.Int64, graph.Int32, graph.Int16, graph.Int8,
		graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8, graph.Bool,
	}
	reals := []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), -1.5, 0.4, 300.9, 65536.5, -40000, 1 << 31, -1 << 31,
		math.Nextafter(1<<31, 0), -1<<31 - 0.5, -1<<31 - 1, 3e9, 5e9, -3e9, 1 << 63, -1 << 63, math.Nextafter(1<<63, 0), 1.9e19, -1e19, 1, 2,
	}
	const n = 37
	check := func(to graph.DType, in *Tensor, set func(*Tensor, int)) {
		t.Helper()
		loop := fastConverter(to, in.Type)
		if loop == nil {
			return
		}
		got, want := blank(to, []int{n}), blank(to, []int{n})
		loop(got.At, in.At, 0, 14)
		loop(got.At, in.At, 14, n)
		for i := range n {
			set(want, i)
		}
		if !bytes.Equal(raw(got), raw(want)) {
			t.Errorf("%v to %v: got % x, want % x", in.Type, to, raw(got), raw(want))
		}
	}
	targets := append([]graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16}, wholes...)
	for _, from := range append([]graph.DType{graph.Float32, graph.Float64}, wholes...) {
		in := blank(from, []int{n})
		for i := range raw(in) {
			raw(in)[i] = byte(i*i*7 + i>>3)
		}
		if set, _ := form.Writer(from); from == graph.Float32 || from == graph.Float64 {
			for i := range n {
				set(in.At, i, reals[i%len(reals)])
			}
		}
		if from == graph.Bool {
			copy(raw(in), make([]byte, 9))
		}
		for _, to := range targets {
			if to == from {
				continue
			}
			whole, isWhole := form.IntReader(from)
			put, puts := form.IntWriter(to)
			get, _ := form.Reader(from)
			set, _ := form.Writer(to)
			check(to, in, func(want *Tensor, i int) {
				if isWhole && puts {
					put(want.At, i, whole(in.At, i))
				} else {
					set(want.At, i, get(in.At, i))
				}
			})
		}
	}
}

// TestCastToFloat8 compares the codes of float8 numbers with those of ONNX's reference (onnx
// 1.23.2), which do not depend on the type of the source. They are NaN, infinity, the largest
// numbers of each format, halves above them, the least ones, and halves of these. Then come
// the same with the other sign.
func TestCastToFloat8(t *testing.T) {
	list := []float64{
		math.NaN(), math.Inf(1), 0, 0x1.bp1, 0x1.dp-4, 0x1.ep7, 0x1.fp7, 0x1.f4p7, 0x1.cp8, 0x1.dp8, 0x1.d2p8, 0x1.ep8, 0x1.cp15, 0x1.ep15, 0x1.e2p15, 0x1p16,
		0x1p-9, 0x1p-10, 0x1.8p-10, 0x1.02p-10, 0x1p-11, 0x1.02p-11, 0x1p-12, 0x1p-16, 0x1p-17, 0x1.02p-17, 0x1p-18, 0x1.04p-18, 0x1p-19,
	}
	for _, v := range list {
		list = append(list, math.Copysign(v, -1))
	}
	for _, c := range []struct {
		to                graph.DType
		saturated, plain  string
		tie               uint8 // 1.0625 or 1.125, and a little more, that a float32 does not have
		largest, overflow uint8 // 1e300
	}{
		{
			graph.Float8E4M3FN,
			"7f7e00461e7778787e7e7e7e7e7e7e7e01000101000000000000000000fffe80c69ef7f8f8fefefefefefefefe81808181808080808080808080",
			"7f7f00461e7778787e7e7f7f7f7f7f7f01000101000000000000000000ffff80c69ef7f8f8fefeffffffffffff81808181808080808080808080",
			0x38, 0x7e, 0x7f,
		},
		{
			graph.Float8E4M3U,
			"807f004e267f7f7f7f7f7f7f7f7f7f7f0201020100010000000000000080ff00cea6ffffffffffffffffffffff82818281008100000000000000",
			"8080004e267f8080808080808080808002010201000100000000000000808000cea6ff8080808080808080808082818281008100000000000000",
			0x40, 0x7f, 0x80,
		},
		{
			graph.Float8E5M2,
			"7f7b00432f5c5c5c5f5f5f607b7b7b7b1814161410100c010001000000fffb80c3afdcdcdcdfdfdfe0fbfbfbfb9894969490908c818081808080",
			"7f7c00432f5c5c5c5f5f5f607b7c7c7c1814161410100c010001000000fffc80c3afdcdcdcdfdfdfe0fbfcfcfc9894969490908c818081808080",
			0x3c, 0x7b, 0x7c,
		},
		{
			graph.Float8E5M2U,
			"807f004733606060636363647f7f7f7f1c181a1814141002010100010080ff00c7b3e0e0e0e3e3e3e4ffffffff9c989a98949490828181008100",
			"8080004733606060636363647f8080801c181a18141410020101000100808000c7b3e0e0e0e3e3e3e4ff8080809c989a98949490828181008100",
			0x40, 0x7f, 0x80,
		},
	} {
		for saturate, codes := range []string{c.plain, c.saturated} {
			want, err := hex.DecodeString(codes)
			if err != nil || len(want) != len(list) {
				t.Fatalf("%v: %d codes, %v", c.to, len(want), err)
			}
			attributes := attrs(whole1("saturate", int64(saturate)))
			for _, from := range []graph.DType{graph.Float32, graph.Float16, graph.BFloat16, graph.Float64} {
				in, out := store(realList(list...), from), blank(c.to, []int{len(list)})
				n := &Invocation{Call: form.Call{Node: &graph.Node{Op: "Cast", Attrs: attributes}, Version: 24, In: []*Tensor{in}, Out: []*Tensor{out}, Runtime: alone{}}}
				if err := prepareAndRun(n, Lookup("", "Cast"), 1); err != nil {
					t.Fatal(err)
				}
				for i, v := range list {
					if raw(out)[i] != want[i] {
						t.Errorf("%v to %v, saturate %d: got %#x for %v, want %#x", from, c.to, saturate, raw(out)[i], v, want[i])
					}
				}
			}
			tie := 1.0625
			if c.to == graph.Float8E5M2 || c.to == graph.Float8E5M2U {
				tie = 1.125
			}
			in, out := store(realList(tie+0x1p-40, 1e300, 0, -1e300), graph.Float64), blank(c.to, []int{4})
			scale := store(&reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{1}}, graph.Float64)
			quantize := &Invocation{Call: form.Call{Node: &graph.Node{Op: "QuantizeLinear", Attrs: attributes}, Version: 25, In: []*Tensor{in, scale}, Out: []*Tensor{out}, Runtime: alone{}}}
			if err := prepareAndRun(quantize, Lookup("", "QuantizeLinear"), 1); err != nil {
				t.Fatal(err)
			}
			end := []uint8{c.overflow, c.largest}[saturate]
			if got, want := raw(out), []byte{c.tie, end, 0, end | 0x80}; !bytes.Equal(got, want) {
				t.Errorf("QuantizeLinear to %v, saturate %d: got % x, want % x", c.to, saturate, got, want)
			}
		}
	}
}

func TestRelationLoops(t *testing.T) {
	a, b := make([]float64, 36), make([]float64, 36)
	for i := range a {
		list := []float64{math.Inf(-1), -2, 0, 3, math.Inf(1), math.NaN()}
		a[i], b[i] = list[i/6], list[i%6]
	}
	for _, r := range []simd.Relation{simd.Equal, simd.Less, simd.LessOrEqual} {
		for _, swapped := range []bool{false, true} {
			l := relationLoops[float64](r, swapped)
			vv, one := make([]bool, len(a)), make([]bool, 1)
			l.vv(vv, a, b)
			for i := range a {
				x, y := a[i], b[i]
				if swapped {
					x, y = y, x
				}
				want := x == y && r != simd.Less || x < y && r != simd.Equal
				l.vs(one, a[i:i+1], b[i])
				vs := one[0]
				l.sv(one, a[i], b[i:i+1])
				if vv[i] != want || vs != want || one[0] != want {
					t.Errorf("relation %v (swapped %v) of %v and %v: got %v, %v, %v, want %v", r, swapped, a[i], b[i], vv[i], vs, one[0], want)
				}
			}
		}
	}
}
