package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// state is the folder that one control plane keeps everything in.
type state struct{ dir string }

// owner names the pid file of the program that called [Start].
const owner = "owner"

func (s state) pki(name string) string        { return filepath.Join(s.dir, "pki", name) }
func (s state) kubeconfig(name string) string { return s.pki(name + ".kubeconfig") }
func (s state) node(name string) string       { return filepath.Join(s.dir, "node", name) }
func (s state) etcdData() string              { return filepath.Join(s.dir, "etcd-data") }
func (s state) log(name string) string        { return filepath.Join(s.dir, "log", name+".log") }
func (s state) pidFile(name string) string    { return filepath.Join(s.dir, "pid", name+".pid") }

// KubeconfigPath answers where the control plane with the state folder dir has
// its administrator's kubeconfig.
func KubeconfigPath(dir string) string { return filepath.Join(dir, "kubeconfig") }

// open makes the folder ready for a control plane that starts empty. It refuses
// one that is in use, and removes what an earlier one left: the paths above and
// nothing else.
func (s state) open() error {
	files, err := filepath.Glob(s.pidFile("*"))
	if err != nil {
		return fmt.Errorf("looking for pid files: %w", err)
	}
	for _, file := range files {
		if pid := readPidFile(file); pid != 0 {
			return fmt.Errorf("%s is in use by process %d (%s)", s.dir, pid, filepath.Base(file))
		}
	}
	if err := cleanNode(context.Background(), s.dir); err != nil {
		return err // its mounts have to go before the files below them
	}
	for _, old := range []string{s.node(""), s.pki(""), s.etcdData(), filepath.Dir(s.log("")), filepath.Dir(s.pidFile("")), KubeconfigPath(s.dir)} {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("removing what an earlier control plane left: %w", err)
		}
	}
	for _, dir := range []string{s.pki(""), filepath.Dir(s.log("")), filepath.Dir(s.pidFile(""))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the state folder: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's own path: %w", err)
	}
	return writePidFile(s.pidFile(owner), os.Getpid(), self)
}

// writePidFile notes a process with the path of its program: the number alone
// may belong to another process later.
func writePidFile(path string, pid int, program string) error {
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		return fmt.Errorf("writing the pid file %s: %w", path, err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n%s\n", pid, program), 0o644); err != nil {
		return fmt.Errorf("writing a pid file: %w", err)
	}
	return nil
}

// readPidFile answers the noted process if it still runs the noted program, and
// 0 otherwise.
func readPidFile(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	number, program, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 0 {
		return 0
	}
	if running, err := executableOf(pid); err != nil || running != strings.TrimSpace(program) {
		return 0
	}
	return pid
}

// Down stops the control plane that another process started with the state
// folder dir. It asks that process to stop, which stops the servers; where it is
// gone, or does not answer before ctx is done or 30 seconds have passed, the
// servers are killed one by one. No control plane is no error.
func Down(ctx context.Context, dir string) error {
	s := state{dir}
	ownerFile := s.pidFile(owner)
	if pid := readPidFile(ownerFile); pid != 0 {
		if pid == os.Getpid() {
			return errors.New("this process started the control plane: it has to call Stop")
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("asking process %d to stop its control plane: %w", pid, err)
		}
		awaitEnd(ctx, ownerFile, 3*stopGrace)
		if readPidFile(ownerFile) != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	files, err := filepath.Glob(s.pidFile("*"))
	if err != nil {
		return fmt.Errorf("looking for pid files: %w", err)
	}
	var left []error
	for _, file := range files {
		if pid := readPidFile(file); pid != 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // fails for the owner, which leads no group
			awaitEnd(context.WithoutCancel(ctx), file, killGrace)
		}
		if pid := readPidFile(file); pid != 0 {
			left = append(left, fmt.Errorf("process %d (%s) does not end", pid, filepath.Base(file)))
		} else if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			left = append(left, fmt.Errorf("removing a pid file: %w", err))
		}
	}
	if len(left) == 0 {
		left = append(left, cleanNode(context.WithoutCancel(ctx), dir))
	}
	return errors.Join(left...)
}

// awaitEnd waits until the process of a pid file is gone, ctx is done or the
// limit has passed.
func awaitEnd(ctx context.Context, pidFile string, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for readPidFile(pidFile) != 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// writeSecret writes a file that only its owner may read.
func writeSecret(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
