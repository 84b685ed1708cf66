package medusa

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// RunningFile is where Medusa tells, by agent/python/running.py, which backup it makes. It
// is locked meanwhile, and there from when Medusa runs.
func RunningFile(private string) string { return filepath.Join(private, "running.json") }

// ErrBusy says that Medusa is busy with a backup or a deletion.
var ErrBusy = errors.New("the service is busy")

// Running tells whether Medusa makes a backup, and which. Where it does not tell, as in
// an image whose Python cannot be run, its own marker counts, and there is no which.
func Running(private, marker string) (*node.Running, bool) {
	file, err := os.Open(RunningFile(private))
	if err != nil {
		return nil, marked(marker)
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return nil, !told(file) && marked(marker) // Close lets go of it
	}
	d, err := holds(file)
	if err != nil || d.Kind != "backup" {
		return nil, false
	}
	return &d.Running, true
}

func marked(marker string) bool {
	_, err := os.Stat(marker)
	return err == nil
}

// told tells whether Medusa has ever written to the file.
func told(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Size() > 0
}

// doing is what the file says.
type doing struct {
	Kind string `json:"kind"`
	node.Running
}

// holds reads it. It is written in place, so that something older may stand behind it.
func holds(file *os.File) (d doing, err error) {
	if err := json.NewDecoder(file).Decode(&d); err != nil {
		return d, fmt.Errorf("read what Medusa does: %w", err)
	}
	return d, nil
}

// Hold keeps Medusa from beginning a backup or a deletion until release is called. It is
// ErrBusy where it does one.
func Hold(private, marker string) (release func(), err error) {
	if err := files.MakeDir(private, 0o700, files.Owner{}); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(RunningFile(private), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold Medusa: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		if err = hold(file, marker); err == nil {
			return func() { file.Close() }, nil
		}
		return nil, errors.Join(err, file.Close())
	}
	defer file.Close()
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("hold Medusa: %w", err)
	}
	d, err := holds(file)
	if err != nil {
		return nil, ErrBusy
	}
	return nil, fmt.Errorf("%w: %s", ErrBusy, strings.TrimSpace(d.Kind+" "+d.Name))
}

// hold is done with the lock. A Medusa that was killed has left there what it did.
func hold(file *os.File, marker string) error {
	if !told(file) {
		if marked(marker) {
			return fmt.Errorf("%w: %s is there", ErrBusy, marker)
		}
		return nil
	}
	_, err := file.WriteAt([]byte("{}"), 0)
	if err == nil {
		err = file.Truncate(2)
	}
	if err != nil {
		return fmt.Errorf("hold Medusa: %w", err)
	}
	return nil
}
