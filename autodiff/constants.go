package autodiff

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// What separates the parameters of a network from the constants of its file, in this order:
//
//  1. what the exporter says (graph.Origin: PyTorch since 2.6),
//  2. names: an exporter's own for constants that it made, or an author's for buffers,
//  3. elements: masks, tables that a formula gives, fills,
//  4. the operators that read it.
//
// In a file of PyTorch a name that is the author's own is that of a parameter or a buffer,
// whatever reads it.

// exportersOwn matches names that exporters give to constants that they make. PyTorch's
// (val_3) are also those of what it computed from parameters.
var exportersOwn = regexp.MustCompile(`^(val_\d+|_to_copy(_\d+)?|.*Constant.*)$`)

// traced matches the names of constants of PyTorch's older exporter, in which parameters are
// never Constant nodes.
var traced = regexp.MustCompile(`(^|/)Constant(_\d+)?_output_0$`)

// buffers matches names that authors give to buffers: masks, tables of positions and
// frequencies, statistics of data, grids and filters.
var buffers = regexp.MustCompile(`(^|[./_])(inv_freq|freqs_cis|(cos|sin)(_cached|_table)?|tril|triu|(attn|causal|attention)_mask|(pixel|image|target|input|data)_(mean|std)|relative_coords(_table)?|anchor_grid|anchors|grid|filt|running_(mean|var)|mel(_filters|_fb|_basis)?)$|(^|[./])(mean|std)$`)

// absent matches names of masks and sine tables, for tensors whose elements are not there.
var absent = regexp.MustCompile(`(^|[./_])(mask|pe)$`)

// operators matches names that PyTorch's exporter takes from operators, without the module.
var operators = regexp.MustCompile(`^_?(add|mul|sub|div|neg|exp|log|sqrt|rsqrt|pow|reciprocal|abs|clamp|clip|sin|cos|tanh|sigmoid|softplus|softmax|relu|floor|round|sum|mean|norm|linalg_\w+|maximum|minimum|unsqueeze|squeeze|view|reshape|flatten|expand|expand_as|permute|transpose|t|slice|select|cat|stack|split|chunk|getitem|repeat|repeat_interleave|tile|flip|roll|pad|to|to_copy|clone|contiguous|detach|alias|lift_fresh_copy|lifted_tensor|arange|linspace|full|full_like|zeros|zeros_like|ones|ones_like|new_\w+|empty|scalar_tensor|tensor_constant|eye|tril|triu|masked_fill|where|index|index_select|gather|embedding|linear|matmul|mm|bmm|einsum|conv\d?d?|convolution|weight_norm\w*|layer_norm|group_norm|batch_norm|meshgrid|cumsum|outer|type_as|copy|convert_element_type)(_default)?(_\d+)?$`)

// told is why an initializer is not trained if the exporter says what it is, or its name
// does; no reason if neither does.
func (s *trainer) told(id ID) reason {
	switch t := s.g.Tensors[id]; {
	case t.Origin == graph.OriginConstant && elements(t.Data.Dims) == 1:
		return reason{kindLiteral, "it is a number"}
	case t.Origin == graph.OriginBuffer:
		return reason{kindBuffer, "the exporter says that it is a buffer"}
	case t.Origin == graph.OriginConstant:
		return reason{kindConstant, "the exporter says that it is a constant"}
	case t.Origin == graph.OriginUnknown && buffers.MatchString(t.Name):
		return reason{kindBuffer, "its name is typical of a buffer"}
	}
	return reason{}
}

// authored reports whether a name is one that the author of a PyTorch module gave.
func (s *trainer) authored(name string) bool {
	return s.ofPyTorch() && !exportersOwn.MatchString(name) && !operators.MatchString(name) && !strings.HasPrefix(name, computedName)
}

// fills matches names that PyTorch's exporter takes from operators that make elements of
// nothing, or of masks: what they make equal is no parameter. Others, such as unsqueeze,
// return the elements that they are given.
var fills = regexp.MustCompile(`^_?(where|zeros(_like)?|ones(_like)?|full(_like)?|new_\w+|masked_fill|scalar_tensor|tril|triu)(_default)?(_\d+)?$`)

// namedAfterFill reports whether PyTorch's exporter took a name from such an operator: that of a mask
// that hides nothing, or of a first state of zeros.
func (s *trainer) namedAfterFill(name string) bool { return s.ofPyTorch() && fills.MatchString(name) }

func (s *trainer) ofPyTorch() bool { return strings.HasPrefix(s.source.Producer, "pytorch") }

// computedName begins the names of what PyTorch's older exporter computed from parameters and
// buffers, and from numbers.
const computedName = "onnx::"

// computed reports whether an initializer is what an exporter computed from a parameter, for
// an operator that usually reads none. A weight that is standardized stands in the file twice,
// for its elements and for their mean: trained apart, these would no longer be one weight.
func (s *trainer) computed(id ID) bool {
	t := s.g.Tensors[id]
	return strings.HasPrefix(t.Name, computedName) && elements(t.Data.Dims) > 1 && !slices.ContainsFunc(s.sites(id), func(r site) bool {
		return r.node.Op == "BatchNormalization" || strings.HasPrefix(r.node.Op, "Reduce")
	})
}

