package budget

import (
	"math/rand/v2"
	"slices"
)

// neighbours searches for cheaper plans near a given one (large neighbourhood search).
// Each round removes some recomputes, repairs the plan greedily with noise on the
// scores and prunes it in a noisy order. It accepts the result unless that costs more
// than the current plan by over a random share of at most stray. The search ends after
// maxIdle rounds without a cheaper plan, or when its share of work is spent.
func (c *chainer) neighbours(a *archive, from recomputeSet, stray float64, draw *rand.Rand, pace *pacer) {
	now := slices.Clone(from)
	c.run(now, false)
	cost := c.extra
	for idle := 0; idle < maxIdle && len(now) > 0 && !pace.spent() && !c.exhausted(); idle++ {
		plan := c.destroy(now, draw)
		how := greedyOptions{thresholds: plain, noise: 0.1 + 0.4*draw.Float64(), draw: draw, rounds: 300}
		if draw.IntN(2) == 0 {
			how.batch = 0.5
		}
		if !c.greedy(&plan, how) {
			continue
		}
		c.prune(&plan, draw)
		if float64(c.extra) <= float64(cost)*(1+stray*draw.Float64()*draw.Float64()) {
			if c.extra < cost {
				idle = 0
			}
			now, cost = plan, c.extra
			c.record(a, plan)
		}
	}
}

// Values for stray: the share of the extra time that a round may lose.
const (
	near = 0.002
	wide = 0.02
)

// maxIdle bounds the number of rounds without a cheaper plan.
const maxIdle = 60

// destroy returns the plan without some recomputes, by one of four rules drawn at random.
// They take all in a window of slots, each with a certain probability, all whose makers are
// near that of a random one, or a single one.
func (c *chainer) destroy(plan recomputeSet, draw *rand.Rand) recomputeSet {
	n := len(c.order)
	x := plan[draw.IntN(len(plan))]
	var out func(m recompute) bool
	switch draw.IntN(4) {
	case 0:
		to := x.slot() + int32(1+draw.IntN(1+n/20))
		out = func(m recompute) bool { return m.slot() >= x.slot() && m.slot() <= to }
	case 1:
		share := 0.02 + 0.2*draw.Float64()
		out = func(recompute) bool { return draw.Float64() < share }
	case 2:
		near := int32(2 + draw.IntN(1+n/15))
		maker := c.maker[x.buffer()]
		out = func(m recompute) bool {
			d := c.maker[m.buffer()] - maker
			return d > -near && d < near
		}
	default:
		out = func(m recompute) bool { return m == x }
	}
	return slices.DeleteFunc(slices.Clone(plan), out)
}
