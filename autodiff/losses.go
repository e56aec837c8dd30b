package autodiff

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// lossTerm is one of the losses whose weighted sum the step minimises.
type lossTerm struct {
	kind   string // cross-entropy, mse, bce, l1 or none
	output string // from which it is computed; "": the first
	factor float64
}

// ownLoss is the kind of an output that is a loss already.
const ownLoss = "none"

var (
	// lossBegins matches the begin of a term, so that an output's name may have a plus sign.
	lossBegins = regexp.MustCompile(`^\s*(?:[\d.]+(?:[eE]-?\d+)?\s*\*\s*)?(?:cross-entropy|mse|bce|l1|none)\s*(?:$|:|\+)`)
	lossOne    = regexp.MustCompile(`^\s*(?:([\d.]+(?:[eE]-?\d+)?)\s*\*\s*)?([^:]*?)\s*(?::(.*))?$`)
	// callsItLoss matches the names that a model's author gives to losses.
	callsItLoss = regexp.MustCompile(`(?i)(^|[^a-z])loss([^a-z]|$)`)
)

// parseLoss reads Options.Loss: [FACTOR*]KIND[:OUTPUT], or several of these joined by +.
func parseLoss(text string) ([]lossTerm, error) {
	if text == "" {
		return []lossTerm{{"cross-entropy", "", 1}}, nil
	}
	var parts []string
	start := 0
	for i := range text {
		if text[i] == '+' && i > start && lossBegins.MatchString(text[i+1:]) {
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	var terms []lossTerm
	for _, part := range append(parts, text[start:]) {
		m := lossOne.FindStringSubmatch(part)
		if m == nil || !slices.Contains(Losses, m[2]) && m[2] != ownLoss || m[2] == ownLoss && m[3] == "" {
			return nil, optionf("loss %q: expected one of %s, or a sum such as mse:OUTPUT + 0.5*bce:OUTPUT", strings.TrimSpace(part), strings.Join(Losses, ", "))
		}
		t := lossTerm{m[2], m[3], 1}
		if len(parts) > 0 {
			t.output = strings.TrimSpace(t.output)
		}
		if m[1] != "" {
			var err error
			if t.factor, err = strconv.ParseFloat(m[1], 64); err != nil {
				return nil, optionf("loss %q: expected a number before *, found %q", strings.TrimSpace(part), m[1])
			}
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// HasLoss reports whether a loss, as [Options.Loss], has a term of a kind, such as bce.
func HasLoss(loss, kind string) bool {
	terms, err := parseLoss(loss)
	return err == nil && slices.ContainsFunc(terms, func(t lossTerm) bool { return t.kind == kind })
}

// isLoss reports whether an output is a loss already, by its type and by its name or its
// maker.
func (s *trainer) isLoss(t ID) bool {
	x := s.typeOf(t)
	if !x.Elem.Floating() || !x.Exact() || elements(s.shape(t)) != 1 {
		return false
	}
	if len(x.Shape) == 0 || callsItLoss.MatchString(s.g.Tensors[t].Name) {
		return true
	}
	k := slices.IndexFunc(s.g.Nodes, func(n *graph.Node) bool { return slices.Contains(n.Outputs, t) })
	return k >= 0 && slices.ContainsFunc(lossRules, func(r Rule) bool { return r.Op == s.g.Nodes[k].Op && s.g.Nodes[k].Domain == "" })
}

// namesOutputs tells which of several outputs was taken for the loss.
func (s *trainer) namesOutputs(taken ID) {
	var others, losses []string
	for _, t := range s.g.Outputs {
		switch x := s.typeOf(t); {
		case t == taken || !x.Elem.Floating():
		case s.isLoss(t):
			losses = append(losses, s.g.Tensors[t].Name)
			fallthrough
		default:
			others = append(others, s.g.Tensors[t].Name)
		}
	}
	if len(others) == 0 {
		return
	}
	name := s.g.Tensors[taken].Name
	text := fmt.Sprintf("the loss is computed from output %s alone, the first of several: %s", name, atMost(others, mostNames))
	text += fmt.Sprintf(" can be chosen (--loss-output), or summed (--loss 'mse:%s + 0.5*mse:%s')", name, others[0])
	if len(losses) > 0 {
		text += fmt.Sprintf("; %s is one number, as a loss is: --loss none:%s", losses[0], losses[0])
	}
	s.step.Warnings = append(s.step.Warnings, text)
}

// mostNames is the largest number of names that a message lists.
const mostNames = 5

// atMost joins the first names of a list, and counts the rest.
func atMost(names []string, most int) string {
	names = slices.Clone(names)
	for i, name := range names {
		names[i] = graph.Short(name)
	}
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
