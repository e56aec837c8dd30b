package model

import "slices"

// Zone is states: those in which all nodes of In have run, and none of Out.
type Zone struct{ In, Out []int32 }

// EncodeZones returns the formula for a step that leaves the zones: the state before it is in
// one of them, that behind it in none.
//
// Lemma. Let some zone have no In, and each some Out. Then every order has such a step; all
// constraints hold if the variables say what is so there, and the objective is at most its load.
// So the optimum is at most the peak of every order, whatever zones are taken.
//
// Proof. The state before the first step, in which nothing has run, is in the zone without In.
// The last, in which all have, is in none. So some step is the first to leave. Let v be its
// node, and j a zone of the state before it. The state behind has run all of In of j still, so
// that some node of Out has run, which can only be v: no other node than those in some Out need
// be asked. The families are those of [Encode] for the nodes in any Out, without one, first and
// last, and, with y and w for "the state before is in this zone" and "it has run behind":
//
//	now       not x_a or not f_a     what runs has not run before.
//	in        some y_j               the state before is in some zone.
//	zone      x_u or not y_j         which has run all of In,
//	          not x_u or not y_j     and none of Out.
//	behind    w_u or not x_u         what has run has run behind it, too,
//	          w_u or not f_u         and so has what runs.
//	left      some not w_u, x_u, f_u the state behind is in no zone: some node of In has not run,
//	                                 or one of Out had, or runs.
func EncodeZones(p *Problem, zones []Zone) *Formula {
	if !slices.ContainsFunc(zones, func(z Zone) bool { return len(z.In) == 0 }) {
		panic("model: no zone has the first state")
	}
	var in, set []int32
	for _, z := range zones {
		if len(z.Out) == 0 {
			panic("model: a zone has the last state")
		}
		in, set = append(in, z.In...), append(set, z.Out...)
	}
	slices.Sort(in)
	return encode(p, set, func(e *encoder) { e.zones(zones, slices.Compact(in)) })
}

// zones writes the families now, in, zone, behind and left.
func (e *encoder) zones(zones []Zone, in []int32) {
	e.f.Zones, e.f.Behind = zones, map[int32]int32{}
	for _, a := range e.f.Set {
		e.row(e.ran(a).Not(), e.f.Runs[a].Not())
	}
	for _, u := range in {
		e.f.Behind[u] = e.variable("w%d", u)
		behind := Lit(2 * e.f.Behind[u])
		e.row(behind, e.ran(u).Not())
		if runs, is := e.f.Runs[u]; is {
			e.row(behind, runs.Not())
		}
	}
	var some []Lit
	for j, z := range zones {
		y := Lit(2 * e.variable("y%d", j))
		e.f.In = append(e.f.In, y)
		some = append(some, y)
		var left []Lit
		for _, u := range z.In {
			e.row(e.ran(u), y.Not())
			left = append(left, Lit(2*e.f.Behind[u]).Not())
		}
		for _, u := range z.Out {
			e.row(y.Not(), e.ran(u).Not())
			left = append(left, e.ran(u), e.f.Runs[u])
		}
		e.row(left...)
	}
	e.row(some...)
}
