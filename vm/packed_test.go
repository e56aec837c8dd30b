package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// TestPackedElements: elements of 4 bits pass through copies, moves, branches and loops, of
// slices and rows that begin within a byte.
func TestPackedElements(t *testing.T) {
	x := vm.Value{Type: graph.Int8, Shape: []int{3, 5}}
	var plain, turned, back []float64
	for i := range 15 {
		v := i - 7
		x.Data = append(x.Data, byte(v))
		plain = append(plain, float64(v))
	}
	for c := range 5 {
		for r := range 3 {
			turned = append(turned, plain[5*r+c])
			back = append(back, plain[5*r+4-c])
		}
	}
	alone := map[string]vm.Value{"x": x}
	branch := map[string]vm.Value{"x": x, "yes": {Type: graph.Bool, Shape: []int{}, Data: []byte{1}}}
	loop := map[string]vm.Value{"x": x, "yes": branch["yes"], "m": vm.Int64s([]int64{3})}
	runBodies(t, []bodyCase{
		{doc: "a transpose", values: alone, gives: turned, main: `
			in x int8[3,5]
			p = Cast(x) to=22
			q = Transpose(p) perm=[1, 0]
			y = Cast(q) to=6
			out y`},
		{doc: "a scan of rows to columns", values: alone, gives: turned, bodies: map[string]string{"q.body": "in v\nw = Identity(v)\nout w"}, main: `
			in x int8[3,5]
			p = Cast(x) to=22
			q = Scan(p) num_scan_inputs=1 scan_output_axes=[1]
			y = Cast(q) to=6
			out y`},
		{doc: "a scan of columns, from the end", values: alone, gives: back, bodies: map[string]string{"q.body": "in v\nw = Identity(v)\nout w"}, main: `
			in x int8[3,5]
			p = Cast(x) to=22
			q = Scan(p) num_scan_inputs=1 scan_input_axes=[1] scan_input_directions=[1] scan_output_axes=[0]
			y = Cast(q) to=6
			out y`},
		{doc: "rows of a loop", values: loop, gives: append(append(plain[:5:5], plain[:5]...), plain[:5]...), bodies: map[string]string{"q.body": `
			in i int64[]
			in c bool[]
			d = Identity(c)
			w = Identity(row)
			out d
			out w`}, main: `
			in x int8[3,5]
			in m int64[]
			in yes bool[]
			zero = Constant() value_int=0
			first = Gather(x, zero)
			row = Cast(first) to=22
			q = Loop(m, yes)
			y = Cast(q) to=6
			out y`},
		{doc: "a branch", values: branch, gives: plain, bodies: map[string]string{
			"q.then_branch": "w = Identity(p)\nout w", "q.else_branch": "w = Transpose(p)\nout w",
		}, main: `
			in x int8[3,5]
			in yes bool[]
			p = Cast(x) to=22
			q = If(yes)
			y = Cast(q) to=6
			out y`},
	})
}
