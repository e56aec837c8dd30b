package proof

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// zones derives of each zone that the state before the step is not in it, from the first of the
// list to the last. In a zone, one node of its Out runs, since the step leaves it. Such a node either leads
// to another zone, or a sum shows that its load is not below the bound.
func (r *refuter) zones() error {
	for _, z := range r.f.Zones {
		for _, u := range append(slices.Clone(z.In), z.Out...) {
			r.probes = append(r.probes, model.Lit(2*r.f.Ran[u]))
		}
	}
	slices.Sort(r.probes)
	r.probes = slices.Compact(r.probes)
	for j, in := range r.f.In {
		if r.value[in] < 0 {
			continue
		}
		id, err := r.zone(j)
		if err != nil {
			return fmt.Errorf("zone %d: %w", j, err)
		}
		if r.value[in] > 0 { // the last one that was left: a contradiction
			r.derive(sum{{id: id, times: 1}}, asItIs)
			return nil
		}
		if broken := r.learn(in.Not(), id); broken >= 0 {
			r.broken(broken)
			return nil
		}
	}
	return fmt.Errorf("no zone is left, and no contradiction")
}

// learn adds a literal that has been derived, and what follows.
func (r *refuter) learn(l model.Lit, id int64) (broken int32) {
	from := len(r.trail)
	r.set(l, derived)
	r.line[l.Var()] = id
	return r.propagate(from)
}

// zone derives that the state before the step is not in a zone.
func (r *refuter) zone(j int) (int64, error) {
	in := r.f.In[j]
	from := len(r.trail)
	defer r.forget(from)
	if r.value[in] == 0 {
		r.assumed = append(r.assumed, in)
		defer func() { r.assumed = r.assumed[:0] }()
		if broken := r.assume(in); broken >= 0 {
			return r.broken(broken), nil
		}
	}
	for _, a := range r.f.Zones[j].Out {
		runs := r.f.Runs[a]
		if r.value[runs] < 0 {
			continue
		}
		only, assumed := r.value[runs] > 0, len(r.assumed)
		if !only {
			r.assumed = append(r.assumed, runs)
		}
		id, err := r.node(a, r.probed)
		r.assumed = r.assumed[:assumed]
		if err != nil {
			return 0, fmt.Errorf("node %d: %w", a, err)
		}
		if only {
			return id, nil
		}
		if broken := r.learn(runs.Not(), id); broken >= 0 {
			return r.broken(broken), nil
		}
	}
	return 0, fmt.Errorf("no node of its Out can run, and no row is broken")
}

// probed derives that the case is excluded. Where no sum does, some node must have run, or must
// not, for the load to be below the bound, and that leads to another zone. It asks the nodes that
// zones speak of, until that happens.
func (r *refuter) probed() (int64, error) {
	id, err := r.choices(nil)
	for more := true; more && isShort(err); {
		more = false
		for _, x := range r.probes {
			for _, l := range []model.Lit{x, x.Not()} {
				if r.value[l] != 0 {
					continue
				}
				not, err := r.without(l)
				if isShort(err) {
					continue
				}
				if err != nil {
					return 0, err
				}
				more = true
				if broken := r.learn(l.Not(), not); broken >= 0 {
					return r.broken(broken), nil
				}
			}
		}
	}
	return id, err
}

// without derives that a literal is false in the case.
func (r *refuter) without(l model.Lit) (int64, error) {
	r.assumed = append(r.assumed, l)
	defer func(from int) {
		r.forget(from)
		r.assumed = r.assumed[:len(r.assumed)-1]
	}(len(r.trail))
	if broken := r.assume(l); broken >= 0 {
		return r.broken(broken), nil
	}
	return r.choices(nil)
}

func isShort(err error) bool {
	_, is := err.(*short)
	return is
}
