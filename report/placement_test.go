package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The four buffers of the picture in package alloc.
var four = []Rect{{Name: "a", Offset: 0, Bytes: 4, First: 0, Last: 1}, {Name: "b", Offset: 4, Bytes: 2, First: 0, Last: 1}, {Name: "c", Offset: 6, Bytes: 1, First: 1, Last: 2}, {Name: "d", Offset: 0, Bytes: 4, First: 2, Last: 3}}

func TestPlacementSVG(t *testing.T) {
	var got bytes.Buffer
	if err := PlacementSVG(&got, "four.csv: 4 buffers", four, []Line{{"arena", 7}, {"capacity", 8}}); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "placement.svg.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("want - got + (-update rewrites it):\n%s", d)
	}
}

// Every picture is well-formed XML that shows each buffer of more than 0 bytes, up to
// the number that an eye can distinguish; names cannot become elements.
func TestPlacementSVGIsXML(t *testing.T) {
	many := make([]Rect, 60_000)
	for i := range many {
		many[i] = Rect{Name: fmt.Sprint(i), Offset: int64(i%1000) << 20, Bytes: 1 << 20, First: i, Last: i + i%7}
	}
	for _, c := range []struct {
		name  string
		rects []Rect
		want  int
	}{
		{"nothing", nil, 0},
		{"a hostile name", []Rect{{Name: "</title><script>\x00\x1b&", Bytes: 1}}, 1},
		{"0 bytes", []Rect{{Name: "z", Last: 3}, {Name: "a", Offset: 0, Bytes: 1, First: 0, Last: 3}}, 1},
		{"all steps and bytes there are", []Rect{{Name: "a", Bytes: math.MaxInt64, First: math.MinInt64, Last: math.MaxInt64}}, 1},
		{"one step below 0", []Rect{{Name: "a", Bytes: 9, First: -3, Last: -3}}, 1},
		{"too many to draw", many, mostDrawn},
	} {
		var got bytes.Buffer
		if err := PlacementSVG(&got, c.name, c.rects, []Line{{"arena", 1}}); err != nil {
			t.Fatal(err)
		}
		if text := got.String(); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: a coordinate is not a number", c.name)
		}
		rects := 0
		for d := xml.NewDecoder(&got); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if start, ok := token.(xml.StartElement); ok {
				switch start.Name.Local {
				case "rect":
					rects++
				case "script":
					t.Errorf("%s: a name became an element", c.name)
				}
			}
		}
		if rects != c.want {
			t.Errorf("%s: %d rectangles, expected %d", c.name, rects, c.want)
		}
	}
}
