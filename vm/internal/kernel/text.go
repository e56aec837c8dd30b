package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// texts lists the operators on sequences of numbers that stand for words.
var texts = family{"", []Kernel{
	{Name: "TfIdfVectorizer", Make: makeTfIdfVectorizer},
}}

// makeTfIdfVectorizer counts the occurrences of the pool's n-grams in each row, with up
// to max_skip_count words skipped between two words of an n-gram.
func makeTfIdfVectorizer(c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	if x.Type != graph.Int64 && x.Type != graph.Int32 || out.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	pool, starts, places := c.Ints("pool_int64s"), c.Ints("ngram_counts"), c.Ints("ngram_indexes")
	var weights []float64
	if a := c.Node.Attr("weights"); a != nil {
		for _, f := range a.Floats {
			weights = append(weights, float64(f))
		}
	}
	mode := c.Str("mode", "TF")
	least, most, skips := c.Int("min_gram_length", 1), c.Int("max_gram_length", 1), c.Int("max_skip_count", 0)
	if pool == nil {
		return nil, unsupportedf("n-grams of strings")
	}
	n, columns := x.Shape[x.rank()-1], out.Shape[out.rank()-1]
	// The n-grams by length. Their longest length is that of ngram_counts.
	most = min(most, len(starts))
	grams := make([]map[string]int, most+1)
	next := 0
	for length := 1; length <= len(starts); length++ {
		from, to := starts[length-1], len(pool)
		if length < len(starts) {
			to = starts[length]
		}
		list := map[string]int{}
		for ; from < to; from += length {
			list[gram(pool[from:from+length], 1, length)] = next
			next++
		}
		if length <= most {
			grams[length] = list
		}
	}
	read, _ := intReader(x.Type)
	line := numbersOf[int](c, n)
	return func(*work.Pool) error {
		d := data[float32](out)
		fillAll(c, d, 0)
		m := meter{c: c}
		for row := 0; n > 0 && row < x.Len()/n; row++ {
			for i := range line {
				m.add(1)
				line[i] = int(read(x.At, row*n+i))
			}
			to := d[row*columns : (row+1)*columns]
			for length := least; length <= most; length++ {
				// An n-gram that is longer than the line does not occur.
				for skip := 0; skip <= skips && (length-1)*(skip+1) < n; skip++ {
					if length == 1 && skip > 0 || grams[length] == nil {
						break
					}
					for i := 0; i+(length-1)*(skip+1) < n; i++ {
						m.add(8 * length)
						k, known := grams[length][gram(line[i:], skip+1, length)]
						switch {
						case !known:
						case mode == "IDF":
							to[places[k]] = 1
						default:
							to[places[k]]++
						}
					}
				}
			}
			if mode != "TF" && weights != nil {
				for k, p := range places {
					m.add(1)
					to[p] *= float32(weights[k])
				}
			}
		}
		return nil
	}, nil
}

// gram returns the map key of some words of a line, which are step apart.
func gram(line []int, step, length int) string {
	key := make([]byte, 0, 8*length)
	for i := range length {
		for v, b := uint64(line[i*step]), 0; b < 8; b++ {
			key = append(key, byte(v>>(8*b)))
		}
	}
	return string(key)
}
