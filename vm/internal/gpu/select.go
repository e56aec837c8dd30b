package gpu

// selections lists the operators that select elements by value.
var selections = []Row{
	{Name: "OneHot", Make: makeOneHot},
	{Name: "TopK", Make: makeTopK},
}

// makeOneHot writes the second of two values at each index, and the first elsewhere.
func makeOneHot(n *Node) error {
	index, values, out := n.In[0], n.In[2], n.Out[0]
	k, err := n.axis(-1, len(out.Shape))
	if err != nil {
		return err
	}
	width, err := widthOf(out)
	if err != nil || width > 8 {
		return unsupportedf("dtype %v", out.Type)
	}
	name, err := typeOf(index)
	if err != nil {
		return err
	}
	if name == "bool" {
		name = "u8"
	}
	if err := tooLarge(out); err != nil {
		return err
	}
	at, err := n.addresses(out, index, values)
	if err != nil {
		return err
	}
	f := n.kernel("select.cu", "one_hot", "ELEMENT="+unitOf[width], "INDEX="+name)
	return n.launch(f, blocksFor(out.Len()), threadsPerBlock, at[0], at[1], at[2], uint32(out.Len()),
		unsigned(divider(count(out.Shape[k+1:])), 4), unsigned(divider(out.Shape[k]), 4))
}
