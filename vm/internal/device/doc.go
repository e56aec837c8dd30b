// Package device is a session's memory on a GPU: mirrors of the host's pools, constants, tables and
// scratch, and the copies between the two. It knows tensors and their places, and no steps.
package device
