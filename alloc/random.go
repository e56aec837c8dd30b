package alloc

// random is a sequence of pseudorandom numbers, the same in every run. The zero
// value is its start.
type random struct{ draws uint64 }

func (r *random) next() uint64 {
	r.draws++
	return mix(r.draws * 0x9e3779b97f4a7c15)
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

// float returns a number from 0 to 1, without 1.
func (r *random) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// mix is the finalizer of splitmix64 (Steele, Lea & Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
