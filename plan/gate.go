package plan

import (
	"cmp"
	"slices"
)

// Limits are limits on a plan's figures; nil: no limit.
type Limits struct {
	Peak, Arena, Total *int64 // bytes

	// Baseline is another plan. The peak, arena and total may exceed those of
	// Baseline by at most Growth per cent.
	Baseline *Plan
	Growth   float64
}

// Gate is the comparison of one figure with its limit.
type Gate struct {
	Figure   string           `json:"figure"`          // "peak", "arena" or "total"
	Point    map[string]int64 `json:"point,omitempty"` // of plans for ranges: where the figure grew most; nil: the largest lengths
	Bytes    int64            `json:"bytes"`
	Most     int64            `json:"most_bytes"`
	Baseline *int64           `json:"baseline_bytes,omitempty"` // the same figure of the baseline, if the limit follows from it
	Met      bool             `json:"met"`
	Causes   []Cause          `json:"causes,omitempty"` // if the limit is exceeded: the buffers that grew or, without a baseline, all buffers that count, the largest first
}

// CauseFragmentation is growth that no buffer causes: unused bytes between
// buffers of the arena.
const CauseFragmentation = "fragmentation"

// Gates compares a plan with limits. Both plans must be consistent (see
// [Plan.Check]).
func (p *Plan) Gates(l Limits) []Gate {
	gates := []Gate{}
	var d *Diff
	if l.Baseline != nil {
		d = l.Baseline.Diff(p)
	}
	for _, f := range figures {
		add := func(g Gate) {
			g.Figure, g.Bytes, g.Met = f.name, f.of(&p.Summary), f.of(&p.Summary) <= g.Most
			switch {
			case g.Met:
			case d != nil:
				g.Causes = f.grew(p, d)
			default:
				g.Causes = f.there(p)
			}
			gates = append(gates, g)
		}
		if most := f.limit(&l); most != nil {
			add(Gate{Most: *most})
		}
		if l.Baseline != nil {
			was := f.of(&l.Baseline.Summary)
			add(Gate{Most: grown(was, l.Growth), Baseline: &was})
		}
	}
	if l.Baseline != nil {
		gates = append(gates, rangeGates(l.Baseline, p, l.Growth)...)
	}
	return gates
}

// grown is a size plus a percentage of it, at most 2^63 - 1.
func grown(bytes int64, percent float64) int64 {
	more := float64(bytes) * percent / 100
	if more >= float64(1<<63-1-bytes) {
		return 1<<63 - 1
	}
	return bytes + int64(more)
}

// figure is a figure that may be limited, and the buffers that it is made of.
type figure struct {
	name  string
	of    func(*Summary) int64
	limit func(*Limits) *int64
	grew  func(*Plan, *Diff) []Cause
	there func(*Plan) []Cause
}

var figures = []figure{
	{
		"peak", func(s *Summary) int64 { return s.PeakBytes }, func(l *Limits) *int64 { return l.Peak },
		func(_ *Plan, d *Diff) []Cause { return peakGrew(d) }, (*Plan).atPeak,
	},
	{
		"arena", func(s *Summary) int64 { return s.ArenaBytes }, func(l *Limits) *int64 { return l.Arena },
		func(_ *Plan, d *Diff) []Cause { return arenaGrew(d) }, (*Plan).atPeak,
	},
	{
		"total", func(s *Summary) int64 { return s.TotalBytes }, func(l *Limits) *int64 { return l.Total },
		func(_ *Plan, d *Diff) []Cause { return totalGrew(d) }, (*Plan).inAll,
	},
}

func peakGrew(d *Diff) (list []Cause) {
	if d.After.PeakBytes <= d.Before.PeakBytes {
		return nil
	}
	for _, c := range d.Peak.Causes {
		if c.Bytes > 0 {
			list = append(list, c)
		}
	}
	return list
}

func arenaGrew(d *Diff) []Cause {
	list := peakGrew(d)
	gap := func(s *Summary) int64 { return s.ArenaBytes - s.PeakBytes }
	if more := gap(&d.After) - gap(&d.Before); more > 0 {
		list = append(list, Cause{Kind: CauseFragmentation, Bytes: more})
	}
	return largestFirst(list)
}

func totalGrew(d *Diff) (list []Cause) {
	if d.After.ArenaBytes > d.Before.ArenaBytes {
		list = arenaGrew(d)
	}
	resident := func(p *Place) bool { return p != nil && p.Pool == Resident }
	for _, c := range d.Tensors.Appeared {
		if resident(c.After) {
			list = append(list, Cause{Tensor: c.Tensor, Kind: CauseNew, Bytes: c.After.Bytes})
		}
	}
	for _, c := range d.Tensors.Resized {
		if resident(c.After) && c.Bytes() > 0 {
			list = append(list, Cause{Tensor: c.Tensor, Kind: CauseResized, Bytes: c.Bytes()})
		}
	}
	return largestFirst(list)
}

// atPeak lists the buffers that are live at the peak.
func (p *Plan) atPeak() []Cause {
	s := newSide(p)
	return s.there(s.liveAt(peakStep(p)))
}

// inAll lists the buffers that are live at the peak and those that are resident.
func (p *Plan) inAll() []Cause {
	s := newSide(p)
	list := s.liveAt(peakStep(p))
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == Resident && b.Bytes > 0 {
			list = append(list, b)
		}
	}
	return s.there(list)
}

func (s *planSide) there(buffers []*Buffer) []Cause {
	list := make([]Cause, len(buffers))
	for i, b := range buffers {
		list[i] = s.cause(b, CauseLives, b.Bytes)
	}
	return largestFirst(list)
}

func largestFirst(list []Cause) []Cause {
	slices.SortStableFunc(list, func(x, y Cause) int { return cmp.Compare(max(y.Bytes, -y.Bytes), max(x.Bytes, -x.Bytes)) })
	return list
}
