package vm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// stopCases returns nodes that take long: in one part of their kernel, in one long row,
// or between parts. Their inputs are gigabytes, which no other test must pay for.
func stopCases() []nodeCase {
	return []nodeCase{
		{doc: "square", op: "MatMul", in: list(zeros(graph.Float32, 8192, 8192), zeros(graph.Float32, 8192, 8192))},
		{doc: "deep", op: "MatMul", in: list(zeros(graph.Float32, 1, 1<<27), zeros(graph.Float32, 1<<27, 1))},
		{doc: "many", op: "MatMul", in: list(zeros(graph.Float32, 1<<20, 4, 4), zeros(graph.Float32, 1<<20, 4, 4))},
		{doc: "float64", op: "MatMul", in: list(zeros(graph.Float64, 3000, 3000), zeros(graph.Float64, 3000, 3000))},
		{doc: "float16", op: "MatMul", in: list(zeros(graph.Float16, 8192, 8192), zeros(graph.Float16, 8192, 8192))},
		{op: "MatMulInteger", in: list(zeros(graph.Uint8, 8192, 8192), zeros(graph.Uint8, 8192, 8192))},
		{op: "Det", in: list(randoms(2048, 2048))},
		{op: "Conv", in: list(zeros(graph.Float32, 1, 64, 2048, 2048), zeros(graph.Float32, 64, 64, 3, 3)), attrs: attrs(integers("pads", 1, 1, 1, 1))},
		{doc: "float64", op: "Conv", in: list(zeros(graph.Float64, 1, 1, 8192, 8192), zeros(graph.Float64, 1, 1, 9, 9))},
		{doc: "line of float64", op: "Conv", in: list(zeros(graph.Float64, 1, 1, 1<<27), zeros(graph.Float64, 1, 1, 9))},
		{doc: "depthwise", op: "Conv", in: list(zeros(graph.Float32, 1, 1, 16384, 16384), zeros(graph.Float32, 1, 1, 3, 3))},
		{doc: "depthwise, large kernel", op: "Conv", in: list(zeros(graph.Float32, 1, 1, 8192, 8192), zeros(graph.Float32, 1, 1, 15, 15))},
		{op: "ConvInteger", in: list(zeros(graph.Uint8, 1, 64, 2048, 2048), zeros(graph.Uint8, 64, 64, 3, 3))},
		{op: "ConvTranspose", in: list(zeros(graph.Float32, 1, 64, 1024, 1024), zeros(graph.Float32, 64, 64, 3, 3))},
		{doc: "float64", op: "ConvTranspose", in: list(zeros(graph.Float64, 1, 1, 8192, 8192), zeros(graph.Float64, 1, 1, 9, 9))},
		{op: "Col2Im", in: list(zeros(graph.Float32, 1, 49, 4090*4090), vm.Int64s([]int64{4096, 4096}, 2), vm.Int64s([]int64{7, 7}, 2))},
		{op: "DeformConv", in: list(zeros(graph.Float32, 1, 1, 4098, 4098), zeros(graph.Float32, 1, 1, 3, 3), zeros(graph.Float32, 1, 18, 4096, 4096))},
		{op: "MaxPool", in: list(zeros(graph.Float32, 1, 1, 8192, 8192)), attrs: attrs(integers("kernel_shape", 513, 513), integers("pads", 256, 256, 256, 256))},
		{doc: "indices", op: "MaxPool", outs: 2, in: list(zeros(graph.Float32, 1, 1, 8192, 8192)), attrs: attrs(integers("kernel_shape", 4096, 4096))},
		{doc: "line", op: "MaxPool", in: list(zeros(graph.Float32, 1, 1, 1<<27)), attrs: attrs(integers("kernel_shape", 1<<20))},
		{doc: "wide strides", op: "MaxPool", in: list(zeros(graph.Float32, 1, 1, 1<<28)), attrs: attrs(integers("kernel_shape", 1<<20), integers("strides", 1000))},
		{doc: "float64", op: "AveragePool", in: list(zeros(graph.Float64, 1, 1, 4096, 4096)), attrs: attrs(integers("kernel_shape", 1024, 1024))},
		{op: "LpPool", in: list(zeros(graph.Float32, 1, 1, 4096, 4096)), attrs: attrs(integers("kernel_shape", 1024, 1024))},
		{op: "GlobalMaxPool", in: list(zeros(graph.Float32, 1, 1, 1<<28))},
		{op: "GlobalAveragePool", in: list(zeros(graph.Float32, 1, 1, 1<<28))},
		{op: "MaxUnpool", in: list(zeros(graph.Float32, 1, 1, 1<<25), zeros(graph.Int64, 1, 1, 1<<25)), attrs: attrs(integers("kernel_shape", 2))},
		{op: "TopK", outs: 2, in: list(randoms(1<<24), vm.Int64s([]int64{10}, 1))},
		{op: "CumSum", in: list(zeros(graph.Float32, 1<<28), vm.Int64s([]int64{0}))},
		{op: "ArgMax", in: list(zeros(graph.Float32, 1<<28))},
		{op: "Hardmax", in: list(zeros(graph.Float32, 1<<28))},
		{doc: "all", op: "ReduceSum", in: list(zeros(graph.Float32, 1<<28))},
		{op: "ReduceLogSumExp", in: list(zeros(graph.Float32, 1<<27))},
		{op: "ReduceProd", in: list(zeros(graph.Float32, 1<<27))},
		{doc: "first axis", op: "ReduceMax", version: 13, in: list(zeros(graph.Float32, 1<<14, 1<<14)), attrs: attrs(integers("axes", 0))},
		{op: "Softmax", in: list(zeros(graph.Float32, 1<<28))},
		{doc: "first axis", op: "Softmax", in: list(zeros(graph.Float32, 1<<26, 4)), attrs: attrs(attr("axis", 0))},
		{op: "LogSoftmax", in: list(zeros(graph.Float32, 1<<27))},
		{op: "LayerNormalization", in: list(zeros(graph.Float32, 1<<27), zeros(graph.Float32, 1<<27))},
		{op: "RMSNormalization", version: 23, in: list(zeros(graph.Float32, 1<<27), zeros(graph.Float32, 1<<27))},
		{op: "InstanceNormalization", in: list(zeros(graph.Float32, 1, 1, 1<<28), zeros(graph.Float32, 1), zeros(graph.Float32, 1))},
		{op: "BatchNormalization", in: list(zeros(graph.Float32, 1, 1, 1<<28), zeros(graph.Float32, 1), zeros(graph.Float32, 1), zeros(graph.Float32, 1), zeros(graph.Float32, 1))},
		{op: "LRN", in: list(zeros(graph.Float32, 1, 1<<14, 1<<10)), attrs: attrs(attr("size", 1<<20))},
		{op: "MeanVarianceNormalization", in: list(zeros(graph.Float32, 1, 1, 1<<13, 1<<13))},
		{op: "LpNormalization", version: 1, in: list(zeros(graph.Float32, 1<<28))},
		{op: "Transpose", in: list(zeros(graph.Float32, 1<<14, 1<<14))},
		{doc: "bytes", op: "Transpose", in: list(zeros(graph.Uint8, 1<<15, 1<<15))},
		{doc: "two rows", op: "Transpose", in: list(zeros(graph.Float32, 2, 1<<27))},
		{doc: "eight columns", op: "Transpose", in: list(zeros(graph.Float32, 1<<25, 8))},
		{doc: "one row", op: "Concat", in: list(zeros(graph.Float32, 1<<28), zeros(graph.Float32, 1)), attrs: attrs(attr("axis", 0))},
		{op: "Gather", in: list(zeros(graph.Float32, 10), zeros(graph.Int64, 1<<27))},
		{doc: "long rows", op: "Gather", in: list(zeros(graph.Float32, 1, 1<<26), zeros(graph.Int64, 8))},
		{op: "GatherElements", in: list(zeros(graph.Float32, 1<<26), zeros(graph.Int64, 1<<26))},
		{op: "GatherND", in: list(zeros(graph.Float32, 10), zeros(graph.Int64, 1<<26, 1))},
		{op: "ScatterElements", in: list(zeros(graph.Float32, 1<<26), zeros(graph.Int64, 1<<26), zeros(graph.Float32, 1<<26))},
		{op: "ScatterND", in: list(zeros(graph.Float32, 1<<26), zeros(graph.Int64, 1<<26, 1), zeros(graph.Float32, 1<<26))},
		{op: "TensorScatter", version: 24, in: list(zeros(graph.Float32, 1, 1, 1<<28, 1), zeros(graph.Float32, 1, 1, 1<<20, 1), vm.Int64s([]int64{0}, 1))},
		{op: "OneHot", in: list(zeros(graph.Int64, 1<<14), vm.Int64s([]int64{1 << 14}), zeros(graph.Float32, 2))},
		{op: "Erf", in: list(zeros(graph.Float64, 1<<27))},
		{op: "Pow", in: list(randoms(1<<26), randoms(1<<26))},
		{op: "Pad", in: list(zeros(graph.Float32, 1<<10), vm.Int64s([]int64{1 << 28, 0}, 2)), attrs: attrs(attr("mode", "reflect"))},
		{doc: "constant", op: "Pad", in: list(zeros(graph.Float32, 1<<10), vm.Int64s([]int64{1 << 28, 0}, 2))},
		{op: "Tile", in: list(zeros(graph.Float32, 3), vm.Int64s([]int64{1 << 28}, 1))},
		{op: "Expand", in: list(zeros(graph.Float32, 1), vm.Int64s([]int64{1 << 28}, 1))},
		{op: "Trilu", in: list(zeros(graph.Float32, 1<<14, 1<<14))},
		{op: "ConstantOfShape", in: list(vm.Int64s([]int64{1 << 28}, 1))},
		{op: "Range", in: list(vm.Int64s([]int64{0}), vm.Int64s([]int64{1 << 28}), vm.Int64s([]int64{1}))},
		{op: "HannWindow", in: list(vm.Int64s([]int64{1 << 27}))},
		{op: "MelWeightMatrix", in: list(vm.Int64s([]int64{1 << 14}), vm.Int64s([]int64{1 << 15}), vm.Int64s([]int64{1 << 15}), vm.Float32s([]float32{0}), vm.Float32s([]float32{1 << 13}))},
		{op: "EyeLike", in: list(zeros(graph.Float32, 1<<14, 1<<14))},
		{doc: "cubic", op: "Resize", in: list(zeros(graph.Float32, 1, 1, 1<<12, 1<<12), absent, absent, vm.Int64s([]int64{1, 1, 1 << 13, 1 << 13}, 4)), attrs: attrs(attr("mode", "cubic"))},
		{doc: "much smaller", op: "Resize", in: list(zeros(graph.Float32, 1, 1, 1<<14, 1<<14), absent, absent, vm.Int64s([]int64{1, 1, 2, 2}, 4)), attrs: attrs(attr("mode", "linear"), attr("antialias", 1))},
		{doc: "much smaller, float64", op: "Resize", in: list(zeros(graph.Float64, 1, 1, 1<<13, 1<<13), absent, absent, vm.Int64s([]int64{1, 1, 2, 2}, 4)), attrs: attrs(attr("mode", "linear"), attr("antialias", 1))},
		{doc: "one row", op: "Resize", in: list(zeros(graph.Float32, 1, 1, 1, 1<<10), absent, absent, vm.Int64s([]int64{1, 1, 1, 1 << 26}, 4)), attrs: attrs(attr("mode", "linear"))},
		{op: "RoiAlign", in: list(randoms(1, 64, 64, 64), vm.Float32s([]float32{0, 0, 60, 60}, 1, 4), vm.Int64s([]int64{0}, 1)), attrs: attrs(attr("sampling_ratio", 1<<20))},
		{op: "GridSample", in: list(randoms(1, 4096, 64, 64), zeros(graph.Float32, 1, 128, 128, 2)), attrs: attrs(attr("mode", "cubic"))},
		{op: "AffineGrid", in: list(zeros(graph.Float32, 1, 2, 3), vm.Int64s([]int64{1, 1, 1 << 13, 1 << 13}, 4))},
		{op: "NonZero", in: list(zeros(graph.Float32, 1<<28))},
		{op: "Compress", in: list(zeros(graph.Float32, 1<<27), zeros(graph.Bool, 1<<27))},
		{op: "Unique", outs: 4, in: list(randoms(1 << 23)), attrs: attrs(attr("sorted", 0))},
		{op: "NonMaxSuppression", in: list(zeros(graph.Float32, 1, 200_000, 4), randoms(1, 1, 200_000), vm.Int64s([]int64{1 << 40}, 1), vm.Float32s([]float32{0.5}, 1))},
		{op: "Dropout", outs: 2, in: list(zeros(graph.Float32, 1<<28), vm.Float32s([]float32{0.5}), octets(graph.Bool, []int{}, 1))},
		{op: "DynamicQuantizeLinear", outs: 3, in: list(zeros(graph.Float32, 1<<28))},
		{op: "QuantizeLinear", in: list(zeros(graph.Float32, 1<<14, 1<<14), zeros(graph.Float32, 1<<14), zeros(graph.Int8, 1<<14)), attrs: attrs(attr("axis", 1))},
		{op: "Attention", version: 23, in: list(zeros(graph.Float32, 1, 8, 8192, 64), zeros(graph.Float32, 1, 8, 8192, 64), zeros(graph.Float32, 1, 8, 8192, 64))},
		{doc: "one query", op: "Attention", version: 23, in: list(zeros(graph.Float32, 1, 1, 1, 4), zeros(graph.Float32, 1, 1, 1<<25, 4), zeros(graph.Float32, 1, 1, 1<<25, 4))},
		{op: "RotaryEmbedding", version: 23, in: list(zeros(graph.Float32, 1, 1<<14, 1, 1<<12), zeros(graph.Float32, 1, 1, 1<<11), zeros(graph.Float32, 1, 1, 1<<11))},
		{op: "com.microsoft.SkipLayerNormalization", in: list(zeros(graph.Float32, 1, 1, 1<<27), zeros(graph.Float32, 1, 1, 1<<27), zeros(graph.Float32, 1<<27))},
		{op: "SoftmaxCrossEntropyLoss", in: list(zeros(graph.Float32, 1, 1<<28), vm.Int64s([]int64{0}, 1))},
		{op: "LSTM", outs: 3, in: list(randoms(1000, 1, 1024), randoms(1, 4096, 1024), randoms(1, 4096, 1024)), attrs: attrs(attr("hidden_size", 1024))},
		{op: "GRU", outs: 2, in: list(randoms(1000, 1, 1024), randoms(1, 3072, 1024), randoms(1, 3072, 1024)), attrs: attrs(attr("hidden_size", 1024))},
		{
			op: "TfIdfVectorizer", in: list(zeros(graph.Int64, 50_000)),
			attrs: attrs(attr("min_gram_length", 2), attr("max_gram_length", 2), attr("max_skip_count", 1<<62), attr("mode", "TF"), integers("ngram_counts", 0, 0), integers("ngram_indexes", 0), integers("pool_int64s", 1, 1)),
		},
	}
}

