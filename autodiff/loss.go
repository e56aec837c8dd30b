package autodiff

import "github.com/onnxmem/onnxmem/graph"

var lossRules = []Rule{
	{Op: "SoftmaxCrossEntropyLoss", Inputs: []int{0}, Grad: softmaxCrossEntropyGrad},
}

// softmaxCrossEntropyGrad is (softmax - onehot(labels))·d/n. The one-hot tensor
// is never made: -1 is added where the labels point. It saves log_prob and the
// labels.
func softmaxCrossEntropyGrad(c *Call) {
	if c.X(2) != graph.None || c.Node.Attr("ignore_index") != nil {
		c.Failf("class weights and ignore_index: expected none")
		return
	}
	shape := c.shape(c.X(0))
	p := c.op("Exp", c.Y(1))
	at := c.op("Unsqueeze", c.X(1), c.list(1))
	ones := c.expand(c.scalar(p, -1), c.shape(at))
	diff := c.with("ScatterElements", attrs{"axis": 1, "reduction": "add"}, p, at, ones)
	d := c.D(0)
	switch c.Str("reduction", "mean") {
	case "mean":
		d = c.times(d, 1/float64(elements(shape)/shape[1]))
	case "none":
		d = c.op("Unsqueeze", d, c.list(1))
	}
	c.Set(0, c.mul(diff, d))
}
