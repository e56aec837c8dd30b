// Package constants holds the elements of a model's constants, for all sessions of a program: in the
// mapped file, decoded, copied, packed for the micro-kernels, or computed by nodes when the first
// session is built. It counts the pages of the files that kernels read in place. It knows no plan
// and no session.
package constants
