package ilp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

// sample has a column and a row of every kind.
func sample() *Program {
	p := &Program{Name: "a sample"}
	x := p.Add(Column{Name: "x", Upper: 1, Integer: true, Objective: 3})
	y := p.Add(Column{Name: "y", Upper: Unbounded})
	z := p.Add(Column{Name: "z", Lower: -Unbounded, Upper: Unbounded, Objective: -1})
	i := p.Add(Column{Name: "i", Upper: Unbounded, Integer: true})
	j := p.Add(Column{Name: "j", Lower: -Unbounded, Upper: -2, Integer: true})
	k := p.Add(Column{Name: "k", Lower: -3, Upper: 7})
	p.Add(Column{Name: "f", Lower: 4, Upper: 4})
	p.Add(Column{Name: "g", Lower: 5, Upper: Unbounded})
	p.Add(Column{Name: "h", Upper: 9})
	p.Rows = []Row{
		{Name: "equal", Lower: 2, Upper: 2, Terms: []Term{{x, 1}, {y, 1}}},
		{Name: "most", Lower: -Unbounded, Upper: 1, Terms: []Term{{y, -1}, {x, -2}}},
		{Name: "least", Lower: -4, Upper: Unbounded, Terms: []Term{{z, 1}, {i, 12}, {j, 1}}},
		{Name: "range", Lower: -1, Upper: 6, Terms: []Term{{k, math.MinInt64}, {x, 5}}},
		{Name: "empty", Lower: -1, Upper: 0},
	}
	return p
}

func TestWriteLP(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteLP(&b, "one\ntwo"); err != nil {
		t.Fatal(err)
	}
	want := `\ one
\ two
Minimize
 x: 3 x - z
Subject To
 equal: x + y = 2
 most: - y - 2 x <= 1
 least: z + 12 i + j >= -4
 range: - 9223372036854775808 k + 5 x <= 6
 range_lower: - 9223372036854775808 k + 5 x >= -1
 empty: 0 x <= 0
 empty_lower: 0 x >= -1
Bounds
 z free
 -inf <= j <= -2
 -3 <= k <= 7
 f = 4
 g >= 5
 h <= 9
Binaries
 x
Generals
 i
 j
End
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

func TestWriteMPS(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteMPS(&b); err != nil {
		t.Fatal(err)
	}
	want := `NAME a_sample
ROWS
 N objective
 E equal
 L most
 G least
 L range
 L empty
COLUMNS
 MARKER 'MARKER' 'INTORG'
 x objective 3
 x equal 1
 x most -2
 x range 5
 MARKER 'MARKER' 'INTEND'
 y equal 1
 y most -1
 z objective -1
 z least 1
 MARKER 'MARKER' 'INTORG'
 i least 12
 j least 1
 MARKER 'MARKER' 'INTEND'
 k range -9223372036854775808
 f objective 0
 g objective 0
 h objective 0
RHS
 RHS equal 2
 RHS most 1
 RHS least -4
 RHS range 6
RANGES
 RANGE range 7
 RANGE empty 1
BOUNDS
 BV BOUND x
 FR BOUND z
 LO BOUND i 0
 PL BOUND i
 MI BOUND j
 UP BOUND j -2
 LO BOUND k -3
 UP BOUND k 7
 FX BOUND f 4
 LO BOUND g 5
 UP BOUND h 9
ENDATA
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

// TestWriteCPSAT reads the message back by the field numbers of cp_model.proto; crosscheck
// reads such files by OR-tools itself.
func TestWriteCPSAT(t *testing.T) {
	p := &Program{Name: "p"}
	x := p.Add(Column{Name: "x", Upper: 1, Integer: true, Objective: 3})
	y := p.Add(Column{Name: "y", Lower: -300, Upper: 9})
	p.Rows = []Row{
		{Name: "most", Lower: -Unbounded, Upper: -1, Terms: []Term{{y, -2}, {x, 1}}},
		{Name: "least", Lower: 0, Upper: Unbounded, Terms: []Term{{y, 1}}},
	}
	for i := range 200 { // so that lengths take two bytes
		p.Rows[1].Terms = append(p.Rows[1].Terms, Term{p.Add(Column{Name: fmt.Sprint("u", i)}), 1})
	}
	start := make([]int64, len(p.Columns))
	start[y] = -1
	var b bytes.Buffer
	if err := p.WriteCPSAT(&b, start); err != nil {
		t.Fatal(err)
	}
	var got Program
	var hint []int64
	fields(t, b.Bytes(), func(f protowire.Number, body []byte) {
		switch f {
		case 1:
			got.Name = string(body)
		case 2:
			var c Column
			fields(t, body, func(f protowire.Number, body []byte) {
				if f == 1 {
					c.Name = string(body)
				} else {
					c.Lower, c.Upper = numbers(t, body)[0], numbers(t, body)[1]
				}
			})
			got.Columns = append(got.Columns, c)
		case 3:
			var r Row
			fields(t, body, func(f protowire.Number, body []byte) {
				if f == 1 {
					r.Name = string(body)
					return
				}
				if f != 12 {
					t.Fatalf("constraint of field %d, expected 12", f)
				}
				fields(t, body, func(f protowire.Number, body []byte) {
					for i, x := range numbers(t, body) {
						switch f {
						case 1:
							r.Terms = append(r.Terms, Term{Column: int(x)})
						case 2:
							r.Terms[i].Coefficient = x
						case 3:
							*[]*int64{&r.Lower, &r.Upper}[i] = x
						}
					}
				})
				if r.Lower == math.MinInt64 {
					r.Lower = -Unbounded
				}
			})
			got.Rows = append(got.Rows, r)
		case 4:
			var vars []int64
			fields(t, body, func(f protowire.Number, body []byte) {
				if f == 1 {
					vars = numbers(t, body)
					return
				}
				for i, c := range numbers(t, body) {
					got.Columns[vars[i]].Objective = c
				}
			})
		case 6:
			fields(t, body, func(f protowire.Number, body []byte) {
				if f == 2 {
					hint = numbers(t, body)
				}
			})
		}
	})
	p.Columns[x].Integer = false // the message does not say
	if d := cmp.Diff(p, &got); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
	if d := cmp.Diff(start, hint); d != "" {
		t.Errorf("hint: want - got +:\n%s", d)
	}
}

// fields calls f for each field of a message; all that we write are of bytes.
func fields(t *testing.T, b []byte, f func(protowire.Number, []byte)) {
	t.Helper()
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ != protowire.BytesType {
			t.Fatalf("field %d of type %d", field, typ)
		}
		body, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			t.Fatal(protowire.ParseError(m))
		}
		f(field, body)
		b = b[n+m:]
	}
}

