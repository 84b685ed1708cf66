// Package images builds the container images that tests of whole pods run,
// without a container builder: root file systems put together from Debian's
// packages, Maven Central, PyPI and Go modules, each packed as one layer (see
// package archive). An image is cached outside of the repository under the hash
// of its recipe, and built once for each.
//
//	images.go     the recipes' cache
//	debian.go     root file systems of Debian's packages
//	cassandra.go  Cassandra, laid out like the official image
//	medusa.go     Medusa, laid out like upstream's image
//	variants.go   the same in Bitnami's layout, and for any user
//	small.go      the agent, the webhook's image, and an S3 server
//	anna.go       the test node in the layout of Anna's and Cloudburst's images
//	files/        entry points and configuration
//
// The layout is the official images', so that a pod which works with them works
// with these. What is in them is as small and as quick to start as tests want.
package images

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/images/archive"
)

// Names of the images, as pods give them.
const (
	Cassandra = "stategraft.invalid/cassandra:5.0"
	Medusa    = "stategraft.invalid/medusa:0.31"
	Agent     = "stategraft.invalid/stategraft-agent:test"
	Server    = "stategraft.invalid/stategraft:test" // webhook and controllers
	S3        = "stategraft.invalid/s3:1"
	Anna      = "stategraft.invalid/annanode:test" // stands in for Anna, its cache and Cloudburst

	// Bitnami is Cassandra in the layout of Bitnami's image, in Cassandra's archive.
	Bitnami = "stategraft.invalid/bitnami/cassandra:5.0"
	// AnyUID is Medusa for any user, as deploy/images makes it, in Medusa's archive.
	AnyUID = "stategraft.invalid/medusa-any-uid:0.31"
)

// All are the names of the images that the pods of databases need, by the
// archives that hold them.
func All() []string { return []string{Agent, S3, Medusa, Cassandra, Anna} }

//go:embed files
var files embed.FS

// recipe says how to build an image.
type recipe struct {
	image archive.Image
	// inputs are what the image depends on: versions, and the content of files.
	inputs []string
	// build fills the folder root; work is an empty folder for whatever else.
	build func(ctx context.Context, root, work string) error
	// owner, where set, answers the owner of a file.
	owner func(name string) (uid, gid int)
	// variants are images in the same archive with a few more files.
	variants []variant
}

// variant is an image that has the files of another recipe's, and some over them.
type variant struct {
	image archive.Image
	build func(root, base string) error // base is the other's root file system
	owner func(name string) (uid, gid int)
}

// Build builds the named images unless they are cached, and answers the paths of
// their archives in the same order. It needs Debian, root and, where nothing is
// cached, the network. Progress goes to log, which may be nil.
func Build(ctx context.Context, log io.Writer, names ...string) ([]string, error) {
	if log == nil {
		log = io.Discard
	}
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		r, err := find(ctx, name)
		if err != nil {
			return nil, err
		}
		path, err := r.cached(ctx, log, dir)
		if err != nil {
			return nil, fmt.Errorf("building image %s: %w", name, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// find answers the recipe of an image.
func find(ctx context.Context, name string) (r recipe, err error) {
	switch name {
	case Cassandra, Bitnami:
		r = cassandraRecipe()
	case Medusa, AnyUID:
		r = medusaRecipe()
	case Agent:
		r, err = agentRecipe(ctx)
	case Server:
		r, err = serverRecipe(ctx)
	case S3:
		r = s3Recipe()
	case Anna:
		r, err = annaRecipe(ctx)
	default:
		return r, fmt.Errorf("there is no recipe for image %q", name)
	}
	return r, err
}

func cacheDir() (string, error) {
	cache, err := cluster.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the images' cache folder: %w", err)
	}
	return dir, nil
}

// cached answers the archive of the recipe, and builds it where it is missing.
func (r recipe) cached(ctx context.Context, log io.Writer, dir string) (string, error) {
	text, err := json.Marshal(map[string]any{"image": r.image, "inputs": r.inputs, "variants": r.variantImages()})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	base, _, _ := strings.Cut(filepath.Base(r.image.Name), ":")
	path := filepath.Join(dir, base+"-"+hex.EncodeToString(sum[:6])+".tar")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	began := time.Now()
	fmt.Fprintf(log, "images: building %s\n", r.image.Name)
	work, err := os.MkdirTemp(dir, "work-")
	if err != nil {
		return "", fmt.Errorf("making a work folder: %w", err)
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "root")
	other := filepath.Join(work, "other")
	for _, each := range []string{root, other} {
		if err := os.Mkdir(each, 0o755); err != nil {
			return "", fmt.Errorf("making a work folder: %w", err)
		}
	}
	if err := r.build(ctx, root, other); err != nil {
		return "", err
	}
	var variants []archive.Variant
	for i, v := range r.variants {
		dir := filepath.Join(work, fmt.Sprintf("variant-%d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("making a work folder: %w", err)
		}
		if err := v.build(dir, root); err != nil {
			return "", fmt.Errorf("making %s of it: %w", v.image.Name, err)
		}
		variants = append(variants, archive.Variant{Image: v.image, Root: dir, Owner: v.owner})
	}
	if err := archive.Write(path, root, r.image, r.owner, variants...); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(log, "images: built %s in %s, %d MB\n", r.image.Name, time.Since(began).Round(100*time.Millisecond), info.Size()>>20)
	// Archives of older recipes are of no more use.
	old, _ := filepath.Glob(filepath.Join(dir, base+"-????????????.tar"))
	for _, file := range old {
		if file != path {
			_ = os.Remove(file)
		}
	}
	return path, nil
}

func (r recipe) variantImages() []archive.Image {
	var all []archive.Image
	for _, v := range r.variants {
		all = append(all, v.image)
	}
	return all
}

// contents are the embedded files below a folder, as inputs of a recipe.
func contents(dir string) []string {
	var all []string
	_ = fs.WalkDir(files, dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, _ := files.ReadFile(path)
			all = append(all, path, string(text))
		}
		return err
	})
	return all
}

// install copies an embedded file into the root file system.
func install(root, to, from string, mode os.FileMode) error {
	text, err := files.ReadFile(from)
	if err != nil {
		return fmt.Errorf("installing /%s: %w", to, err)
	}
	path := filepath.Join(root, to)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("installing /%s: %w", to, err)
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		return fmt.Errorf("installing /%s: %w", to, err)
	}
	return nil
}

// run runs a command in dir and answers its standard output.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stdout.String() + stderr.String())
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args[:min(3, len(args))], " "), err, said[max(0, len(said)-2000):])
	}
	return stdout.String(), nil
}

// own is an owner function: root for everything but what is below the given
// folders, which is of the user 999.
func own(dirs ...string) func(string) (int, int) {
	return func(name string) (int, int) {
		for _, dir := range dirs {
			if name == dir || strings.HasPrefix(name, dir+"/") {
				return 999, 999
			}
		}
		return 0, 0
	}
}