// fixed judges why an initializer that an author named is not a parameter though the loss
// depends on it; no reason if it is one.
func (s *trainer) fixed(id ID) reason {
	list := s.sites(id)
	every := func(f func(site) bool) bool {
		return len(list) > 0 && !slices.ContainsFunc(list, func(r site) bool { return !f(r) })
	}
	switch {
	case every(site.statistics):
		return reason{kindStatistics, "it is running statistics"}
	case every(site.quantization):
		// the scale is measured and not learned
		return reason{kindBuffer, "it is the scale of a quantization"}
	}
	if c, ok := s.contents(id); ok {
		if text := c.mask(); text != "" {
			return reason{kindMask, text}
		}
	}
	return s.formula(id)
}

// formula judges by its elements why a tensor of any use is not a weight; no reason if it
// may be one.
func (s *trainer) formula(root ID) reason {
	if c, ok := s.contents(root); ok && c.table() {
		return reason{kindTable, "it is a table: its rows follow from one another, as sines, cosines, grids and evenly spaced numbers do"}
	}
	return reason{}
}

// constantFor judges why an operand of Add, Mul or Concat is a constant; no reason if it
// may be a weight.
func (s *trainer) constantFor(n *graph.Node, i int, root ID) reason {
	if elements(s.g.Tensors[root].Data.Dims) == 1 && s.biasOfOne(n, i) {
		return reason{}
	}
	return s.constantOperand(root, s.scalesNormalized(n, i))
}

// constantOperand is constantFor without the node; scales: the other operand is normalized.
func (s *trainer) constantOperand(root ID, scales bool) reason {
	t := s.g.Tensors[root]
	if elements(t.Data.Dims) == 1 {
		return reason{kindLiteral, "it is a number"}
	}
	c, there := s.contents(root)
	switch own := exportersOwn.MatchString(t.Name); {
	case own && strings.Contains(t.Name, "Constant"):
		return reason{kindConstant, "its name is one that exporters give to constants"}
	case !there && own:
		return reason{kindConstant, "its name is one that exporters give to constants, and its elements are not in the file"}
	case !there && absent.MatchString(t.Name):
		return reason{kindTable, "its elements are not in the file, and its name is typical of a mask or a table"}
	case !there:
		return reason{}
	case (own || s.namedAfterFill(t.Name)) && c.uniform() && !scales:
		return reason{kindConstant, "an exporter named it, and its elements are equal"}
	}
	if text := c.mask(); text != "" {
		return reason{kindMask, text}
	}
	return s.formula(root)
}

// constantWeight judges why an operand that usually is a weight of that kind is a constant;
// no reason if it may be a weight.
func (s *trainer) constantWeight(kind string, root ID) reason {
	t := s.g.Tensors[root]
	if traced.MatchString(t.Name) {
		return reason{kindConstant, "its name is one that exporters give to constants"}
	}
	if kind == kindNormalization && exportersOwn.MatchString(t.Name) && s.filled(root) {
		return reason{kindConstant, "an exporter named it, and its elements are equal: the scale or bias of a normalization that has none"}
	}
	why := s.formula(root)
	if kind != kindConvolution {
		return why
	}
	if c, ok := s.contents(root); ok && c.repeats() {
		return reason{kindFilter, "it is a filter: the same for each channel"}
	}
	if why.kind != "" { // a module may hold it as a parameter that it freezes, as the integral of YOLO's boxes
		why = reason{kindFilter, "it is a filter that a formula gives"}
	}
	return why
}

// filled reports whether all elements are equal, of one that no author of a PyTorch module
// named.
func (s *trainer) filled(root ID) bool {
	t := s.g.Tensors[root]
	if t.Origin == graph.OriginParameter || s.authored(t.Name) {
		return false
	}
	c, ok := s.contents(root)
	return ok && (c.n == 1 || c.uniform())
}

// scalesNormalized reports whether the other operand of a node is a normalized tensor,
// perhaps reshaped, scaled or shifted already: GroupNormalization is written so.
func (s *trainer) scalesNormalized(n *graph.Node, i int) bool {
	if len(n.Inputs) != 2 {
		return false
	}
	x := n.Inputs[1-i]
	for range 8 {
		k := s.g.Tensors[x].Maker
		if k < 0 {
			return false
		}
		n = s.g.Nodes[k]
		op, rule := ops.Lookup(n.Domain, n.Op), LookupRule(n.Domain, n.Op)
		switch {
		case op != nil && op.Kind(1) == kindNormalization:
			return true
		case rule != nil && rule.Forwards:
			x = n.Inputs[0]
		case rule != nil && rule.TakesConstants && len(n.Inputs) == 2 && s.g.Tensors[n.Inputs[1]].Data != nil:
			x = n.Inputs[0]
		default:
			return false
		}
	}
	return false
}
