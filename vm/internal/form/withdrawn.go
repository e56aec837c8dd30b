package form

// CropMoves copies a part of each image.
func CropMoves(c *Call) ([]Move, error) {
	border := c.Ints("border")
	from := Strides(c.In[0].Shape)
	return moveOf(c.Out[0].Shape, from, border[1]*from[2]+border[0]*from[3]), nil
}
