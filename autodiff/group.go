package autodiff

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// ParamGroup is a group of parameters with its own learning rate, the input
// learning_rate.NAME, and its own constants of the optimizer, as in PyTorch's param_groups.
type ParamGroup struct {
	Name  string
	Match *regexp.Regexp // names of the parameters; the first group that matches has a parameter
	// Constants replace those of Options.Constants. A weight_decay applies to all parameters
	// of the group, biases and normalisations included.
	Constants map[string]float64
}

// rateGroup is a ParamGroup, or the parameters of none, which come last.
type rateGroup struct {
	name       string // "": those of none
	match      *regexp.Regexp
	optimizer  *optimizer
	decays     bool // weight decay applies to all of its parameters
	rate       ID   // the learning rate
	corrected  [2]ID
	parameters []string
}

// groupName matches names of groups: they become part of the name of an input.
var groupName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// newGroups checks Options.Groups.
func newGroups(opt Options) ([]*rateGroup, error) {
	var list []*rateGroup
	all := append(slices.Clone(opt.Groups), ParamGroup{})
	for i, p := range all {
		last := i == len(all)-1
		switch {
		case last:
		case !groupName.MatchString(p.Name):
			return nil, optionf("group %q: expected a name of letters, digits, dots, hyphens and underscores", p.Name)
		case slices.ContainsFunc(list, func(g *rateGroup) bool { return g.name == p.Name }):
			return nil, optionf("group %q: expected each name once", p.Name)
		case p.Match == nil:
			return nil, optionf("group %q: expected a pattern of the names of its parameters", p.Name)
		}
		constants := maps.Clone(opt.Constants)
		if constants == nil {
			constants = map[string]float64{}
		}
		maps.Copy(constants, p.Constants)
		o, err := newOptimizer(opt.Optimizer, constants)
		if err != nil && !last {
			return nil, optionf("group %q: %w", p.Name, err)
		} else if err != nil {
			return nil, err
		}
		_, decays := p.Constants["weight_decay"]
		list = append(list, &rateGroup{name: p.Name, match: p.Match, optimizer: o, decays: decays || opt.DecayAll, rate: graph.None, corrected: [2]ID{graph.None, graph.None}})
	}
	return list, nil
}

// groupParameters finds the group of each parameter.
func (s *trainer) groupParameters() error {
	s.groupOf = map[ID]*rateGroup{}
	for _, w := range s.parameters {
		name := s.g.Tensors[w].Name
		k := slices.IndexFunc(s.groups, func(g *rateGroup) bool { return g.match == nil || g.match.MatchString(name) })
		s.groupOf[w] = s.groups[k]
		s.groups[k].parameters = append(s.groups[k].parameters, name)
	}
	for _, g := range s.groups {
		if len(g.parameters) == 0 && g.match != nil {
			return graph.Errorf("group %q has no parameter: expected a pattern that matches one that no earlier group has (--group %s=REGEXP)", g.name, g.name)
		}
	}
	return nil
}

// inputName is the name of the group's learning rate.
func (g *rateGroup) inputName() string { return strings.TrimSuffix(rateName+"."+g.name, ".") }

// describeGroups returns the groups for the metadata; nil if there is but one.
func describeGroups(list []*rateGroup) []map[string]any {
	if len(list) == 1 {
		return nil
	}
	var all []map[string]any
	for _, g := range list {
		if len(g.parameters) == 0 {
			continue
		}
		d := map[string]any{rateName: g.inputName(), "parameters": g.parameters}
		if g.name != "" {
			d["name"] = g.name
		}
		for k, v := range g.optimizer.constants {
			d[k] = v
		}
		all = append(all, d)
	}
	return all
}
