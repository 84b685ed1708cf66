package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// debianRecipe changes when the way in which root file systems are made does.
const debianRecipe = "debian 2"

// base is what an image of Debian's packages has in any case.
var base = []string{"base-files", "bash", "dash", "coreutils", "findutils", "grep", "sed", "procps", "hostname", "libc-bin", "util-linux", "tar"}

// left out of the root file system, since nobody reads it in a container.
var left = []string{"./usr/share/doc", "./usr/share/man", "./usr/share/locale", "./usr/share/fonts", "./usr/share/perl*", "./usr/lib/*/perl*",
	"./usr/share/info", "./usr/share/zoneinfo", "./usr/share/icons", "./usr/share/bug", "./usr/share/lintian"}

// debianRoot makes a root file system of Debian's packages and what they depend
// on, in the versions of the release that this machine has. The packages are
// unpacked and nothing of theirs is run: what scripts would set up and is needed
// is done here.
func debianRoot(ctx context.Context, root, work string, packages ...string) error {
	archives := filepath.Join(work, "debs")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return fmt.Errorf("making a folder for packages: %w", err)
	}
	// As if nothing were installed, apt fetches everything.
	get := append([]string{
		"-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache::archives=" + archives, "-o", "Debug::NoLocking=1",
		"--no-install-recommends", "--download-only", "-y", "install"}, append(base, packages...)...)
	if _, err := run(ctx, "", nil, "apt-get", get...); err != nil {
		// The list of packages may be older than what is served.
		if _, err := run(ctx, "", nil, "apt-get", "-o", "DPkg::Lock::Timeout=120", "update"); err != nil {
			return err
		}
		if _, err := run(ctx, "", nil, "apt-get", get...); err != nil {
			return err
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return fmt.Errorf("making a root file system: %w", err)
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return fmt.Errorf("making a root file system: %w", err)
		}
	}
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("apt-get has fetched no package into %s", archives)
	}
	const unpack = `set -e -o pipefail; root=$1; shift; left=(); while [ "$1" != -- ]; do left+=("--exclude=$1"); shift; done; shift
for deb in "$@"; do dpkg-deb --fsys-tarfile "$deb" | tar -x -f - --keep-directory-symlink -C "$root" "${left[@]}"; done`
	args := append([]string{"-c", unpack, "unpack", root}, left...)
	if _, err := run(ctx, "", nil, "bash", append(append(args, "--"), debs...)...); err != nil {
		return err
	}
	if err := os.RemoveAll(archives); err != nil {
		return fmt.Errorf("removing the packages: %w", err)
	}
	return setUp(ctx, root)
}

// setUp does what the packages' scripts would have done.
func setUp(ctx context.Context, root string) error {
	for name, text := range map[string]string{
		"passwd":        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\nnogroup:x:65534:\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing /etc/%s: %w", name, err)
		}
	}
	if err := os.Symlink("dash", filepath.Join(root, "usr/bin/sh")); err != nil && !os.IsExist(err) {
		return fmt.Errorf("linking sh: %w", err)
	}
	if _, err := run(ctx, "", nil, "/sbin/ldconfig", "-r", root); err != nil {
		return err
	}
	return nil
}

// addUser adds the user cassandra, 999.
func addUser(root, home string) error {
	for name, line := range map[string]string{
		"passwd": "cassandra:x:999:999::" + home + ":/bin/bash\n",
		"group":  "cassandra:x:999:\n",
	} {
		f, err := os.OpenFile(filepath.Join(root, "etc", name), os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("adding a user: %w", err)
		}
		_, err = f.WriteString(line)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("adding a user: %w", err)
		}
	}
	return nil
}
