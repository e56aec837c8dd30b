package passes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
)

// TestText: graphs before and after passes, in their printed form.
func TestText(t *testing.T) {
	for _, c := range []struct {
		name, through string
		opt           passes.Options
		before, after string
	}{
		{
			name: "constants are folded", through: "fold",
			before: `
in x float32[2]
init k float32[2] = [1, 2]
s = Add(k, k) #s
t = Neg(s) #t
y = Mul(x, t) #y
out y
`,
			after: `
opset 17
in x float32[2]
init t float32[2] = [-2, -4]
y = Mul(x, t) #y  // float32[2]
out y
`,
		},
		{
			name: "shapes are folded", through: "fold",
			before: `
in x float32[2,3,4]
s = Shape(x) #s
first = Gather(s, zero) axis=0 #first
rest = Constant() value=(int64[1] = -1) #rest
init zero int64[1] = 0
shape = Concat(first, rest) axis=0 #shape
y = Reshape(x, shape) #y
z = Relu(y) #z
out z
`,
			after: `
opset 17
in x float32[2,3,4]
init shape int64[2] = [2, -1]
y = Reshape(x, shape) #y  // float32[2,12]
z = Relu(y) #z  // float32[2,12]
out z
`,
		},
		{
			name: "views share the place of their base, and results are made in place", through: "annotate",
			opt: passes.Options{Aliases: passes.AliasesOff},
			before: `
in x float32[4,16]
init shape int64[1] = 64
a = Exp(x) #a
v = Reshape(a, shape) #v
b = Relu(v) #b
c = Reshape(b, shape) #c
y = Softmax(c) axis=0 #y
out y
`,
			after: `
opset 17
meta "onnxmem.plan_version" "1"
meta "onnxmem.arena_bytes" "256"
meta "onnxmem.peak_bytes" "256"
meta "onnxmem.lower_bound_bytes" "256"
meta "onnxmem.dims" "{}"
in x float32[4,16]
init shape int64[1] = 64
a = Exp(x) #a @ arena:0:256  // float32[4,16]
v = Reshape(a, shape) #v @ arena:0:256  // float32[64]
b = Relu(v) #b @ arena:0:256  // float32[64]
c = Reshape(b, shape) #c @ arena:0:256  // float32[64]
y = Softmax(c) axis=0 #y @ arena:0:256  // float32[64]
out y
`,
		},
		{
			name: "operands are made at their places in a Concat", through: "annotate",
			before: `
in x float32[1,16]
a = Exp(x) #a
b = Tanh(x) #b
c = Concat(a, b) axis=1 #c
y = ReduceMax(c) keepdims=1 #y
out y
`,
			after: `
opset 17
meta "onnxmem.plan_version" "1"
meta "onnxmem.arena_bytes" "192"
meta "onnxmem.peak_bytes" "192"
meta "onnxmem.lower_bound_bytes" "192"
meta "onnxmem.dims" "{}"
in x float32[1,16]
a = Exp(x) #a @ arena:0:64  // float32[1,16]
b = Tanh(x) #b @ arena:64:64  // float32[1,16]
c = Concat(a, b) axis=1 #c @ arena:0:128  // float32[1,32]
y = ReduceMax(c) keepdims=1 #y @ arena:128:64  // float32[1,1]
out y
`,
		},
		{
			name: "what is cheap runs again below a limit", through: "limit",
			opt: passes.Options{Limit: &passes.Limit{Bytes: 2900}, Aliases: passes.AliasesOff, NoInplace: true},
			before: `
in x float32[1,64]
init w float32[128,512] = ...
init u float32[512,128] = ...
a = Concat(x, x) axis=1 #a
b = Softmax(a) axis=1 #b
c = MatMul(b, w) #c
d = MatMul(c, u) #d
y = Add(d, a) #y
out y
`,
			after: `
opset 17
in x float32[1,64]
init w float32[128,512] = ...
init u float32[512,128] = ...
a = Concat(x, x) axis=1 #a  // float32[1,128]
b = Softmax(a) axis=1 #b  // float32[1,128]
c = MatMul(b, w) #c  // float32[1,512]
d = MatMul(c, u) #d  // float32[1,128]
a/again1_2 = Concat(x, x) axis=1 #a/again1  // float32[1,128]
y = Add(d, a/again1_2) #y  // float32[1,128]
out y
`,
		},
		{
			name: "a cache that grows gets a fixed capacity", through: "kv",
			opt: passes.Options{KVCapacity: 8},
			before: `
in token float32[1,2,1,8]
in past float32[1,2,past,8]
in past_v float32[1,2,past,8]
k = Concat(past, token) axis=2 #k
v = Concat(past_v, token) axis=2 #v
kt = Transpose(k) perm=[0, 1, 3, 2] #kt
s = MatMul(token, kt) #s
p = Softmax(s) axis=3 #p
y = MatMul(p, v) #y
out y
out k
out v
`,
			after: `
opset 24
meta "onnxmem.kv" "{\"capacity\":8,\"new\":1,\"dimension\":\"past\",\"index\":\"write_index\",\"caches\":[{\"past\":\"past\",\"present\":\"k\",\"axis\":2},{\"past\":\"past_v\",\"present\":\"v\",\"axis\":2}]}"
in token float32[1,2,1,8]
in past float32[1,2,8,8]
in past_v float32[1,2,8,8]
in write_index int64[1]
init write_index.constant int64[] = 0
init write_index.constant.2 int64[] = 8
init write_index.constant.3 int64[] = 1
init write_index.constant.4 int64[1] = 1
init write_index.hidden float32[] = -inf
k = TensorScatter(past, token, write_index) axis=2 #k
v = TensorScatter(past_v, token, write_index) axis=2 #v
kt = Transpose(k) perm=[0, 1, 3, 2] #kt
s = MatMul(token, kt) #s
write_index.places = Range(write_index.constant, write_index.constant.2, write_index.constant.3) #write_index.places
write_index.end = Add(write_index, write_index.constant.4) #write_index.end
write_index.seen = Less(write_index.places, write_index.end) #write_index.seen
s.seen = Where(write_index.seen, s, write_index.hidden) #s.seen
p = Softmax(s.seen) axis=3 #p
y = MatMul(p, v) #y
out y
out k
out v
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse("before", "ir 8\nopset 17"+c.before)
			if err != nil {
				t.Fatal(err)
			}
			opt := c.opt
			opt.NoVerify, opt.Check = true, true
			list := passes.Default()
			opt.Passes = list[:1+slices.IndexFunc(list, func(p passes.Pass) bool { return p.Name == c.through })]
			r, err := passes.Optimize(t.Context(), m, opt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, "\n"+strings.TrimPrefix(graph.Text(r.Model), "ir 8\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
