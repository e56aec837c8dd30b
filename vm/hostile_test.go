package vm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// runGraph writes a graph to a file, plans it and runs it. It returns output of.
func runGraph(g *graph.Graph, opsets []graph.Opset, values map[string]vm.Value, of int) (vm.Value, error) {
	p, err := planGraph(g, opsets)
	if err != nil {
		return vm.Value{}, err
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{})
	if err != nil {
		return vm.Value{}, err
	}
	defer s.Close()
	out, err := s.Run(context.Background(), values)
	if err != nil {
		return vm.Value{}, err
	}
	return out[p.Outputs()[of].Name].Clone(), nil
}

// planGraph writes a graph to a file and plans it.
func planGraph(g *graph.Graph, opsets []graph.Opset) (*vm.Program, error) {
	g.Link()
	image, err := onnx.Encode(&graph.Model{IRVersion: 8, Opsets: opsets, Graph: g})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := image.WriteTo(&b); err != nil {
		return nil, err
	}
	m, err := onnx.Parse("g.onnx", b.Bytes())
	if err != nil {
		return nil, err
	}
	r, err := passes.Optimize(context.Background(), m, passes.Options{})
	if err != nil {
		return nil, err
	}
	return vm.New(r.Model, r.Plan)
}

// absent stands for an omitted input.
var absent vm.Value

// zeros returns a value of zeros.
func zeros(d graph.DType, shape ...int) vm.Value {
	n := int64(1)
	for _, k := range shape {
		n *= int64(k)
	}
	return vm.Value{Type: d, Shape: append([]int{}, shape...), Data: make([]byte, (n*d.Bits()+7)/8)}
}

// shaped returns a float32 value of a shape.
func shaped(shape []int, list ...float32) vm.Value { return vm.Float32s(list, shape...) }

// octets returns a value of an 8-bit type, or bool.
func octets(d graph.DType, shape []int, list ...byte) vm.Value {
	return vm.Value{Type: d, Shape: shape, Data: list}
}

// int32s returns an int32 value of a shape.
func int32s(shape []int, list ...int32) vm.Value {
	v := vm.Value{Type: graph.Int32, Shape: shape}
	for _, x := range list {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, uint32(x))
	}
	return v
}

