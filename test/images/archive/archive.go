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

// Variant is another image in the same archive: the files of the first, with
// those of the folder Root over them. The first's layer is stored once.
type Variant struct {
	Image
	Root  string
	Owner func(name string) (uid, gid int)
}

// epoch is the time of every file, so that equal content makes equal images.
var epoch = time.Unix(0, 0)

// layer is a packed folder.
type layer struct {
	name   string // in the archive
	path   string
	digest string
}

// Write packs the folder root as an image into the file path, which appears when
// it is whole. owner answers the user and group of a path relative to root; nil
// takes those of the files.
func Write(path, root string, image Image, owner func(name string) (uid, gid int), variants ...Variant) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return fmt.Errorf("making a folder for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	var layers []layer
	all := append([]Variant{{image, root, owner}}, variants...)
	for i, v := range all {
		l := layer{name: fmt.Sprintf("layer-%d.tar", i)}
		l.path = filepath.Join(dir, l.name)
		l.digest, err = writeFile(l.path, func(w io.Writer) error { return pack(w, v.Root, v.Owner) })
		if err != nil {
			return fmt.Errorf("packing %s: %w", v.Name, err)
		}
		layers = append(layers, l)
	}
	made := filepath.Join(dir, "image.tar")
	if _, err := writeFile(made, func(w io.Writer) error { return assemble(w, layers, all) }); err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	return os.Rename(made, path)
}

// entry is an image in an archive's manifest.json.
type entry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// assemble writes the archive: configurations, manifest and layers. The first
// layer belongs to all images, each other to one.
func assemble(w io.Writer, layers []layer, images []Variant) error {
	t := tar.NewWriter(w)
	var manifest []entry
	for i, image := range images {
		own := layers[:1:1]
		if i > 0 {
			own = append(own, layers[i])
		}
		e := entry{RepoTags: []string{image.Name}}
		var digests []string
		for _, l := range own {
			e.Layers = append(e.Layers, l.name)
			digests = append(digests, "sha256:"+l.digest)
		}
		config, err := configuration(image.Image, digests)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(config)
		e.Config = hex.EncodeToString(sum[:]) + ".json"
		if err := write(t, e.Config, config); err != nil {
			return err
		}
		manifest = append(manifest, e)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := write(t, "manifest.json", text); err != nil {
		return err
	}
	for _, l := range layers {
		if err := copyLayer(t, l); err != nil {
			return err
		}
	}
	return t.Close()
}

// configuration is what the archive says of an image besides its files.
func configuration(image Image, digests []string) ([]byte, error) {
	volumes := map[string]struct{}{}
	for _, v := range image.Volumes {
		volumes[v] = struct{}{}
	}
	history := make([]any, len(digests))
	for i := range history {
		history[i] = map[string]any{"created": epoch.UTC(), "created_by": "archive"}
	}
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": epoch.UTC(),
		"config": map[string]any{"Entrypoint": image.Entrypoint, "Cmd": image.Cmd, "Env": image.Env,
			"User": image.User, "WorkingDir": image.WorkingDir, "Volumes": volumes},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": digests},
		"history": history,
	})
}

func write(t *tar.Writer, name string, text []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: epoch}); err != nil {
		return err
	}
	_, err := t.Write(text)
	return err
}

func copyLayer(t *tar.Writer, l layer) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: l.name, Mode: 0o644, Size: info.Size(), ModTime: epoch}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
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
