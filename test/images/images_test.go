package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stategraft/stategraft/test/images/archive"
)

// Equal content makes equal archives, so that a cache of them can be compared.
func TestArchive(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "home/cassandra"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "home/cassandra/run"), []byte("text"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(root, "home/cassandra/link")); err != nil {
		t.Fatal(err)
	}
	image := archive.Image{Name: "example.invalid/a:1", User: "999", Entrypoint: []string{"/run"}}
	var texts [][]byte
	for _, name := range []string{"one.tar", "two.tar"} {
		path := filepath.Join(t.TempDir(), name)
		if err := archive.Write(path, root, image, own("home/cassandra")); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".image-*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("the archives differ")
	}

	parts := untar(t, texts[0])
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(parts["manifest.json"].text, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{image.Name}) || parts[manifest[0].Config].text == nil {
		t.Fatalf("manifest: %+v", manifest)
	}
	files := untar(t, parts[manifest[0].Layers[0]].text)
	for name, want := range map[string]struct {
		uid  int
		mode int64
	}{"home/": {0, 0o755}, "home/cassandra/": {999, 0o700}, "home/cassandra/run": {999, 0o755}, "home/cassandra/link": {999, 0o777}} {
		f, ok := files[name]
		if name == "home/" {
			want.mode = f.header.Mode // as the umask has it
		}
		if !ok || f.header.Uid != want.uid || f.header.Mode != want.mode {
			t.Errorf("%s: %+v, want %+v", name, f.header, want)
		}
	}
}

// A variant has the first image's layer, stored once, and its own over it.
func TestVariant(t *testing.T) {
	root, over := t.TempDir(), t.TempDir()
	for dir, mode := range map[string]os.FileMode{root: 0o700, over: 0o755} {
		if err := os.Mkdir(filepath.Join(dir, "home"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "two.tar")
	if err := archive.Write(path, root, archive.Image{Name: "example.invalid/a:1"}, own(),
		archive.Variant{Image: archive.Image{Name: "example.invalid/b:1", User: "1001"}, Root: over, Owner: own("home")}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := untar(t, text)
	var manifest []struct{ RepoTags, Layers []string }
	if err := json.Unmarshal(parts["manifest.json"].text, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 2 || manifest[1].RepoTags[0] != "example.invalid/b:1" || len(manifest[0].Layers) != 1 ||
		len(manifest[1].Layers) != 2 || manifest[1].Layers[0] != manifest[0].Layers[0] || len(parts) != 5 {
		t.Fatalf("manifest: %+v, %d parts", manifest, len(parts))
	}
	home := untar(t, parts[manifest[1].Layers[1]].text)["home/"].header
	if home.Uid != 999 || home.Mode != 0o755 {
		t.Errorf("the variant's folder: %+v", home)
	}
}

type part struct {
	header *tar.Header
	text   []byte
}

func untar(t *testing.T, text []byte) map[string]part {
	t.Helper()
	all := map[string]part{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[header.Name] = part{header, content}
	}
}

func TestUnknownImage(t *testing.T) {
	if _, err := Build(t.Context(), nil, "example.invalid/unknown:1"); err == nil {
		t.Error("want an error")
	}
}
