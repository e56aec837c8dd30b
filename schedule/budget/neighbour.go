package budget

import (
	"math/rand/v2"
	"slices"
)

// neighbours looks for cheaper plans near one: it takes a part of the makings
// out, repairs the plan greedily with blurred scores, prunes in a blurred order,
// and goes on from there if that is not worse by more than the share stray.
// It ends after a number of rounds that gain nothing, or with its share of work.
func (c *chainer) neighbours(a *archive, from makings, stray float64, draw *rand.Rand, pace *pacer) {
	now := slices.Clone(from)
	c.run(now, false)
	cost := c.extra
	for idle := 0; idle < maxIdle && len(now) > 0 && !pace.spent() && !c.exhausted(); idle++ {
		plan := c.destroy(now, draw)
		how := greed{thresholds: plain, noise: 0.1 + 0.4*draw.Float64(), draw: draw, rounds: 300}
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

// What a round may lose, as a share of the extra time.
const (
	near = 0.002
	wide = 0.02
)

// maxIdle is how many rounds may pass without a cheaper plan.
const maxIdle = 60

// destroy leaves out the makings of a window of slots, some at random, those
// whose makers lie near each other, or a single one.
func (c *chainer) destroy(plan makings, draw *rand.Rand) makings {
	n := len(c.order)
	x := plan[draw.IntN(len(plan))]
	var out func(m making) bool
	switch draw.IntN(4) {
	case 0:
		to := x.slot() + int32(1+draw.IntN(1+n/20))
		out = func(m making) bool { return m.slot() >= x.slot() && m.slot() <= to }
	case 1:
		share := 0.02 + 0.2*draw.Float64()
		out = func(making) bool { return draw.Float64() < share }
	case 2:
		near := int32(2 + draw.IntN(1+n/15))
		maker := c.maker[x.buffer()]
		out = func(m making) bool {
			d := c.maker[m.buffer()] - maker
			return d > -near && d < near
		}
	default:
		out = func(m making) bool { return m == x }
	}
	return slices.DeleteFunc(slices.Clone(plan), out)
}
