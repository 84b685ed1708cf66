// Package archive writes container images without a container builder: a root
// file system as one layer, in the archive format that `docker save` writes and
// `ctr images import` and `docker load` read.
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Image is what an image says besides its files.
type Image struct {
	Name       string // with a tag
	User       string
	Entrypoint []string
	Cmd        []string
	WorkingDir string
	Env        []string
	Volumes    []string
}

// epoch is the time of every file, so that equal content makes equal images.
var epoch = time.Unix(0, 0)

// Write packs the folder root as an image into the file path, which appears when
// it is whole. owner answers the user and group of a path relative to root; nil
// takes those of the files.
func Write(path, root string, image Image, owner func(name string) (uid, gid int)) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return fmt.Errorf("making a folder for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	layer := filepath.Join(dir, "layer.tar")
	digest, err := writeFile(layer, func(w io.Writer) error { return pack(w, root, owner) })
	if err != nil {
		return fmt.Errorf("packing %s: %w", image.Name, err)
	}
	made := filepath.Join(dir, "image.tar")
	if _, err := writeFile(made, func(w io.Writer) error { return assemble(w, layer, digest, image) }); err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	return os.Rename(made, path)
}

// assemble writes the archive: configuration, layer and manifest.
func assemble(w io.Writer, layer, digest string, image Image) error {
	volumes := map[string]struct{}{}
	for _, v := range image.Volumes {
		volumes[v] = struct{}{}
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": epoch.UTC(),
		"config": map[string]any{"Entrypoint": image.Entrypoint, "Cmd": image.Cmd, "Env": image.Env,
			"User": image.User, "WorkingDir": image.WorkingDir, "Volumes": volumes},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
		"history": []any{map[string]any{"created": epoch.UTC(), "created_by": "archive"}},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	name := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{"Config": name, "RepoTags": []string{image.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, part := range []struct {
		name string
		text []byte
	}{{name, config}, {"manifest.json", manifest}} {
		if err := t.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.text)), ModTime: epoch}); err != nil {
			return err
		}
		if _, err := t.Write(part.text); err != nil {
			return err
		}
	}
	f, err := os.Open(layer)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: info.Size(), ModTime: epoch}); err != nil {
		return err
	}
	if _, err := io.Copy(t, f); err != nil {
		return err
	}
	return t.Close()
}

// writeFile makes a file and answers the SHA-256 of its content.
func writeFile(path string, write func(io.Writer) error) (string, error) {
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = write(io.MultiWriter(f, sum))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// pack writes the files below root in the order of their names.
func pack(w io.Writer, root string, owner func(string) (int, int)) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		if info.Mode()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
			return nil
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		header.Name, header.ModTime, header.Uname, header.Gname = name, epoch, "", ""
		header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}
		if info.IsDir() {
			header.Name += "/"
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			header.Uid, header.Gid = int(stat.Uid), int(stat.Gid)
		}
		if owner != nil {
			header.Uid, header.Gid = owner(name)
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(t, f)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
