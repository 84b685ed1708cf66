package restore

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

func (c Config) tell(p node.Progress) {
	if c.Tell != nil {
		p.ID = c.id()
		c.Tell(p)
	}
}

// watch tells how far the download is until the context ends.
func (j *job) watch(ctx context.Context) {
	said := time.Now()
	pause := min(time.Second, j.Progress)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		looked := time.Now()
		bytes := downloaded(j.Temp)
		if ctx.Err() != nil {
			return // it is being moved away
		}
		j.phase(node.Downloading, bytes)
		if time.Since(said) >= j.Progress {
			said = time.Now()
			j.Log.Info("restore is running", "bytes_downloaded", bytes, "bytes", j.bytes)
		}
		// Very many files are not to keep the volume busy.
		pause = max(pause, 10*time.Since(looked))
	}
}

func downloaded(temp string) int64 {
	var bytes int64
	found, _ := leftovers(temp)
	for _, dir := range found {
		_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil // it is moved away while it is looked at
			}
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
			return nil
		})
	}
	return bytes
}
