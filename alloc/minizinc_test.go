package alloc

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriteMiniZinc holds the data of a small problem. crosscheck has models solved.
func TestWriteMiniZinc(t *testing.T) {
	p := parse(t, "a:8@0-1%4 none:0@0-0 b:4@1-3%8 c:4@1-3")
	fixed := int64(16)
	p.Buffers[3].Fixed = &fixed
	p.Buffers[2].Gaps = []Gap{{First: 2, Last: 2}}
	var b bytes.Buffer
	if err := WriteMiniZinc(&b, p); err != nil {
		t.Fatal(err)
	}
	data, model, _ := strings.Cut(b.String(), "\narray[BUFFER] of var")
	want := `% The smallest arena of 4 buffers. One unit is 4 bytes.

% 0: buffer 0 "a"
% 1: buffer 2 "b"
% 2: buffer 3 "c"
int: total = 9; % all sizes, and what alignment may add
set of int: BUFFER = 0..2;
array[BUFFER] of int: size = array1d(BUFFER, [2, 1, 1]);
array[BUFFER] of int: align = array1d(BUFFER, [1, 2, 1]);
array[BUFFER] of int: fixed = array1d(BUFFER, [-1, -1, 4]);
set of int: AREA = 0..3; % bytes from..to-1 of a buffer at steps first..last
array[AREA] of int: buffer = array1d(AREA, [0, 1, 1, 2]);
array[AREA] of int: first = array1d(AREA, [0, 1, 3, 1]);
array[AREA] of int: last = array1d(AREA, [1, 1, 3, 3]);
array[AREA] of int: from = array1d(AREA, [0, 0, 0, 0]);
array[AREA] of int: to = array1d(AREA, [2, 1, 1, 1]);
`
	if d := cmp.Diff(want, data); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
	if !strings.HasSuffix("\narray[BUFFER] of var"+model, miniZincModel) {
		t.Error("the model does not follow the data")
	}
	if err := WriteMiniZinc(io.Discard, Problem{Alignment: -1}); err == nil {
		t.Error("an invalid problem is written")
	}
}
