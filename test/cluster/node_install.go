package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stategraft/stategraft/test/images/archive"
)

// needs are the Debian packages of a node, each with a file that tells that it
// is there.
var needs = []struct{ pkg, file string }{
	{"containerd", "/usr/bin/containerd"},
	{"runc", "/usr/sbin/runc"},
	{"containernetworking-plugins", "/usr/lib/cni/bridge"},
	{"iptables", "/usr/sbin/iptables"},
	{"conntrack", "/usr/sbin/conntrack"},
	{"socat", "/usr/bin/socat"},
	{"busybox-static", "/bin/busybox"},
	{"iproute2", "/bin/ip"},
}

// InstallNode installs the Debian packages that a node needs and the machine
// lacks: containerd, runc, containernetworking-plugins, iptables, conntrack,
// socat, busybox-static and iproute2. It needs root, and where something is
// missing Debian and the network. The node runs a containerd of its own: one
// that the package starts is left alone.
func InstallNode(ctx context.Context, log io.Writer) error {
	log = newLog(log)
	if os.Getuid() != 0 {
		return errors.New("a node needs root")
	}
	var packages []string
	for _, n := range needs {
		if _, err := os.Stat(n.file); err != nil {
			packages = append(packages, n.pkg)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	fmt.Fprintln(log, "rig: installing Debian's packages", packages)
	return AptInstall(ctx, packages...)
}

// AptInstall installs Debian packages.
func AptInstall(ctx context.Context, packages ...string) error {
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, packages...)} {
		var output bytes.Buffer
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=120"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w; its last lines:\n%s", args[0], err, lastLines(output.Bytes()))
		}
	}
	return nil
}

// loadBusybox makes the image that sandboxes run, which tests use too, from
// Debian's static busybox.
func (cp *ControlPlane) loadBusybox(ctx context.Context) error {
	root := cp.state.node("busybox")
	if err := BusyboxRoot(ctx, root); err != nil {
		return err
	}
	path := cp.state.node("busybox.tar")
	err := archive.Write(path, root, archive.Image{
		Name: BusyboxImage, Entrypoint: []string{"/bin/sleep"}, Cmd: []string{"2147483647"},
		Env: []string{"PATH=/bin"},
	}, func(string) (int, int) { return 0, 0 })
	if err != nil {
		return err
	}
	return cp.LoadImages(ctx, path)
}

// BusyboxRoot makes a root file system of Debian's static busybox with a link
// for each of its commands.
func BusyboxRoot(ctx context.Context, root string) error {
	for dir, mode := range map[string]os.FileMode{"bin": 0o755, "etc": 0o755, "tmp": 0o777 | os.ModeSticky} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("making a root file system: %w", err)
		}
		if err := os.Chmod(filepath.Join(root, dir), mode); err != nil {
			return fmt.Errorf("making a root file system: %w", err)
		}
	}
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return fmt.Errorf("reading busybox: %w", err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "busybox"), program, 0o755); err != nil {
		return fmt.Errorf("copying busybox: %w", err)
	}
	list, err := exec.CommandContext(ctx, "/bin/busybox", "--list").Output()
	if err != nil {
		return fmt.Errorf("listing busybox's commands: %w", err)
	}
	for name := range bytes.FieldsSeq(list) {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", string(name))); err != nil && !os.IsExist(err) {
			return fmt.Errorf("linking busybox's commands: %w", err)
		}
	}
	return nil
}