func integers(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

// randoms returns numbers in [-1, 1), in random order for sorting.
func randoms(shape ...int) vm.Value {
	v := zeros(graph.Float32, shape...)
	x := uint32(1)
	for i := 0; i < len(v.Data); i += 4 {
		x = x*1664525 + 1013904223
		v.Data[i+1], v.Data[i+2], v.Data[i+3] = byte(x>>8), byte(x>>16), 0x3e|byte(x>>24)&0x81
	}
	return v
}

// BenchmarkStop measures how long a run continues after its context has ended in the
// middle of a long node. stop-ms is the longest time of some attempts; stopped is the
// number of attempts that ended before the node did.
func BenchmarkStop(b *testing.B) {
	for _, k := range stopCases() {
		name := "op=" + k.op
		if k.doc != "" {
			name += "/of=" + k.doc
		}
		b.Run(name, func(b *testing.B) { k.stop(b) })
	}
}

func (k *nodeCase) stop(b *testing.B) {
	p, values := prepared(b, k)
	worst, stopped := time.Duration(0), 0
	for range b.N {
		s, err := p.NewSession(vm.Options{})
		if err != nil {
			b.Fatal(err)
		}
		var begun chan struct{}
		s.BeforeNode(func(string) { close(begun) })
		for i := range 4 {
			ctx, cancel := context.WithCancel(b.Context())
			begun = make(chan struct{})
			over, told := make(chan struct{}), make(chan time.Time, 1)
			go func() {
				<-begun
				select {
				case <-over:
				case <-time.After(time.Duration(20+100*i) * time.Millisecond):
				}
				told <- time.Now()
				cancel()
			}()
			_, err := s.Run(ctx, values)
			took := time.Now()
			close(over)
			at := <-told
			if errors.Is(err, vm.ErrStopped) {
				stopped++
				worst = max(worst, took.Sub(at))
			} else if err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(worst.Microseconds())/1e3, "stop-ms")
	b.ReportMetric(float64(stopped)/float64(b.N), "stopped")
}