func TestProductsAtTheEdge(t *testing.T) {
	u8 := graph.Uint8
	ones := shaped([]int{16}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	packed := func(block, bits int) []*graph.Attr {
		return attrs(attr("N", 1), attr("K", 16), attr("block_size", block), attr("bits", bits))
	}
	runNodeCases(t, []nodeCase{
		{doc: "one column and a number as bias", op: "Gemm", in: []vm.Value{shaped([]int{2, 1}, 1, 2), shaped([]int{1, 1}, 3), shaped([]int{}, 4)}, gives: []float64{7, 10}},
		{doc: "a depth of 0 and a bias", op: "Gemm", in: []vm.Value{zeros(graph.Float32, 2, 0), zeros(graph.Float32, 0, 2), shaped([]int{2}, 4, 5)}, gives: []float64{4, 5, 4, 5}},
		{doc: "shapes that do not multiply", op: "MatMul", in: []vm.Value{zeros(graph.Float32, 2, 3), zeros(graph.Float32, 4, 2)}, want: `has shape [4,2], expected 3 rows`},
		{doc: "no axis", op: "MatMul", in: []vm.Value{zeros(graph.Float32), zeros(graph.Float32, 4, 2)}, want: "at least rank 1"},
		{
			doc: "a zero point for each row and column", op: "MatMulInteger", gives: []float64{8, 7, 6, 5},
			in: []vm.Value{octets(u8, []int{2, 2}, 2, 4, 3, 4), octets(u8, []int{2, 2}, 3, 3, 3, 4), octets(u8, []int{2}, 1, 2), octets(u8, []int{2}, 1, 2)},
		},
		{
			doc: "zero points of no length", op: "MatMulInteger", want: `has shape [0], expected one element, [2] or [2,1]: one for each row of input 0`,
			in: []vm.Value{zeros(u8, 2, 2), zeros(u8, 2, 2), zeros(u8, 0)},
		},

		{doc: "a row of ones in 4 bits", op: "com.microsoft.MatMulNBits", attrs: packed(16, 4), in: []vm.Value{ones, octets(u8, []int{8}, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99), shaped([]int{1}, 2)}, gives: []float64{32}},
		{doc: "blocks of no length", op: "com.microsoft.MatMulNBits", attrs: packed(0, 4), in: []vm.Value{ones, zeros(u8, 8), shaped([]int{1}, 2)}, want: "block_size is 0, expected a power of 2 from 16"},
		{doc: "blocks beyond all numbers", op: "com.microsoft.MatMulNBits", attrs: packed(1<<62, 4), in: []vm.Value{ones, zeros(u8, 8), shaped([]int{1}, 2)}, want: "expected a power of 2 from 16"},
		{doc: "numbers of 3 bits", op: "com.microsoft.MatMulNBits", attrs: packed(16, 3), in: []vm.Value{ones, zeros(u8, 6), shaped([]int{1}, 2)}, want: "no kernel for numbers of 3 bits"},
		{doc: "weights that are too short", op: "com.microsoft.MatMulNBits", attrs: packed(16, 8), in: []vm.Value{ones, zeros(u8, 8), shaped([]int{1}, 2)}, want: "weights have shape [8], expected 16 elements"},
		{doc: "an index that is out of range", op: "com.microsoft.GatherBlockQuantized", attrs: attrs(attr("block_size", 16), attr("bits", 8)), in: []vm.Value{octets(u8, []int{1, 1}, 130), vm.Int64s([]int64{0, math.MaxInt64, -1}, 3), shaped([]int{1, 1}, 2)}, gives: []float64{4, 0, 4}},
		{doc: "scales for other blocks", op: "com.microsoft.GatherBlockQuantized", attrs: attrs(attr("block_size", 16)), in: []vm.Value{zeros(u8, 1, 16), vm.Int64s([]int64{0}, 1), shaped([]int{1, 1}, 2)}, want: "scales have shape [1 1], expected [1 2]"},
		{doc: "zero points that are not packed", op: "com.microsoft.GatherBlockQuantized", attrs: attrs(attr("block_size", 16)), in: []vm.Value{zeros(u8, 1, 16), vm.Int64s([]int64{0}, 1), shaped([]int{1, 2}, 2, 2), zeros(u8, 1, 2)}, want: "expected uint8 of shape [1 1]"},
		{doc: "an axis that is none", op: "com.microsoft.GatherBlockQuantized", attrs: attrs(attr("block_size", 16), attr("quantize_axis", 2)), in: []vm.Value{zeros(u8, 1, 16), vm.Int64s([]int64{0}, 1), shaped([]int{1, 2}, 2, 2)}, want: "quantize_axis is 2, expected one in [-2, 2)"},
		{doc: "no scale", op: "com.microsoft.MatMulNBits", attrs: packed(16, 4), in: []vm.Value{ones, zeros(u8, 8), zeros(graph.Float32, 0)}, want: "scales have shape [0], expected 1 elements"},
	})
}

func TestQuantizersAtTheEdge(t *testing.T) {
	s := shaped([]int{1, 1}, 0.5)
	runNodeCases(t, []nodeCase{
		{doc: "a scale for each element of a list", op: "QuantizeLinear", in: []vm.Value{shaped([]int{2}, 1, 2), shaped([]int{2}, 0.5, 0.25)}, gives: []float64{2, 8}},
		{doc: "one scale of two axes", op: "QuantizeLinear", in: []vm.Value{shaped([]int{2, 2}, 1, 2, 3, 4), s}, gives: []float64{2, 4, 6, 8}},
		{doc: "blocks longer than the axis", op: "QuantizeLinear", attrs: attrs(attr("block_size", math.MaxInt64)), in: []vm.Value{shaped([]int{1, 2}, 1, 2), s}, gives: []float64{2, 4}},
		{doc: "one scale for two lines of blocks", op: "QuantizeLinear", attrs: attrs(attr("block_size", 2)), in: []vm.Value{zeros(graph.Float32, 2, 2), s}, want: "expected one scale or [2,1]"},
		{doc: "blocks before opset 21", op: "QuantizeLinear", version: 19, attrs: attrs(attr("block_size", 2)), in: []vm.Value{shaped([]int{1, 2}, 1, 2), shaped([]int{2}, 0.5, 0.25)}, gives: []float64{2, 8}},
		{doc: "nothing to find a scale of", op: "DynamicQuantizeLinear", outs: 3, in: []vm.Value{zeros(graph.Float32, 0)}, gives: []float64{}},
	})
}

func TestRecurrentAtTheEdge(t *testing.T) {
	f := graph.Float32
	x, w, r := zeros(f, 3, 2, 4), zeros(f, 1, 15, 4), zeros(f, 1, 15, 5)
	size := attr("hidden_size", 5)
	for _, direction := range []string{"forward", "reverse"} {
		lens := func(n ...int32) []vm.Value { return []vm.Value{x, w, r, absent, int32s([]int{2}, n...)} }
		attrs := attrs(size, attr("direction", direction))
		runNodeCases(t, []nodeCase{
			{doc: "lengths", op: "GRU", attrs: attrs, in: lens(3, 0)},
			{doc: "a sequence longer than the input", op: "GRU", attrs: attrs, in: lens(3, 4), want: "input 4: sequence 1 has length 4, expected one in [0, 3]"},
			{doc: "a negative length", op: "GRU", attrs: attrs, in: lens(-1, 3), want: "input 4: sequence 0 has length -1, expected one in [0, 3]"},
		})
	}
	runNodeCases(t, []nodeCase{
		{doc: "a state for another batch", op: "GRU", attrs: attrs(size), in: []vm.Value{x, w, r, absent, absent, zeros(f, 1, 3, 5)}, want: `has shape [1,3,5], expected [1,2,5]`},
		{doc: "weights of another size", op: "GRU", attrs: attrs(size), in: []vm.Value{x, w, zeros(f, 1, 15, 6)}, want: `has shape [1,15,6], expected [1,15,5]`},
		{doc: "a bias of half the length", op: "GRU", attrs: attrs(size), in: []vm.Value{x, w, r, zeros(f, 1, 15)}, want: `has shape [1,15], expected [1,30]`},
		{doc: "activations too few", op: "GRU", attrs: []*graph.Attr{size, {Name: "activations", Type: graph.AttrStrings, Strings: []string{"Tanh"}}}, in: []vm.Value{x, w, r}, want: "1 activations, expected 2"},
		{doc: "no steps", op: "GRU", attrs: attrs(size), outs: 2, in: []vm.Value{zeros(f, 0, 2, 4), w, r}},
		{doc: "no inputs", op: "GRU", attrs: attrs(size), in: []vm.Value{zeros(f, 3, 2, 0), zeros(f, 1, 15, 0), r}},
		{doc: "no state", op: "GRU", outs: 2, in: []vm.Value{x, zeros(f, 1, 0, 4), zeros(f, 1, 0, 0)}},
	})
}

func TestAttentionAtTheEdge(t *testing.T) {
	f := graph.Float32
	q, k := zeros(f, 2, 1, 2, 1), zeros(f, 2, 1, 2, 1)
	v := shaped([]int{2, 1, 2, 1}, 1, 3, 5, 7)
	keys := func(n ...int64) []vm.Value { return []vm.Value{q, k, v, absent, absent, absent, vm.Int64s(n, 2)} }
	x := shaped([]int{1, 2, 2}, 1, 2, 3, 4)
	table := shaped([]int{2, 1}, 0, 1)
	turned := func(p ...int64) []vm.Value { return []vm.Value{x, table, table, vm.Int64s(p, 1, 2)} }
	from := func(p int64) []vm.Value { return []vm.Value{x, vm.Int64s([]int64{p}, 1), table, table} }
	merged := zeros(f, 2, 6)
	masked := func(m vm.Value) []vm.Value { return []vm.Value{zeros(f, 1, 2, 2), merged, zeros(f, 6), m} }
	one := attr("num_heads", 1)
	grouped := func(more ...*graph.Attr) []*graph.Attr { return append(more, one, attr("kv_num_heads", 1)) }
	token := func(v float32) vm.Value { return shaped([]int{1, 1, 1}, v) }
	step := func(last, total int32) []vm.Value { // keys are equal, values 3 and 7
		cache := func(v float32) vm.Value { return shaped([]int{1, 1, 1, 1}, v) }
		return []vm.Value{token(1), token(2), token(7), cache(2), cache(3), int32s([]int{1}, last), int32s([]int{1}, total)}
	}
	skipped := []vm.Value{shaped([]int{1, 2}, 1, 3), shaped([]int{2}, 0, 2), shaped([]int{2}, 1, 1)}
	runNodeCases(t, []nodeCase{
		{doc: "numbers of keys", op: "Attention", version: 24, in: keys(1, 2), gives: []float64{1, 1, 6, 6}},
		{doc: "more keys than there are", op: "Attention", version: 24, in: keys(1, 3), want: "input 6: batch 1 has 3 keys, expected a number in [0, 2]"},
		{doc: "fewer keys than none", op: "Attention", version: 24, in: keys(math.MinInt64, 1), want: "input 6: batch 0 has -9223372036854775808 keys"},
		{doc: "true in a mask is any byte but 0", op: "Attention", version: 24, in: []vm.Value{q, k, v, octets(graph.Bool, []int{2, 2}, 2, 0, 0, 255)}, gives: []float64{1, 3, 5, 7}},
		{doc: "values of another dtype", op: "Attention", version: 24, in: []vm.Value{q, k, zeros(graph.Float64, 2, 1, 2, 1)}, want: "no kernel for dtype float64"},
		{doc: "a past of another length", op: "Attention", version: 24, in: []vm.Value{q, k, v, absent, zeros(f, 2, 1, 3, 1), zeros(f, 2, 1, 2, 1)}, want: `has shape [2,1,2,1], expected [2,1,3,1]`},
		{doc: "a key of another batch", op: "Attention", version: 24, in: []vm.Value{q, zeros(f, 1, 1, 2, 1), v}, want: "input 1"},
		{doc: "no keys", op: "Attention", version: 24, in: []vm.Value{q, zeros(f, 2, 1, 0, 1), zeros(f, 2, 1, 0, 1)}, gives: []float64{0, 0, 0, 0}},

		{doc: "positions", op: "RotaryEmbedding", version: 23, attrs: attrs(one), in: turned(1, 0), gives: []float64{-1, 3, 0, 0}},
		{doc: "a position beyond the table", op: "RotaryEmbedding", version: 23, attrs: attrs(one), in: turned(1, 2), want: "input 3: element 1 is position 2, expected one in [0, 2)"},
		{doc: "a position before it", op: "RotaryEmbedding", version: 23, attrs: attrs(one), in: turned(-1, 0), want: "input 3: element 0 is position -1"},

		{doc: "positions from the first one on", op: "com.microsoft.RotaryEmbedding", attrs: attrs(one), in: from(0), gives: []float64{0, 0, -1, 7}},
		{doc: "a first position too far", op: "com.microsoft.RotaryEmbedding", attrs: attrs(one), in: from(1), want: "input 1: element 0 is position 1, expected one in [0, 1)"},
		{doc: "the largest number as a position", op: "com.microsoft.RotaryEmbedding", attrs: attrs(one), in: from(math.MaxInt64), want: "input 1: element 0 is position"},
		{doc: "heads that do not divide", op: "com.microsoft.RotaryEmbedding", attrs: attrs(attr("num_heads", 3)), in: from(0), want: "num_heads is 3, expected a divisor of 2"},
		{doc: "more pairs than a head has", op: "com.microsoft.RotaryEmbedding", attrs: attrs(one, attr("rotary_embedding_dim", 4)), in: from(0), want: "rotary_embedding_dim is 4, expected an even number up to 2"},

		{doc: "lengths as a mask", op: "com.microsoft.Attention", attrs: attrs(one), in: masked(int32s([]int{1}, 1))},
		{doc: "a mask of no axis", op: "com.microsoft.Attention", attrs: attrs(one), in: masked(int32s([]int{}, 1)), want: "no kernel for a mask (input 3) of shape []"},
		{doc: "marks of other keys", op: "com.microsoft.Attention", attrs: attrs(one), in: masked(int32s([]int{1, 3}, 1, 1, 1)), want: "no kernel for a mask (input 3) of shape [1 3]"},

		{doc: "keys of which none is seen", op: "com.microsoft.MultiHeadAttention", attrs: attrs(one), in: []vm.Value{token(1), token(2), token(7), absent, int32s([]int{1}, -5)}, gives: []float64{7}},
		{doc: "a mask of another length", op: "com.microsoft.MultiHeadAttention", attrs: attrs(one), in: []vm.Value{token(1), token(2), token(7), absent, int32s([]int{1, 2}, 1, 1)}, want: "no kernel for a mask (input 4) of shape [1 2] beside 1 keys"},
		{doc: "a bias of another length", op: "com.microsoft.MultiHeadAttention", attrs: attrs(one), in: []vm.Value{token(1), token(2), token(7), shaped([]int{2}, 1, 2)}, want: "input 3 has shape [2], expected [3]"},
		{doc: "queries alone", op: "com.microsoft.MultiHeadAttention", attrs: attrs(one), in: []vm.Value{shaped([]int{1, 1, 3}, 1, 2, 3)}, want: "no kernel for queries of shape [1 1 3] without keys"},
		{doc: "one token after another", op: "com.microsoft.GroupQueryAttention", attrs: grouped(), in: step(1, 2), gives: []float64{5}},
		{doc: "more keys than there are", op: "com.microsoft.GroupQueryAttention", attrs: grouped(), in: step(2, 3), want: "input 6: total_sequence_length is 3, expected a number in [1, 2]"},
		{doc: "no keys", op: "com.microsoft.GroupQueryAttention", attrs: grouped(), in: step(-1, 2), want: "input 5: batch 0 has -1 as its number of keys less 1, expected a number in [0, 2)"},
		{doc: "fewer keys than queries", op: "com.microsoft.GroupQueryAttention", attrs: grouped(), in: step(0, 0), want: "input 6: total_sequence_length is 0, expected a number in [1, 2]"},
		{doc: "angles that are missing", op: "com.microsoft.GroupQueryAttention", attrs: grouped(attr("do_rotary", 1)), in: step(1, 2), want: "do_rotary is 1, but inputs 7 and 8 are missing"},
		{doc: "a position beyond the angles", op: "com.microsoft.GroupQueryAttention", attrs: grouped(attr("do_rotary", 1)), in: append(step(1, 2), zeros(f, 1, 0), zeros(f, 1, 0)), want: "query 0 of batch 0 has position 1, expected one in [0, 1)"},
		{doc: "a cache of a window", op: "com.microsoft.GroupQueryAttention", attrs: grouped(attr("sliding_window_cache", 1)), in: step(1, 2), want: "no kernel for sliding_window_cache"},

		{doc: "the mean", op: "com.microsoft.SkipLayerNormalization", outs: 3, in: skipped, of: 1, gives: []float64{3}},
		{doc: "the inverse deviation", op: "com.microsoft.SkipLayerNormalization", outs: 3, in: skipped, of: 2, gives: []float64{0.5}},
		{doc: "the mean of nothing", op: "com.microsoft.SkipLayerNormalization", outs: 3, in: []vm.Value{zeros(f, 2, 0), zeros(f, 2, 0), zeros(f, 0)}, of: 1, gives: []float64{math.NaN(), math.NaN()}},
	})
}

func TestNormalizationAtTheEdge(t *testing.T) {
	f := graph.Float32
	one := shaped([]int{1}, 1)
	runNodeCases(t, []nodeCase{
		{doc: "a list is of one channel", op: "BatchNormalization", in: []vm.Value{shaped([]int{2}, 1, 2), shaped([]int{1}, 2), one, zeros(f, 1), one}, attrs: attrs(attr("epsilon", float32(0))), gives: []float64{3, 5}},
		{doc: "statistics of another dtype", op: "BatchNormalization", in: []vm.Value{zeros(graph.Float64, 1, 1, 2), zeros(graph.Float64, 1), zeros(graph.Float64, 1), one, one}, want: "no kernel for statistics of dtype float32 beside float64"},
		{doc: "a scale of another dtype", op: "RMSNormalization", version: 23, in: []vm.Value{zeros(graph.Float64, 2, 3), zeros(f, 3)}, want: "no kernel for a scale of dtype float32 beside float64"},
		{doc: "a wider scale", op: "RMSNormalization", version: 23, in: []vm.Value{zeros(f, 2, 3), zeros(graph.Float64, 3)}, want: "no kernel for a scale of dtype float64 beside float32"},
		{doc: "a scale for other channels", op: "InstanceNormalization", in: []vm.Value{zeros(f, 1, 2, 3), zeros(f, 3), zeros(f, 2)}, want: `has shape [3], expected [2]`},
		{doc: "axes that are not there", op: "MeanVarianceNormalization", in: []vm.Value{zeros(f, 1, 2, 3)}, want: "axes is 3, expected one of [-3, 3)"},
		{doc: "nothing to normalise", op: "LayerNormalization", outs: 2, in: []vm.Value{zeros(f, 2, 0), zeros(f, 0)}, gives: []float64{}},
		{doc: "channels of no length", op: "GroupNormalization", attrs: attrs(attr("num_groups", 2)), in: []vm.Value{zeros(f, 1, 0, 3), zeros(f, 0), zeros(f, 0)}, gives: []float64{}},

		{doc: "labels", op: "NegativeLogLikelihoodLoss", attrs: attrs(attr("reduction", "none")), in: []vm.Value{shaped([]int{1, 2, 2}, 1, 2, 3, 4), vm.Int64s([]int64{1, 0}, 1, 2)}, gives: []float64{-3, -2}},
		{doc: "a label that is no class", op: "NegativeLogLikelihoodLoss", in: []vm.Value{zeros(f, 1, 2, 2), vm.Int64s([]int64{1, 2}, 1, 2)}, want: "input 1: element 1 is class 2, expected one in [0, 2)"},
		{doc: "a negative label", op: "SoftmaxCrossEntropyLoss", in: []vm.Value{zeros(f, 1, 2), vm.Int64s([]int64{-1}, 1)}, want: "input 1: element 0 is class -1, expected one in [0, 2)"},
		{doc: "a label to ignore", op: "SoftmaxCrossEntropyLoss", attrs: attrs(attr("ignore_index", -1), attr("reduction", "sum")), in: []vm.Value{zeros(f, 1, 2), vm.Int64s([]int64{-1}, 1)}, gives: []float64{0}},
		{doc: "labels for other places", op: "NegativeLogLikelihoodLoss", in: []vm.Value{zeros(f, 1, 2, 2), vm.Int64s([]int64{1, 1}, 2, 1)}, want: `has shape [2,1], expected [1,2]`},
		{doc: "weights for other classes", op: "SoftmaxCrossEntropyLoss", in: []vm.Value{zeros(f, 1, 2), vm.Int64s([]int64{1}, 1), zeros(f, 3)}, want: `has shape [3], expected [2]`},
		{doc: "no classes", op: "SoftmaxCrossEntropyLoss", in: []vm.Value{zeros(f, 1, 0), vm.Int64s([]int64{0}, 1)}, want: "expected one in [0, 0)"},
	})
}

func TestElementwiseAtTheEdge(t *testing.T) {
	f := graph.Float32
	square, pair := shaped([]int{2, 2}, 1, 2, 3, 4), shaped([]int{2}, 10, 20)
	old := func(axis int) []*graph.Attr { return attrs(attr("broadcast", 1), attr("axis", axis)) }
	runNodeCases(t, []nodeCase{
		{doc: "from an axis on, as of old", op: "Add", version: 6, attrs: old(0), in: []vm.Value{square, pair}, gives: []float64{11, 12, 23, 24}},
		{doc: "from the last axis on", op: "Add", version: 6, attrs: old(-1), in: []vm.Value{square, pair}, gives: []float64{11, 22, 13, 24}},
		{doc: "the last axes", op: "Sub", version: 6, attrs: attrs(attr("broadcast", 1)), in: []vm.Value{square, pair}, gives: []float64{-9, -18, -7, -16}},
		{doc: "one element of more axes", op: "Mul", version: 6, attrs: old(0), in: []vm.Value{pair, shaped([]int{1, 1}, 2)}, gives: []float64{20, 40}},
		{doc: "an axis that says nothing", op: "Div", version: 6, attrs: attrs(attr("axis", math.MinInt64)), in: []vm.Value{square, square}, gives: []float64{1, 1, 1, 1}},
		{doc: "of float16", op: "Add", version: 6, attrs: old(0), in: []vm.Value{halves(square), halves(pair)}, gives: []float64{11, 12, 23, 24}},
		{doc: "a relation", op: "Less", version: 6, attrs: old(0), in: []vm.Value{square, shaped([]int{2}, 2, 4)}, gives: []float64{1, 0, 1, 0}},
		{doc: "today's axis", op: "Add", attrs: old(0), in: []vm.Value{square, pair}, gives: []float64{11, 22, 13, 24}},
		{doc: "a slope for each channel, as of old", op: "PRelu", version: 6, in: []vm.Value{shaped([]int{1, 2, 2}, -1, -1, -1, -1), shaped([]int{2}, 2, 3)}, gives: []float64{-2, -2, -3, -3}},
		{doc: "shapes that do not broadcast", op: "Add", in: []vm.Value{square, zeros(f, 3)}, want: `has shape [3]`},
		{doc: "a slope that is larger", op: "PRelu", in: []vm.Value{pair, zeros(f, 3)}, want: `has shape [3], expected one that broadcasts to input 0 [2]`},
		{doc: "limits that are none", op: "Clip", in: []vm.Value{pair, zeros(f, 0)}, want: `has shape [0], expected one element`},
		{doc: "training by a byte that is no bool", op: "Dropout", in: []vm.Value{pair, shaped([]int{}, 0), octets(graph.Bool, []int{}, 2)}, gives: []float64{10, 20}},
		{doc: "a mode of training that is none", op: "Dropout", in: []vm.Value{pair, absent, zeros(graph.Bool, 0)}, want: `has shape [0], expected one element`},
		{doc: "a byte that is no bool", op: "Cast", attrs: attrs(attr("to", int(graph.Float32))), in: []vm.Value{octets(graph.Bool, []int{3}, 0, 1, 2)}, gives: []float64{0, 1, 1}},
		{doc: "a byte that is no bool", op: "Not", in: []vm.Value{octets(graph.Bool, []int{3}, 0, 1, 2)}, gives: []float64{1, 0, 0}},
		{doc: "bytes that are no bools", op: "And", in: []vm.Value{octets(graph.Bool, []int{3}, 0, 4, 2), octets(graph.Bool, []int{3}, 1, 3, 0)}, gives: []float64{0, 1, 0}},
		{doc: "a flag that is neither yes nor no", op: "ReduceSum", attrs: attrs(attr("keepdims", 2)), in: []vm.Value{pair}, want: "keepdims is 2, expected 0 or 1"},
		{doc: "an approximation that is none", op: "Gelu", attrs: attrs(attr("approximate", "erf")), in: []vm.Value{pair}, want: `approximate is "erf", expected one of ["none" "tanh"]`},
		{doc: "an axis that is not there", op: "ReduceSum", in: []vm.Value{square, vm.Int64s([]int64{2}, 1)}, want: "axes is 2"},
		{doc: "an axis twice", op: "ReduceSum", in: []vm.Value{square, vm.Int64s([]int64{1, -1}, 2)}, want: `output 0 "y0" is float32[1,1], expected float32[2,1]`},
		{doc: "no elements", op: "ReduceSum", in: []vm.Value{zeros(f, 2, 0), vm.Int64s([]int64{1}, 1)}, gives: []float64{0, 0}},
		{doc: "softmax of nothing", op: "Softmax", in: []vm.Value{zeros(f, 2, 0)}, gives: []float64{}},
		{doc: "softmax of a number", op: "Softmax", in: []vm.Value{shaped([]int{}, 3)}, gives: []float64{1}},
	})
}

// halves converts a float32 value to float16.
func halves(v vm.Value) vm.Value {
	list, _ := v.Reals()
	h := vm.Value{Type: graph.Float16, Shape: v.Shape}
	for _, x := range list {
		h.Data = binary.LittleEndian.AppendUint16(h.Data, form.FloatToHalf(float32(x)))
	}
	return h
}

// Lengths, counts and places that no tensor has are refused, whether the model states them
// or they come from data.
func TestLengthsAtTheEdge(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	f := graph.Float32
	image, signal, eight := zeros(f, 1, 1, 4, 4), zeros(f, 1, 64, 1), zeros(f, 8)
	one := func(n int64) vm.Value { return vm.Int64s([]int64{n}) }
	row := func(list ...int64) vm.Value { return numbers([]int{len(list)}, list...) }
	mode := func(name string) []*graph.Attr { return attrs(attr("mode", name)) }
	words := func(counts, places []int64) []*graph.Attr {
		return attrs(attr("mode", "TF"), attr("min_gram_length", 1), attr("max_gram_length", 1), attr("max_skip_count", most), ints("ngram_counts", counts...), ints("ngram_indexes", places...), ints("pool_int64s", 1, 2))
	}
	grouped := func(keys int32, total int32) []vm.Value {
		past := zeros(f, 1, 1, 8, 8)
		return []vm.Value{zeros(f, 1, 1, 16), zeros(f, 1, 1, 8), zeros(f, 1, 1, 8), past, past, int32s([]int{1}, keys), int32s([]int{}, total)}
	}
	heads := attrs(attr("num_heads", 2), attr("kv_num_heads", 1))
	runNodeCases(t, []nodeCase{
		{doc: "sizes whose product overflows", op: "Resize", in: []vm.Value{image, absent, absent, row(1, 1, 1<<32, 1<<32)}, want: "size overflows 63 bits"},
		{doc: "a size below 0", op: "Resize", in: []vm.Value{image, absent, absent, row(1, 1, -4, 4)}, want: "size of axis 2 is -4, expected 0 or more"},
		{doc: "a scale without end", op: "Resize", attrs: mode("linear"), in: []vm.Value{image, absent, shaped([]int{4}, 1, 1, float32(math.Inf(1)), 1)}, want: "scale of axis 2 is +Inf"},
		{doc: "both ends", op: "Pad", in: []vm.Value{image, row(0, 0, most, 0, 0, 0, most, 0)}, want: "size overflows 63 bits"},
		{doc: "more cropped than there is", op: "Pad", attrs: mode("edge"), in: []vm.Value{image, row(0, 0, -most, 0, 0, 0, 0, 0)}, want: "expected 0 or more"},
		{doc: "cropped and padded again", op: "Pad", in: []vm.Value{image, row(0, 0, -1<<62, 0, 0, 0, 1<<62, 0)}, gives: make([]float64, 16)},
		{doc: "nothing left to reflect", op: "Pad", attrs: mode("reflect"), in: []vm.Value{image, row(0, 0, -4, 0, 0, 0, 8, 0)}, want: "is cropped to none and padded with mode reflect"},
		{doc: "a tiny step", op: "Range", in: []vm.Value{shaped([]int{}, 0), shaped([]int{}, 1), shaped([]int{}, 1e-38)}, want: "has no length that fits 62 bits"},
		{doc: "all integers", op: "Range", in: []vm.Value{one(least), one(most), one(1)}, want: "has no length that fits 62 bits"},
		{doc: "the least step", op: "Range", in: []vm.Value{one(most), one(least), one(least)}, gives: []float64{most, -1}},
		{doc: "a huge depth", op: "OneHot", in: []vm.Value{row(1, 2, 3), one(1 << 62), shaped([]int{2}, 0, 1)}, want: "size overflows 63 bits"},
		{doc: "a depth that is no number", op: "OneHot", in: []vm.Value{row(1), shaped([]int{}, float32(math.NaN())), shaped([]int{2}, 0, 1)}, want: "is NaN, expected an integer"},
		{doc: "repeats that overflow", op: "Tile", in: []vm.Value{image, row(most, most, most, most)}, want: "size overflows 63 bits"},
		{doc: "nothing, repeated beyond all bounds", op: "Tile", in: []vm.Value{image, row(0, 1, 1<<62, 1)}, want: "size overflows 63 bits"},
		{doc: "a target that overflows", op: "Expand", in: []vm.Value{image, row(1<<61, 8, 4, 4)}, want: "size overflows 63 bits"},
		{doc: "nothing, of huge lengths", op: "Expand", in: []vm.Value{image, row(0, 1<<62, 4, 4)}, gives: []float64{}},
		{doc: "a huge count", op: "NonMaxSuppression", in: []vm.Value{zeros(f, 1, 3, 4), shaped([]int{1, 1, 3}, 1, 2, 3), row(most)}, gives: []float64{0, 0, 2, 0, 0, 1, 0, 0, 0}},
		{doc: "a frame beyond the signal", op: "STFT", in: []vm.Value{signal, one(1), absent, one(most)}, want: "expected at least the frame_length 9223372036854775807"},
		{doc: "a frame below 0", op: "STFT", in: []vm.Value{signal, one(1), absent, one(-8)}, want: "the frame_length, is -8, expected at least 0"},
		{doc: "a step of 0", op: "STFT", in: []vm.Value{signal, one(0), absent, one(8)}, want: "frame_step is 0"},
		{doc: "a step beyond the signal", op: "STFT", in: []vm.Value{signal, one(most), absent, one(2)}, gives: []float64{0, 0, 0, 0}},
		{doc: "a length below 0", op: "DFT", in: []vm.Value{signal, one(-1)}, want: "the dft_length, is -1, expected at least 0"},
		{doc: "a length that overflows", op: "DFT", in: []vm.Value{signal, one(most)}, want: "size overflows 63 bits"},
		{doc: "an image that overflows", op: "Col2Im", in: []vm.Value{zeros(f, 1, 4, 9), row(1<<31, 1<<31), row(2, 2)}, want: "blocks along axis 2"},
		{doc: "a block of no length", op: "Col2Im", in: []vm.Value{zeros(f, 1, 4, 9), row(4, 4), row(0, 2)}, want: "holds 0, expected lengths of at least 1"},
		{doc: "lengths that overflow", op: "CenterCropPad", in: []vm.Value{image, row(1<<40, 1<<40, 1<<40, 1<<40)}, want: "size overflows 63 bits"},
		{doc: "a length below 0", op: "CenterCropPad", in: []vm.Value{image, row(1, 1, -4, 4)}, want: "length of axis 2 is -4"},
		{doc: "words beyond the pool", op: "TfIdfVectorizer", attrs: words([]int64{0, 100}, []int64{0, 1}), in: []vm.Value{row(1, 2)}, want: "in a pool of 2"},
		{doc: "a place below 0", op: "TfIdfVectorizer", attrs: words([]int64{0}, []int64{-1, 0}), in: []vm.Value{row(1, 2)}, want: "-1"},
		{doc: "skips beyond the line", op: "TfIdfVectorizer", attrs: words([]int64{0}, []int64{1, 0}), in: []vm.Value{row(1, 2, 2)}, gives: []float64{2, 1}},
		{doc: "blocks of no length", op: "DequantizeLinear", attrs: attrs(attr("block_size", 0)), in: []vm.Value{zeros(graph.Int8, 4, 8), zeros(f, 4, 2)}, want: "expected one scale or [8]"},
		{doc: "blocks below 0", op: "QuantizeLinear", attrs: attrs(attr("block_size", -4)), in: []vm.Value{zeros(f, 4, 8), zeros(f, 4, 2)}, want: "block_size is -4"},
		{doc: "keys beyond the cache", op: "com.microsoft.GroupQueryAttention", attrs: heads, outs: 3, in: grouped(100, 9), want: "batch 0 has 100 as its number of keys less 1, expected a number in [0, 9)"},
		{doc: "a total below 0", op: "com.microsoft.GroupQueryAttention", attrs: heads, outs: 3, in: grouped(8, -9), want: "the total_sequence_length, is -9"},
		{doc: "half of the weights", op: "com.microsoft.MatMulNBits", attrs: attrs(attr("N", 8), attr("K", 64), attr("block_size", 32), attr("bits", 4)), in: []vm.Value{zeros(f, 2, 64), zeros(graph.Uint8, 8, 1, 16), zeros(f, 16)}, want: "weights have shape [8 1 16], expected 256 elements"},
		{doc: "more than there are", op: "TopK", outs: 2, in: []vm.Value{eight, row(most)}, want: "expected at least k = 9223372036854775807"},
		{doc: "the least step", op: "Slice", in: []vm.Value{shaped([]int{3}, 1, 2, 3), row(most), row(least), row(0), row(least)}, gives: []float64{3}},
		{doc: "parts below 0", op: "Split", outs: 2, in: []vm.Value{eight, row(-4, 12)}, want: "split[0] is -4, expected a length"},
		{doc: "a place outside the image", op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 2)), in: []vm.Value{zeros(f, 1, 1, 2, 2), numbers([]int{1, 1, 2, 2}, 0, 1, 2, 1<<40)}, want: "place 1099511627776, expected one of an image"},
		{doc: "samples without end", op: "RoiAlign", attrs: attrs(attr("output_height", 2), attr("output_width", 2)), in: []vm.Value{image, shaped([]int{1, 4}, 0, 0, 1e30, 1e30), row(0)}, want: "samples for each bin"},
		{doc: "coordinates without end", op: "GridSample", attrs: attrs(attr("padding_mode", "reflection")), in: []vm.Value{image, shaped([]int{1, 1, 2, 2}, float32(math.Inf(1)), 1e30, float32(math.NaN()), 0)}, gives: []float64{0, 0}},
	})
}
