package ops

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// monomial is a length as a product: a factor of 1 or more, and the identities, ascending,
// of lengths that are known only at run time and are no products themselves.
type monomial struct {
	factor int64
	of     []int64
}

// mostFactors bounds the identities of a product.
const mostFactors = 8

// monomials gives products of lengths identities: equal products have the same one. Then
// the batch times 12 heads is one length wherever it is computed, and what a Reshape
// divides out again is what was multiplied.
type monomials struct {
	known map[string]int64   // identities, by the products in text
	parts map[int64]monomial // products, by identity
	most  map[int64]int64    // bounds of identities that are no products

	positive map[int64]bool // identities that are no products, of lengths above 0
}

// Product returns the product of some lengths as a factor and a power of each of the
// dimensions in Options.AtMost, wherever these have which lengths. ok is false where that is
// not known: a length was rounded, or is a sum.
func (r *Inference) Product(list ...graph.Dim) (factor int64, powers map[string]int, ok bool) {
	p, ok := r.monomials.product(list...)
	if !ok {
		return 0, nil, false
	}
	powers = map[string]int{}
	for _, id := range p.of {
		name, known := r.lengths[id]
		if !known {
			return 0, nil, false
		}
		powers[name]++
	}
	return p.factor, powers, true
}

// isPositive reports whether the length of an identity is above 0.
func (m *monomials) isPositive(id int64) bool {
	p, product := m.parts[id]
	if !product {
		return m.positive[id]
	}
	return !slices.ContainsFunc(p.of, func(id int64) bool { return !m.positive[id] })
}

// bounded notes the bound of an identity that is no product.
func (m *monomials) bounded(id, most int64) {
	if m.most == nil {
		m.most = map[int64]int64{}
	}
	m.most[id] = most
}

// of returns a length as a product; ok is false if it has no identity, or is 0.
func (m *monomials) of(d graph.Dim) (_ monomial, ok bool) {
	if d.Exact() {
		return monomial{factor: int64(d)}, d > 0
	}
	id := d.Identity()
	if p, product := m.parts[id]; product {
		return p, true
	}
	return monomial{1, []int64{id}}, id != 0
}

// product returns the product of some lengths; ok is false if one of them has no identity
// or is 0, or there are too many.
func (m *monomials) product(list ...graph.Dim) (p monomial, ok bool) {
	p.factor = 1
	for _, d := range list {
		q, ok := m.of(d)
		hi, lo := bits.Mul64(uint64(p.factor), uint64(q.factor))
		if !ok || hi > 0 || lo >= 1<<62 || len(p.of)+len(q.of) > mostFactors {
			return p, false
		}
		p.factor, p.of = int64(lo), slices.Concat(p.of, q.of)
	}
	slices.Sort(p.of)
	return p, true
}

// over divides one product by another; ok is false if a part would be left over.
func (p monomial) over(q monomial) (_ monomial, ok bool) {
	if q.factor < 1 || p.factor%q.factor != 0 {
		return p, false
	}
	r := monomial{p.factor / q.factor, slices.Clone(p.of)}
	for _, id := range q.of {
		i := slices.Index(r.of, id)
		if i < 0 {
			return p, false
		}
		r.of = slices.Delete(r.of, i, i+1)
	}
	return r, true
}

// identityOf returns the identity of a product; 0 if there are no more.
func (inf *inferrer) identityOf(p monomial) int64 {
	if p.factor == 1 && len(p.of) == 1 {
		return p.of[0]
	}
	m := &inf.monomials
	key := fmt.Sprint(p.factor, p.of)
	id := m.known[key]
	if id == 0 && inf.identities < graph.MostIdentities {
		if m.known == nil {
			m.known, m.parts = map[string]int64{}, map[int64]monomial{}
		}
		inf.identities++
		id = inf.identities
		m.known[key], m.parts[id] = id, p
	}
	return id
}

// multiplied gives the product n of two lengths, at least one of which is known only at run
// time, the identity of that product.
func (c *Call) multiplied(n, a, b graph.Dim) graph.Dim {
	if c.inf == nil || n.Exact() || n == graph.Unknown || n.Identity() != 0 {
		return n
	}
	if p, ok := c.inf.monomials.product(a, b); ok {
		return n.WithIdentity(c.inf.identityOf(p))
	}
	return n
}

// quotient returns the product of some lengths divided by that of others, if nothing is
// left over; else Unknown.
func (c *Call) quotient(of, by []graph.Dim) graph.Dim {
	m := &monomials{}
	if c.inf != nil {
		m = &c.inf.monomials
	}
	p, okP := m.product(of...)
	q, okQ := m.product(by...)
	if !okP || !okQ {
		return graph.Unknown
	}
	r, ok := p.over(q)
	if !ok {
		return graph.Unknown
	}
	if r.factor == 1 && len(r.of) == 1 {
		if i := slices.IndexFunc(of, func(d graph.Dim) bool { return d.Identity() == r.of[0] }); i >= 0 {
			return of[i]
		}
	}
	d := graph.Dim(r.factor)
	for _, id := range r.of {
		most, known := m.most[id]
		if !known {
			return graph.Unknown
		}
		d = MulDims(d, graph.AtMost(most))
	}
	if d.Exact() || d == graph.Unknown || c.inf == nil {
		return d
	}
	return d.WithIdentity(c.inf.identityOf(r))
}
