package gemm

// BlockLen is the number of channels in a block of an image that is held in blocks: the
// numbers of a pixel that lie side by side, one vector of AVX-512 or two of AVX2.
const BlockLen = 16
