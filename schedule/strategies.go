package schedule

// Strategy is a way to find an order.
type Strategy struct {
	Name   string
	Doc    string // its rule, in a line
	Source string // where it is from
	Func   func(*Problem) []int32
}

// Strategies lists them in the order in which [Solve] tries them. Each takes a
// valid problem and returns a topological order that depends on the problem
// alone.
var Strategies = []Strategy{
	{"program", "the order of the listing, moved only where precedence asks", "Kahn 1962, smallest index first", Program},
	{"greedy", "the ready node that raises the live bytes least", "scheduling.md, 3.1: settle(program, infinite, byDelta)", Greedy},
	{"dfs", "each node as late as its first reader allows: post-order from the sinks", "Tarjan 1976", DepthFirst},
	{"bfs", "ready nodes in the order in which they became ready", "Kahn 1962", BreadthFirst},
}
