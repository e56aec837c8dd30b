package schedule

import (
	"cmp"
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// These bound the work of [Roam] on one problem and on one segment of it.
const (
	roamMoves        = 200_000
	roamSegmentMoves = 20_000
)

// Roam returns an order after Shu et al. 2023, "ROAM: memory-efficient large DNN training
// via optimized operator ordering and memory layout":
//
//  1. Weight updates are set aside. They may run nearly anywhere, so with them hardly any
//     node is ordered with all others (see [Problem.updates]).
//  2. The other nodes form segments between nodes that are ordered with all others (the
//     paper's memory-insensitive operators). The peak of the whole is the largest of the
//     segments' peaks, whatever the orders within them.
//  3. Each update joins the first segment after which all its inputs exist. If it would
//     raise the peak there, it joins the segment in which it raises the peak least.
//  4. The segments are ordered one by one, the segment of the largest peak first.
//
// This is only the order of the paper, without its memory layout and the tree of tasks that
// it solves for both. There are three differences. The paper orders a segment by an integer
// program, divided until it has few nodes. This function uses the dynamic programming of
// [Serenity] with at most 20,000 moves for a segment and 200,000 in all; if that does not
// end, it takes the better of the listing and the order of least increase. The paper knows
// operators. This function decides from the bare problem which nodes are updates and which
// segments they join, by the rules above and those of [Problem.updates], and looks at most
// 1,000 segments ahead. Finally, workspaces and in-place pairs count, as everywhere in this
// package.
//
// A segment keeps its order if its peak is at most the proven least peak of another. Ties
// fall to the listing. O(moves x degree + E log V).
func Roam(p *Problem) []int32 {
	f := index(p)
	g := indexed.NewProblem(f)
	r := &roam{g: g, update: p.updates(g)}
	order, ends := r.assign()
	parts := divide(g, order, ends)
	peaks := make([]int64, len(parts))
	for i, part := range parts {
		peaks[i], _ = indexed.Peak(part.g.Loads(indexed.Ascending(part.g.Nodes), nil))
	}
	ranked := indexed.Ascending(len(parts))
	slices.SortStableFunc(ranked, func(a, b int32) int { return cmp.Compare(peaks[b], peaks[a]) })
	lists := listsched.New(meter.New(context.Background()))
	d := &exact.Downsets{Width: serenityWidth}
	left, least := roamMoves, int64(0) // least: no order of the segments has a smaller peak
	for _, i := range ranked {
		if peaks[i] <= least {
			break
		}
		given := min(left, roamSegmentMoves)
		d.Moves = given
		best := d.Best(parts[i].g, peaks[i])
		left -= given - d.Moves
		if best != nil {
			parts[i].reorder(best)
			peak, _ := indexed.Peak(parts[i].g.Loads(best, nil))
			least = max(least, peak)
			continue
		}
		best = lists.Forward(parts[i].g, indexed.Ascending(parts[i].g.Nodes), indexed.Infinite, listsched.ByRise)
		if peak, _ := indexed.Peak(parts[i].g.Loads(best, nil)); peak < peaks[i] {
			parts[i].reorder(best)
		}
	}
	return order
}

// updates marks the nodes that are weight updates or whose results only updates read. An
// update is a node that reads resident state, or reads a resident tensor and makes no
// bytes, or reads only results of updates; all its descendants are updates. A gradient
// that only updates read is marked as well if its inputs have other readers, so the chain
// of the backward pass is not.
func (p *Problem) updates(g *indexed.Problem) []bool {
	in := make([]bool, g.Nodes)
	makes := make([]bool, g.Nodes)
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Producer >= 0 && t.Bytes > 0 && !t.Resident {
			makes[t.Producer] = true
		}
	}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Resident {
			for _, v := range t.Consumers {
				in[v] = in[v] || t.Kind == "state" || !makes[v]
			}
		}
	}
	all := func(nodes []int32) bool {
		return !slices.ContainsFunc(nodes, func(v int32) bool { return !in[v] })
	}
	listing := g.Listing()
	for _, v := range listing {
		if preds := g.Preds.Of(v); len(preds) > 0 && all(preds) {
			in[v] = true
		}
	}
	for _, v := range slices.Backward(listing) {
		in[v] = in[v] && all(g.Succs.Of(v))
	}
	others := make([]int, g.Nodes) // node -> its successors that are no updates
	for v := range int32(g.Nodes) {
		for _, w := range g.Succs.Of(v) {
			if !in[w] {
				others[v]++
			}
		}
	}
	for _, v := range slices.Backward(listing) {
		preds := g.Preds.Of(v)
		last := slices.ContainsFunc(preds, func(u int32) bool { return others[u] == 1 })
		if in[v] || len(g.Succs.Of(v)) == 0 || !all(g.Succs.Of(v)) || last {
			continue
		}
		in[v] = true
		for _, u := range preds {
			others[u]--
		}
	}
	return in
}

