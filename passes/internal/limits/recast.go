package limits

import "context"

// Recast plans the main graph, which is in its best order, with casts that run again, if that makes
// its peak smaller. It returns nil if it does not.
func Recast(ctx context.Context, s Task) (*Kept, error) {
	r := s.Main
	found, err := s.recast(ctx, r)
	if err != nil || found == nil {
		return nil, err
	}
	s.asItIs = true
	b, err := s.newSearch(r, nil, nil, 0, nil)
	if err != nil {
		return nil, err
	}
	x := s.search()
	x.Fixed, x.FixedBodies = true, true
	k := &Kept{Search: b}
	if k.Trial, err = b.Turned(ctx, &s.Trial, found.steps, nil, x, nil); err != nil || k.Main.Loads.Peak >= r.Loads.Peak {
		return nil, err
	}
	b.found, b.limit, b.recast = b.asItIs(k.Main.Loads.Peak), &Limit{Bytes: k.Main.Loads.Peak}, true
	b.TakeBound(k.Main, found.free)
	return k, nil
}
