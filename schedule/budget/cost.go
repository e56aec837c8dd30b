package budget

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/schedule"
)

// If no node of a problem has a cost, a node's cost is estimated as the time to move
// its inputs and outputs once at 700 GB/s, but at least a microsecond.
const (
	bytesPerNanosecond = 700
	leastCost          = 1000
)

// costsOf returns the cost of each node in nanoseconds.
func costsOf(p *schedule.Problem) ([]int64, error) {
	costs := make([]int64, len(p.Nodes))
	var sum int64
	for v := range costs {
		costs[v] = p.Nodes[v].Cost
		if costs[v] > math.MaxInt64/4-sum {
			return nil, fmt.Errorf("node %d %.64q: cost of %d nanoseconds: all costs together pass %d", v, p.Nodes[v].Name, costs[v], math.MaxInt64/4)
		}
		sum += costs[v]
	}
	if sum > 0 {
		return costs, nil
	}
	for t := range p.Tensors {
		x := &p.Tensors[t]
		if x.Producer >= 0 {
			costs[x.Producer] += x.Bytes / bytesPerNanosecond
		}
		for i, v := range x.Consumers {
			if v != x.Producer && (i == 0 || v != x.Consumers[i-1]) {
				costs[v] += x.Bytes / bytesPerNanosecond
			}
		}
	}
	for v := range costs {
		costs[v] = max(costs[v], leastCost)
	}
	return costs, nil
}
