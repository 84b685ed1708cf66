package adopted

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// Binary is what the agent's program is called; in the directory that it is brought to the
// pod's UID follows, so that nobody takes what an earlier pod has left on the volume.
const Binary = "stategraft-agent"

func brought(dir, podUID string) string { return filepath.Join(dir, Binary+"-"+podUID) }

const (
	installPoll = time.Second
	placeAgain  = 10 * time.Second
	remind      = 10 * time.Minute
	// linger is for takers of earlier rounds, which look each second.
	linger = 5 * time.Second
	// roomLeft is what has to be free on the database's volume beside the binary, in bytes.
	roomLeft = 256 << 20
)

// Install brings the running program to dir, on a volume that the other containers of the
// pod mount too, and keeps it there until all takers have taken it; then it removes it,
// with the directories above that it has made. dir ends in .stategraft/adopted/ and the
// number of this container, and podUID in the file's name is the pod's; what other
// containers have left beside it goes too, as only one is here at a time (Own).
//
// It returns nil when all is done. When the context ends first, it removes what it has
// brought all the same and returns the context's error. Whatever else goes wrong is logged
// and tried again.
func Install(ctx context.Context, dir, podUID string, takers []Taker, log *slog.Logger) error {
	if err := checkDir(dir); err != nil {
		return err
	}
	defer clean(dir, log)
	sweep(dir, log)
	path := brought(dir, podUID)
	placed, said, failed, failing := false, time.Time{}, "", time.Time{}
	for {
		wait := installPoll
		if _, err := os.Stat(path); err != nil {
			if err := bring(path); err != nil {
				if text := err.Error(); text != failed || time.Since(failing) > remind {
					failed, failing = text, time.Now()
					log.Error("degraded: the agent's binary cannot be brought to the volume and is tried again", "error", text)
				}
				wait = placeAgain
			} else {
				placed = true
				log.Info("brought the agent's binary", "path", path)
			}
		}
		left := waiting(ctx, takers)
		if len(left) == 0 && (placed || len(takers) > 0) {
			log.Info("all have taken the agent's binary")
			if filepath.Base(dir) != "1" {
				select {
				case <-ctx.Done():
				case <-time.After(linger):
				}
			}
			return nil
		}
		if time.Since(said) > remind {
			said = time.Now()
			log.Info("waiting until the agent's binary is taken", "by", strings.Join(left, " "))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// checkDir checks the directory: what is not of that form is not ours to remove.
func checkDir(dir string) error {
	number, err := strconv.Atoi(filepath.Base(dir))
	if err != nil || number < 1 || !filepath.IsAbs(dir) || !strings.HasSuffix(filepath.Dir(dir), "/.stategraft/adopted") {
		return fmt.Errorf("STATEGRAFT_ADOPTED_DIR is %q, and not .stategraft/adopted/NUMBER on a volume", dir)
	}
	return nil
}

func bring(path string) error {
	info, err := os.Stat("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("look at the agent's own binary: %w", err)
	}
	volume := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(path))))
	free, err := files.Free(volume)
	if err != nil {
		return err
	}
	if free < info.Size()+roomLeft {
		return fmt.Errorf("%s has less than %d MiB free, which the database needs more: make room, and it goes on", volume, (info.Size()+roomLeft)>>20)
	}
	return remedy(files.Place(path, files.Owner{}), volume)
}

// remedy says what to do where the volume cannot be written to. There is no other place: a
// directory of the database's own is one that it reads, and a volume that both containers
// have beside this one is not to be had in most pods.
func remedy(err error, volume string) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: user %d has to be able to write to %s: give it that directory (chown), and it goes on; or restart the pod, which is injected then and does without", err, os.Getuid(), volume)
	}
	return err
}

// waiting are the takers that have not taken it.
func waiting(ctx context.Context, takers []Taker) (left []string) {
	for _, t := range takers {
		if !Taken(ctx, t.PodUID, t.Role, t.Number) {
			left = append(left, t.String())
		}
	}
	return left
}

// sweep removes what was brought by containers that were killed, also by one of this number
// in an earlier pod.
func sweep(dir string, log *slog.Logger) {
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name())); err != nil {
			log.Warn("what an older container has left cannot be removed", "error", err.Error())
		}
	}
}

// clean removes what was brought, and the directories that are empty then.
func clean(dir string, log *slog.Logger) {
	err := os.RemoveAll(dir)
	for _, above := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err == nil {
			err = os.Remove(above)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		log.Warn("the agent's binary cannot be removed from the volume", "error", err.Error())
	}
}
