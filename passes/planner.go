package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/pools"
)

// The passes share, bodies, order and place call the planner for the main graph, and keep its
// results in the State.

// trial returns a copy of the model as it is planned so far.
func (s *State) trial() *planner.Trial {
	t := s.now
	return &t
}

// take makes what a search has found the model that is planned.
func (s *State) take(t *planner.Trial) {
	s.now.Model.Graph, s.now.Inference, s.now.Main, s.now.Ranged = t.Main.G, t.Inference, t.Main, t.Ranged
}

// share assigns a storage to every tensor of the main graph.
func share(_ context.Context, s *State) error {
	var err error
	s.now.Main, err = s.rules().Shared(s.now.Model, s.now.Inference.Given, map[*graph.Call]*planner.Region{})
	return err
}

// bodies plans the bodies of the main graph's nodes, and adds recorded workspaces.
func bodies(ctx context.Context, s *State) error {
	if err := s.trial().PlanBodies(ctx, s.search()); err != nil {
		return err
	}
	return s.recorded()
}

// order puts the nodes of the main graph into the order with the smallest peak or, if the pass is left
// out, into program order. It says what a default order costs.
func order(ctx context.Context, s *State) error {
	err := s.now.Main.Order(ctx, s.search())
	if t := s.now.Main.Traversal; err == nil && t != nil {
		s.how.Log.Notes = append(s.how.Log.Notes, planner.TraversalNote(t.BestPeakBytes, s.now.Main.Loads.Peak))
	}
	return err
}

// place assigns offsets to the buffers of the main graph.
func place(ctx context.Context, s *State) error {
	switch {
	case s.now.Main.Apart != nil:
		return nil // the pass limit has placed it
	case len(s.now.Main.Pools) > 0:
		return s.placePools(ctx)
	}
	return s.now.Main.Place(ctx, s.search())
}

// placePools divides the buffers of the main graph among the pools, copies some between
// them, and gives them offsets there.
func (s *State) placePools(ctx context.Context) error {
	may := s.permits().Pools
	if s.less.kept != nil { // nodes run again
		may = pools.May{}
	}
	found, err := pools.Best(ctx, s.trial(), *s.search(), may)
	if err != nil {
		return err
	}
	s.take(found.Trial)
	if s.less.moved = found.Moved; s.less.moved != nil {
		if err := s.now.Model.AddSwaps(); err != nil {
			return err
		}
	}
	return found.Prove()
}
