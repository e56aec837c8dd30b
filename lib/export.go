//go:build cgo

package main

/*
#include "onnxmem.h"
*/
import "C"

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/lib/internal/flat"
	"github.com/onnxmem/onnxmem/plan/verify/bare"
	"github.com/onnxmem/onnxmem/schedule"
)

// kinds are the kinds of certificates, by number.
var kinds = []string{schedule.KindCut, schedule.KindFirst, schedule.KindLast, schedule.KindSearch}

// buffersOf returns the buffers of C.
func buffersOf(b *C.onnxmem_buffers) (*flat.Buffers, error) {
	gaps, err := C.size_t(0), error(nil)
	if b.count <= most {
		gaps, err = total("gap_begin", b.gap_begin, b.count)
	}
	pools := max(b.pool_count, 1)
	if pools > mostPools {
		return nil, usagef("pool_count: expected at most %d, found %d", mostPools, pools)
	}
	if err := errors.Join(
		need("lower", b.lower, b.count), need("upper", b.upper, b.count), need("size", b.size, b.count), err,
		need("gap_lower", b.gap_lower, gaps), need("gap_upper", b.gap_upper, gaps), need("gap_from", b.gap_from, gaps), need("gap_to", b.gap_to, gaps),
	); err != nil {
		return nil, err
	}
	f := &flat.Buffers{
		Lower: array[int64](b.lower, b.count), Upper: array[int64](b.upper, b.count), Size: array[int64](b.size, b.count),
		Common: int64(b.common_alignment), Alignment: array[int64](b.alignment, b.count),
		Fixed: array[int64](b.fixed, b.count), Hint: array[int64](b.hint, b.count), GapBegin: array[int64](b.gap_begin, b.count+1),
		GapLower: array[int64](b.gap_lower, gaps), GapUpper: array[int64](b.gap_upper, gaps),
		GapFrom: array[int64](b.gap_from, gaps), GapTo: array[int64](b.gap_to, gaps),
		Pool: array[int32](b.pool, b.count), Capacity: array[int64](b.pool_capacity, pools),
	}
	if f.Capacity == nil {
		f.Capacity = slices.Repeat([]int64{-1}, int(pools))
	}
	return f, nil
}

//export goPack
func goPack(b *C.onnxmem_buffers, o *C.onnxmem_options, offsets *C.int64_t, packed *C.onnxmem_packed, pools *C.int32_t, infeasible *C.uint8_t, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		buffers, err := buffersOf(b)
		if err := errors.Join(err, need("offsets", offsets, b.count), need("packed", packed, max(b.pool_count, 1))); err != nil {
			return err
		}
		ctx, end, err := begin(o)
		if err != nil {
			return err
		}
		defer end()
		r, err := buffers.Pack(ctx, alloc.Effort(o.effort))
		if err != nil {
			return err
		}
		copy(array[int64](offsets, b.count), r.Offsets)
		for i, p := range r.Pools {
			unsafe.Slice(packed, len(r.Pools))[i] = C.onnxmem_packed{
				arena: C.int64_t(p.Arena), bound: C.int64_t(p.Bound), proven: truth(p.Proven), fits: C.int32_t(p.Fits), ended: truth(r.Ended),
			}
		}
		for i := range array[int32](pools, b.count) {
			array[int32](pools, b.count)[i] = 0
			if r.Pool != nil {
				array[int32](pools, b.count)[i] = r.Pool[i]
			}
		}
		for i := range array[uint8](infeasible, b.count) {
			array[uint8](infeasible, b.count)[i] = uint8(truth(r.Infeasible != nil && r.Infeasible[i]))
		}
		return nil
	})
}

//export goVerifyPack
func goVerifyPack(b *C.onnxmem_buffers, offsets *C.int64_t, pools *C.int32_t, packed *C.onnxmem_packed, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		buffers, err := buffersOf(b)
		if err := errors.Join(err, need("offsets", offsets, b.count)); err != nil {
			return err
		}
		verdicts, err := buffers.Verify(array[int64](offsets, b.count), array[int32](pools, b.count))
		if err != nil || packed == nil {
			return err
		}
		for i, v := range verdicts {
			fits := C.int32_t(-1)
			if buffers.Capacity[i] >= 0 {
				fits = 1
			}
			unsafe.Slice(packed, len(verdicts))[i] = C.onnxmem_packed{arena: C.int64_t(v.Bytes), bound: C.int64_t(v.Bound), proven: truth(v.Proven()), fits: fits}
		}
		return nil
	})
}

