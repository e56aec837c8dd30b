package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// flashAttentionOperators are attention that keeps no scores, and its gradient.
var flashAttentionOperators = []operator{
	{graph.FlashAttention, flashAttention},
	{graph.FlashAttentionGrad, flashAttentionGrad},
}

// flash is the form of such a node: q [batch, heads, queries, size], k [batch, groups, size,
// keys], v [batch, groups, keys, tall]; bias and keep have the shape of the scores.
type flash struct {
	q, k, v, bias, keep       *Tensor
	batch, heads, groups      int
	queries, keys, size, tall int
	scale, fill               float64
	safe                      bool
}

func (c *evaluation) flash() *flash {
	f := &flash{q: c.x(0), k: c.x(1), v: c.x(2), scale: c.float("scale", 1), fill: c.float("fill", 0), safe: c.int("safe", 0) != 0}
	f.batch, f.heads, f.queries, f.size = f.q.Shape[0], f.q.Shape[1], f.q.Shape[2], f.q.Shape[3]
	f.groups, f.keys, f.tall = f.k.Shape[1], f.k.Shape[3], f.v.Shape[3]
	scores := []int{f.batch, f.heads, f.queries, f.keys}
	f.bias, f.keep = c.x(3).spread(scores), c.x(4).spread(scores)
	return f
}

// group is the index of the keys of head h.
func (f *flash) group(b, h int) int { return b*f.groups + h/(f.heads/f.groups) }

// row computes a row of scores, and the largest sum of terms of one that counts.
func (f *flash) row(row []float64, b, h, i int) (uncertain float64) {
	line := (b*f.heads+h)*f.queries + i
	k := f.k.F[f.group(b, h)*f.size*f.keys:]
	for j := range row {
		at := line*f.keys + j
		if f.keep.I[at] == 0 {
			row[j] = f.fill
			continue
		}
		sum, mass := 0.0, math.Abs(f.bias.F[at])
		for d := range f.size {
			p := f.scale * f.q.F[line*f.size+d] * k[d*f.keys+j]
			sum += p
			mass += math.Abs(p)
		}
		if row[j] = sum + f.bias.F[at]; !math.IsInf(row[j], -1) && mass < 1e30 {
			uncertain = max(uncertain, mass)
		}
	}
	return uncertain
}

// weigh replaces scores by weights: exponentials of their differences from most, times part.
func (f *flash) weigh(row []float64, most, part float64) {
	for j, s := range row {
		if row[j] = math.Exp(s-most) * part; f.safe && math.IsNaN(row[j]) {
			row[j] = 0
		}
	}
}

func flashAttention(c *evaluation) []*Tensor {
	f := c.flash()
	y, rows := zeros(f.q.Type, []int{f.batch, f.heads, f.queries, f.tall}), zeros(graph.Float32, []int{f.batch, f.heads, f.queries, 2})
	mass, about := make([]float64, len(y.F)), make([]float64, len(rows.F))
	parallel(f.batch*f.heads*f.queries, func(line int) {
		b, h, i := line/f.queries/f.heads, line/f.queries%f.heads, line%f.queries
		row := make([]float64, f.keys)
		uncertain := f.row(row, b, h, i)
		most, sum := math.Inf(-1), 0.0
		for _, s := range row {
			most = max(most, s)
		}
		for _, s := range row {
			sum += math.Exp(s - most)
		}
		rows.F[2*line], rows.F[2*line+1] = most, 1/sum
		about[2*line], about[2*line+1] = uncertain+math.Abs(most), (1+2*uncertain)/sum
		f.weigh(row, most, 1/sum)
		v := f.v.F[f.group(b, h)*f.keys*f.tall:]
		for j, p := range row {
			for e := range f.tall {
				y.F[line*f.tall+e] += p * v[j*f.tall+e]
				// An absolute error of a score is a relative error of its exponential.
				mass[line*f.tall+e] += math.Abs(p*v[j*f.tall+e]) * (1 + 2*uncertain)
			}
		}
	})
	c.sums(0, mass, max(f.keys, f.size))
	c.sums(1, about, max(f.keys, f.size))
	return []*Tensor{y, rows}
}

// flashAttentionGrad computes the weights again, and from the gradient of the result the
// gradients of the weights, of the scores, and of queries, keys and values.
func flashAttentionGrad(c *evaluation) []*Tensor {
	f := c.flash()
	rows, d := c.x(5), c.x(6)
	out := []*Tensor{zeros(f.q.Type, f.q.Shape), zeros(f.q.Type, f.k.Shape), zeros(f.q.Type, f.v.Shape)}
	mass := [][]float64{make([]float64, len(f.q.F)), make([]float64, len(f.k.F)), make([]float64, len(f.v.F))}
	parallel(f.batch*f.groups, func(group int) {
		row, dRow, dMass := make([]float64, f.keys), make([]float64, f.keys), make([]float64, f.keys)
		shared := f.heads / f.groups
		k, v := f.k.F[group*f.size*f.keys:], f.v.F[group*f.keys*f.tall:]
		for part := range shared * f.queries {
			b, h, i := group/f.groups, group%f.groups*shared+part/f.queries, part%f.queries
			line := (b*f.heads+h)*f.queries + i
			doubt := 1 + 2*f.row(row, b, h, i)
			f.weigh(row, rows.F[2*line], rows.F[2*line+1])
			mean, meanMass := 0.0, 0.0
			for j, p := range row {
				dRow[j], dMass[j] = 0, 0
				for e := range f.tall {
					t := d.F[line*f.tall+e] * v[j*f.tall+e]
					dRow[j] += t
					dMass[j] += math.Abs(t)
					dv := (group*f.keys+j)*f.tall + e
					out[2].F[dv] += p * d.F[line*f.tall+e]
					mass[2][dv] += math.Abs(p*d.F[line*f.tall+e]) * doubt
				}
				mean += p * dRow[j]
				meanMass += math.Abs(p) * dMass[j] * doubt
			}
			for j, p := range row {
				if f.keep.I[line*f.keys+j] == 0 {
					continue
				}
				ds, about := f.scale*p*(dRow[j]-mean), math.Abs(f.scale*p)*(dMass[j]*doubt+meanMass)
				for e := range f.size {
					q, dk := line*f.size+e, (group*f.size+e)*f.keys+j
					out[0].F[q] += ds * k[e*f.keys+j]
					mass[0][q] += about * math.Abs(k[e*f.keys+j])
					out[1].F[dk] += ds * f.q.F[q]
					mass[1][dk] += about * math.Abs(f.q.F[q])
				}
			}
		}
	})
	terms := f.keys + f.size + f.tall
	c.sums(0, mass[0], terms)
	c.sums(1, mass[1], terms+f.queries*f.heads/f.groups)
	c.sums(2, mass[2], terms+f.queries*f.heads/f.groups)
	return out
}
