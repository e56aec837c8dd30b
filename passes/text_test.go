package passes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/autodiff"
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
		{
			name: "a call becomes the nodes of its function", through: "inline",
			opt: passes.Options{InlineFunctions: true},
			before: `
opset local 1
function local::scaled {
  opset 17
  attr by = 2.0
  in x
  c = Constant() value_float=ref(by, float)
  y = Mul(x, c) #m
  out y
}
in a float32[3]
b = local::scaled(a) #first
z = local::scaled(b) by=3.0 #second
out z
`,
			after: `
opset 17
opset local 1
in a float32[3]
first/c = Constant() value_float=2.0 #first/Constant
b = Mul(a, first/c) #first/m
second/c = Constant() value_float=3.0 #second/Constant
z = Mul(b, second/c) #second/m
out z
`,
		},
		{
			name: "a training step has the loss, the gradients and the updates", through: "train",
			opt: passes.Options{Train: &autodiff.Options{Loss: "mse", Optimizer: "sgd"}},
			before: `
in x float32[4,3]
init w float32[3,2] = [1, 2, 3, 4, 5, 6]
y = MatMul(x, w) #y
out y
`,
			after: `
opset 18
meta "onnxmem.mode" "training"
meta "onnxmem.loss" "mse"
meta "onnxmem.updates" "[\"w=w.new\"]"
meta "onnxmem.trainable" "[\"w\"]"
meta "onnxmem.gradients" "[\"w=w.grad\"]"
meta "onnxmem.optimizer" "{\"name\":\"sgd\",\"weight_decay\":0}"
in x float32[4,3]
in labels float32[4,2]
in learning_rate float32[]
in w float32[3,2]
init "onnxmem.int64s=0,1" int64[2] = [0, 1]
init "onnxmem.float32=1" float32[] = 1
init "onnxmem.int64s=1,1" int64[2] = 1
init "onnxmem.float32=0.125" float32[] = 0.125
init "onnxmem.int64s=4,2" int64[2] = [4, 2]
y = MatMul(x, w) #y {"onnxmem.phase"="forward", "onnxmem.of"="y"}  // float32[4,2]
loss/Sub = Sub(y, labels) #loss/Sub {"onnxmem.phase"="forward", "onnxmem.of"="loss"}  // float32[4,2]
loss/Mul = Mul(loss/Sub, loss/Sub) #loss/Mul {"onnxmem.phase"="forward", "onnxmem.of"="loss"}  // float32[4,2]
loss = ReduceMean(loss/Mul, "onnxmem.int64s=0,1") keepdims=0 #loss/ReduceMean : float32[] {"onnxmem.phase"="forward", "onnxmem.of"="loss"}
loss/ReduceMean.grad/Reshape = Reshape("onnxmem.float32=1", "onnxmem.int64s=1,1") #loss/ReduceMean.grad/Reshape {"onnxmem.phase"="backward", "onnxmem.of"="loss/ReduceMean"}  // float32[1,1]
loss/ReduceMean.grad/Mul = Mul(loss/ReduceMean.grad/Reshape, "onnxmem.float32=0.125") #loss/ReduceMean.grad/Mul {"onnxmem.phase"="backward", "onnxmem.of"="loss/ReduceMean"}  // float32[1,1]
loss/ReduceMean.grad/Expand = Expand(loss/ReduceMean.grad/Mul, "onnxmem.int64s=4,2") #loss/ReduceMean.grad/Expand {"onnxmem.phase"="backward", "onnxmem.of"="loss/ReduceMean"}  // float32[4,2]
loss/Mul.grad/Mul = Mul(loss/ReduceMean.grad/Expand, loss/Sub) #loss/Mul.grad/Mul {"onnxmem.phase"="backward", "onnxmem.of"="loss/Mul"}  // float32[4,2]
loss/Mul.grad/Mul_2 = Mul(loss/ReduceMean.grad/Expand, loss/Sub) #loss/Mul.grad/Mul_2 {"onnxmem.phase"="backward", "onnxmem.of"="loss/Mul"}  // float32[4,2]
loss/Sub.grad/Add = Add(loss/Mul.grad/Mul, loss/Mul.grad/Mul_2) #loss/Sub.grad/Add {"onnxmem.phase"="accumulate", "onnxmem.of"="loss/Sub"}  // float32[4,2]
w.grad = Gemm(x, loss/Sub.grad/Add) transA=1 #y.grad/Gemm {"onnxmem.phase"="backward", "onnxmem.of"="y"}  // float32[3,2]
w.update/Mul = Mul(w.grad, learning_rate) #w.update/Mul {"onnxmem.phase"="update", "onnxmem.of"="w"}  // float32[3,2]
w.new = Sub(w, w.update/Mul) #w.update/Sub : float32[3,2] {"onnxmem.phase"="update", "onnxmem.of"="w"}
out loss
out w.new
`,
		},
		{
			name: "one branch ends before the other begins", through: "order",
			before: `
in x float32[1,16]
init w float32[16,64] = ...
init u float32[64,16] = ...
a = MatMul(x, w) #a
b = MatMul(x, w) #b
c = MatMul(a, u) #c
d = MatMul(b, u) #d
y = Sub(c, d) #y
out y
`,
			after: `
opset 17
in x float32[1,16]
init w float32[16,64] = ...
init u float32[64,16] = ...
a = MatMul(x, w) #a  // float32[1,64]
c = MatMul(a, u) #c  // float32[1,16]
b = MatMul(x, w) #b  // float32[1,64]
d = MatMul(b, u) #d  // float32[1,16]
y = Sub(c, d) #y  // float32[1,16]
out y
`,
		},
		{
			name: "a region runs in slices", through: "limit",
			opt: passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 75}, NoInplace: true},
			before: `
in x float32[1,1,32,32]
init w float32[4,1,1,1] = ...
a = Conv(x, w) kernel_shape=[1, 1] #a
b = Relu(a) #b
y = ReduceMax(b) axes=[1] keepdims=1 #y
out y
`,
			after: `
opset 17
opset onnxmem 1
in x float32[1,1,32,32]
init w float32[4,1,1,1] = ...
init onnxmem.int64.0 int64[1] = 0
init onnxmem.int64.16 int64[1] = 16
init onnxmem.int64.2 int64[1] = 2
init onnxmem.int64.1x1x32x32 int64[4] = [1, 1, 32, 32]
init onnxmem.int64.32 int64[1] = 32
x/rows0 = Slice(x, onnxmem.int64.0, onnxmem.int64.16, onnxmem.int64.2) #x/rows0 {"onnxmem.slice"="0 0 rows x"}  // float32[1,1,16,32]
x/rows1 = Slice(x, onnxmem.int64.16, onnxmem.int64.32, onnxmem.int64.2) #x/rows1 {"onnxmem.slice"="0 1 rows x"}  // float32[1,1,16,32]
a/s0 = Conv(x/rows0, w) kernel_shape=[1, 1] #a/s0 {"onnxmem.slice"="0 0 node a"}  // float32[1,4,16,32]
b/s0 = Relu(a/s0) #b/s0 {"onnxmem.slice"="0 0 node b"}  // float32[1,4,16,32]
y/s0 = ReduceMax(b/s0) axes=[1] keepdims=1 #y/s0 {"onnxmem.slice"="0 0 node y"}  // float32[1,1,16,32]
a/s1 = Conv(x/rows1, w) kernel_shape=[1, 1] #a/s1 {"onnxmem.slice"="0 1 node a"}  // float32[1,4,16,32]
b/s1 = Relu(a/s1) #b/s1 {"onnxmem.slice"="0 1 node b"}  // float32[1,4,16,32]
y/s1 = ReduceMax(b/s1) axes=[1] keepdims=1 #y/s1 {"onnxmem.slice"="0 1 node y"}  // float32[1,1,16,32]
y/base0 = ConstantOfShape(onnxmem.int64.1x1x32x32) value=(float32[1] = 0) #y/base0 {"onnxmem.slice"="0 0 base y"}  // float32[1,1,32,32]
y/put0 = onnxmem::PutRows(y/base0, y/s0, onnxmem.int64.0, onnxmem.int64.2) axis=2 #y/put0 {"onnxmem.slice"="0 0 put y"}  // float32[1,1,32,32]
y = onnxmem::PutRows(y/put0, y/s1, onnxmem.int64.16, onnxmem.int64.2) axis=2 #y/put1 {"onnxmem.slice"="0 1 put y"}  // float32[1,1,32,32]
out y
function onnxmem::PutRows {
  opset 17
  attr axis
  in base
  in part
  in at
  in axes
  zero = Constant() value=(int64[1] = 0)
  end = Constant() value=(int64[1] = 9223372036854775807)
  head = Slice(base, zero, at, axes)
  shape = Shape(part)
  rows = Gather(shape, axes)
  behind = Add(at, rows)
  tail = Slice(base, behind, end, axes)
  y = Concat(head, part, tail) axis=ref(axis, int)
  out y
}
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
