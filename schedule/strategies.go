package schedule

// Strategy is a named way to find an order.
type Strategy struct {
	Name      string
	Doc       string // its rule, in a line
	Source    string // where it is from
	Func      func(*Problem) []int32
	OnRequest bool // [Solve] runs it only if Options.Strategy names it: the search does better
}

// Strategies lists all strategies, in the order in which [Solve] tries them. Each takes a
// valid problem and returns a topological order that depends only on the problem.
var Strategies = []Strategy{
	{Name: "program", Func: Program, Doc: "the order of the listing, changed only where precedence requires it", Source: "Kahn 1962, smallest index first"},
	{Name: "greedy", Func: Greedy, Doc: "the ready node that raises the live bytes least", Source: "list scheduling by least increase; nodes that raise nothing run at once"},
	{Name: "dfs", Func: DepthFirst, Doc: "each node as late as its first reader allows: post-order from the sinks", Source: "Tarjan 1976"},
	{Name: "bfs", Func: BreadthFirst, Doc: "ready nodes in the order in which they became ready", Source: "Kahn 1962"},
	{Name: "reverse-dfs", Func: ReverseDepthFirst, Doc: "post-order from the last sink, last input first", Source: "ONNX Runtime's default: Graph::ReverseDFSFrom", OnRequest: true},
	{Name: "ort-priority", Func: PriorityFirst, Doc: "Shape and Size as soon as possible, else the order of the listing", Source: "ONNX Runtime: Graph::KahnsTopologicalSort", OnRequest: true},
	{Name: "lpmf", Func: LeastPeakFirst, Doc: "of the nodes that fit below the peak so far, the one that raises the live bytes least; if none fits, the one with the smallest outputs", Source: "PyTorch Inductor: topological_sort_lpmf", OnRequest: true},
	{Name: "inductor-bfs", Func: EarliestInputsFirst, Doc: "the ready node whose inputs were made earliest", Source: "PyTorch Inductor: topological_sort_bfs", OnRequest: true},
	{Name: "inductor-dfs", Func: SmallestFirst, Doc: "the node that touches the fewest bytes, after its predecessors", Source: "PyTorch Inductor: topological_sort_dfs", OnRequest: true},
	{Name: "kahn-size", Func: SizePriority, Doc: "the ready node with the smallest outputs, less its share of its inputs", Source: "Chainer's compiler: ScheduleGreedy", OnRequest: true},
	{Name: "serenity", Func: Serenity, Doc: "the best order of each part that has few enough states, under an adaptive budget", Source: "Ahn et al. 2020, algorithms 1 and 2", OnRequest: true},
	{Name: "roam", Func: Roam, Doc: "updates set aside; segments between nodes that are ordered with all others, each ordered by itself", Source: "Shu et al. 2023", OnRequest: true},
}
