package store

import "github.com/edsrzf/mmap-go"

// anonymous is how memory without a file is mapped.
const anonymous = mmap.RDWR