func numbers(t *testing.T, b []byte) (list []int64) {
	t.Helper()
	for len(b) > 0 {
		x, n := protowire.ConsumeVarint(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		list = append(list, int64(x))
		b = b[n:]
	}
	return list
}

func TestCPSATLimits(t *testing.T) {
	for _, c := range []struct {
		p     Program
		start []int64
		want  string
	}{
		{p: Program{Columns: []Column{{Name: "x", Upper: Unbounded}}}, want: "column x: expected bounds below 2^62 for CP-SAT, found at least 0"},
		{p: Program{Columns: []Column{{Name: "x", Lower: -1 << 62}}}, want: "column x: expected bounds below 2^62"},
		{p: Program{Columns: []Column{{Name: "x", Upper: 1 << 40, Objective: -1 << 22}}, Name: "p"}, want: "program p: expected an objective below 2^62"},
		{
			p: Program{
				Columns: []Column{{Name: "x", Upper: 1 << 61}, {Name: "y", Upper: 1}},
				Rows:    []Row{{Name: "r", Terms: []Term{{0, 1}, {1, 1 << 61}}}},
			},
			want: "row r: expected a sum below 2^62",
		},
		{p: Program{Name: "p"}, start: []int64{1}, want: "program p: start solution: expected 0 values, found 1"},
		{p: Program{Columns: []Column{{Name: "x", Lower: -1<<62 + 1, Upper: 1<<62 - 1, Objective: -1}}}},
	} {
		err := c.p.WriteCPSAT(io.Discard, c.start)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWritersFail(t *testing.T) {
	p := &Program{Columns: []Column{{Name: "x"}}}
	for name, write := range map[string]func(io.Writer) error{
		"LP":     func(w io.Writer) error { return p.WriteLP(w, "") },
		"MPS":    p.WriteMPS,
		"CP-SAT": func(w io.Writer) error { return p.WriteCPSAT(w, nil) },
	} {
		if err := write(broken{}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: got %v, want the writer's error", name, err)
		}
	}
}
