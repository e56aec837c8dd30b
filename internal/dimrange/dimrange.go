// Package dimrange describes for which lengths of its dimensions a model is planned:
// each dimension has a set of lengths, and the box of several dimensions has all
// combinations of them.
package dimrange

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Lengths is a set of lengths of one dimension: Low, Low+Step and so on, Count of them,
// or those listed in Values.
type Lengths struct {
	Low, Step, Count int64
	Values           []int64 // ascending; nil: the lengths are evenly spaced
}

// Parse reads LOW..HIGH, LOW..HIGH:STEP, a list as in 1,2,4,8, or a single length. HIGH
// itself must be one of the lengths, as it is the one that the plan's figures are for.
func Parse(text string) (Lengths, error) {
	if low, rest, ok := strings.Cut(text, ".."); ok {
		return parseSpan(text, low, rest)
	}
	var values []int64
	for field := range strings.SplitSeq(text, ",") {
		n, err := parseLength(text, field)
		if err != nil {
			return Lengths{}, err
		}
		values = append(values, n)
	}
	slices.Sort(values)
	for i := range len(values) - 1 {
		if values[i] == values[i+1] {
			return Lengths{}, fmt.Errorf("%q: expected each length once, found %d twice", text, values[i])
		}
	}
	if len(values) == 1 {
		return Lengths{Low: values[0], Step: 1, Count: 1}, nil
	}
	return Lengths{Low: values[0], Count: int64(len(values)), Values: values}, nil
}

func parseSpan(text, low, rest string) (Lengths, error) {
	high, every, stepped := strings.Cut(rest, ":")
	l := Lengths{Step: 1}
	var err error
	if l.Low, err = parseLength(text, low); err != nil {
		return Lengths{}, err
	}
	last, err := parseLength(text, high)
	if err != nil {
		return Lengths{}, err
	}
	if stepped {
		if l.Step, err = parseLength(text, every); err != nil {
			return Lengths{}, err
		}
	}
	switch {
	case l.Step == 0:
		return Lengths{}, fmt.Errorf("%q: expected a step of 1 or more, found 0", text)
	case last < l.Low:
		return Lengths{}, fmt.Errorf("%q: expected a last length of %d or more, found %d", text, l.Low, last)
	case (last-l.Low)%l.Step != 0:
		return Lengths{}, fmt.Errorf("%q: expected a last length that is reached in steps of %d, such as %d, found %d", text, l.Step, last-(last-l.Low)%l.Step, last)
	case last-l.Low == math.MaxInt64:
		return Lengths{}, fmt.Errorf("%q: expected fewer lengths", text)
	}
	l.Count = (last-l.Low)/l.Step + 1
	return l, nil
}

func parseLength(text, field string) (int64, error) {
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q: expected a length, LOW..HIGH, LOW..HIGH:STEP or a list of lengths, found %q", text, field)
	}
	return n, nil
}

// String returns the lengths in the form that Parse reads.
func (l Lengths) String() string {
	switch {
	case l.Values != nil:
		var list []string
		for _, n := range l.Values {
			list = append(list, strconv.FormatInt(n, 10))
		}
		return strings.Join(list, ",")
	case l.Count == 1:
		return strconv.FormatInt(l.Low, 10)
	case l.Step == 1:
		return fmt.Sprintf("%d..%d", l.Low, l.High())
	}
	return fmt.Sprintf("%d..%d:%d", l.Low, l.High(), l.Step)
}

// At returns length i, in ascending order.
func (l Lengths) At(i int64) int64 {
	if l.Values != nil {
		return l.Values[i]
	}
	return l.Low + i*l.Step
}

// High returns the largest length.
func (l Lengths) High() int64 { return l.At(l.Count - 1) }

// Has reports whether n is one of the lengths.
func (l Lengths) Has(n int64) bool {
	if l.Values != nil {
		_, found := slices.BinarySearch(l.Values, n)
		return found
	}
	return n >= l.Low && n <= l.High() && (n-l.Low)%l.Step == 0
}

// sample returns the indices of a few lengths, ascending. The first three are among them,
// since what a length of 1 permits, such as broadcasting, ends there. The last two are, since
// something may end where a length equals a constant of the model. So is the first from each
// power of two.
func (l Lengths) sample() []int64 {
	index := map[int64]bool{}
	for _, i := range [...]int64{0, 1, 2, l.Count - 2, l.Count - 1} {
		if i >= 0 && i < l.Count {
			index[i] = true
		}
	}
	for power := int64(1); power > 0 && power <= l.High(); power *= 2 {
		index[l.from(power)] = true
	}
	return slices.Sorted(maps.Keys(index))
}

