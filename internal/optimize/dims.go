package optimize

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/internal/dimrange"
)

// Dims are the lengths of dimensions that --dim gives, by name or place, each in the form
// that [dimrange.Parse] reads.
type Dims map[string]string

// Decode parses one or several NAME=LENGTHS, separated by commas, and adds them. A comma
// also separates the lengths of a list.
func (d *Dims) Decode(ctx *kong.DecodeContext) error {
	t, err := ctx.Scan.PopValue("NAME=N")
	if err != nil {
		return err
	}
	name, lengths := "", ""
	add := func() error {
		if name == "" {
			return nil
		}
		if _, err := dimrange.Parse(lengths); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if before, given := (*d)[name]; given && before != lengths {
			return fmt.Errorf("%s: expected its lengths once, found %s and %s", name, before, lengths)
		}
		if *d == nil {
			*d = Dims{}
		}
		(*d)[name] = lengths
		return nil
	}
	for field := range strings.SplitSeq(fmt.Sprint(t.Value), ",") {
		at := strings.LastIndexByte(field, '=')
		switch {
		case at > 0:
			if err := add(); err != nil {
				return err
			}
			name, lengths = field[:at], field[at+1:]
		case at == 0 || name == "":
			return fmt.Errorf("expected NAME=N, NAME=LOW..HIGH, NAME=LOW..HIGH:STEP or NAME=N,N, found %q", t.Value)
		default:
			lengths += "," + field
		}
	}
	return add()
}

// Split returns the dimensions of one length and those of several.
func (d Dims) Split() (lengths map[string]int64, ranges map[string]string) {
	for name, text := range d {
		l, err := dimrange.Parse(text)
		switch {
		case err == nil && l.Count == 1:
			if lengths == nil {
				lengths = map[string]int64{}
			}
			lengths[name] = l.Low
		default: // a wrong one is refused when the ranges are checked
			if ranges == nil {
				ranges = map[string]string{}
			}
			ranges[name] = text
		}
	}
	return lengths, ranges
}

// Corner returns the largest length of each dimension, and says whether one has several.
func (d Dims) Corner() (lengths map[string]int64, several bool) {
	lengths, ranges := d.Split()
	for name, text := range ranges {
		if l, err := dimrange.Parse(text); err == nil {
			if lengths == nil {
				lengths = map[string]int64{}
			}
			lengths[name] = l.High()
		}
	}
	return lengths, len(ranges) > 0
}

// With returns the lengths with one more.
func (d Dims) With(name string, length int64) Dims {
	more := maps.Clone(d)
	if more == nil {
		more = Dims{}
	}
	more[name] = strconv.FormatInt(length, 10)
	return more
}
