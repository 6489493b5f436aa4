package natsembed

import (
	"errors"
	"path/filepath"
	"syscall"
)

// reserved is what the queue's streams reserve together, and somewhat more. Nearly none of it is used where a server is embedded.
const reserved = 8 << 30

// storeLimit is how many bytes the server may hold in a folder: 0 leaves it to the server, which takes three quarters of what is free there.
func storeLimit(dir string) int64 {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	if above := filepath.Dir(dir); errors.Is(err, syscall.ENOENT) && above != dir {
		return storeLimit(above) // the server will make the folder
	}
	if err != nil {
		return 0 // and will say why
	}
	return limitFor(int64(fs.Bavail) * int64(fs.Bsize))
}

// limitFor is storeLimit where so many bytes are free.
func limitFor(free int64) int64 {
	if free/4*3 < reserved {
		return reserved
	}
	return 0
}
