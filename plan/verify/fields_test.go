package verify_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// checkedPage lists the checkers of all fields.
const checkedPage = "../../docs/formats/checked.md"

// checkers says of each leaf of a plan's JSON which prover checks it.
var checkers = []struct {
	prover string // of the table of provers
	fields string // leaves: PATH.{A, B} are two
	claim  string // what stands in claimed where the prover only holds them to the rest of the plan; "": they are compared
	why    string // informational: no prover has anything to compare them with
}{
	{prover: "file", fields: "format, version, model.{bytes, graph_sha256}"},
	{prover: "file", fields: "source.{bytes, graph_sha256}", claim: "source"},
	{prover: "file", fields: "model.file", claim: "model.file"},
	{prover: "file", fields: "source.file", claim: "source.file"},
	{fields: "tool", claim: "tool", why: "the name and the version of the program that wrote the plan: no figure depends on it"},
	{prover: "updates", fields: "mode, buffers.kind"},
	{prover: "types", fields: "dims.{value, assumed}", claim: "dims"},
	{prover: "types", fields: "values.{shape, data}"},
	{prover: "alignment", fields: "alignment"},
	{prover: "storages", fields: "sharing.{views, inplace}"},
	{prover: "runtime", fields: "sharing.runtime"},
	{prover: "aliases", fields: "sharing.aliases, spans.{tensors, buffers}"},
	{prover: "traversal", fields: "traversal.runtime"},
	{prover: "traversal", fields: "traversal.best_peak_bytes", claim: "traversal.best_peak_bytes"},
	{prover: "program order", fields: "keeps_random_order", claim: "keeps_random_order"},
	{prover: "program order", fields: "program_order.{steps, load_bytes}", claim: "program_order"},
	{prover: "program order", fields: "summary.program_order_peak_bytes"},
	{prover: "buffers", fields: "buffers.{pool, offset, bytes, first, last, bounded, tensors, node}, dynamic.{tensor, node}"},
	{prover: "buffers", fields: "dynamic.reason", claim: "dynamic.reason"},
	{prover: "steps", fields: "steps.{name, op, load_bytes}"},
	{prover: "repetitions", fields: "steps.again"},
	{prover: "swaps", fields: "steps.cost_ns", claim: "steps.cost_ns"},
	{prover: "summary", fields: "summary.{nodes, tensors, dynamic, resident_bytes, naive_bytes, peak_bytes, arena_bytes, total_bytes, peak_step}"},
	{prover: "summary", fields: "summary.placement_optimal", claim: "placement_optimal"},
	{prover: "summary", fields: "summary.placement_claimed_by", claim: "placement_claimed_by"},
	{prover: "certificates", fields: "summary.lower_bound_bytes", claim: "lower_bound_bytes"},
	{prover: "certificates", fields: "summary.schedule_optimal", claim: "schedule_optimal"},
	{prover: "certificates", fields: "certificates.{kind, nodes, steps, value_bytes, claimed_by}", claim: "certificates"},
	{prover: "limit", fields: "summary.{limit_bytes, limit_arena, extra_cost_percent, recomputed_nodes, swapped_buffers, swapped_bytes, waiting_percent}"},
	{prover: "casts", fields: "summary.recast"},
	{prover: "limit", fields: "summary.plain_peak_bytes", claim: "plain_peak_bytes"},
	{prover: "limit", fields: "summary.recast_peak_bytes", claim: "recast_peak_bytes"},
	{prover: "limit", fields: "summary.extra_cost_lower_bound_percent", claim: "extra_cost_lower_bound_percent"},
	{prover: "limit", fields: "summary.host_link_bytes_per_second", claim: "host_link_bytes_per_second"},
	{prover: "pools", fields: "pools.{name, bytes, capacity, bytes_per_second, read_bytes, written_bytes}, traffic_prices.{step, price}, summary.{slow_traffic_bytes, slow_traffic_lower_bound_bytes, moved_buffers, moved_bytes, resident_read_bytes}"},
	{prover: "bodies", fields: "subgraphs.{parent, node, step, attribute, index, bytes}, subgraphs.buffers.{pool, offset, bytes, first, last, bounded, kind, tensors, node}, subgraphs.steps.{name, op, load_bytes, again, cost_ns}, subgraphs.dynamic.{tensor, node}"},
	{prover: "bodies", fields: "subgraphs.dynamic.reason", claim: "subgraphs.dynamic.reason"},
	{prover: "bodies", fields: "workspaces.nodes.{step, bytes}", claim: "workspaces"},
	{fields: "workspaces.{device, products, convolutions}", claim: "workspaces", why: "on what the workspaces were recorded"},
	{prover: "ranges", fields: "dims.{low, step, values, follows}, subgraphs.ranges.{stacking, size_of}, subgraphs.ranges.certificates.{kind, nodes, steps}, ranges.{points, inferred, refused, proof, optimal_points, stacking, size_of}, ranges.accepted.{low, high, step}, ranges.smallest.{dims, arena_bytes, peak_bytes, lower_bound_bytes}, ranges.worst.{dims, arena_bytes, peak_bytes, lower_bound_bytes}, ranges.table.{dims, arena_bytes, peak_bytes, lower_bound_bytes}, ranges.certificates.{kind, nodes, steps}", claim: "ranges"},
	{prover: "ranges", fields: "ranges.refusal", claim: "ranges.refusal"},
	{prover: "ranges", fields: "ranges.sizes.{factor, powers}", claim: "ranges.sizes"},
	{prover: "caches", fields: "kv.{capacity, new, dimension, index, masks}, kv.caches.{past, present, axis}", claim: "kv"},
	{prover: "attention", fields: "attention", claim: "attention"},
	{prover: "precision", fields: "precision.type, precision.operators.{op, half, full}"},
	{prover: "precision", fields: "precision.casts.{tensor, of}", claim: "precision.casts"},
	{prover: "precision", fields: "precision.kept.{tensor, why}", claim: "precision.kept"},
	{prover: "folded constants", fields: "folded.{mode, nodes}, folded.tensors.{tensor, of, bytes, subgraph}, folded.products.{tensor, transposed, subgraph}", claim: "folded"},
	{prover: "folded constants", fields: "folded.unfolded_peak_bytes", claim: "folded.unfolded_peak_bytes"},
	{prover: "folded constants", fields: "folded.unfolded_total_bytes", claim: "folded.unfolded_total_bytes"},
	{prover: "slices", fields: "slices.{mode, constants}, slices.copies.{tensor, of}, slices.parts.{tensor, of, axis, from, rows}, slices.weights.{tensor, of, axis, from}, slices.regions.{count, exact, nodes, running, names}, slices.regions.inputs.{tensor, axis}, slices.regions.outputs.{tensor, axis, over}, slices.regions.within.{region, slice}, slices.regions.within.tensors.{tensor, of, axis, from, rows}", claim: "slices"},
	{prover: "slices", fields: "slices.any_count.{bytes, why, nodes, tensors}", claim: "slices.any_count"},
	{prover: "slices", fields: "slices.any_slices.{bytes, why, nodes, tensors}", claim: "slices.any_slices"},
	{prover: "slices", fields: "summary.unsliced_peak_bytes", claim: "unsliced_peak_bytes"},
	{prover: "slices", fields: "summary.unsliced_lower_bound_bytes", claim: "unsliced_lower_bound_bytes"},
	{prover: "slices", fields: "summary.any_count_lower_bound_bytes", claim: "any_count_lower_bound_bytes"},
	{prover: "slices", fields: "summary.any_slices_lower_bound_bytes", claim: "any_slices_lower_bound_bytes"},
	{prover: "slices", fields: "summary.slice_cost_percent", claim: "slice_cost_percent"},
	{prover: "slices", fields: "summary.total_cost_percent"},
	{prover: "file", fields: "frontier.{limit_bytes, extra_cost_percent, extra_cost_lower_bound_percent, impossible}, frontier.alone.{slices_percent, recompute_percent, swap_percent}", claim: "frontier"},
}

