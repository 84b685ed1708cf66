package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/files"
)

// defaultThreads is upstream's, for a pod whose own commands have a configuration that we
// cannot read: directories too many do no harm.
const defaultThreads = 4

// functions is the directory for keys that Cloudburst gives a slash (funcs/NAME).
const functions = "funcs"

// Directories makes what the disk tier writes to, for each thread: Anna makes no
// directory, and acknowledges writes to one that is missing all the same.
func Directories(root string, threads int, owner files.Owner) error {
	for tid := range threads {
		dir := filepath.Join(root, "ebs_"+strconv.Itoa(tid))
		for _, path := range []string{dir, filepath.Join(dir, functions)} {
			if err := files.MakeDir(path, 0o755, owner); err != nil {
				return fmt.Errorf("make the disk tier's directories: %w", err)
			}
			if err := owner.Give(path); err != nil {
				return fmt.Errorf("make the disk tier's directories: %w", err)
			}
		}
	}
	return nil
}

func (s *Setup) directories(conf *config.Config) error {
	if s.Pod.DataDir == "" {
		s.Log.Warn("no data volume: the disk tier keeps its files in the container, and loses them with it; mount a volume where ebs in " + config.File + " says")
		return nil
	}
	root, threads := Root(conf.Disk, s.Pod.DataDir), conf.Threads.Disk
	if root != conf.Disk && conf.Disk != "" {
		s.Log.Warn("the disk tier's files do not go to the data volume, and are lost with the container; write the volume's path",
			"file", config.File, "ebs", conf.Disk, "volume", s.Pod.DataDir)
	}
	if threads == 0 {
		threads = defaultThreads
	}
	if err := Directories(root, threads, s.Owner); err != nil {
		return err
	}
	s.looks(root, threads)
	if size, _, err := files.Room(root); err == nil && int64(conf.Capacities.Disk)*1e9 > size {
		s.Log.Warn("capacities.ebs-cap is more than the volume has: Anna goes on when the disk is full, and loses what it cannot write",
			"ebs-cap", conf.Capacities.Disk, "volumeGB", size/1e9)
	}
	return nil
}

// Root is where the disk tier's directories are: what the configuration says, where that
// is on the data volume, else the volume.
func Root(disk, volume string) string {
	rel, err := filepath.Rel(volume, disk)
	if err != nil || !filepath.IsAbs(disk) || rel == ".." || strings.HasPrefix(rel, "../") {
		return volume
	}
	return filepath.Clean(disk)
}

// looks warns of directories of threads that there are not: a key's thread changes with
// their number, and what is in those directories is not seen again.
func (s *Setup) looks(root string, threads int) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, entry := range entries {
		tid, isThread := strings.CutPrefix(entry.Name(), "ebs_")
		if n, err := strconv.Atoi(tid); isThread && err == nil && n >= threads {
			s.Log.Warn("the volume has directories of more threads than threads.ebs: they are of an earlier setting, and Anna reads nothing from them", "directory", entry.Name(), "threads", threads)
			return
		}
	}
}

// warn tells of traps in the configuration.
func (s *Setup) warn(conf *config.Config) {
	for _, warning := range conf.Warnings {
		s.Log.Warn(warning, "file", config.File)
	}
	r := conf.Replication
	if s.Pod.Role == config.RoleDisk && r.Disk == 0 && conf.Threads.Disk > 0 && !conf.Policy.Tiering {
		s.Log.Warn("replication.ebs is 0 and policy.tiering false: the disk tier stays empty; write 1 for a copy of each key on disk", "file", config.File)
	}
	if limit := s.Pod.MemoryLimit; s.Pod.Role == config.RoleMemory && limit > 0 && int64(conf.Capacities.Memory)*1e9 > limit {
		s.Log.Warn("capacities.memory-cap is more than the container may take: it is killed before Anna knows that it is full",
			"memory-cap", conf.Capacities.Memory, "limitGB", limit/1e9)
	}
}
