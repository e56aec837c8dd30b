package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/report"
)

// runTrace makes the report of a recording.
func (c *reportCmd) runTrace(e *env, path string) error {
	name, recording, it, err := c.traceFlags.read()
	if err != nil {
		return err
	}
	t := &packedTrace{recording: recording}
	if t.Packed = it.Recorded(recording.Alignment); t.Packed == nil {
		if t.Packed, err = it.Pack(context.Background(), recording.Alignment, alloc.Options{}); err != nil {
			return err
		}
	}
	t.reserved = it.Reserved(alloc.Simulators)
	p := t.Plan(filepath.Base(name))
	p.Tool = tool()
	var text, lines bytes.Buffer
	t.text(&lines)
	switch {
	case c.Text:
		report.TextCurve(&text, p, columns(), path == "-" && colours(e.data.Writer))
		text.Write(lines.Bytes())
	case c.SVG:
		err = report.Pictures(&text, p)
	default:
		r := &report.Recording{Format: recording.Format, Lines: strings.Split(strings.TrimSpace(lines.String()), "\n")[1:], Bound: t.LowerBound}
		for i, s := range alloc.Simulators {
			r.Others = append(r.Others, report.Taken{Name: s.Name, Bytes: t.reserved[i]})
		}
		err = report.RecordingPage(&text, p, r)
	}
	if err != nil {
		return err
	}
	if wrote, err := c.save(e, path, text.Bytes()); err != nil || !wrote {
		return err
	}
	if c.JSON {
		err = writeJSON(e.stdout, struct {
			*traceJSON
			Arena      int64  `json:"arena_bytes"`
			LowerBound int64  `json:"lower_bound_bytes"`
			Report     string `json:"report"`
			Bytes      int    `json:"report_bytes"`
		}{t.json(), t.Arena, t.LowerBound, path, text.Len()})
	} else {
		_, err = e.stdout.Write(lines.Bytes())
		fmt.Fprintf(e.stdout, "arena         %s\nwrote         %s\n", units.Bytes(t.Arena), units.Name(path))
	}
	if err == nil && c.Open {
		err = show(path)
	}
	return err
}
