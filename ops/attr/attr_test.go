package attr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
)

// node makes a node out of attributes.
func node(attrs ...*graph.Attr) *graph.Node { return &graph.Node{Op: "Op", Attrs: attrs} }

func ints(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

func text(name, s string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrString, String: s}
}

func number(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

// want fails unless err holds the words; "" is no error.
func want(t *testing.T, err error, words string) {
	t.Helper()
	if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
		t.Errorf("error %v, expected %q", err, words)
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestList(t *testing.T) {
	for _, c := range []struct {
		name  string
		attrs []*graph.Attr
		want  []int64
		words string
	}{
		{"absent", nil, []int64{7, 7}, ""},
		{"empty", []*graph.Attr{ints("list")}, []int64{7, 7}, ""},
		{"stated", []*graph.Attr{ints("list", 1, Most)}, []int64{1, Most}, ""},
		{"too few", []*graph.Attr{ints("list", 1)}, nil, "list has 1 values, expected 2"},
		{"too small", []*graph.Attr{ints("list", 1, 0)}, nil, "list[1] is 0, expected 1 to 2147483647"},
		{"too large", []*graph.Attr{ints("list", Most+1, 1)}, nil, "list[0] is 2147483648, expected 1 to 2147483647"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := List(node(c.attrs...), "list", 2, 1, 7)
			want(t, err, c.words)
			same(t, got, c.want)
		})
	}
}

func TestAxes(t *testing.T) {
	for _, c := range []struct {
		name       string
		list       []int64
		rank       int
		axes       []int
		set        []bool
		words, not string // errors of Axes and of AxisSet
	}{
		{"negative axes count from the back", []int64{-1, 0}, 3, []int{2, 0}, []bool{true, false, true}, "", ""},
		{"none", nil, 2, []int{}, []bool{false, false}, "", ""},
		{"behind the last", []int64{3}, 3, nil, nil, "axes is 3, expected one of [-3, 3) for rank 3", "axes is 3"},
		{"before the first", []int64{-4}, 3, nil, nil, "axes is -4, expected one of [-3, 3) for rank 3", "axes is -4"},
		{"the least number", []int64{-1 << 63}, 3, nil, nil, "expected one of", "expected one of"},
		{"twice", []int64{1, -1}, 2, nil, []bool{false, true}, "axes names axis 1 twice", ""},
		{"of a scalar", []int64{0}, 0, nil, []bool{}, "expected one of [0, 0) for rank 0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			axes, err := Axes("axes", c.list, c.rank)
			want(t, err, c.words)
			same(t, axes, c.axes)
			set, err := AxisSet("axes", c.list, c.rank)
			want(t, err, c.not)
			same(t, set, c.set)
		})
	}
}

func TestAxesOr(t *testing.T) {
	all, err := AxesOrAll(node(), "axes", 3)
	want(t, err, "")
	same(t, all, []int{0, 1, 2})
	stated, err := AxesOrAll(node(ints("axes", -1)), "axes", 3)
	want(t, err, "")
	same(t, stated, []int{2})
	_, err = AxesOr(node(), "axes", 3, 0, 2, 3)
	want(t, err, "axes is 3, expected one of [-3, 3)")
	_, err = AxesOr(node(number("axes", 1)), "axes", 3)
	want(t, err, "attribute axes is of another type")
}

func TestEinsum(t *testing.T) {
	for _, c := range []struct {
		equation string
		ranks    []int
		want     string
	}{
		{"ij, jk -> ik", []int{2, 2}, "ij jk > ik"},
		{"zj,jB", []int{2, 2}, "zj jB > Bz"},
		{"...ij,...jk", []int{3, 4}, "1ij 21jk > 21ik"},
		{"i...->...", []int{3}, "i21 > 21"},
		{"ii", []int{2}, "ii > "},
		{"ij->j", []int{2, 2}, "error: equation \"ij->j\" has 1 terms, expected 2 as there are inputs"},
		{"ij->j", []int{3}, "error: input 0 has rank 3, expected as many axes as its term \"ij\" has"},
	} {
		terms, output, err := Einsum(&graph.Node{Attrs: []*graph.Attr{{Name: "equation", Type: graph.AttrString, String: c.equation}}}, c.ranks)
		got := strings.Map(func(r rune) rune {
			if r < 9 {
				return r + '0' // an axis of the ellipsis
			}
			return r
		}, strings.Join(terms, " ")+" > "+output)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.equation, got, c.want)
		}
	}
}
