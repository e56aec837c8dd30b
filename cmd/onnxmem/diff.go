package main

import (
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// diffCmd lists the changes between two plans.
type diffCmd struct {
	Before string `arg:"" in:"the old plan" help:"The old plan, planned model or model; - is standard input."`
	After  string `arg:"" in:"the new plan" help:"The new plan, in the same forms."`
	planFlags
}

// Help is the text below the flags.
func (diffCmd) Help() string {
	return `Peak, arena and bound before and after; what moved the peak; nodes and tensors that appeared,
vanished, moved or changed size. Nodes and tensors are identified by their names. The flags apply to
models, which are planned for the comparison. The exit status is 0 even if the plans differ.

Examples:
  onnxmem diff old.plan.json new.plan.json
  onnxmem diff main.plan.json model.onnx --dim batch=8 --json`
}

// Run reads both and compares.
func (c *diffCmd) Run(e *env) error {
	if c.Before == "-" && c.After == "-" {
		return usagef("the plans cannot both come from standard input")
	}
	var plans [2]*plan.Plan
	planned := false // with the given flags
	for i, path := range []string{c.Before, c.After} {
		flags := sourceFlags{planFlags: c.planFlags}
		s, err := flags.open(e, path)
		if err != nil {
			return err
		}
		defer s.close()
		plans[i], planned = s.plan, planned || s.trust == plannedHere
	}
	if flag := c.Binds(); flag != "" && !planned {
		return usagef("both are planned already: %s is for a model without a plan", flag)
	}
	d := plans[0].Diff(plans[1])
	if c.JSON {
		return writeJSON(e.stdout, d)
	}
	report.Changes(e.stdout, d)
	return nil
}
