package images

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stategraft/stategraft/test/images/archive"
)

// bitnamiLayout and anyUIDLayout change when what the functions below write does.
const (
	bitnamiLayout = "bitnami 1"
	anyUIDLayout  = "any uid 1"
)

// bitnami is Cassandra as Bitnami lays it out: user 1001 of group 0 without a
// name, programs and configuration in /opt/bitnami/cassandra, data below
// /bitnami/cassandra, nothing in the usual places.
func bitnami() variant {
	const home = "opt/bitnami/cassandra"
	return variant{
		image: archive.Image{
			Name: Bitnami, User: "1001",
			Entrypoint: []string{"/opt/bitnami/scripts/cassandra/entrypoint.sh"},
			Cmd:        []string{"cassandra", "-f"},
			Env: []string{"PATH=/opt/bitnami/cassandra/bin:/opt/java/openjdk/bin:/usr/local/bin:/usr/bin:/usr/sbin:/bin",
				"CASSANDRA_HOME=/" + home, "CASSANDRA_CONF=/" + home + "/conf", "BITNAMI_APP_NAME=cassandra",
				"JAVA_HOME=/opt/java/openjdk", "LANG=C.UTF-8"},
		},
		owner: func(name string) (int, int) {
			for _, dir := range []string{"bitnami", home} {
				if within(dir, name) {
					return 1001, 0
				}
			}
			return 0, 0
		},
		build: func(root, base string) error {
			if err := copyFolder(filepath.Join(root, home, "conf"), filepath.Join(base, "etc/cassandra")); err != nil {
				return err
			}
			for _, dir := range []string{"bitnami/cassandra", home + "/logs", "opt/bitnami/scripts/cassandra"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o775); err != nil {
					return fmt.Errorf("making /%s: %w", dir, err)
				}
			}
			for _, link := range []string{"bin", "lib", "share", "pylib", "tools"} {
				if err := os.Symlink("/opt/cassandra/"+link, filepath.Join(root, home, link)); err != nil {
					return fmt.Errorf("linking /%s/%s: %w", home, link, err)
				}
			}
			if err := os.Symlink("/bitnami/cassandra/data", filepath.Join(root, home, "data")); err != nil {
				return fmt.Errorf("linking /%s/data: %w", home, err)
			}
			return install(root, "opt/bitnami/scripts/cassandra/entrypoint.sh", "files/cassandra/bin/bitnami-entrypoint.sh", 0o755)
		},
	}
}

// anyUID is Medusa for any user: its home is open to read, and user and home
// are named for those that have no entry in /etc/passwd
// (deploy/images/medusa-any-uid.Containerfile).
func anyUID() variant {
	image := medusaImage()
	image.Name = AnyUID
	image.Env = append(image.Env, "HOME=/tmp", "USER=medusa", "LOGNAME=medusa")
	return variant{
		image: image,
		owner: own("home/cassandra"),
		build: func(root, base string) error {
			const home = "home/cassandra"
			if err := os.MkdirAll(filepath.Join(root, home), 0o755); err != nil {
				return fmt.Errorf("opening /%s: %w", home, err)
			}
			// The files below are open already, or the image would not work.
			return filepath.WalkDir(filepath.Join(base, home), func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.Type()&fs.ModeSymlink != 0 || path == filepath.Join(base, home) {
					return err
				}
				info, err := entry.Info()
				if err == nil && (info.Mode()&0o004 == 0 || entry.IsDir() && info.Mode()&0o001 == 0) {
					err = fmt.Errorf("%s is closed to others", path)
				}
				return err
			})
		},
	}
}

// within tells whether a path is a folder or below it.
func within(dir, name string) bool {
	rest, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rest)
}

// copyFolder copies the files of a folder without folders in it.
func copyFolder(to, from string) error {
	if err := os.MkdirAll(to, 0o775); err != nil {
		return fmt.Errorf("making %s: %w", to, err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), text, 0o664); err != nil {
			return err
		}
	}
	return nil
}
