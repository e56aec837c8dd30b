package reference

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var textOperators = []operator{{"TfIdfVectorizer", tfIdf}}

// tfIdf counts in each row the n-grams of a pool: sequences of the row's words,
// next to each other or with the same number of words left out between any two.
func tfIdf(c *evaluation) []*Tensor {
	x := c.x(0)
	if c.has("pool_strings") {
		fail("strings")
	}
	pool, starts, places := c.ints("pool_int64s", nil), c.ints("ngram_counts", nil), c.ints("ngram_indexes", nil)
	columns := 0
	for _, p := range places {
		columns = max(columns, p+1)
	}
	rows, n := 1, x.Shape[len(x.Shape)-1]
	shape := []int{columns}
	if len(x.Shape) == 2 {
		rows = x.Shape[0]
		shape = []int{rows, columns}
	}
	y := zeros(graph.Float32, shape)
	gram := 0 // the index of the n-gram among those of all lengths
	for length := 1; length <= len(starts); length++ {
		end := len(pool)
		if length < len(starts) {
			end = starts[length]
		}
		for at := starts[length-1]; at < end; at, gram = at+length, gram+1 {
			if length < c.int("min_gram_length", 1) || length > c.int("max_gram_length", 1) {
				continue
			}
			want := pool[at : at+length]
			for skip := range c.int("max_skip_count", 0) + 1 {
				if length == 1 && skip > 0 || (length-1)*(skip+1) >= n {
					break
				}
				for r := range rows {
					for i := 0; i+(length-1)*(skip+1) < n; i++ {
						var words []int
						for k := range length {
							words = append(words, int(x.I[r*n+i+k*(skip+1)]))
						}
						if slices.Equal(words, want) {
							y.F[r*columns+places[gram]]++
						}
					}
				}
			}
		}
	}
	mode, weights := c.str("mode", "TF"), c.attr("weights")
	for r := range rows {
		for k, p := range places {
			v := &y.F[r*columns+p]
			if mode != "TF" {
				if mode == "IDF" && *v > 0 {
					*v = 1
				}
				if weights != nil {
					*v *= float64(weights.Floats[k])
				}
			}
		}
	}
	return one(y)
}