// spread lists the leaves of a row.
func spread(fields string) (list []string) {
	for fields != "" {
		head, rest, braced := strings.Cut(fields, "{")
		if at := strings.Index(fields, ", "); !braced || at >= 0 && at < len(head) {
			one, more, _ := strings.Cut(fields, ", ")
			list, fields = append(list, one), more
			continue
		}
		names, more, _ := strings.Cut(rest, "}")
		for name := range strings.SplitSeq(names, ", ") {
			list = append(list, head+name)
		}
		fields = strings.TrimPrefix(more, ", ")
	}
	return list
}

// leaves lists the fields of a plan that hold no fields themselves.
func leaves() (list []string) {
	all := paths(reflect.TypeFor[plan.Plan](), "", nil)
	for i, p := range all {
		if i+1 == len(all) || !strings.HasPrefix(all[i+1], p+".") {
			list = append(list, p)
		}
	}
	return list
}

// TestEachLeafHasAChecker: each field of a plan that holds a value stands in the table once, with a
// prover, or with the reason why nothing has to be compared with it. TestTampered changes each of them: a
// change is a violation, or the field is claimed.
func TestEachLeafHasAChecker(t *testing.T) {
	provers := map[string]bool{}
	for _, p := range verify.Provers() {
		provers[p.Name] = true
	}
	rows := map[string]int{}
	for _, c := range checkers {
		for _, f := range spread(c.fields) {
			rows[f]++
		}
		switch {
		case provers[c.prover] == (c.why != "" && c.prover == ""):
			t.Errorf("%s: prover %q: expected one of the table, or the reason for none", c.fields, c.prover)
		case c.claim != "" && !slices.Contains(verify.Claims, c.claim):
			t.Errorf("%s: %q is no claim", c.fields, c.claim)
		}
	}
	for _, f := range leaves() {
		if rows[f] != 1 {
			t.Errorf("%s: in %d rows of the table of checkers: expected one", f, rows[f])
		}
		delete(rows, f)
	}
	for f := range rows {
		t.Errorf("%s: no leaf of a plan", f)
	}
}

// TestCheckedPage: docs/formats/checked.md has the table.
func TestCheckedPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Who checks each field\n\nEach field of `out.plan.json` that holds a value, with the prover of [auditor.md](../auditor.md#the-provers) that checks it. Where a claim is named, `verify` compares the field if it can. Otherwise it holds the field to the rest of the plan, and lists [the claim](verify.md#what-is-claimed). Written by `go test ./plan/verify -update`; a test fails for a field without a row.\n\n| fields | prover | claim | informational, since |\n| --- | --- | --- | --- |\n")
	for _, c := range checkers {
		claim := c.claim
		if claim != "" {
			claim = "`" + claim + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.fields, c.prover, claim, c.why)
	}
	found, err := os.ReadFile(checkedPage)
	if err == nil && string(found) == b.String() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the table (%v): go test ./plan/verify -run TestCheckedPage -update writes it", checkedPage, err)
	}
	if err := os.WriteFile(checkedPage, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