// from returns the index of the smallest length of n or more, which must not be above
// the largest one.
func (l Lengths) from(n int64) int64 {
	if l.Values != nil {
		i, _ := slices.BinarySearch(l.Values, n)
		return int64(i)
	}
	if n <= l.Low {
		return 0
	}
	return (n-l.Low-1)/l.Step + 1
}

// Box is the lengths of several dimensions. Its points are numbered from 0; the last
// name changes fastest, and the last point is the corner, where all lengths are largest.
type Box struct {
	Names   []string // ascending
	Lengths []Lengths
	Points  int
}

// NewBox makes the box of the dimensions. It fails if it has more than limit points.
func NewBox(dims map[string]Lengths, limit int) (*Box, error) {
	b := &Box{Names: slices.Sorted(maps.Keys(dims)), Points: 1}
	for _, name := range b.Names {
		l := dims[name]
		if l.Count < 1 {
			return nil, fmt.Errorf("dimension %q: expected 1 or more lengths, found %d", name, l.Count)
		}
		if l.Count > int64(limit/b.Points) {
			return nil, fmt.Errorf("the ranges of %s have more than %d points: expected fewer; a step (LOW..HIGH:STEP) or a list of lengths has fewer", strings.Join(b.Names, ", "), limit)
		}
		b.Points *= int(l.Count)
		b.Lengths = append(b.Lengths, l)
	}
	return b, nil
}

// At returns the lengths of the dimensions at point i.
func (b *Box) At(i int) map[string]int64 {
	dims := map[string]int64{}
	for k := len(b.Names) - 1; k >= 0; k-- {
		n := int(b.Lengths[k].Count)
		dims[b.Names[k]] = b.Lengths[k].At(int64(i % n))
		i /= n
	}
	return dims
}

// Corner returns the number of the point at which all lengths are largest.
func (b *Box) Corner() int { return b.Points - 1 }

// Find returns the number of the point with the given lengths. The error names the first
// dimension whose length is missing or outside its range. Other dimensions are ignored.
func (b *Box) Find(dims map[string]int64) (int, error) {
	point := 0
	for k, name := range b.Names {
		n, found := dims[name]
		l := b.Lengths[k]
		if !found {
			return 0, fmt.Errorf("dimension %q: expected one of %v, found no length", name, l)
		}
		if !l.Has(n) {
			return 0, fmt.Errorf("dimension %q: expected one of %v, found %d", name, l, n)
		}
		point = point*int(l.Count) + int(l.from(n))
	}
	return point, nil
}

// Grid returns the numbers of the points, ascending, at which each dimension has one of
// a few lengths: the ends, those next to them, and powers of two. What the plan shares
// is chosen there, and proven elsewhere.
func (b *Box) Grid() []int {
	points := []int{0}
	for _, l := range b.Lengths {
		var more []int
		for _, p := range points {
			for _, i := range l.sample() {
				more = append(more, p*int(l.Count)+int(i))
			}
		}
		points = more
	}
	sort.Ints(points)
	return points
}

// Accepted returns the lengths of the dimensions that do not have all of them among some
// points, ascending, if these points are all combinations of evenly spaced lengths; nil if
// they are not.
func (b *Box) Accepted(points []int) map[string]Lengths {
	own := make([]map[int64]bool, len(b.Names))
	for k := range own {
		own[k] = map[int64]bool{}
	}
	for _, p := range points {
		for k := len(b.Names) - 1; k >= 0; k-- {
			n := int(b.Lengths[k].Count)
			own[k][b.Lengths[k].At(int64(p%n))] = true
			p /= n
		}
	}
	all := 1
	list := map[string]Lengths{}
	for k, name := range b.Names {
		lengths := slices.Sorted(maps.Keys(own[k]))
		if all *= len(lengths); len(lengths) == int(b.Lengths[k].Count) {
			continue
		}
		l := Lengths{Low: lengths[0], Step: 1, Count: int64(len(lengths))}
		if len(lengths) > 1 {
			l.Step = lengths[1] - lengths[0]
		}
		for i, n := range lengths {
			if n != l.At(int64(i)) {
				return nil
			}
		}
		list[name] = l
	}
	if all != len(points) {
		return nil
	}
	return list
}
