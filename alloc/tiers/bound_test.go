package tiers

import (
	"testing"

	"pgregory.net/rapid"
)

// cell is one byte of a buffer, with what happens to it.
type cell struct {
	given, kept bool
	read, made  [steps]bool
}

// steps is the number of steps of a drawn program.
const steps = 5

// The states of a cell between two steps.
const (
	dead = iota // nobody needs it
	fast        // in the first memory alone
	slow        // in another alone
	both
	states
)

// TestBoundIsBelowEveryPlan: no plan that moves single bytes between two memories, as it
// likes, has less slow traffic than the bound says.
func TestBoundIsBelowEveryPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Problem{Capacities: []int64{rapid.Int64Range(0, 4).Draw(t, "capacity"), 1 << 20}}
		var cells []cell
		for left := int64(5); left > 0; {
			b := Buffer{Size: rapid.Int64Range(1, min(3, left)).Draw(t, "size"), Last: steps - 1}
			left -= b.Size
			b.Given, b.Kept = rapid.Bool().Draw(t, "given"), rapid.Bool().Draw(t, "kept")
			if rapid.Bool().Draw(t, "rows") {
				b.Rows = b.Size
			}
			own := make([]cell, b.Size)
			for s := range steps {
				u := Use{Step: s}
				if b.Rows > 0 && rapid.Bool().Draw(t, "ranged") {
					u.From = rapid.Int64Range(0, b.Rows-1).Draw(t, "from")
					u.To = rapid.Int64Range(u.From+1, b.Rows).Draw(t, "to")
				}
				reads, writes := rapid.IntRange(0, 2).Draw(t, "reads"), rapid.IntRange(0, 2).Draw(t, "writes")
				for i := range own {
					in := u.To == 0 || int64(i) >= u.From && int64(i) < u.To
					if x := &own[i]; in {
						x.read[s] = had(*x, b.Given, s) && (reads == 2 || reads == 1 && u.To == 0 && rapid.Bool().Draw(t, "read"))
						x.made[s] = writes == 2 || writes == 1 && u.To == 0 && rapid.Bool().Draw(t, "made")
						if x.read[s] {
							u.Read++
						}
						if x.made[s] {
							u.Written++
						}
					}
				}
				if u.Read+u.Written > 0 {
					b.Uses = append(b.Uses, u)
				}
			}
			for i := range own {
				own[i].given, own[i].kept = b.Given, b.Kept
			}
			cells = append(cells, own...)
			p.Buffers = append(p.Buffers, b)
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if bound, least := p.Bound(p.Prices()), leastMoves(cells, p.Capacities[0]); bound > least {
			t.Fatalf("the bound is %d, a plan has %d: capacity %d, %+v", bound, least, p.Capacities[0], p.Buffers)
		}
	})
}

// leastMoves returns the least traffic of all plans: it goes through all states of all
// cells, step by step.
func leastMoves(cells []cell, capacity int64) int64 {
	const never = 1 << 30
	n := 1
	for range cells {
		n *= states
	}
	held := func(state int) (bytes int64) {
		for range cells {
			if s := state % states; s == fast || s == both {
				bytes++
			}
			state /= states
		}
		return bytes
	}
	cost := make([]int64, n)
	for state := range cost {
		rest, ok := state, held(state) <= capacity
		for _, c := range cells {
			s := rest % states
			rest /= states
			ok = ok && (c.given && s != fast || !c.given && s == dead)
		}
		if cost[state] = never; ok {
			cost[state] = 0
		}
	}
	for step := range steps {
		next := make([]int64, n)
		for state := range next {
			next[state] = never
		}
		var try func(state, after, place int, sum int64, left []cell)
		try = func(state, after, place int, sum int64, left []cell) {
			if len(left) == 0 {
				if held(after) <= capacity {
					next[after] = min(next[after], sum)
				}
				return
			}
			s, c := state%states, left[0]
			for to := range states {
				more := int64(0)
				if c.read[step] && s == slow {
					more++
				}
				switch {
				case c.made[step]:
					if to == slow || to == both {
						more++
					}
				case to == dead:
				case s == dead:
					continue
				case s == fast && (to == slow || to == both):
					more++ // written back
				case s == slow && to == both:
					if !c.read[step] {
						more++
					}
				case s == slow && to == fast || s == both && to == fast:
					continue // no better than both
				}
				try(state/states, after+to*place, place*states, sum+more, left[1:])
			}
		}
		for state, sum := range cost {
			if sum >= never {
				continue
			}
			rest, ok := state, true
			for _, c := range cells {
				ok = ok && (rest%states != dead || !c.read[step])
				rest /= states
			}
			if ok {
				try(state, 0, 1, sum, cells)
			}
		}
		cost = next
	}
	best := int64(never)
	for state, sum := range cost {
		rest, ok := state, true
		for _, c := range cells {
			ok = ok && (rest%states != dead || !c.kept || !had(c, c.given, steps))
			rest /= states
		}
		if ok {
			best = min(best, sum)
		}
	}
	return best
}

// had reports whether a cell has a value before a step.
func had(c cell, given bool, step int) bool {
	for s := range step {
		if c.made[s] {
			return true
		}
	}
	return given
}