// graphOf returns the graph of C.
func graphOf(g *C.onnxmem_graph) (*flat.Graph, error) {
	if g.node_count > mostNodes || g.tensor_count > mostNodes {
		return nil, usagef("graph: expected at most %d nodes and tensors, found %d and %d", mostNodes, g.node_count, g.tensor_count)
	}
	n, m := g.node_count, g.tensor_count
	writes, err1 := total("write_begin", g.write_begin, n)
	consumers, err2 := total("consumer_begin", g.consumer_begin, m)
	reuses, err3 := total("reuse_begin", g.reuse_begin, m)
	if err := errors.Join(
		err1, err2, err3, need("size", g.size, m), need("producer", g.producer, m),
		need("write", g.write, writes), need("consumer", g.consumer, consumers), need("reuse", g.reuse, reuses),
	); err != nil {
		return nil, err
	}
	return &flat.Graph{
		Nodes: int(n), Workspace: array[int64](g.workspace, n), Cost: array[int64](g.cost, n), Once: array[uint8](g.once, n),
		WriteBegin: array[int64](g.write_begin, n+1), Write: array[int32](g.write, writes),
		Size: array[int64](g.size, m), Producer: array[int32](g.producer, m),
		ConsumerBegin: array[int64](g.consumer_begin, m+1), Consumer: array[int32](g.consumer, consumers),
		Output: array[uint8](g.output, m), Resident: array[uint8](g.resident, m),
		ReuseBegin: array[int64](g.reuse_begin, m+1), Reuse: array[int32](g.reuse, reuses),
		Parent: array[int32](g.parent, m), Offset: array[int64](g.offset, m),
	}, nil
}

//export goOrder
func goOrder(g *C.onnxmem_graph, o *C.onnxmem_options, order *C.int32_t, ordered *C.onnxmem_ordered, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		graph, err := graphOf(g)
		if err := errors.Join(err, need("order", order, g.node_count), need("ordered", ordered, 1)); err != nil {
			return err
		}
		ctx, end, err := begin(o)
		if err != nil {
			return err
		}
		defer end()
		r, err := graph.Order(ctx, schedule.Effort(o.effort))
		if err != nil {
			return err
		}
		list, err := certificatesForC(r.Certificates)
		if err != nil {
			return err
		}
		copy(array[int32](order, g.node_count), r.Order)
		*ordered = C.onnxmem_ordered{
			peak: C.int64_t(r.Peak), program_peak: C.int64_t(r.ProgramPeak), bound: C.int64_t(r.Bound),
			proven: truth(r.Proven), ended: truth(r.Ended), certificate_count: C.size_t(len(r.Certificates)), certificates: list,
		}
		return nil
	})
}

// certificatesForC returns certificates as one block of C; nil if there are none.
func certificatesForC(list []bare.Certificate) (*C.onnxmem_certificate, error) {
	if len(list) == 0 {
		return nil, nil
	}
	size := uintptr(len(list)) * unsafe.Sizeof(C.onnxmem_certificate{})
	for _, c := range list {
		size += 4*uintptr(len(c.Nodes)) + 8
	}
	b, err := newBlock(size, 1)
	if err != nil {
		return nil, err
	}
	out := room[C.onnxmem_certificate](b, len(list))
	for i, c := range list {
		nodes := room[int32](b, len(c.Nodes))
		copy(nodes, c.Nodes)
		out[i] = C.onnxmem_certificate{kind: C.int32_t(slices.Index(kinds, c.Kind)), bytes: C.int64_t(c.Bytes), node_count: C.size_t(len(nodes))}
		out[i].nodes = (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(nodes)))
	}
	return &out[0], nil
}

//export goVerifyOrder
func goVerifyOrder(g *C.onnxmem_graph, o *C.onnxmem_options, order *C.int32_t, certificates *C.onnxmem_certificate, count C.size_t, ordered *C.onnxmem_ordered, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		graph, err := graphOf(g)
		if err := errors.Join(err, need("order", order, g.node_count), need("certificates", certificates, count)); err != nil {
			return err
		}
		var list []bare.Certificate
		for i := range array[C.onnxmem_certificate](certificates, count) {
			c := &array[C.onnxmem_certificate](certificates, count)[i]
			if c.kind < 0 || int(c.kind) >= len(kinds) {
				return usagef("certificate %d: kind: expected 0 to %d, found %d", i, len(kinds)-1, c.kind)
			}
			nodes, err := nodesOf(c)
			if err != nil {
				return err
			}
			list = append(list, bare.Certificate{Kind: kinds[c.kind], Nodes: nodes, Bytes: int64(c.bytes)})
		}
		ctx, end, err := begin(o)
		if err != nil {
			return err
		}
		defer end()
		v, err := graph.VerifyOrder(ctx, array[int32](order, g.node_count), list, o.replay != 0)
		if err == nil && ordered != nil {
			*ordered = C.onnxmem_ordered{peak: C.int64_t(v.Bytes), bound: C.int64_t(v.Bound), proven: truth(v.Proven())}
		}
		return err
	})
}

