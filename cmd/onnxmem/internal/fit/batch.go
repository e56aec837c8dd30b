package fit

import "errors"

// mostBatch is the largest batch that is tried.
const mostBatch = 1 << 20

// errNotPlanned says that the model cannot be planned for a length.
var errNotPlanned = errors.New("the model has no plan for this length")

// largest returns the largest length of the batch whose plan fits a device; 0 if that of length 1
// does not. It takes for granted that a length fits if a larger one does. A plan's bytes are
// nearly a line over the length, so the next length to try is where the line meets the room. Plans have the least
// effort: a length that fits has a plan, and one more might have another.
func (f *fitter) largest(row *Row, a *Answer) (int64, error) {
	fits, above := int64(0), int64(mostBatch+1)
	var low, high Need // of fits and above
	next := a.Length
	for try := 1; above-fits > 1; try++ {
		n, err := f.batch(a.BatchDim, next)
		switch {
		case errors.Is(err, errNotPlanned):
			above, high = next, Need{}
		case err != nil:
			return 0, err
		case row.fits(n):
			fits, low = next, n
		default:
			above, high = next, n
		}
		if fits == mostBatch {
			break
		}
		if next = between(row, fits, above, low, high); try%3 == 0 && above <= mostBatch { // where it is no line
			next = (fits + above) / 2
		}
	}
	return fits, nil
}

// between returns a length above fits and below above: where the line through both meets the room, or, as
// long as no length is known to be too large, the line through fits and the origin.
func between(row *Row, fits, above int64, low, high Need) int64 {
	guess := (fits + above) / 2
	room := float64(row.room(low))
	switch {
	case fits == 0:
		guess = 1
		if high.Arena > 0 {
			guess = int64(float64(above) * float64(row.room(high)) / float64(high.Arena))
		}
	case high.Arena > low.Arena:
		guess = fits + int64(float64(above-fits)*(room-float64(low.Arena))/float64(high.Arena-low.Arena))
	case high.Arena == 0 && low.Arena > 0:
		guess = min(int64(float64(fits)*room/float64(low.Arena)), 1000*fits) // a sum over the batch has no slope
		if above <= mostBatch {
			guess = (fits + above) / 2
		}
	}
	return max(fits+1, min(guess, above-1))
}

// batch returns what the plan for a length needs.
func (f *fitter) batch(dim string, length int64) (Need, error) {
	if n, known := f.batches[length]; known {
		if n == (Need{}) {
			return n, errNotPlanned
		}
		return n, nil
	}
	job := f.job
	job.Dim, job.Effort = job.Dim.With(dim, length), "fast"
	r, err := f.plan(job, false)
	if err != nil {
		if f.ctx.Err() != nil {
			return Need{}, err
		}
		f.batches[length] = Need{} // such as sizes beyond 64 bits, or a Reshape that has one batch in it
		return Need{}, errNotPlanned
	}
	f.batches[length] = needOf(r.Plan)
	return f.batches[length], nil
}
