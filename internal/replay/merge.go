package replay

import "slices"

// Merge returns the blocks of a plan for an earlier one and for a run that has followed it.
// found has, for each block of the run, what [Walk.Find] returned. A block of both is as large
// as the larger of them; if that is the run's, larger (nil: none) may round its size up. Of a
// block that is in one alone, it is not known which of the other's blocks around it live
// longer: so all do.
func Merge[K comparable](plan, run []Block[K], found []int, larger func(int64) int64) []Block[K] {
	var merged []Block[K]
	// Where the blocks of both are in merged: planned by block, and reached when so many
	// blocks of the run were allocated.
	planned, reached := make([]int, len(plan)+1), make([]int, len(run)+1)
	at := make([]int, len(run)) // the blocks of the run
	passed := 0
	pass := func(to int) {
		for ; passed < to; passed++ {
			planned[passed] = len(merged)
			merged = append(merged, plan[passed])
		}
	}
	for k, b := range run {
		i := found[k]
		if i >= 0 && b.Size > plan[i].Size && larger != nil {
			b.Size = larger(b.Size)
		}
		reached[k] = len(merged)
		switch {
		case i < 0:
			at[k] = len(merged)
			merged = append(merged, b)
		case i < passed: // it was found behind
			at[k] = planned[i]
		default:
			pass(i + 1)
			at[k] = planned[i]
			reached[k] = at[k]
		}
		m := &merged[at[k]]
		m.Size, m.Stays = max(m.Size, b.Size), m.Stays || b.Stays
	}
	pass(len(plan))
	planned[len(plan)], reached[len(run)] = len(merged), len(merged)
	for i := range merged {
		merged[i].Last = i
	}
	for i, b := range plan {
		m := &merged[planned[i]]
		m.Last = max(m.Last, planned[b.Last+1]-1)
	}
	for k, b := range run {
		m := &merged[at[k]]
		m.Last = max(m.Last, reached[b.Last+1]-1)
	}
	return slices.Clip(merged)
}
