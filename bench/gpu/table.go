package main

import (
	"fmt"
	"strings"
)

// table returns the document as one Markdown table, behind a line about the device.
func (d *document) table() string {
	var b strings.Builder
	switch {
	case d.Device == nil:
		b.WriteString("No GPU could be opened.\n\n")
	case d.Fake:
		b.WriteString("A fake driver, which runs kernels on the CPU: no figure here is one of a GPU.\n\n")
	default:
		v := d.Device
		fmt.Fprintf(&b, "%s, compute capability %s, %d multiprocessors, %d B; driver of CUDA %s, NVRTC %s; %s.\n", v.Name, v.Compute, v.Multiprocessors, v.MemoryBytes, v.Driver, v.Compiler, d.Tool)
		fmt.Fprintf(&b, "Copies of %d B: %.2f GB/s up, %.2f GB/s down, %.2f GB/s each while both are busy. Context: %d B.\n\n", v.Link.Bytes, v.Link.Up/1e9, v.Link.Down/1e9, v.Link.Both/1e9, v.ContextBytes)
	}
	b.WriteString("| part | what | verdict | arena, B | memory, B | of the plan | on the CPU | step, ms | without, ms | extra: promised | measured |\n")
	b.WriteString("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range d.Parts {
		verdict := fmt.Sprintf("%s, %.0f s", p.Status, p.Seconds)
		if p.Message != "" {
			verdict += ": " + p.Message
		}
		row(&b, p.Name, "", verdict, "", "", "", "", "", "", "", "")
		for i := range d.Suites {
			if s := &d.Suites[i]; s.Part == p.Name {
				row(&b, p.Name, s.Name, s.verdict(), "", "", "", "", "", "", "", "")
			}
		}
		for _, r := range d.Runs {
			if r.Part == p.Name {
				cpu := ""
				if r.FallbackNodes != nil {
					cpu = strings.TrimSpace(fmt.Sprintf("%d %s", *r.FallbackNodes, strings.Join(r.FallbackOps, " ")))
				}
				row(&b, p.Name, r.name(), r.verdict(), whole(r.ArenaBytes), whole(r.TakenBytes), percent(r.Deviation), cpu, millis(r.Step), millis(r.Base), percent(r.Promised), percent(r.Measured))
			}
		}
	}
	return b.String()
}

// row writes cells; what would end one is replaced.
func row(b *strings.Builder, cells ...string) {
	for _, c := range cells {
		c = strings.NewReplacer("|", "/", "\n", " ").Replace(c)
		fmt.Fprintf(b, "| %s ", c)
	}
	b.WriteString("|\n")
}

func (s *suite) verdict() string {
	v := fmt.Sprintf("%d passed, %d failed, %d skipped, %.0f s", s.Passed, s.Failed, s.Skipped, s.Seconds)
	if s.Faults != nil {
		v += fmt.Sprintf(", %d faults", *s.Faults)
	}
	if s.Error != "" {
		v += ": " + s.Error
	}
	return v
}

func (r *run) verdict() string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Error != "" {
		add("FAILED: %s", r.Error)
	}
	if r.SameBits != nil && *r.SameBits {
		add("same bits as apart")
	} else if r.SameBits != nil {
		add("BITS DIFFER from apart")
	}
	if len(r.Arithmetic) > 0 && r.Part == precisionPart {
		add("%s", strings.Join(r.Arithmetic, ", "))
	}
	if r.ReplayedSteps > 0 {
		add("%d steps replayed", r.ReplayedSteps)
	}
	if r.Deviation != nil && r.Part == memoryPart {
		verdict := "within"
		if !r.withinBar() {
			verdict = "BEYOND"
		}
		add("blocks of %d B: %s %d %% of the plan's %d B, or pages", r.blockBytes(), verdict, memoryBar, r.PlannedBytes)
		add("kernels %d B, recorded graph %d B, libraries %d B", r.KernelBytes, r.GraphBytes, r.LibraryBytes)
	}
	if r.OfTorch > 0 {
		verdict := ""
		if goal := r.goal(); goal > 0 {
			verdict = fmt.Sprintf(", within %.1f", goal)
			if r.OfTorch > goal {
				verdict = fmt.Sprintf(", BEYOND %.1f", goal)
			}
		} else if r.barred() {
			verdict = ", within 1.5"
			if r.OfTorch > torchBar {
				verdict = ", BEYOND 1.5"
			}
		}
		add("ours takes %.2f of it%s", r.OfTorch, verdict)
	}
	if r.Recomputed > 0 {
		add("%d nodes recomputed", r.Recomputed)
	}
	if r.SwappedBytes > 0 {
		add("%d B swapped", r.SwappedBytes)
	}
	if r.Overlapped != nil {
		add("%.0f %% of %.3f ms of transfers hidden", *r.Overlapped, 1e3*r.TransferTime)
	}
	if r.ProfileSum > 0 {
		add("nodes take %.3f ms, the slowest %s %.3f ms", 1e3*r.ProfileSum, r.SlowestNode, 1e3*r.SlowestNodeIn)
	}
	return strings.Join(list, "; ")
}

func whole(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func millis(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", 1e3*seconds)
}

func percent(p *float64) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", *p)
}
