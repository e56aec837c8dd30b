package verify

// Claims lists all possible entries of Report.Claimed, in their order.
var Claims = []string{
	"tool", "model.file", "source", "source.file", "dims", "ranges", "ranges.refusal", "ranges.sizes", "keeps_random_order",
	"lower_bound_bytes", "schedule_optimal", "placement_optimal", "placement_claimed_by",
	"plain_peak_bytes", "recast_peak_bytes", "extra_cost_lower_bound_percent", "host_link_bytes_per_second",
	"steps.cost_ns", "traversal.best_peak_bytes", "program_order", "kv", "certificates", "subgraphs.dynamic.reason", "dynamic.reason",
	"attention", "precision.casts", "precision.kept", "folded", "folded.unfolded_peak_bytes", "folded.unfolded_total_bytes",
	"slices", "unsliced_peak_bytes", "unsliced_lower_bound_bytes", "any_count_lower_bound_bytes", "any_slices_lower_bound_bytes",
	"slice_cost_percent", "slices.any_count", "slices.any_slices", "workspaces", "frontier",
}
