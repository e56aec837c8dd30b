package autodiff

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestAlternatives: what is checked one by one.
func TestAlternatives(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"a", []string{"a"}},
		{"^a|^b|c$", []string{"^a", "^b", "c$"}},
		{"a|", []string{"a"}},
		{`^(a|b)\.w`, []string{`^(a)\.w`, `^(b)\.w`}},
		{`(?:a|b|c)`, []string{"(?:a)", "(?:b)", "(?:c)"}},
		{`^head\.(weight|bias)$`, []string{`^head\.(weight|bias)$`}},
		{`^(a|b)?c`, []string{`^(a|b)?c`}},
		{`[|]|b`, []string{"[|]", "b"}},
		{`[]|]|b`, []string{"[]|]", "b"}},
		{`a\|b`, []string{`a\|b`}},
		{`\Qa|b\E|c`, []string{`\Qa|b\E`, "c"}},
		{`(?i)a|B`, []string{"(?i)a", "(?i)B"}},
		{`(a|b)(c|d)|e`, []string{"(a|b)(c|d)", "e"}},
	} {
		var got []string
		for _, r := range alternatives(c.pattern) {
			got = append(got, r.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", c.pattern, got, c.want)
		}
	}
}

// TestPatternsThatMatchNothing: a misspelt pattern is an error that names what is near.
func TestPatternsThatMatchNothing(t *testing.T) {
	match := regexp.MustCompile
	for _, c := range []struct {
		name string
		opt  Options
		want string // "": none
	}{
		{"freeze", Options{Freeze: match("^bckbone")}, `--freeze: "^bckbone" matches no initializer: expected a pattern of their names, such as backbone.0.weight, `},
		{"trainable", Options{Trainable: match("^haed")}, `--trainable: "^haed" matches no initializer: expected a pattern of their names, such as head.weight, head.bias, `},
		{"one of two", Options{Freeze: match(`^backbone|^haed`)}, `--freeze: "^haed" matches no initializer`},
		{"one of a group", Options{Freeze: match(`^(bckbone|head)\.`)}, `--freeze: "^(bckbone)\\." matches no initializer`},
		{"an integer", Options{Freeze: match(`^shape`)}, `--freeze: "^shape" matches no initializer`},
		{"a node's result", Options{Freeze: match(`^y`)}, `--freeze: "^y" matches no initializer`},
		{"untie", Options{Untie: match(`tail`)}, `--untie: "tail" matches no initializer`},
		{"group", Options{Groups: []ParamGroup{{Name: "slow", Match: match("bakbone")}}}, `--group slow: "bakbone" matches no initializer: expected a pattern of their names, such as backbone.0.weight`},
		{"merged", Options{Freeze: match("twin")}, `--freeze: "twin" matches no initializer but backbone.twin, which an exporter merged into backbone.0.weight`},
		{"all match", Options{Freeze: match(`backbone|head\.(bias|scale)`)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Loss = "mse"
			_, err := Train(patterned(), c.opt)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q", err, c.want)
			}
		})
	}
}

func patterned() *graph.Model {
	b := newBuilder("patterned", 18)
	w := b.weights("backbone.0.weight", 4, 4)
	h := b.op("h", "MatMul", nil, b.input("x", b.real(3, 4)), w)
	h = b.op("h2", "MatMul", nil, h, b.op("backbone.twin", "Identity", nil, w))
	h = b.op("h3", "MatMul", nil, h, b.weights("head.weight", 4, 2))
	return b.finish(b.op("y", "Add", nil, h, b.weights("head.bias", 2)))
}
