package core

// Matchings is the number of matchings of a node's pairs that a bound tries, with pairs that
// are alike joined; 0: it has no pairs, or too many matchings.
func Matchings(p *Problem, n int32) int { return len(maximal(p.alike(p.Pairs(n)), maxMatchings)) }
