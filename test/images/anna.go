package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stategraft/stategraft/test/images/archive"
)

// annaLinks are the programs of upstream's images that the test node stands in for: it
// tells by its name which it is (test/annanode).
var annaLinks = []string{
	"hydro/anna/build/target/kvs/anna-kvs", "hydro/anna/build/target/kvs/anna-route", "hydro/anna/build/target/kvs/anna-monitor",
	"hydro/anna-cache/build/target/cache/anna-cache", "usr/bin/python3",
}

// annaFiles are what the entry points of Cloudburst's pods look for.
var annaFiles = map[string]os.FileMode{
	"hydro/cloudburst/scripts/build.sh": 0o755, "hydro/cloudburst/conf/cloudburst-local.yml": 0o644,
	"hydro/cloudburst/cloudburst/server/executor/server.py":  0o644,
	"hydro/cloudburst/cloudburst/server/scheduler/server.py": 0o644,
	"hydro/anna/conf/anna-base.yml":                          0o644, "hydro/anna-cache/conf/anna-base.yml": 0o644,
}

// annaRecipe is the test node in the layout of hydroproject/anna, anna-cache and
// cloudburst, all in one: a shell, and the programs where their entry points call them.
func annaRecipe(ctx context.Context) (recipe, error) {
	node, nodeSum, err := program(ctx, "./test/annanode/cmd/annanode")
	if err != nil {
		return recipe{}, err
	}
	client, clientSum, err := program(ctx, "./test/kvs/cmd/annaclient")
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		image:  archive.Image{Name: Anna, Env: []string{"PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin", "HYDRO_HOME=/hydro"}},
		inputs: []string{"layout 1", debianRecipe, nodeSum, clientSum},
		build: func(ctx context.Context, root, work string) error {
			if err := debianRoot(ctx, root, work); err != nil {
				return err
			}
			for name, mode := range annaFiles {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return fmt.Errorf("installing /%s: %w", name, err)
				}
				if err := os.WriteFile(path, nil, mode); err != nil {
					return fmt.Errorf("installing /%s: %w", name, err)
				}
			}
			if err := put(root, "usr/local/bin/annaclient", client); err != nil {
				return err
			}
			if err := put(root, "usr/local/bin/annanode", node); err != nil {
				return err
			}
			for _, name := range annaLinks {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return fmt.Errorf("linking /%s: %w", name, err)
				}
				if err := os.Symlink("/usr/local/bin/annanode", path); err != nil {
					return fmt.Errorf("linking /%s: %w", name, err)
				}
			}
			return nil
		},
		owner: own(),
	}, nil
}
