package schedule

// progress tells a caller what a search knows so far. All bounds that it hears
// of hold for the whole problem, those of parts too.
type progress struct {
	tell        func(bound, peak int64) // nil: nobody listens
	bound, peak int64                   // last told
}

func (p *progress) raised(bound int64) {
	if p.tell != nil && bound > p.bound {
		p.bound = bound
		if p.peak > 0 {
			p.tell(p.bound, p.peak)
		}
	}
}

func (p *progress) lowered(peak int64) {
	if p.tell != nil && (peak < p.peak || p.peak == 0) {
		p.peak = peak
		p.tell(p.bound, p.peak)
	}
}
