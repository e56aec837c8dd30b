package lora_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/autodiff/lora/internal/safetensors"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/onnx"
)

const (
	rows, columns, rank = 300, 7, 2 // rows are more than are computed at once
	alpha               = 6
)

// number is an element of one of the tensors below; all are multiples of 1/64.
func number(k int) float64 { return float64(k*37%101-50) / 64 }

// adapter is an adapter of "fc", as PEFT writes it.
func adapter(t *testing.T) *lora.Saved {
	t.Helper()
	var list []safetensors.Tensor
	for i, shape := range [][]int64{{rank, rows}, {columns, rank}} {
		var raw []byte
		for k := range shape[0] * shape[1] {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(number(int(k)+5*i))))
		}
		name := "base_model.model.fc.lora_" + string("AB"[i]) + ".weight"
		list = append(list, safetensors.Tensor{Name: name, Type: graph.Float32, Shape: shape, Raw: raw})
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, list); err != nil {
		t.Fatal(err)
	}
	s, err := lora.Decode([]byte(`{"peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": ["fc"]}`), b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMerge: weights of each type, in the model's file and beside it, become W + s B A, rounded once.
// What other initializers have is kept.
func TestMerge(t *testing.T) {
	saved := adapter(t)
	for _, elem := range []graph.DType{graph.Float32, graph.Float16, graph.BFloat16, graph.Float64} {
		for _, external := range []bool{false, true} {
			t.Run(elem.String()+map[bool]string{false: "", true: ", external"}[external], func(t *testing.T) {
				dir := t.TempDir()
				in, out := filepath.Join(dir, "in.onnx"), filepath.Join(dir, "out.onnx")
				writeModel(t, in, elem, external)
				f, err := onnx.Open(in, onnx.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				m, list, err := lora.Merge(f.Model, saved)
				if err != nil {
					t.Fatal(err)
				}
				most := int64(math.MaxInt64)
				if external {
					most = 0
				}
				if err := onnx.WriteNew(out, m, list, most); err != nil {
					t.Fatal(err)
				}
				checkMerged(t, out, elem)
			})
		}
	}
}

// writeModel writes a product by a matrix, and a bias, both of a type.
func writeModel(t *testing.T, path string, elem graph.DType, external bool) {
	t.Helper()
	b := graph.NewBuilder("one", 22)
	var file []byte
	initializer := func(name string, dims ...int64) graph.TensorID {
		d := &graph.Data{Type: elem, Dims: dims}
		var raw []byte
		for k := range d.Elements() {
			raw, _ = constant.AppendReal(raw, elem, number(int(k)))
		}
		if external {
			d.External = &graph.External{Location: "in.bin", Offset: int64(len(file)), Length: int64(len(raw))}
			file = append(file, raw...)
		} else {
			d.Raw = raw
		}
		return b.Initializer(name, d)
	}
	x := b.Input("x", graph.TensorOf(elem, 3, rows))
	w, bias := initializer("fc.weight", rows, columns), initializer("fc.bias", columns)
	b.Output(b.Node("Add", "y", b.Node("MatMul", "p", x, w), bias))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := im.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{path: text.Bytes(), filepath.Join(filepath.Dir(path), "in.bin"): file} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func checkMerged(t *testing.T, path string, elem graph.DType) {
	t.Helper()
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := constant.NewFiles(f.Model)
	defer files.Close()
	for _, u := range f.Model.Graph.Tensors {
		if u.Data == nil {
			continue
		}
		x, err := files.Read(u.Data)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for k := range int(u.Data.Elements()) {
			v := number(k)
			if u.Name == "fc.weight" {
				i, j := k/columns, k%columns
				for r := range rank {
					v += alpha / rank * number(j*rank+r+5) * number(r*rows+i)
				}
			}
			want, _ = constant.AppendReal(want, elem, v)
		}
		if !bytes.Equal(x.Raw, want) {
			t.Errorf("%s: other elements than those of the sum, or of the model", u.Name)
		}
	}
}
