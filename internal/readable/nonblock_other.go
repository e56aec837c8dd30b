//go:build !unix

package readable

const nonblock = 0
