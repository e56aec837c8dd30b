package schedule

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriteMiniZinc holds the data of the problem of TestWriteLP. crosscheck has models solved.
func TestWriteMiniZinc(t *testing.T) {
	p := parse(t, "x:4; a:8=A(x); b:8>a=B(a) ws 4; c:0=C(a); d:4=D(b, c); out d")
	p.Name = "a\nb"
	var b bytes.Buffer
	if err := WriteMiniZinc(&b, p); err != nil {
		t.Fatal(err)
	}
	data, model, _ := strings.Cut(b.String(), "\nset of int: NODE")
	want := `% The smallest peak of "a\nb": 4 nodes. One unit is 4 bytes.
include "alldifferent.mzn";

% node 0: node "a" (A)
% node 1: node "b" (B)
% node 2: node "c" (C)
% node 3: node "d" (D)
int: nodes = 4;
int: total = 7; % all sizes
set of int: TENSOR = 0..3; % those with bytes
array[TENSOR] of int: size = array1d(TENSOR, [1, 2, 2, 1]);
array[TENSOR] of int: producer = array1d(TENSOR, [-1, 0, 1, 3]);
array[TENSOR] of bool: kept = array1d(TENSOR, [false, false, false, true]);
array[TENSOR] of set of int: readers = array1d(TENSOR, [{0}, {1, 2}, {3}, {}]);
array[0..nodes - 1] of int: workspace = array1d(0..nodes - 1, [0, 1, 0, 0]);
array[0..3] of int: before = array1d(0..3, [0, 0, 1, 2]);
array[0..3] of int: after = array1d(0..3, [1, 2, 3, 3]);
set of int: PAIR = 0..0;
array[PAIR] of int: writer = array1d(PAIR, [1]);
array[PAIR] of int: result = array1d(PAIR, [2]);
array[PAIR] of int: over = array1d(PAIR, [1]);
`
	if d := cmp.Diff(want, data); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
	if !strings.HasSuffix("\nset of int: NODE"+model, miniZincModel) {
		t.Error("the model does not follow the data")
	}
	if err := WriteMiniZinc(broken{}, p); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v, want the writer's error", err)
	}
	if err := WriteMiniZinc(io.Discard, &Problem{Nodes: []Node{{Workspace: -1}}}); err == nil {
		t.Error("an invalid problem is written")
	}
}
