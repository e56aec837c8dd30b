package solvers

import (
	"math"
	"regexp"
	"strconv"

	"github.com/onnxmem/onnxmem/ilp"
)

// cpLine is a line of CP-SAT's log that has a best objective and the span in which a better
// one may lie:
//
//	#Bound   0.01s best:inf   next:[46209,226591] default_lp
//	#2       0.01s best:52649 next:[46288,52648] rnd_var_lns
//
// A line that begins with #Done has no span: the best is optimal.
var cpLine = regexp.MustCompile(`^#(?:Bound|\d+)\s+\S+\s+best:(\S+)\s+next:\[([^,\]]*)`)

// cpProgress is what a line of CP-SAT's log says. Its figures have nine digits: a bound of
// more is taken as the least that is printed so, and a value as the largest.
func cpProgress(line string) (x ilp.Progress) {
	m := cpLine.FindStringSubmatch(line)
	if m == nil {
		return x
	}
	digits := func(text string, round func(float64) float64, way float64) *int64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(math.Abs(v) < 1e18) {
			return nil
		}
		if math.Abs(v) >= 1e9 {
			v += way * math.Abs(v) * 1e-8
		}
		n := int64(round(v))
		return &n
	}
	x.Value, x.Bound = digits(m[1], math.Ceil, 1), digits(m[2], math.Floor, -1)
	if x.Value != nil && x.Bound != nil && *x.Bound > *x.Value {
		x.Bound = x.Value
	}
	return x
}