// nodesOf returns the nodes of a certificate of C, whose pointer is one that guard.c has not seen.
func nodesOf(c *C.onnxmem_certificate) ([]int32, error) {
	if c.node_count == 0 {
		return nil, nil
	}
	if at := *(*uintptr)(unsafe.Pointer(&c.nodes)); at > 0 && at < 4096 {
		return nil, usagef("nodes of a certificate: expected %d elements, found the address %d", c.node_count, at)
	}
	return array[int32](c.nodes, c.node_count), need("nodes of a certificate", c.nodes, c.node_count)
}

//export goLifetimes
func goLifetimes(g *C.onnxmem_graph, order, buffer *C.int32_t, count *C.size_t, lower, upper, size *C.int64_t, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		graph, err := graphOf(g)
		room := g.node_count + g.tensor_count
		if err := errors.Join(
			err, need("order", order, g.node_count), need("buffer", buffer, g.tensor_count), need("count", count, 1),
			need("lower", lower, room), need("upper", upper, room), need("size", size, room),
		); err != nil {
			return err
		}
		l, err := graph.Lifetimes(array[int32](order, g.node_count))
		if err != nil {
			return err
		}
		copy(array[int32](buffer, g.tensor_count), l.Buffer)
		copy(array[int64](lower, room), l.Lower)
		copy(array[int64](upper, room), l.Upper)
		copy(array[int64](size, room), l.Size)
		*count = C.size_t(len(l.Size))
		return nil
	})
}

//export goLimit
func goLimit(g *C.onnxmem_graph, goal *C.onnxmem_goal, o *C.onnxmem_options, limited *C.onnxmem_limited, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		graph, err := graphOf(g)
		if err := errors.Join(err, need("limited", limited, 1)); err != nil {
			return err
		}
		ctx, end, err := begin(o)
		if err != nil {
			return err
		}
		defer end()
		r, err := graph.Below(ctx, flat.Goal{
			Limit: units.Limit{Bytes: int64(goal.bytes), Percent: float64(goal.percent)},
			Least: goal.least != 0, Link: int64(goal.host_link), NoRecompute: goal.no_recompute != 0,
		}, schedule.Effort(o.effort))
		if err != nil {
			return err
		}
		out := C.onnxmem_limited{
			limit: C.int64_t(r.Limit), peak: C.int64_t(r.Peak), bound: C.int64_t(r.Bound), best_order: C.int64_t(r.BestOrder),
			extra_percent: C.double(r.Extra), extra_at_least: C.double(r.ExtraAtLeast), feasible: C.int32_t(r.Feasible), ended: truth(r.Ended),
			step_count: C.size_t(len(r.Steps)), swap_count: C.size_t(len(r.Swaps)),
		}
		if len(r.Steps) > 0 {
			b, err := newBlock(4*uintptr(len(r.Steps))+unsafe.Sizeof(C.onnxmem_swap{})*uintptr(len(r.Swaps)), 2)
			if err != nil {
				return err
			}
			steps, swaps := room[int32](b, len(r.Steps)), room[C.onnxmem_swap](b, len(r.Swaps))
			copy(steps, r.Steps)
			for i, s := range r.Swaps {
				swaps[i] = C.onnxmem_swap{tensor: C.int32_t(s.Tensor), out: C.int32_t(s.Out), in: C.int32_t(s.In)}
			}
			out.steps, out.swaps = (*C.int32_t)(unsafe.Pointer(&steps[0])), unsafe.SliceData(swaps)
		}
		*limited = out
		return nil
	})
}

//export goVerifyLimit
func goVerifyLimit(g *C.onnxmem_graph, o *C.onnxmem_options, steps *C.int32_t, stepCount C.size_t, swapped *C.int32_t, swapCount C.size_t, peak, bound *C.int64_t, text *C.char, bytes C.size_t) C.int {
	return call(text, bytes, func() error {
		graph, err := graphOf(g)
		if err := errors.Join(err, need("steps", steps, stepCount), need("swapped", swapped, swapCount)); err != nil {
			return err
		}
		ctx, end, err := begin(o)
		if err != nil {
			return err
		}
		defer end()
		v, err := graph.VerifySteps(ctx, array[int32](steps, stepCount), array[int32](swapped, swapCount))
		if err != nil {
			return err
		}
		if peak != nil {
			*peak = C.int64_t(v.Bytes)
		}
		if bound != nil {
			*bound = C.int64_t(v.Bound)
		}
		return nil
	})
}
