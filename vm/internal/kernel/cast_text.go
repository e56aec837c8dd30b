package kernel

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeFormat writes numbers as strings, as ONNX Runtime does: reals with up to eight
// digits, bools as 0 and 1.
func makeFormat(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	whole, integer := form.IntReader(in.Type)
	get, ok := form.Reader(in.Type)
	if !integer && (!ok || form.IsFloat8(in.Type)) {
		return nil, unsupportedf("a cast from %v to %v", in.Type, out.Type)
	}
	text := func(i int) string {
		switch {
		case in.Type == graph.Uint64:
			return strconv.FormatUint(uint64(whole(in.At, i)), 10)
		case integer:
			return strconv.FormatInt(whole(in.At, i), 10)
		}
		switch x := get(in.At, i); {
		case math.IsNaN(x):
			return "NaN"
		case math.IsInf(x, 1):
			return "INF"
		case math.IsInf(x, -1):
			return "-INF"
		default:
			return strconv.FormatFloat(x, 'g', 8, 64)
		}
	}
	return func(*work.Pool) error {
		m := c.Meter()
		d := data[uint64](out)
		for i := range d {
			m.Add(64)
			d[i] = c.element(text(i))
		}
		return nil
	}, nil
}

// makeParse reads numbers from strings. The whole string must be a number, but for spaces
// around it: ONNX leaves others undefined, and ONNX Runtime reads what they begin with.
func makeParse(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	setReal, real := form.Writer(out.Type)
	setInt, integer := form.IntWriter(out.Type)
	if out.Type == graph.Bool {
		integer = false
	}
	bits := form.ElementBits(out.Type)
	if !integer && (!real || form.IsFloat8(out.Type)) || bits < 8 {
		return nil, unsupportedf("a cast from %v to %v", in.Type, out.Type)
	}
	read := func(i int, s string) error {
		switch {
		case out.Type == graph.Uint64 || out.Type == graph.Uint32 || out.Type == graph.Uint16 || out.Type == graph.Uint8:
			v, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, bits)
			setInt(out.At, i, int64(v))
			return err
		case integer:
			v, err := strconv.ParseInt(s, 10, bits)
			setInt(out.At, i, v)
			return err
		case out.Type == graph.Bool:
			v, err := strconv.ParseInt(s, 10, 64)
			setReal(out.At, i, float64(v))
			return err
		}
		v, err := strconv.ParseFloat(s, 64)
		if errors.Is(err, strconv.ErrRange) && bits < 64 { // infinite in a narrower type, too
			err = nil
		}
		if bits == 32 { // rounded once
			narrow, _ := strconv.ParseFloat(s, 32)
			v = narrow
		}
		setReal(out.At, i, v)
		return err
	}
	return func(*work.Pool) error {
		m := c.Meter()
		for i := range in.Len() {
			s := c.text(in, i)
			m.Add(64 + len(s))
			if err := read(i, strings.TrimSpace(s)); err != nil {
				return fmt.Errorf("element %d is %q, expected a number of type %v", i, graph.Short(s), out.Type)
			}
		}
		return nil
	}, nil
}