// roam is the state of an assignment of updates to segments.
type roam struct {
	g       *indexed.Problem
	update  []bool
	segment []int32   // node -> its segment
	groups  [][]int32 // updates that hang together, in the order of the listing
}

// assign returns an order, segment by segment, and the ends of the segments in it.
func (r *roam) assign() (order []int32, ends []int) {
	listing := r.g.Listing()
	var trunk []int32
	for _, v := range listing {
		if !r.update[v] {
			trunk = append(trunk, v)
		}
	}
	if len(trunk) == 0 {
		return listing, []int{len(listing)}
	}
	var parts reduce.Extractor
	parts.PlaceAll(r.g, reduce.After)
	ends = reduce.Separators(parts.Extract(r.g, trunk, 0), indexed.Ascending(len(trunk)))
	r.segment = make([]int32, r.g.Nodes)
	from := 0
	for k, end := range ends {
		for _, v := range trunk[from:end] {
			r.segment[v] = int32(k)
		}
		from = end
	}
	r.group(listing)
	for _, group := range r.groups {
		earliest := int32(0)
		for _, v := range group {
			for _, u := range r.g.Preds.Of(v) {
				if !r.update[u] {
					earliest = max(earliest, r.segment[u])
				}
			}
		}
		r.move(group, earliest)
	}
	r.delay(trunk, len(ends))
	return r.order(trunk, len(ends))
}

func (r *roam) move(group []int32, segment int32) {
	for _, v := range group {
		r.segment[v] = segment
	}
}

// group finds the connected groups of updates.
func (r *roam) group(listing []int32) {
	seen := make([]bool, r.g.Nodes)
	place := make([]int32, r.g.Nodes)
	for i, v := range listing {
		place[v] = int32(i)
	}
	for _, first := range listing {
		if !r.update[first] || seen[first] {
			continue
		}
		seen[first] = true
		group := []int32{first}
		for i := 0; i < len(group); i++ {
			for _, near := range [2][]int32{r.g.Preds.Of(group[i]), r.g.Succs.Of(group[i])} {
				for _, v := range near {
					if r.update[v] && !seen[v] {
						seen[v] = true
						group = append(group, v)
					}
				}
			}
		}
		slices.SortFunc(group, func(a, b int32) int { return cmp.Compare(place[a], place[b]) })
		r.groups = append(r.groups, group)
	}
}

// order lists the segments, each with its trunk before its updates.
func (r *roam) order(trunk []int32, segments int) (order []int32, ends []int) {
	parts := make([][]int32, segments)
	for _, v := range trunk {
		parts[r.segment[v]] = append(parts[r.segment[v]], v)
	}
	for _, group := range r.groups {
		k := r.segment[group[0]]
		parts[k] = append(parts[k], group...)
	}
	for _, part := range parts {
		order = append(order, part...)
		ends = append(ends, len(order))
	}
	return order, ends
}

// maxDelay is the number of segments that are tried for an update, so that thousands of
// updates and segments do not take quadratic time.
const maxDelay = 1000

// delay moves each update that would raise the peak to a later segment, in which it raises
// the peak least; the first of several. Updates of larger loads move first. The bytes that
// an update frees are held until then, so they raise the loads of the segments between.
func (r *roam) delay(trunk []int32, segments int) {
	order, _ := r.order(trunk, segments)
	loads := r.g.Loads(order, nil)
	start := make([]int64, r.g.Nodes) // node -> live bytes before it
	left := make([]int64, r.g.Nodes)  // node -> live bytes after it
	load := make([]int64, r.g.Nodes)
	peaks := make([]int64, segments) // of the trunk, then of what is moved too
	end := make([]int64, segments)   // segment -> live bytes after it
	live, unread := r.g.LiveFirst(), r.g.Unread(nil)
	for i, v := range order {
		start[v], load[v] = live, loads[i]
		live = r.g.LiveAfter(v, live, unread)
		left[v] = live
		k := r.segment[v]
		end[k] = live
		if !r.update[v] {
			peaks[k] = max(peaks[k], loads[i])
		}
	}
	peak := slices.Max(peaks)
	high := func(group []int32) (bytes int64) { // above the live bytes at its start
		for _, v := range group {
			bytes = max(bytes, load[v]-start[group[0]])
		}
		return bytes
	}
	groups := slices.Clone(r.groups)
	slices.SortStableFunc(groups, func(a, b []int32) int { return cmp.Compare(high(b), high(a)) })
	for _, group := range groups {
		first, last := group[0], group[len(group)-1]
		at, high, held := int(r.segment[first]), high(group), start[first]-left[last]
		best, least := at, start[first]+high
		if least <= peak {
			continue
		}
		var lifted int64
		for k := at + 1; k < min(segments, at+maxDelay); k++ {
			lifted = max(lifted, peaks[k]+held)
			if most := max(lifted, end[k]+held+high); most < least {
				best, least = k, most
			}
		}
		for j := at; j < best; j++ {
			end[j] += held
			peaks[j+1] += held
		}
		peaks[best] = max(peaks[best], least)
		peak = max(peak, least)
		r.move(group, int32(best))
	}
}
