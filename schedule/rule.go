package schedule

// rule says which of the nodes that may run is taken first, where none is safe.
type rule int8

const (
	byPlace rule = iota // the first in the order to follow
	byDelta             // the one that raises the live bytes least; ties by place
	byReady             // the one that became ready last; ties to the last in place
)

// byReady goes down into what it has opened before it opens more. Where many
// nodes raise the live bytes by little and a few of them lead to a fall, as the
// slices of a gradient at the end of an unrolled recurrent network do, both
// other rules run all of them before any of what they lead to.

// rules are those that the exact search tries in turn.
var rules = [...]rule{byPlace, byDelta, byReady}

// key returns what a node is ranked by, least first, and its place among equals.
func (r rule) key(delta int64, ready, place int32) (int64, int32) {
	switch r {
	case byDelta:
		return delta, place
	case byReady:
		return -int64(ready), -place
	}
	return 0, place
}
